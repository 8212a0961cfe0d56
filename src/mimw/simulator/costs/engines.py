"""The costs of a chip whose cores have engines that work side by side: copies between its memories, vectors, products.

Input: an op, or the bytes of a copy. Output: cycles of an engine. For example, of the Ascend 910B:

    costs = model("ascend_910b")
    costs.vector(op)                      {"Vector": 20 + 4096 * 2 / 256}, of a `fadd` of 4096 halves
    costs.product(128, 256, 64, 16)       the cube's cycles
    costs.copy("MTE1", "l0a", 16384)      20 + 16384 / 512

`simulator/clock/engines.py` decides which engine begins when; docs/TIMING.md says what this leaves out.
"""

from __future__ import annotations

from math import ceil

from ...ir import Op, Program, Tensor
from .model import Model

_FREE = ("free", "move")


def split_loops(program: Program) -> frozenset[Op]:
    """The loops whose trips the vector cores of an AI core take in turn: those of `tle.dsa.parallel`, unless copies run ahead of
    their trips, which are one core's."""
    return frozenset(op for op in program.walk() if op.attrs.get("dsa") == "parallel" and not any(
        "async" in inner.row.effects for inner in op.walk()))


class EngineModel(Model):
    """A `Model` of a chip with engines in place of an SM's units."""

    core, programs = "core", ("program", "programs")
    engines = True

    def cores(self, program: Program) -> int:
        """The number of cores that run programs at the same time: AI cores, or, of a kernel that takes one vector core and no
        cube, vector cores."""
        whole = any("dot" in op.row.traits for op in program.walk()) or split_loops(program)
        return self.sms if whole else int(self["chip.vector_cores"])

    @property
    def vector_cores(self) -> int:
        """The number of vector cores that an AI core has."""
        return int(self["chip.vector_cores"]) // self.sms

    def residency(self, *_, **__) -> tuple[int, str]:
        return int(self["chip.ctas"]), "its scalar unit"

    def vector(self, op: Op) -> float:
        """Cycles of the vector unit for an op on tiles; 0 for what only renames or is done on the way."""
        work = op.row.cost
        if work in _FREE:
            return 0.0
        tiles = [value.type for value in (*op.results, *op.operands) if isinstance(value.type, Tensor)]
        size = max(tile.numel * max(tile.element.bytes, 2) for tile in tiles)
        if "combines" in op.row.traits:
            return self["vector.start"] + self["vector.reduce"] + size / self["vector.bytes"]
        return self.elements(work, size)

    def elements(self, work: str, size: int) -> float:
        """Cycles of the vector unit for `size` bytes of results of a kind of work."""
        rate = {"approximate": "special"}.get(work, work if f"vector.{work}" in self.figures else "int")
        return self["vector.start"] + size / (self["vector.bytes"] * self[f"vector.{rate}"])

    def product(self, m: int, n: int, k: int, bits: int) -> float:
        """Cycles of the cube: blocks of 16 x 16 x 16 halves, of which none is smaller."""
        block = int(self["tensor.block"])
        deep = max(1, 16 * block // bits)
        m, n, k = (ceil(extent / step) * step for extent, step in ((m, block), (n, block), (k, deep)))
        return self["tensor.start"] + m * n * k / self[f"tensor.macs_{max(8, min(bits, 32))}"]

    def copy(self, engine: str, to: str, size: int) -> float:
        """Cycles that an engine is busy with a copy, its way through global memory left out."""
        table = engine.lower()
        rate = self.get(f"{table}.{to}_bytes", 0.0) or self.get(f"{table}.bytes", 0.0)
        return self[f"{table}.start"] + (size / rate if rate else 0.0)
