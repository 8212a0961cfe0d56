"""The register layout of a Hopper tensor-core accumulator, from the tile's shape and the task's warps.

Input: the accumulator's type, an operand's element, K, the warps. Output: a layout; for fp32[128, 256] of bf16 on 8 warps

    mma(warps [8, 1], instruction m16 n256 k16)

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate": one instruction is m64 by N by 256 bits, issued by
four warps that hold 16 rows each.
"""

from __future__ import annotations

from ...errors import LayoutConflict
from ...ir.core import Op
from ...ir.extents import padded
from ...ir.layouts import Mma
from ...ir.site import Site
from ...ir.types import Scalar, Tensor

_ROWS_PER_WARP = 16
_ROWS = 64
_K_BITS = 256
_N = tuple(range(256, 0, -8))
_N_INT8 = tuple(n for n in _N if n <= 224 and (n % 16 == 0 or n in (8, 24)))
"""PTX: with 8-bit integers N is 8, 24 or a multiple of 16; Triton 3.9 emits no integer wgmma beyond N = 224."""


def accumulator_layout(acc: Tensor, operand: Scalar, depth: int, num_warps: int, site: Site) -> Mma:
    """The layout of accumulator `acc` (M, N) of a wgmma over K = `depth` elements `operand`, on `num_warps` warps.

    Warpgroups split the rows while each still has 64 of them, then the columns. Raises `LayoutConflict` when the
    warps are no whole warpgroups, when M is no multiple of 64 or K none of 256 bits, or when no instruction's N
    divides the columns of a warpgroup.
    """
    rows, columns = acc.shape
    step = _K_BITS // operand.bits
    if num_warps % 4:
        raise LayoutConflict(
            f"async_dot runs on whole warpgroups of 4 warps; this task has {num_warps} warps = "
            f"{num_warps // 4} * 4 + {num_warps % 4}.", site, hint="give the task num_warps=4 or 8.")
    if rows % _ROWS:
        raise LayoutConflict(f"async_dot makes {_ROWS} rows at a time; the accumulator {acc} has M = {rows}.", site,
                             hint="use a tile with M a multiple of 64.")
    if depth % step:
        raise LayoutConflict(
            f"async_dot takes {_K_BITS} bits of K at a time, {step} elements of {operand}; K = {depth}.", site,
            hint=f"use a tile with K a multiple of {step}.")
    down = num_warps
    while down > 4 and down * _ROWS_PER_WARP > rows:
        down //= 2
    across = num_warps // down
    share = columns // across
    sizes = _N_INT8 if operand.name == "i8" else _N
    n = next((n for n in sizes if n <= share and columns % (n * across) == 0), None)
    if n is None:
        raise LayoutConflict(
            f"no wgmma fits: N = {columns} over {across} warpgroup{'s' * (across > 1)} side by side gives {share} "
            f"columns each, and an instruction takes a multiple of 8.", site, hint="use a wider tile or fewer warps.")
    return Mma((down, across), (_ROWS_PER_WARP, n, step))


def padded_accumulator(op: Op, num_warps: int) -> Mma:
    """The layout of the accumulator of a product of which an extent is no power of two: that of the exact product, as wide as the
    tile that holds it. Its warps are all one below the other, since a share of the columns would be none of the instruction's."""
    a, _, result = op.attrs["exact"]
    exact = accumulator_layout(result, a.element, a.shape[-1], num_warps, op.site)
    if exact.warps[1] > 1:
        raise LayoutConflict(f"async_dot of {result} on {num_warps} warps: of {result.shape[0]} rows {result.shape[0] // 64} "
                             "warpgroups have 64 each, and columns that are no power of two are not shared out.", op.site,
                             hint=f"give the task {result.shape[0] // 16} warps.")
    rows, columns, depth = exact.instruction
    if columns != result.shape[1]:
        raise LayoutConflict(f"no wgmma of {a.element} has {result.shape[1]} columns: it has a multiple of 8 up to 256, of 8-bit "
                             "integers 8, 24 or a multiple of 16 up to 224.", op.site, hint="take such a number of columns.")
    return Mma(exact.warps, (rows, padded(result.shape)[1], depth))


def operand_k_width(operand: Scalar) -> int:
    """The number of consecutive K elements in one register of a register operand: as many as fit into 32 bits."""
    return 32 // operand.bits
