"""Whether a bucket still holds exactly the bytes of a release.

Names, sizes and the sha256 that was announced with each object are always compared; that is what the server says of
itself. Only bytes that are read prove anything: all of them, or those of some files that nobody can foresee.
"""

from __future__ import annotations

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.model.tree import FileEntry
from modelctl.progress import SILENT, Progress, Task
from modelctl.registry.manifest import Served
from modelctl.registry.ranged import SILENCE_S, WAITS_S
from modelctl.registry.store import ObjectStore

WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class BucketVerification:
    """What differs; paths relative to the release, sorted."""

    uri: str
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    resized: tuple[str, ...]
    """Objects of another size."""
    reannounced: tuple[str, ...]
    """Objects that were sent with another sha256."""
    changed: tuple[str, ...]
    """Objects whose bytes were read, and are others."""
    unannounced: tuple[str, ...]
    """Objects of which the server has no sha256: it lost it, or something else wrote them."""
    read: tuple[str, ...]
    """Objects whose every byte was read."""
    read_bytes: int
    total_bytes: int

    @property
    def whole(self) -> bool:
        """Nothing differs, as far as was looked."""
        return not (self.missing or self.extra or self.resized or self.reannounced or self.changed)

    def differences(self) -> tuple[str, ...]:
        """One line for each object that differs."""
        kinds = {
            "missing": self.missing,
            "extra": self.extra,
            "of another size": self.resized,
            "sent with another sha256": self.reannounced,
            "other bytes": self.changed,
        }
        return tuple(f"{word}: {path}" for word, paths in kinds.items() for path in paths)


def verify_bucket(
    store: ObjectStore, served: Served, *, full: bool = False, sample: int = 0, progress: Progress = SILENT
) -> BucketVerification:
    """Compare the objects of a release with its list. `full` reads every byte, `sample` those of so many files.

    Raises `StoreError`.
    """
    prefix = served.uri.removeprefix("s3://").partition("/")[2] + "/"
    sizes = {key.removeprefix(prefix): size for key, size in store.sizes(prefix).items()}
    wanted = served.tree.by_path
    present = sorted(wanted.keys() & sizes.keys())
    sized = [path for path in present if sizes[path] == wanted[path].size_bytes]
    chosen = sized if full else sorted(random.SystemRandom().sample(sized, min(sample, len(sized))))
    found = _read(store, prefix, [wanted[path] for path in chosen if sizes[path]], progress)
    announced = _announced(store, prefix, [path for path in present if path not in found])
    announced |= {path: content.announced for path, content in found.items()}
    return BucketVerification(
        uri=f"s3://{store.bucket}/{prefix}".rstrip("/"),
        missing=tuple(sorted(wanted.keys() - sizes.keys())),
        extra=tuple(sorted(sizes.keys() - wanted.keys())),
        resized=tuple(path for path in present if sizes[path] != wanted[path].size_bytes),
        reannounced=tuple(path for path in present if announced[path] not in (None, wanted[path].sha256)),
        changed=tuple(path for path, content in found.items() if content.sha256 != wanted[path].sha256),
        unannounced=tuple(path for path in present if announced[path] is None),
        read=tuple(chosen),
        read_bytes=sum(wanted[path].size_bytes for path in chosen),
        total_bytes=served.size_bytes,
    )


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What the bytes of an object hash to, and what the server announced with them."""

    sha256: str
    announced: str | None


def _announced(store: ObjectStore, prefix: str, paths: list[str]) -> dict[str, str | None]:
    """By path: the sha256 that an object was sent with."""
    with ThreadPoolExecutor(WORKERS) as pool:
        stats = pool.map(lambda path: store.stat(prefix + path), paths)
        return {path: found.sha256 if found else None for path, found in zip(paths, stats, strict=True)}


def _read(store: ObjectStore, prefix: str, entries: list[FileEntry], progress: Progress) -> dict[str, _Content]:
    """By path: what was read of each. The answer to the same request says what was announced."""
    brisk = store.impatient(silence_s=SILENCE_S)
    stop = Event()
    with (
        progress.task("read the bucket", total=sum(entry.size_bytes for entry in entries), unit="bytes") as task,
        ThreadPoolExecutor(WORKERS) as pool,
    ):
        try:
            found = pool.map(lambda entry: _content(brisk, prefix + entry.path, entry, task, stop), entries)
            return {entry.path: content for entry, content in zip(entries, found, strict=True)}
        finally:
            stop.set()


def _content(store: ObjectStore, key: str, entry: FileEntry, task: Task, stop: Event) -> _Content:
    """All of an object, read again from where a connection broke."""
    digest = hashlib.sha256()
    announced: str | None = None
    have = failures = 0
    task.describe(entry.path)
    while have < entry.size_bytes and not stop.is_set():
        before = have
        answer = store.stream(key, offset=have)
        try:
            for block in answer:
                digest.update(block)
                have += len(block)
                task.advance(len(block))
                if stop.is_set():
                    break
            if have < entry.size_bytes and have == before:
                break
        except StoreUnavailableError:
            failures = 0 if have > before else failures + 1
            if failures > len(WAITS_S) or stop.wait(WAITS_S[max(failures, 1) - 1]):
                raise
        finally:
            announced = answer.sha256 or announced
    return _Content(sha256=digest.hexdigest(), announced=announced)
