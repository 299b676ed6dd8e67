"""How 4-bit weights are packed into whole numbers, as shapes: what a packed linear layer stores for its weight.

GPTQ (`qweight` packs inputs, `qzeros` outputs) and AWQ (`qweight` and `qzeros` pack outputs), 32 bits a word; one row
of scales and zeros for each group of inputs. FP8 keeps the weight's own shape. Other methods are not known here, and
whoever asks is told so. Layers may have their own bits and group size (`dynamic` of GPTQModel): patterns in a
config are never run, a shape is right when it fits any of the settings that the config names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelctl.model.strict_json import Json

WORD_BITS = 32
_BITS = (2, 3, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Bits of a weight, and inputs that share a scale (None: all of them)."""

    bits: int
    group_size: int | None


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The packing of one quantised model."""

    method: str
    """gptq or awq."""
    settings: tuple[Setting, ...]

    def parts(self, outputs: int, inputs: int) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The parts of a layer's weight and their shapes, for each setting."""
        for setting in self.settings:
            groups = -(-inputs // (setting.group_size or inputs or 1))
            shapes: dict[str, tuple[int, ...]] = {
                "scales": (groups, outputs),
                "qzeros": (groups, -(-outputs * setting.bits // WORD_BITS)),
            }
            if self.method == "gptq":
                shapes["qweight"] = (-(-inputs * setting.bits // WORD_BITS), outputs)
            else:
                shapes["qweight"] = (inputs, -(-outputs * setting.bits // WORD_BITS))
            yield shapes


def packing_of(quantization: Mapping[str, Json] | None) -> Packing | None:
    """How a config's `quantization_config` packs weights; None when it packs none, or in a way that is not known."""
    if quantization is None:
        return None
    method = quantization.get("quant_method")
    layout = str(quantization.get("checkpoint_format") or quantization.get("version") or "")
    known = {"gptq": ("", "gptq", "gptq_v2"), "awq": ("", "gemm")}
    if not isinstance(method, str) or layout.lower() not in known.get(method, ()):
        return None
    dynamic = quantization.get("dynamic")
    others = [item for item in dynamic.values() if isinstance(item, Mapping)] if isinstance(dynamic, Mapping) else []
    base = _setting(quantization, {})
    settings = [base, *(_setting(item, quantization) for item in others)]
    found = tuple(dict.fromkeys(setting for setting in settings if setting is not None))
    return Packing(method=method, settings=found) if base is not None else None


def _setting(values: Mapping[str, Json], defaults: Mapping[str, Json]) -> Setting | None:
    bits = values.get("bits", values.get("w_bit", defaults.get("bits")))
    group = values.get("group_size", values.get("q_group_size", defaults.get("group_size", -1)))
    if isinstance(bits, bool) or bits not in _BITS or isinstance(group, bool) or not isinstance(group, int):
        return None
    if not isinstance(bits, int) or (group < 1 and group != -1):
        return None
    return Setting(bits=bits, group_size=None if group == -1 else group)
