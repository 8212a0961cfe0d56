"""GEMM for AMD's matrix cores, on gfx942, gfx950 and gfx1250: fp16, bf16 and fp8, fp32 sums, and what is done to them then.

Input: a (M, K) and b (K, N). Output: c = act(alpha row_scale column_scale a b + bias), (M, N). For example:

    grid, args, meta = arguments(a, b, c, "gfx950")         of numpy arrays or torch tensors
    kernel[grid](*args, **meta)                             or mimw.simulate(kernel, grid, *args, target="gfx950", **meta)
    arguments(a, b, c, "gfx950", INTERLEAVED["gfx950"][2], bias=bias, activation="gelu")

Two main loops: eight waves in ping-pong, and four that interleave (`Configuration.form`). `mimw.ops.matmul` and `scaled_mm` are its
operators. Nothing was measured (docs/AMD.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..contract import Contract
from ..contract.memory import strides
from ..contract.types import named
from ..contract.types import of as type_of
from ..gemm import ACTIVATIONS, epilogue_of
from ..gemm.tiles import Sizes
from .configs import CONFIGURATIONS, INTERLEAVED, PIECE_BYTES, Configuration, configuration
from .kernel import mfma_gemm as kernel

TYPES = "bf16|fp16|fp8|fnuz8"
CONTRACT = Contract(f"a: {TYPES} (M, K) rows", "b: =a|fp8|fnuz8 (K, N)", "c: bf16|fp16|fp32 (M, N) rows",
                    "bias?: float (N) contiguous", "row_scale?: fp32 (M|1) contiguous", "column_scale?: fp32 (N|1) contiguous",
                    f"activation in {ACTIVATIONS} -- it may be {', '.join(map(str, ACTIVATIONS))}")
REACH = 1 << 31     # bytes from a tile's first element to its last one: offsets of buffer words
FP8 = {"gfx942": "fnuz8", "gfx950": "fp8", "gfx1250": "fp8"}    # the words of contracts for what the chip multiplies

__all__ = ["CONFIGURATIONS", "CONTRACT", "FP8", "INTERLEAVED", "Configuration", "arguments", "configuration", "kernel"]


class Steps(NamedTuple):
    """Elements from row to row of A, B and C in memory, in the pieces of their operands."""

    a: Any
    b: Any
    c: Any


def arguments(a, b, c, chip: str, chosen: Configuration | None = None, *, bias=None, row_scale=None, column_scale=None,
              alpha: float = 1.0, activation: str | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = act(alpha row_scale column_scale a b + bias), by default c = a b.

    args:      a         (M, K), rows contiguous: bf16, fp16; fp8 e4m3 or e5m2 as the chip has it: on gfx942 the
                         `fnuz` ones, else OCP's
               b         (K, N) of a's type, fp8 of either kind; rows or columns contiguous. gfx942 reads columns, `x.T` of an
                         (N, K), 16 bytes at once, and rows element by element
               c         (M, N), rows contiguous: bf16, fp16, fp32
               chip      "gfx942", "gfx950" or "gfx1250"
               chosen    by default a configuration for the number of tiles
               bias      (N, ) bf16, fp16 or fp32, added to each row
               row_scale, column_scale     fp32, (M, ) and (N, ), or one element for all rows, or columns
               alpha, activation           a number; None, relu, gelu (by erf), gelu_tanh or silu; all is computed in fp32
    copies:    16 bytes a lane (gfx942: 4) where rows are multiples of 16 bytes apart and K is one of 16 bytes or of a whole chunk;
               else through registers, slower and right
    errors:    ValueError where a shape, a stride, a type or the chip does not fit, with the numbers
    """
    of = CONTRACT.check(a=a, b=b, c=c, bias=bias, row_scale=row_scale, column_scale=column_scale, activation=activation)
    if chip not in CONFIGURATIONS:
        raise ValueError(f"chip is {chip!r}; it may be {' or '.join(CONFIGURATIONS)}")
    for name, array in (("a", a), ("b", b)):
        if array.dtype.itemsize == 1 and type_of(array) not in named(FP8[chip]):
            raise ValueError(f"{name} is {array.dtype}; {chip} multiplies {' and '.join(named(FP8[chip]))}")
    b, b_is_nk = _lying(b)
    steps = tuple(_step(one) for one in (a, b, c))
    chosen = chosen or configuration(chip, of.M, of.N, a.dtype.itemsize,
                                     not any(one * a.dtype.itemsize % PIECE_BYTES for one in (*steps[:2], of.K, *b.shape[1:])))
    _reaches(chosen, steps, b_is_nk, a.dtype.itemsize, c.dtype.itemsize)
    more, constants = epilogue_of(c, bias, None, row_scale, column_scale, alpha, 1.0, activation, None)
    form = chosen.form_for(chip, (of.M, of.N, of.K), a.dtype.itemsize, b_is_nk, steps, c.dtype.itemsize, **constants)
    pieces = form.a.PIECE.value, form.b.PIECE.value, form.C_PIECE.value
    args = (a, b, c, Sizes(of.M, of.N // form.N_PIECE.value, of.K // form.K_PIECE.value),
            Steps(*(step // piece for step, piece in zip(steps, pieces))),
            *(more.get(name) for name in ("bias", "row_scale", "column_scale", "alpha")))
    tiles = -(-of.M // chosen.bm) * -(-of.N // chosen.bn)
    return (tiles, ), args, {"FORM": form, "num_warps": chosen.waves}


def _lying(b: Any) -> tuple[Any, bool]:
    """(b as it lies in memory, True if that is by columns: (N, K))."""
    row, column = strides(b)
    by_columns = row == 1 and column != 1 or b.shape[1] == 1
    if not by_columns and column != 1:
        raise ValueError(f"b must have contiguous rows or columns; its strides are {row} and {column} elements")
    return (b.T, True) if by_columns else (b, False)


def _step(array: Any) -> int:
    """Elements from row to row; of one row as many as it has."""
    return int(strides(array)[0]) if array.shape[0] > 1 else int(array.shape[1])


def _reaches(chosen: Configuration, steps: tuple[int, int, int], b_is_nk: bool, size: int, out_size: int) -> None:
    """ValueError where a tile reaches further than an offset."""
    rows = chosen.bm, chosen.bn if b_is_nk else chosen.bk, chosen.bm
    for name, step, count, each in zip("abc", steps, rows, (size, size, out_size)):
        if not 0 <= step * each * (count + 1) < REACH:
            raise ValueError(f"rows of {name} are {step * each} bytes apart, and a tile has {count} of them; offsets within a tile "
                             f"end at {REACH}")
