"""What may be published: exactly the bytes that a whole, admitting report is about, under the policy that holds now."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.report import Report
from modelctl.checks import CHECK_IDS
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import DIGEST_PREFIX, Scan, Tree, scan_tree
from modelctl.progress import SILENT, Progress


def served_tree(
    report: Report,
    *,
    state: Path,
    source: Callable[[], Tree],
    staged: Callable[[str], Tree | None] = lambda _digest: None,
    scan: Scan = scan_tree,
    progress: Progress = SILENT,
) -> Tree:
    """The tree that a report admitted: the source itself, the staging folder that the admission left (looked at by
    `scan`), or what another runner left in the bucket (`staged` is asked by the digest).

    Raises `RefusedError` when the report has no served tree, or when it is nowhere any more.
    """
    digest = report.model.served_digest
    if digest is None:
        raise RefusedError("the report has no served tree: it could not be made", remedy="admit the release again")
    if digest == report.model.source_digest:
        return source()
    folder = state / "staging" / digest.removeprefix(DIGEST_PREFIX)
    if folder.is_dir():
        return scan(folder, progress=progress)
    found = staged(digest)
    if found is None:
        raise RefusedError(
            f"the served tree is not on this machine any more: no {folder}, and it is not staged in the bucket",
            remedy=f"modelctl admit {report.model.release} makes it again; with --stage, for other machines too",
        )
    return found


def read_report(path: Path, release_id: str) -> str:
    """The text of a report file. Raises `InputError` when it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"no report of {release_id}: {path}: {error.strerror}",
            remedy=f"modelctl admit {release_id}, or name its report with --report FILE",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a report: not UTF-8", remedy=f"modelctl admit {release_id}") from error


def refuse_unless_admitted(
    report: Report, release_id: str, tree: Tree, *, policy: LoadedPolicy, release_sha256: str
) -> None:
    """Raise `RefusedError` with every reason why this report does not let `tree` be published as `release_id`.

    `policy` is the one that holds now, `release_sha256` of the release file as it is now.
    """
    problems = list(_problems(report, release_id, tree, policy))
    if report.model.release == release_id and report.model.release_sha256 != release_sha256:
        problems.append("release.yaml is not the one that was judged")
    if problems:
        raise RefusedError(
            f"{release_id} is not published: " + "; ".join(problems), remedy=f"modelctl admit {release_id}"
        )


def _problems(report: Report, release_id: str, tree: Tree, policy: LoadedPolicy) -> Iterator[str]:
    if report.verdict != "admitted":
        why = f" ({'; '.join(report.reasons)})" if report.reasons else ""
        yield f"the verdict of its report is '{report.verdict}'{why}"
    if report.partial:
        yield "its report is partial: only some checks were asked for"
    wanted = (*CHECK_IDS, *policy.policy.spec.own_checks)
    absent = [check_id for check_id in wanted if check_id not in {check.id for check in report.checks}]
    if absent and not report.partial:
        yield f"its report lacks {', '.join(absent)}"
    undone = [check.id for check in report.checks if check.required and check.outcome in ("failed", "error")]
    if report.verdict == "admitted" and (undone or not report.checks):
        yield f"its report contradicts itself: admitted, with {', '.join(undone) or 'no checks'}"
    if report.model.release != release_id:
        yield f"the report is of {report.model.release or report.model.source}"
    if report.model.served_digest != tree.digest:
        yield f"the files are {tree.digest}, the report admitted {report.model.served_digest}"
    if tree.problems:
        yield f"{tree.problems[0].path} {tree.problems[0].detail}"
    if report.policy.digest != policy.digest:
        yield (
            f"the policy '{report.policy.name}' it was admitted under ({report.policy.digest}) "
            f"is not the one that holds now ({policy.digest})"
        )
    yield from _age(report, policy)


def _age(report: Report, policy: LoadedPolicy) -> Iterator[str]:
    limit_h = policy.policy.spec.evidence.max_age_hours
    try:
        made = datetime.datetime.fromisoformat(report.created_at)
        age = datetime.datetime.now(datetime.UTC) - made
    except (ValueError, TypeError):  # no date, or one without its offset from UTC
        yield f"its report was made at '{report.created_at}', which is no time in UTC"
        return
    if age > datetime.timedelta(hours=limit_h):
        hours = f"{age.total_seconds() / 3600:.0f}"
        yield f"its report is {hours} hours old, the policy allows {limit_h:g} (evidence.max_age_hours)"
    if age < -datetime.timedelta(minutes=10):
        yield f"its report was made in the future ({report.created_at}): one of two clocks is wrong"
