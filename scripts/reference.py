"""Write what follows from the code: the tables of docs/policy.md, docs/rollout.md, docs/release.md and
docs/attestation.md, the pages docs/commands.md and docs/findings.md, and the schemas in docs/schemas/.

`--check` writes nothing and says what is out of date; scripts/check_docs.py asks the same.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import TypeAdapter

import command_pages
from modelctl.admission.keyless import KeylessFile
from modelctl.admission.policy import Policy, PolicyChecks
from modelctl.admission.report import Report
from modelctl.admission.waivers import WaiverFile
from modelctl.audit.told import Told
from modelctl.documents import Document
from modelctl.field_docs import FieldDoc, fields, texts_of
from modelctl.model.release import Release
from modelctl.registry.manifest import Manifest
from modelctl.registry.records import Record
from modelctl.rollout.environment import Environment
from modelctl.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SCHEMAS = DOCS / "schemas"
REWRITE = "run python scripts/reference.py"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def row(field: FieldDoc, below: tuple[str, ...]) -> str:
    """One line of a table; keys are written from `below` on."""
    key = ".".join(field.key[len(below) :])
    default = "**required**" if field.required else f"`{plain(field.default)}`"
    if field.section and field.type == "mapping":
        default = ""
    text = field.text.replace("|", "\\|")
    return f"| `{key}` | {field.type} | {default} | {text} |"


def plain(value: object) -> str:
    """A default as YAML would have it on one line."""
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    if value is None:
        return "none"
    if isinstance(value, Document):
        return value.model_dump_json(by_alias=True)
    return json.dumps(value, ensure_ascii=False, default=str)


def table(found: list[FieldDoc], below: tuple[str, ...]) -> str:
    """A table of fields."""
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *(row(item, below) for item in found)])


def environment_tables() -> Mapping[str, str]:
    """The generated part of docs/rollout.md."""
    return {"environment": table(list(fields(Environment)), ())}


def release_tables() -> Mapping[str, str]:
    """The generated part of docs/release.md."""
    every = [item for item in fields(Release) if item.key[0] == "spec" and len(item.key) > 1]
    return {"release": table(every, ("spec",))}


def policy_tables() -> Mapping[str, str]:
    """The generated parts of docs/policy.md, by the name in their markers."""
    every = list(fields(Policy))
    spec = [item for item in every if item.key[0] == "spec" and item.key[1:2] != ("checks",) and len(item.key) > 1]
    made = {"spec": table(spec, ("spec",))}
    parts = []
    for name, info in PolicyChecks.model_fields.items():
        check_id = info.alias or name
        below = ("spec", "checks", check_id)
        parts.append(f"### `checks.{check_id}`\n")
        parts.append(table([item for item in every if item.key[:3] == below and len(item.key) > 3], below) + "\n")
    made["checks"] = "\n".join(parts).rstrip()
    waiver = [item for item in fields(WaiverFile) if item.key[0] == "spec" and len(item.key) > 1]
    made["waiver"] = table(waiver, ("spec",))
    return made


def signer_tables() -> Mapping[str, str]:
    """The generated part of docs/attestation.md."""
    every = [item for item in fields(KeylessFile) if item.key[0] == "spec" and len(item.key) > 1]
    return {"keyless": table(every, ("spec",))}


def page(path: Path, tables: Mapping[str, str]) -> str:
    """A page with its generated parts as they must be."""
    text = path.read_text(encoding="utf-8")
    for name, body in tables.items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        if start not in text or end not in text:
            raise SystemExit(f"{path}: the markers of '{name}' are missing")
        head, _, rest = text.partition(start)
        text = head + start + "\n" + body + "\n\n" + end + rest.partition(end)[2]
    return text


def described(schema: object, kinds: Mapping[str, type]) -> object:
    """A schema with the fields' texts as descriptions."""
    if not isinstance(schema, dict):
        return schema
    definitions = {"": schema, **schema.get("$defs", {})}
    for name, part in definitions.items():
        kind = kinds.get(name or str(schema.get("title")))
        if kind is None:
            continue
        texts = texts_of(kind)
        for field, key in keys_of(kind).items():
            target = part.get("properties", {}).get(key)
            if isinstance(target, dict) and texts.get(field):
                target["description"] = texts[field]
    return schema


def keys_of(kind: type) -> Mapping[str, str]:
    """The fields of a document or dataclass, each with its key in JSON."""
    if issubclass(kind, Document):
        return {field: info.alias or field for field, info in kind.model_fields.items()}
    return {field.name: field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}


def classes(kind: type) -> dict[str, type]:
    """Every document class and dataclass that can be reached from one, by name."""
    found: dict[str, type] = {}
    waiting: list[object] = [kind]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, type) or not (issubclass(item, Document) or dataclasses.is_dataclass(item)):
            waiting += getattr(item, "__args__", ())
        elif item.__name__ not in found:
            found[item.__name__] = item
            waiting += typing.get_type_hints(item, include_extras=True).values()
    return found


def schemas() -> Mapping[str, str]:
    """The schema files."""
    written: dict[str, type] = {"audit.v1": Told, "report.v1": Report}
    made: dict[str, object] = {
        name: described(TypeAdapter(kind).json_schema(mode="serialization"), classes(kind))
        for name, kind in written.items()
    }
    documents: dict[str, type[Document]] = {
        "environment.v1": Environment,
        "keyless-signer.v1": KeylessFile,
        "manifest.v1": Manifest,
        "policy.v1": Policy,
        "record.v1": Record,
        "release.v1": Release,
        "settings.v1": Settings,
        "waiver.v1": WaiverFile,
    }
    for name, kind in documents.items():
        made[name] = described(kind.model_json_schema(by_alias=True), classes(kind))
    return {
        f"{name}.schema.json": json.dumps(
            {"$schema": DIALECT, "$id": f"https://modelctl.dev/schemas/{name}.schema.json", **dict(schema)},  # type: ignore[call-overload]
            indent=2, ensure_ascii=False, sort_keys=True,
        ) + "\n"
        for name, schema in made.items()
    }  # fmt: skip


def files() -> Iterator[tuple[Path, str]]:
    """Every generated file and what must be in it."""
    tables_of = {
        "policy.md": policy_tables(),
        "rollout.md": environment_tables(),
        "release.md": release_tables(),
        "attestation.md": signer_tables(),
    }
    for name, tables in tables_of.items():
        yield DOCS / name, page(DOCS / name, tables)
    yield DOCS / "commands.md", command_pages.commands_page()
    yield DOCS / "findings.md", command_pages.findings_page()
    for name, text in schemas().items():
        yield SCHEMAS / name, text


def stale() -> list[str]:
    """What is not as it must be, one sentence each."""
    return [
        f"{path.relative_to(ROOT)}: not what the code says; {REWRITE}"
        for path, text in files()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write the files, or say what is stale; 1 when something is."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for problem in found:
            print(problem, file=sys.stderr)
        return 1 if found else 0
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in files():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
