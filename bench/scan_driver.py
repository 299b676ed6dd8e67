"""One other scanner over the corpus, in its own environment: `python scan_driver.py TOOL CORPUS_JSON START STEP`.

Every STEP-th input from START is looked at, so that several processes may share the work.
Prints a JSON line for each input with what the tool's command line would have said of that folder: `found`, `clean`,
`not scanned` (it says that it looked at nothing), `error`. Nothing is loaded: these tools read pickles without running
them.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def picklescan(folder: Path, *, strict: bool = False) -> tuple[str, str]:
    """`picklescan -p FOLDER`: exit code 1 for dangerous globals, with `--strict` for suspicious ones too."""
    from picklescan.scanner import scan_directory_path  # type: ignore[import-not-found]

    result = scan_directory_path(str(folder), strict=strict)
    if result.issues_count:
        return "found", f"{result.issues_count} dangerous globals"
    if result.scan_err:
        return "error", "could not scan"
    return ("clean", "") if result.scanned_files else ("not scanned", "")


def picklescan_strict(folder: Path) -> tuple[str, str]:
    """`picklescan --strict -p FOLDER`."""
    return picklescan(folder, strict=True)


def modelscan(folder: Path) -> tuple[str, str]:
    """`modelscan -p FOLDER`."""
    from modelscan.modelscan import ModelScan  # type: ignore[import-not-found]
    from modelscan.settings import DEFAULT_SETTINGS  # type: ignore[import-not-found]

    scan = ModelScan(settings=DEFAULT_SETTINGS)
    scan.scan(str(folder))
    if scan.issues.all_issues:
        return "found", str(scan.issues.all_issues[0].details.output_json())[:200]
    if not scan.scanned:
        return "not scanned", ""
    return ("error", str(scan.errors[0])[:200]) if scan.errors else ("clean", "")


def fickling(folder: Path) -> tuple[str, str]:
    """What `fickling --huggingface` does with each file of a repository; its `--check-safety` takes one pickle.

    That one tells pickles by content with a helper that needs torch; here they are told as it does, by parsing.
    """
    from fickling.cli import HF_RAW_PICKLE_EXTENSIONS, HF_ZIP_PICKLE_EXTENSIONS  # type: ignore[import-not-found]
    from fickling.loader import scan_file, scan_zip_archive  # type: ignore[import-not-found]

    seen, said = 0, []
    for path in sorted(item for item in folder.rglob("*") if item.is_file()):
        extension = path.suffix.lower()
        if zipfile.is_zipfile(path) or extension in HF_ZIP_PICKLE_EXTENSIONS:
            results = list(scan_zip_archive(str(path), graceful=True, json_output_path=os.devnull).values())
        elif extension in HF_RAW_PICKLE_EXTENSIONS or _is_pickle(path):
            results = [scan_file(str(path), graceful=True, json_output_path=os.devnull)]
        else:
            continue
        seen += len(results)
        said += [f"{path.name}: {result.severity.name}" for result in results if not result.is_safe]
    if said:
        return "found", said[0]
    return ("clean", "") if seen else ("not scanned", "")


def _is_pickle(path: Path) -> bool:
    from fickling.fickle import Pickled  # type: ignore[import-not-found]

    try:
        with path.open("rb") as stream:
            return len(Pickled.load(stream)) > 1
    except Exception:  # noqa: BLE001 - whatever keeps it from being parsed
        return False


def modelaudit(folder: Path) -> tuple[str, str]:
    """`modelaudit scan FOLDER`: exit code 1 for findings, 2 where it could not tell."""
    from modelaudit.core import determine_exit_code, scan_model_directory_or_file  # type: ignore[import-not-found]

    result = scan_model_directory_or_file(str(folder), cache_enabled=False)
    issues = [issue for issue in result.issues if str(issue.severity.value) in ("warning", "critical")]
    words = f"{issues[0].location}: {issues[0].message}"[:200] if issues else ""
    match determine_exit_code(result):
        case 1:
            return "found", words
        case 0:
            return "clean", ""
        case _:
            return ("not scanned" if not result.files_scanned else "error"), words


TOOLS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "picklescan": picklescan,
    "picklescan --strict": picklescan_strict,
    "modelscan": modelscan,
    "fickling": fickling,
    "modelaudit": modelaudit,
}


def main() -> None:
    """Every input in turn; what a tool writes by itself is dropped, what it raises is an error of it."""
    os.environ["PROMPTFOO_DISABLE_TELEMETRY"] = "1"
    tool, index = TOOLS[sys.argv[1]], Path(sys.argv[2])
    logging.disable()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8"))
    for row in rows[int(sys.argv[3]) :: int(sys.argv[4])]:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                state, detail = tool(index.parent / row["id"])
        except Exception as error:  # noqa: BLE001 - a tool that falls over is a result
            state, detail = "error", f"{type(error).__name__}: {error}"[:200]
        print(json.dumps({"id": row["id"], "state": state, "detail": detail}), flush=True)


if __name__ == "__main__":
    main()
