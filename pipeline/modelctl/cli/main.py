"""The command group. Commands are imported when they are run, so that `modelctl --help` stays quick.

`run` is the one place where errors become a message and an exit code.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from modelctl import __version__
from modelctl.cli.manual import ManualContext, dress
from modelctl.cli.terminal import is_plain, prepare_streams
from modelctl.errors import InputError, ModelctlError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED = 130
COMPLETE = "_MODELCTL_COMPLETE"
"""The variable by which a shell asks for completions."""


class Entry(NamedTuple):
    """One command: where it is defined and what it says in one line."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "init": Entry("init", "init", "Lay down a registry repository for a team."),
    "new": Entry("new", "new", "Write a release file with what can be read of a model."),
    "admit": Entry("admit", "admit", "Run the admission checks on a model and decide."),
    "quantize": Entry("quantize", "quantize", "Make a quantised model of any source, without judging it."),
    "evaluate": Entry("evaluate", "evaluate", "Does a model answer as well as another? Paired, on the same questions."),
    "gate": Entry("gate", "gate", "Merge the evidence of several runners and decide."),
    "changed": Entry("changed", "changed", "The releases that a pull request touches, as a job matrix."),
    "policy": Entry("policy", "policy", "Admission policies: show, check, explain."),
    "publish": Entry("publish", "publish", "Upload an admitted release once, record it and tag it."),
    "pull": Entry("pull", "pull", "Download a published release, verified."),
    "verify": Entry("verify", "verify", "Check a folder or the bucket against what was published."),
    "list": Entry("listing", "list_releases", "The registry at a glance."),
    "show": Entry("show", "show", "Everything about one release."),
    "diff": Entry("diff", "diff", "Two releases or folders side by side."),
    "gc": Entry("gc", "gc", "Name or remove releases that nothing serves and no policy keeps."),
    "rollout": Entry("rollout", "rollout", "Write the canary manifests of a release as one commit."),
    "lint": Entry("lint", "lint", "Find in manifests what the API's schemas let pass."),
    "promote": Entry("steering", "promote", "Say in git that an environment's canary is stable now."),
    "abort": Entry("steering", "abort", "Withdraw a canary: the stable release's manifests come back."),
    "rollback": Entry("steering", "rollback", "Put back the release that was served before."),
    "status": Entry("status", "status", "Stable and canary of every environment, from git and the cluster."),
    "audit": Entry("audit", "audit", "The timeline of every release, from git history."),
    "size": Entry("size", "size", "Memory, flags, GPUs and cost of serving a model."),
    "stress": Entry("stress", "stress", "Sweep a running engine and find where more streams stop paying."),
    "services": Entry("services", "services", "Embedded clamd, S3 server and Prometheus for a laptop."),
    "config": Entry("config", "config", "Settings, and where each comes from."),
    "doctor": Entry("doctor", "doctor", "What this machine has and lacks, and the command that mends it."),
    "completion": Entry("completion", "completion", "The script by which bash, zsh or fish completes all of this."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and summaries without importing them."""

    context_class = ManualContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a release's life."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(f"modelctl.cli.{entry.module}"), entry.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} is no command")
        dress(command)
        if COMPLETE in os.environ:
            from modelctl.cli.suggestions import suggest

            suggest(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The commands that begin so, with their summaries; none is imported for it."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command table without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes of admit: 0 admitted, 1 refused, 2 usage, 3 could not decide, 130 interrupted.",
)
@click.version_option(__version__, "--version", prog_name="modelctl")
def cli() -> None:
    """A model enters production the way code does.

    A pull request, seven admission checks, publication once, a canary rollout from git, and an audit trail that is the
    git history.

    \b
    modelctl admit registry/NAME/VERSION/release.yaml   run the checks on a release and decide
    modelctl admit ./folder --check malware             one check on any model folder
    modelctl publish NAME@VERSION                       then: modelctl rollout NAME@VERSION --env prod
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Nothing but the exit code escapes."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    prepare_streams()
    if os.environ.get(COMPLETE, "").startswith("bash"):
        from click.shell_completion import add_completion_class

        from modelctl.cli.completion import Bash

        add_completion_class(Bash)
    colour = False if is_plain() else None
    try:
        result = cli.main(
            args=list(arguments), prog_name="modelctl", complete_var=COMPLETE, standalone_mode=False, color=colour
        )
    except click.UsageError as error:
        error.show()
        return InputError.exit_code
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted; everything that was started has been ended, and the same command resumes")
        return INTERRUPTED
    except ModelctlError as error:
        show_error(error)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        return _operating_system_error(error)
    return int(result) if isinstance(result, int) else 0


def say(message: str) -> None:
    """One line for a person, on stderr."""
    click.echo(f"modelctl: {message}", err=True)


def show_error(error: ModelctlError) -> None:
    """What happened and what to do next, on stderr."""
    head = click.style("error: ", fg="red", bold=True)
    click.echo(head + error.message, err=True, color=False if is_plain() else None)
    if error.remedy:
        for index, line in enumerate(error.remedy.splitlines()):
            click.echo(("  next: " if index == 0 else "        ") + line, err=True)


def _operating_system_error(error: OSError) -> int:
    remedies = {
        errno.ENOSPC: "free some space; nothing half-written was kept, and the same command resumes",
        errno.EDQUOT: "your quota is used up; free some space and run the same command again",
        errno.EACCES: "check who owns that path",
        errno.EROFS: "the file system is read-only; set state_dir (MODELCTL_STATE_DIR) to a writable folder",
    }
    if error.errno not in remedies:
        raise error
    where = f"{error.filename}: " if error.filename else ""
    show_error(ModelctlError(f"{where}{error.strerror}", remedy=remedies[error.errno]))
    return ModelctlError.exit_code


def _on_sigterm(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
