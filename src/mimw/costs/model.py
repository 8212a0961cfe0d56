"""A chip's cost model: figures with their sources, and the few formulas that make times of them.

Times are SM cycles. Work is charged to units of the SM (`issue`, `special`, `shared`, `tensor`, `inbound`, `outbound`) and to the
SM's share of what all SMs have together (`L2`, `DRAM`); `simulator/clock/machine.py` decides which task gets a unit when.
docs/TIMING.md lists what the formulas leave out.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import TargetError
from ..ir import Op, Tensor
from ..target import Target

_FOLDER = Path(__file__).parent
DEPENDENT = 4                           # quarters of an SM: a task of fewer warps reaches only that many of them
_SPECIAL = frozenset("exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf fdiv precise_divf approx_divf frem "
                     "extern_elementwise".split())
_DIVISIONS = frozenset("sdiv udiv srem urem".split())
_CONVERSIONS = frozenset("fp_ext fp_trunc fp_to_fp si_to_fp ui_to_fp fp_to_si fp_to_ui".split())
_FREE = frozenset("splat expand_dims broadcast reshape trans join split cat constant poison make_range unsplat bitcast int_cast "
                  "require_layout release_layout".split())
_CHEAP_SCALARS = frozenset("constant poison get_program_id get_num_programs assume hint int_cast splat bitcast".split())


@dataclass(frozen=True)
class Figure:
    """One number of a data file, its unit and where it comes from."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Model:
    """The figures of one chip by dotted name, such as `tma.load_latency`."""

    target: str
    chip: str
    figures: Mapping[str, Figure]

    def __getitem__(self, name: str) -> float:
        if name not in self.figures:
            raise TargetError(f"the cost model of {self.target} ({self.chip}) has no figure {name!r}: nothing was published or "
                              f"measured for it. mimw/costs/{self.target}.toml is where it would stand")
        return self.figures[name].value

    def get(self, name: str, other: float) -> float:
        return self.figures[name].value if name in self.figures else other

    # ---- arithmetic -------------------------------------------------------------------------------------------------

    def scalar(self, op: Op) -> float:
        """Cycles of an op on single numbers, which every thread of the task does for itself."""
        if op.name in _CHEAP_SCALARS:
            return 0.0
        return self["issue.division"] if op.name in _DIVISIONS else self["issue.scalar"]

    def tile(self, op: Op, fused: bool = False) -> dict[str, float]:
        """Unit -> cycles that an element-wise op or a reduction occupies it. `fused`: a product that ends in the sum after it."""
        if op.name in _FREE or fused:
            return {}
        elements = max(value.type.numel for value in (*op.results, *op.operands) if isinstance(value.type, Tensor))
        if op.name in ("reduce", "scan"):
            combined = [inner.name for block in op.blocks for inner in block.ops]
            compares = any(name.startswith(("max", "min", "fcmp", "icmp")) for name in combined)
            rate = self["rate.compare" if compares else "rate.float"]
            return {"issue": elements / rate * len(op.results) + self["issue.reduce"]}
        if op.name in _SPECIAL:
            return {"special": elements / self["rate.special"], "issue": elements / self["rate.float"]}
        if op.name in _DIVISIONS:
            return {"issue": elements * self["issue.division"] / self["rate.int"]}
        if op.name in _CONVERSIONS:
            return {"issue": elements / self["rate.convert"]}
        if op.name.startswith(("max", "min", "fcmp", "clamp", "select")):
            return {"issue": elements / self["rate.compare"]}
        return {"issue": elements / self["rate.float" if op.name.startswith("f") else "rate.int"]}

    def slowdown(self, num_warps: int) -> float:
        """How much longer than the whole SM a task of so many warps needs for its work."""
        return max(1.0, DEPENDENT / num_warps)

    # ---- tensor cores -----------------------------------------------------------------------------------------------

    def dot(self, m: int, n: int, k: int, bits: int, shared_bytes: int) -> float:
        """Cycles of the SM's tensor cores, or of shared memory if its `shared_bytes` of operands take longer."""
        return max(m * n * k / self[f"tensor.macs_{bits}"], shared_bytes / self["tensor.operand_bytes"])

    # ---- the chip ---------------------------------------------------------------------------------------------------

    @property
    def sms(self) -> int:
        return int(self["chip.sms"])

    def residency(self, shared_bytes: int, warps: int, registers_per_thread: int, warp_size: int = 32) -> tuple[int, str]:
        """(CTAs that an SM holds at once, what limits them)."""
        limits = {
            "shared memory": int(self["chip.shared_bytes"] // (shared_bytes + self["chip.shared_reserved"])),
            "warps": int(self["chip.warps"] // warps),
            "registers": int(self["chip.registers"] // (warp_size * warps * registers_per_thread)),
            "the most CTAs of an SM": int(self["chip.ctas"]),
        }
        by = min(limits, key=limits.get)
        return max(1, limits[by]), by


@functools.cache
def model(target: Target | str) -> Model:
    """The cost model of a target; TargetError if there is none, with those that there are."""
    name = str(target)
    path = _FOLDER / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.toml")))
        raise TargetError(f"there is no cost model of {name}: its latencies and rates are in no data file. There are {known}")
    data = tomllib.loads(path.read_text())
    sources = data.pop("sources")
    chip = data.pop("name")
    figures = {}
    for table, entries in data.items():
        for key, (value, unit, source) in entries.items():
            figures[f"{table}.{key}"] = Figure(float(value), unit, sources[source])
    return Model(name, chip, figures)
