"""`modelctl show NAME[@VERSION]`: everything about one release, or about all of one name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.admission.report import Report
    from modelctl.checks.base import Measurement
    from modelctl.registry.dossier import Dossier

FILES = 12
"""As many as are listed, unless --all is given."""
_STYLES = {
    "passed": "green", "failed": "red", "error": "yellow", "skipped": None, "agrees": "green", "contradicts": "red",
    "unchecked": "yellow",
}  # fmt: skip


@click.command(epilog="Exit codes: 0 shown, 2 there is no such release, or a file of it is malformed.")
@click.argument("release", metavar="NAME[@VERSION]")
@click.option("--all", "everything", is_flag=True, help="Every file and every measurement.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def show(release: str, everything: bool, as_json: bool) -> None:
    """Everything about one release: bytes, checks and figures, signer, tag, environments, waivers.

    Read from this registry repository alone. Of a NAME without a version, its releases and what serves them.

    \b
    modelctl show qwen3-4b
    modelctl show qwen3-4b@1.2.0
    modelctl show qwen3-4b@stable:prod --json
    """
    from modelctl.cli.listing import list_releases, require_known, roles_of
    from modelctl.registry.dossier import gather
    from modelctl.registry.references import parse_reference
    from modelctl.registry.trust import signers_of
    from modelctl.rollout.lookup import allowed_signers, find
    from modelctl.rollout.standing import standings
    from modelctl.settings import load_workspace

    if "@" not in release and not release.startswith("sha256:"):
        require_known(load_workspace(Path.cwd()).root, release)
        click.get_current_context().invoke(list_releases, name=release, environment=None, as_json=as_json)
        return
    workspace = load_workspace(Path.cwd())
    reference = parse_reference(release)
    if reference.name is not None and reference.version is not None:
        name, version = reference.name, reference.version
    else:
        found = find(workspace, release)
        name, version = found.name, found.version
    signers = signers_of(workspace.root, allowed_signers(workspace, None))
    dossier = gather(workspace.root, name, version, signers)
    roles = roles_of(standings(workspace.root)).get(dossier.id, ())
    if as_json:
        click.echo(json.dumps(as_plain(dossier, roles), indent=2, ensure_ascii=False))
        return
    for line in _lines(dossier, roles, everything=everything):
        click.echo(line)


def as_plain(dossier: Dossier, roles: Sequence[tuple[str, str]]) -> dict[str, object]:
    """All of it as JSON values; the report is the file `admission.json`, whole."""
    from modelctl.admission.report import as_plain as plain

    record = dossier.record
    return {
        "release": dossier.id,
        "state": dossier.state,
        "spec": dossier.release.spec.model_dump(mode="json") if dossier.release else None,
        "record": record.model_dump(mode="json", by_alias=True) if record else None,
        "card": dossier.card.model_dump(mode="json") if dossier.card else None,
        "retired": dossier.retired.model_dump(mode="json", by_alias=True) if dossier.retired else None,
        "claims": [{"what": c.what, "state": c.state, "detail": c.detail} for c in dossier.claims],
        "commit": dossier.commit,
        "published_by": dossier.author,
        "environments": [{"environment": place, "role": role} for place, role in roles],
        "report": plain(dossier.report) if dossier.report else None,
    }


def _lines(dossier: Dossier, roles: Sequence[tuple[str, str]], *, everything: bool) -> Iterator[str]:
    from modelctl.cli.output import counted, size_text

    colour = {"published": "green", "retired": "yellow"}.get(dossier.state)
    yield click.style(dossier.id, bold=True) + "  " + click.style(dossier.state, fg=colour)
    if dossier.card is not None and dossier.card.title:
        yield dossier.card.title
    yield ""
    spec = dossier.release.spec if dossier.release else None
    record = dossier.record
    yield _row("licence", (spec.license if spec else None) or _licence(dossier))
    if dossier.card is not None and dossier.card.base_models:
        yield _row("base models", ", ".join(dossier.card.base_models))
    yield _row("source", record.source.description if record else None)
    if spec is not None and spec.quantization is not None:
        yield _row("quantised", f"{spec.quantization.method}, {spec.quantization.bits} bits, group "
                                f"{spec.quantization.group_size}")  # fmt: skip
    if spec is not None and spec.serving.max_model_len is not None:
        yield _row("serving", f"{spec.serving.engine}, up to {spec.serving.max_model_len} tokens, "
                              f"{spec.serving.max_num_seqs} streams")  # fmt: skip
    if record is not None:
        yield _row("served tree", record.served.tree_digest)
        yield _row("bytes", f"{size_text(record.served.size_bytes)} in {counted(len(record.served.files), 'file')}")
        yield _row("place", record.served.uri)
        yield _row("published", record.published_at + (f" by {dossier.author}" if dossier.author else ""))
        yield _row("policy", f"{record.policy.name} {record.policy.digest[:19]}…")
    yield _row("environments", ", ".join(f"{place} ({role})" for place, role in roles) or "none serves it")
    if dossier.retired is not None:
        yield _row("retired", f"{dossier.retired.retired_at}: {dossier.retired.reason}")
    for claim in dossier.claims:
        yield _row(claim.what, click.style(claim.state, fg=_STYLES[claim.state]) + f": {claim.detail}")
    yield from _report(dossier.report, everything=everything)
    if record is not None:
        yield ""
        yield click.style("files", bold=True)
        files = record.served.files if everything else record.served.files[:FILES]
        for file in files:
            yield f"  {size_text(file.size_bytes):>9}  {file.sha256[:12]}  {file.path}"
        if len(files) < len(record.served.files):
            yield click.style(f"  and {len(record.served.files) - len(files)} more (--all)", dim=True)
    if record is None:
        yield ""
        yield click.style(f"next: modelctl admit {dossier.id}", bold=True)


def _report(report: Report | None, *, everything: bool) -> Iterator[str]:
    from modelctl.admission.terminal import FIGURES_SHOWN, coverage_text, measurement_text

    if report is None:
        return
    yield ""
    yield click.style("checks", bold=True) + f"  on {report.machine.hostname}, {report.created_at}"
    if report.policy.notice:
        yield click.style(f"  {report.policy.notice}", fg="yellow")
    for check in report.checks:
        outcome = click.style(f"{check.outcome:<8}", fg=_STYLES[check.outcome])
        yield f"  {outcome} {check.id:<14} {coverage_text(check.coverage)}"
        if everything:
            for item in check.measurements:
                yield click.style(f"             {_measured(item)}", dim=True)
        elif check.measurements:
            shown = "; ".join(measurement_text(item) for item in check.measurements[:FIGURES_SHOWN])
            more = len(check.measurements) - FIGURES_SHOWN
            yield click.style(f"             {shown}" + (f"; and {more} more (--all)" if more > 0 else ""), dim=True)
        for waived in check.waived:
            yield click.style(
                f"             waived until {waived.expires}: {waived.finding.rule} ({waived.reason}; owner "
                f"{waived.owner}, approved by {waived.approver})",
                fg="yellow",
            )


def _measured(item: Measurement) -> str:
    parameters = ", ".join(f"{key} {value}" for key, value in item.parameters.items())
    value = f"{item.value:g}" if isinstance(item.value, float) else str(item.value)
    return f"{item.name} {value} {item.unit}".rstrip() + (f"  ({parameters})" if parameters else "")


def _licence(dossier: Dossier) -> str:
    licenses = dossier.card.licenses if dossier.card else ()
    return f"{', '.join(licenses)} (as the model card says)" if licenses else ""


def _row(label: str, text: str | None) -> str:
    return f"{label:<19}{text or '-'}"
