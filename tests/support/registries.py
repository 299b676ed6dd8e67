"""A registry repository with any number of releases, written quickly: records as a publication leaves them."""

from __future__ import annotations

from pathlib import Path

from tests.support.history import Registry, a_registry


def many(root: Path, count: int, *, names: int = 20) -> Registry:
    """`count` published releases of `names` models, committed at once, one of them served."""
    registry = a_registry(root)
    record = registry.write_record()
    folder = registry.folder()
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.parent.rmdir()
    shards = "".join(
        f"  - path: model-{number:05}-of-00030.safetensors\n    size_bytes: 7\n    sha256: {'ab' * 32}\n"
        for number in range(30)
    )
    for number in range(count):
        name, version = f"model-{number % names:02}", f"1.{number // names}.0"
        target = registry.folder(name, version)
        target.mkdir(parents=True)
        for own, text in texts.items():
            changed = text.replace("name: tiny", f"name: {name}").replace("version: 1.0.0", f"version: {version}")
            if own == "record.yaml":
                changed = changed.replace("tiny/1.0.0", f"{name}/{version}") + shards
            (target / own).write_text(changed, encoding="utf-8")
        (target / "release.yaml").write_text(
            "apiVersion: modelctl.dev/v1\nkind: ModelRelease\n"
            f"metadata:\n  name: {name}\n  version: {version}\n"
            "spec:\n  source:\n    folder: model\n  license: apache-2.0\n",
            encoding="utf-8",
        )
    assert record.id == "tiny@1.0.0"
    registry.commit(f"Publish {count} releases")
    return registry
