"""The costs of a compute unit of AMD's: matrix instructions by shape and type, and LDS by the width of a read.

Input: an op, or the bytes of an access. Output: cycles. For example, of an MI355X:

    costs = model("gfx950")
    costs.instruction("f16", 128, 128, 64)      Instruction(32, 32, 16, cycles=32)
    costs.product(op, 8)                        Product(cycles=512.0, share=1.0) of 128 x 128 x 64 halves: 64 instructions of 32
                                                cycles on four matrix cores
    costs.shared(16384, 16)                     64.0: 256 bytes a cycle for reads of 16 bytes a lane, 128 for all else

A matrix instruction has the matrix core of its SIMD for its cycles (figures `mfma.*`), and its wave goes on behind it. Which
instruction Triton picks is in `instruction`; tests/timing/test_predict_amd.py compares that with the machine code. docs/TIMING.md
says what is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ...compiler.analysis.waves import SIMDS, occupancy
from ...ir import Op
from ...ir.dot_scales import scales_of
from .model import Model, Product

# The matrix instructions by what Triton multiplies with them; fp8 is of two kinds, and each chip has one.
_FAMILIES = {"fp16": "f16", "bf16": "f16", "fp32": "f32", "fp64": "f64", "i8": "i8", "fp8e4nv": "ocp8", "fp8e5": "ocp8",
             "fp8e4b8": "fnuz8", "fp8e5b16": "fnuz8"}
_SIDES = (32, 16)
_WIDE = 8           # bytes of a lane from which a read of LDS is wide


@dataclass(frozen=True)
class Instruction:
    """A matrix instruction: rows, columns, depth, and how long its core is taken."""

    m: int
    n: int
    k: int
    cycles: float


class ComputeUnitModel(Model):
    """A `Model` of a chip with compute units in place of SMs."""

    core, programs = "compute unit", ("work-group", "work-groups")
    note = "predicted, never measured"
    reads_operands = True
    names = {"tensor": "matrix cores", "shared": "LDS bytes", "banks": "LDS banks", "DRAM": "HBM bandwidth"}

    # ---- matrix cores -----------------------------------------------------------------------------------------------

    def instruction(self, family: str, m: int, n: int, k: int) -> Instruction:
        """The instruction for a product of these extents: squares of 32 where both sides have so many, else of 16; the deepest that
        K fills."""
        wanted = [side for side in _SIDES if min(m, n) >= side] or [_SIDES[-1]]
        for side in (*wanted, *_SIDES):
            depths = self._depths(family, side)
            if depths:
                depth = max((one for one in depths if one <= k), default=min(depths))
                return Instruction(side, side, depth, depths[depth])
        return Instruction(0, 0, 0, self[f"mfma.{family}"])     # a TargetError that names the figure

    def _depths(self, family: str, side: int) -> dict[int, float]:
        """Depth -> cycles of the instructions of a family and a side."""
        head = f"mfma.{family}_{side}x{side}x"
        return {int(name.removeprefix(head)): figure.value for name, figure in self.figures.items() if name.startswith(head)}

    def product(self, op: Op, num_warps: int) -> Product:
        m, n = op.results[0].type.shape[-2:]
        family, k = self.family(op)
        used = self.instruction(family, m, n, k)
        tiles = ceil(m / used.m) * ceil(n / used.n)
        batch = op.results[0].type.numel // (m * n)
        each = ceil(tiles * batch / num_warps) * ceil(k / used.k) * used.cycles     # of one wave; spare waves repeat a tile
        return Product(each * ceil(num_warps / SIMDS), min(1.0, num_warps / SIMDS), used.cycles)

    def in_order(self, num_warps: int) -> bool:
        """Waves issue in order, and no instruction goes from one trip of a loop to another. One wave of a SIMD alone has all of its
        registers to read ahead, and is taken to do so."""
        return num_warps > SIMDS

    def family(self, op: Op) -> tuple[str, int]:
        """(which instructions, the depth) of a dot. Precisions of several narrower products (bf16x3) are taken as fp32's own, which
        they become in a kernel with words of ours."""
        a, b, k = op.a.type, op.b.type, op.a.type.shape[-1]
        if op.name == "dot_scaled":
            formats = {op.a_format.name, op.b_format.name}
            k = k * 2 if op.a_format.name == "E2M1" and op.a_k_pack else k
            narrow = formats <= {"E2M1", "E4M3", "E5M2"} and self._depths("scaled4", _SIDES[0])
            return ("scaled4" if formats == {"E2M1"} else "scaled8") if narrow else "f16", k
        family = _FAMILIES.get(a.element.name, "f16")
        if family == "f32":
            return "xf32" if op.precision.name == "TF32" and self._depths("xf32", _SIDES[0]) else family, k
        known = family == _FAMILIES.get(b.element.name) and (self._depths(family, 32) or self._depths(family, 16))
        return family if known else "f16", k

    # ---- LDS --------------------------------------------------------------------------------------------------------

    def shared(self, size: int, lane_bytes: float, reads: bool = True) -> float:
        """Cycles of LDS for an access of `size` bytes, of which a lane takes so many at once."""
        wide = reads and lane_bytes >= _WIDE
        return size / self["shared.wide_read_bytes" if wide else "shared.bytes"]

    def operand_reads(self, op: Op, num_warps: int) -> tuple[float, ...]:
        """Bytes that the waves of a task read of A and of B for a product, and of the scales of either if it has some: each wave
        those of its part of the result, which lies as nearly square as can be."""
        m, n = op.results[0].type.shape[-2:]
        rows = columns = 1
        while rows * columns < num_warps:
            if m / rows >= n / columns and m // rows > _SIDES[-1]:
                rows *= 2
            else:
                columns *= 2
        tiles = op.a, op.b, *scales_of(op)
        return tuple((rows if place % 2 else columns) * value.type.numel * value.type.element.bytes
                     for place, value in enumerate(tiles))

    # ---- the chip ---------------------------------------------------------------------------------------------------

    def residency(self, shared_bytes: int, warps: int, registers_per_thread: int, warp_size: int = 64,
                  columns: int = 0) -> tuple[int, str]:
        found = occupancy(registers_per_thread, warps, shared_bytes, int(self["chip.shared_bytes"]))
        return max(1, min(found.groups, int(self["chip.ctas"]))), found.by
