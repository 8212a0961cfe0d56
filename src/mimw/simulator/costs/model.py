"""A chip's cost model: figures with their sources, and the few formulas that make times of them.

Input: a target; then an op, whose row says what kind of work it is. Output: cycles, by unit of the SM. For example:

    costs = model("sm_90a")
    costs["tensor.latency"]                   a figure of costs/sm_90a.toml
    costs.tile(op)                            {"issue": 39.0} for a `fadd` of 4096 numbers

Times are SM cycles. Work is charged to units of the SM (`issue`, `special`, `shared`, `tensor`, `tensor memory`, `rows`, `inbound`,
`outbound`) and to the SM's share of what all SMs have together (`L2`, `DRAM`); `simulator/clock/machine.py` decides which task
gets a unit when.
docs/TIMING.md lists what the formulas leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType

from ...errors import TargetError
from ...ir import Op, Program, Tensor
from ...ir.types import Buffer

_QUARTERS = 4                            # of an SM: a task of fewer warps reaches only that many of them
_WARPGROUP_ROWS = 64                    # of an instruction of a Hopper warpgroup (PTX ISA, wgmma.mma_async)
SWIZZLE = 128                          # bytes of a row that one copy into a swizzled buffer takes at most
_COLUMNS, _K_BITS = 256, 256            # the most columns, and the bits along K, of an instruction (PTX ISA, tcgen05.mma)
# Kinds of work, as the rows of the op table name them: those that take no unit of the SM, and those with a rate of their own.
_FREE, _RATES = ("free", "move"), ("float", "compare", "convert")


@dataclass(frozen=True)
class Figure:
    """One number of a data file, its unit and where it comes from."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Product:
    """`cycles` from the start of a product to its end, the `share` of the tensor cores that work all that time, and the cycles of
    an `instruction` of it, where that is known."""

    cycles: float
    share: float = 1.0
    instruction: float = 0.0


