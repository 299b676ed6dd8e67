"""TorchScript: a program of PyTorch's own language in an archive, beside the weights.

It runs when it is loaded (`__setstate__`) and when it is called, and its operations read and write files
(`aten::from_file`, `aten::save`). So it is refused as the program it is, whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelctl.scan.problems import Reason


def inspect(names: Sequence[str]) -> Iterator[Reason]:
    """What speaks against an archive by the names of its members, which all lie in one folder of any name."""
    inside = {name.partition("/")[2] for name in names}
    if "data.pkl" not in inside and not any(name.endswith("bytecode.pkl") for name in inside):
        return
    if "constants.pkl" in inside or "bytecode.pkl" in inside or any(name.startswith("code/") for name in inside):
        yield "torchscript", "a TorchScript archive, which is a program and not only weights"
