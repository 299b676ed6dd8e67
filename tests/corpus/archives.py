"""Archives that their loader opens and a scanner may not: lying zips, other compressions, nests and bombs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator

from modelctl.services.eicar import eicar
from tests.corpus.base import BYTES, Input
from tests.corpus.containers import (
    renamed_locally,
    set_flags,
    seven_zip,
    tarred,
    torch_file,
    wrong_crc,
    zipped,
)
from tests.corpus.streams import SYSTEM, program

GROUP = "archives"
_RULES = ("malware.pickle-", "malware.archive")


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _zips()
    yield from _others()
    yield from _nests()


def _input(name: str, what: str, report: str, path: str, data: bytes, *, rules: tuple[str, ...] = _RULES) -> Input:
    pytorch = {} if path.endswith((".bin", ".pt")) else {"checks": BYTES}
    return Input(
        id=f"archive-{name}", group=GROUP, what=what, report=report, files={path: data}, rules=rules, **pytorch
    )  # fmt: skip


def _zips() -> Iterator[Input]:
    plain = torch_file(SYSTEM)
    crc = "CVE-2025-10156 (picklescan): a wrong checksum stops the scanner, not the loader"
    yield _input(
        "zip-crc",
        "a torch zip whose pickle has a wrong checksum",
        crc,
        "pytorch_model.bin",
        wrong_crc(plain, b"archive/data.pkl"),
    )
    flags = "CVE-2025-1945, GHSA-w8jq-xcqf-f792: flag bits"
    yield _input(
        "zip-flags", "a torch zip whose entries claim to be encrypted", flags, "pytorch_model.bin", set_flags(plain, 1)
    )
    names = "CVE-2025-1944, GHSA-7q5r-7gvp-wc82: another name in the local header"
    lying = renamed_locally(plain, b"archive/data.pkl", b"archive/data.txt")
    yield _input("zip-names", "a torch zip whose two names of a member differ", names, "pytorch_model.bin", lying)
    extension = "CVE-2025-1889, GHSA-769v-p64c-89pr: pickles under other extensions"
    other = zipped({"archive/data.pkl": program(b"}"), "archive/extra.config": SYSTEM, "archive/version": b"3\n"})
    yield _input("zip-extension", "a second pickle in the zip, named .config", extension, "pytorch_model.bin", other)
    yield _input(
        "zip-prefix",
        "a torch zip behind other bytes",
        "PKWARE APPNOTE 4.1.9: self-extracting files",
        "pytorch_model.bin",
        b"MODEL\n" * 20 + plain,
    )
    yield _input(
        "zip-deflated",
        "a compressed torch zip",
        "PKWARE APPNOTE 4.4.5",
        "pytorch_model.bin",
        torch_file(SYSTEM, packed=True),
    )
    upper = zipped({"archive/DATA.PKL": SYSTEM, "archive/data/0": b"\0"})
    yield _input("zip-upper", "a torch zip with its names in capitals", extension, "pytorch_model.bin", upper)
    front = SYSTEM + torch_file(program(b"}"))
    polyglot = "fickling, polyglot detection: a file that is a pickle to one reader and a zip to another"
    yield _input("zip-behind", "a pickle in front of a harmless torch zip", polyglot, "pytorch_model.bin", front)


def _others() -> Iterator[Input]:
    nullifai = "ReversingLabs 2025, nullifAI: PyTorch models packed with 7z"
    yield _input("7z", "a 7z archive named as a torch file", nullifai, "pytorch_model.bin", seven_zip(SYSTEM))
    tar = "CVE-2025-32434: torch.load(weights_only=True) and the tar format"
    members = {"sys_info": program(b"}"), "pickle": SYSTEM, "storages": program(b"K\x00"), "tensors": program(b"K\x00")}
    yield _input("torch-tar", "the tar format of the first torch versions", tar, "model.pt", tarred(members))
    joblib = "joblib docs, dump(compress=…): gzip, zlib, bz2, xz and lzma are undone by the loader"
    yield _input("joblib-gzip", "a pickle in gzip", joblib, "model.joblib", gzip.compress(SYSTEM, mtime=0))
    yield _input("joblib-zlib", "a pickle in zlib", joblib, "model.joblib", zlib.compress(SYSTEM))
    yield _input("joblib-bz2", "a pickle in bzip2", joblib, "model.joblib", bz2.compress(SYSTEM))
    yield _input("joblib-xz", "a pickle in xz", joblib, "model.joblib", lzma.compress(SYSTEM))
    alone = lzma.compress(SYSTEM, format=lzma.FORMAT_ALONE)
    yield _input("joblib-lzma", "a pickle in lzma, which has no magic number", joblib, "model.joblib", alone)
    raw = len(SYSTEM)
    frame = b"\x28\xb5\x2f\xfd\x20" + bytes([raw]) + ((raw << 3) | 1).to_bytes(3, "little") + SYSTEM
    yield _input("zstd", "a pickle in zstandard", "RFC 8878: a frame with one raw block", "model.pkl.zst", frame)
    nemo = "CVE-2025-23304: metadata in .nemo files is code to NVIDIA NeMo"
    config = b"model:\n  _target_: os.system\n  command: 'true'\n"
    yield _input(
        "nemo", "a .nemo archive whose configuration names a function to call", nemo, "model.nemo",
        gzip.compress(tarred({"model_config.yaml": config, "model_weights.ckpt": torch_file(program(b"}"))}), mtime=0),
        rules=("malware.", "code."),
    )  # fmt: skip
    mar = "TorchServe docs: a .mar archive holds the handler's Python"
    handler = b"import os\nos.system('true')\n"
    yield _input(
        "mar-handler",
        "a TorchServe archive with a hostile handler",
        mar,
        "model.mar",
        zipped({"handler.py": handler, "MAR-INF/MANIFEST.json": b"{}"}),
        rules=("code.", "malware."),
    )


def _nests() -> Iterator[Input]:
    depth = "Black Hat talk 'Deal With It': nested pickles and containers"
    nested = zipped({"a.tar": tarred({"b.gz": gzip.compress(SYSTEM, mtime=0)})})
    yield _input("nest", "a pickle in gzip in tar in zip", depth, "extra.zip", nested)
    deep = SYSTEM
    for _ in range(9):
        deep = gzip.compress(deep, mtime=0)
    yield _input("deep-nest", "a pickle in nine layers of gzip", depth, "extra.gz", deep)
    bomb = gzip.compress(gzip.compress(bytes(10 << 20), mtime=0) * 30, mtime=0)
    yield _input(
        "bomb",
        "300 MiB of zeros in two layers of gzip",
        "CWE-409, a decompression bomb",
        "extra.gz",
        bomb,
        rules=("malware.archive-bomb",),
    )
    link = tarred({"x": b"x"})
    link = link[:156] + b"2" + b"/etc/passwd".ljust(100, b"\0") + link[257:]
    total = sum(link[:148]) + 8 * 32 + sum(link[156:512])
    link = link[:148] + f"{total:06o}\0 ".encode() + link[156:]
    yield _input(
        "tar-link",
        "a tar archive with a link out of it",
        "CVE-2007-4559: tarfile and paths",
        "extra.tar",
        link,
        rules=("malware.archive",),
    )
    yield _input(
        "eicar-nested",
        "the EICAR test file in tar in zip",
        "eicar.org: the test file of all scanners",
        "extra.zip",
        zipped({"a.tar": tarred({"b.txt": eicar()})}),
        rules=("malware.signature",),
    )
    yield _input(
        "eicar-end",
        "the EICAR test file at the end of a file of zeros",
        "ClamAV docs, MaxFileSize: what lies behind a limit is not seen",
        "vocab.extra",
        bytes(3 << 20) + eicar(),
        rules=("malware.signature",),
    )