@dataclass(frozen=True)
class Model:
    """The figures of one chip by dotted name, such as `tma.load_latency`."""

    target: str
    chip: str
    figures: Mapping[str, Figure]

    core, programs = "SM", ("CTA", "CTAs")      # what runs programs, and what these are called
    engines = False                             # True where a core's engines take their work in turn (`costs.engines`)
    reads_operands = False                      # True where products take operands out of registers only (`costs.compute_units`)
    note = ""                                   # what is said of every time that is predicted
    names = MappingProxyType({})                # what units are called, where that is not as on an SM

    def __getitem__(self, name: str) -> float:
        if name not in self.figures:
            raise TargetError(f"the cost model of {self.target} ({self.chip}) has no figure {name!r}: nothing was published or "
                              f"measured for it. mimw/simulator/costs/{self.target}.toml is where it would stand")
        return self.figures[name].value

    def get(self, name: str, other: float) -> float:
        return self.figures[name].value if name in self.figures else other

    # ---- arithmetic -------------------------------------------------------------------------------------------------

    def scalar(self, op: Op) -> float:
        """Cycles of an op on single numbers, which every thread of the task does for itself."""
        if op.row.cost in _FREE:
            return 0.0
        return self["issue.division" if op.row.cost == "division" else "issue.scalar"]

    def tile(self, op: Op, fused: bool = False, parts: int = 1) -> dict[str, float]:
        """Unit -> cycles that an element-wise op or a reduction occupies it. `fused`: a product that ends in the sum after it;
        `parts`: of one of so many parts of the tile."""
        work = op.row.cost
        if work in _FREE or fused:
            return {}
        elements = max(value.type.numel for value in (*op.results, *op.operands) if isinstance(value.type, Tensor)) / parts
        if "combines" in op.row.traits:
            compares = any(inner.row.cost == "compare" for block in op.blocks for inner in block.ops)
            rate = self["rate.compare" if compares else "rate.float"]
            return {"issue": elements / rate * len(op.results) + self["issue.reduce"]}
        if work in ("special", "approximate"):
            return {"special": elements / self["rate.special"], "issue": elements / self["rate.float"]}
        if work == "division":
            return {"issue": elements * self["issue.division"] / self["rate.int"]}
        return {"issue": elements / self[f"rate.{work if work in _RATES else 'int'}"]}

    def slowdown(self, num_warps: int) -> float:
        """The factor by which a task of so many warps takes longer for its work than the whole SM would."""
        return max(1.0, _QUARTERS / num_warps)

    def in_order(self, num_warps: int) -> bool:
        """True if what a task of so many warps asks memory for comes behind the products of earlier trips of its loop."""
        return False

    # ---- tensor cores -----------------------------------------------------------------------------------------------

    def product(self, op: Op, num_warps: int) -> Product:
        """The time of the tensor cores for a dot of tiles, or of tiles and buffers."""
        a, b = op.a.type, op.b.type
        m, n = op.results[0].type.shape[-2:]
        k = a.shape[-1]
        operands = self.shared_operands(m, n, k, a.element.bits, b.element.bits, isinstance(a, Buffer))
        return Product(self.dot(m, n, k, a.element.bits, operands))

    def shared(self, size: int, lane_bytes: float, reads: bool = True) -> float:
        """Cycles of shared memory for an access of `size` bytes, of which a lane takes so many at once."""
        return size / self["shared.bytes"]

    def dot(self, m: int, n: int, k: int, bits: int, shared_bytes: int, ctas: int = 1) -> float:
        """Cycles of the SM's tensor cores, or of shared memory if its `shared_bytes` of operands take longer. Of a product of
        several CTAs, `m` rows are those of all of them, and each has its part of the work and the bytes."""
        rows = max(m / ctas, self.get("tensor.rows", 0.0) / ctas)
        return max(rows * n * k / self[f"tensor.macs_{bits}"], shared_bytes / self["tensor.operand_bytes"])

    def shared_operands(self, m: int, n: int, k: int, a_bits: int, b_bits: int, a_shared: bool) -> float:
        """Bytes that a product reads from shared memory: B once for the rows of each instruction, A if it lies there."""
        groups = max(1.0, m // self.get("tensor.rows", _WARPGROUP_ROWS))
        return (groups * b_bits * n * k + a_shared * a_bits * m * k) / 8

    def instructions(self, m: int, n: int, k: int, bits: int) -> int:
        """The number of instructions of one thread that a product in tensor memory takes, at most 128 x 256 and 32 bytes of K
        each."""
        return ceil(m / self["tensor.rows"]) * ceil(n / _COLUMNS) * ceil(k * bits / _K_BITS)

    # ---- tensor memory ----------------------------------------------------------------------------------------------

    def tensor_memory(self, size: int, num_warps: int, direction: str) -> float:
        """Cycles in which `num_warps` warps load or store (`direction`) a tile of `size` bytes: a warp reaches the lanes of a
        quarter of tensor memory, and warps of one quarter share its bytes a cycle."""
        return size / (self[f"tensor_memory.{direction}_bytes"] * min(num_warps, _QUARTERS))

    # ---- copies -----------------------------------------------------------------------------------------------------

    def row_copies(self, rows: int, row_bytes: int) -> int:
        """The number of instructions that copy single rows by TMA: one takes so many of them, and a swizzle's width of each."""
        return ceil(rows / self["tma.rows"]) * ceil(row_bytes / SWIZZLE)

    # ---- the chip ---------------------------------------------------------------------------------------------------

    @property
    def sms(self) -> int:
        return int(self["chip.sms"])

    def cores(self, program: Program) -> int:
        """The number of SMs that run programs at the same time."""
        return self.sms

    def residency(self, shared_bytes: int, warps: int, registers_per_thread: int, warp_size: int = 32,
                  columns: int = 0) -> tuple[int, str]:
        """(CTAs that an SM holds at once, what limits them); `columns` are those of tensor memory."""
        limits = {
            "shared memory": int(self["chip.shared_bytes"] // max(1, shared_bytes + self["chip.shared_reserved"])),
            "warps": int(self["chip.warps"] // warps),
            "registers": int(self["chip.registers"] // (warp_size * warps * registers_per_thread)),
            "the most CTAs of an SM": int(self["chip.ctas"]),
        }
        if columns:
            limits["tensor memory"] = int(self["chip.tensor_columns"] // columns)
        by = min(limits, key=limits.get)
        return max(1, limits[by]), by
