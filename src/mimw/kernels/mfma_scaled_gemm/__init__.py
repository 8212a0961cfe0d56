"""Products in microscaling formats on gfx950: mxfp4, mxfp8, and one by the other, with fp32 sums.

Input: a (M, K) and b (N, K) of fp4, two in a byte, or fp8, with an e8m0 scale for 32 numbers of a row. Output: c (M, N). So:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b)         of numpy arrays or torch tensors
    kernel[grid](*args, **meta)                                     the launch; mimw.simulate(kernel, grid, *args, **meta)
    arguments(a, b, c, shuffled(scale_a), shuffled(scale_b), are_shuffled=True)

Formats are those of OCP's "Microscaling Formats (MX) v1.0". Nothing here has run on a chip.
"""

from __future__ import annotations

from typing import Any

from ..contract import Contract
from ..contract.memory import strides
from ..contract.types import of as type_of
from .configs import Configuration, configuration
from .kernel import mfma_scaled_gemm as kernel
from .nouns import BLOCK, Sizes, StepsOfAll

FORMATS = {"uint8": "e2m1", "float4_e2m1fn_x2": "e2m1", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
TILE = 32, 8        # rows and scales of each that lie together, if they are shuffled
ONE = 127           # the scale 1


def _contract(*scales: str) -> Contract:
    return Contract("a: u8|e2m1x2|fp8 (M, K // packed_a) to-lds", "b: u8|e2m1x2|fp8 (N, K // packed_b) to-lds",
                    "c: float (M, N) rows", *scales, "K % 128 == 0 -- pad the rows with zeros to a multiple of 128 numbers",
                    "reach < 2**31 -- the rows of a tile lie over so many bytes, and a copy reaches 2^31",
                    "min(bm, bn) >= least -- a tile has so many rows and columns at least, or waves would have none")


CONTRACTS = {
    False: _contract(f"scale_a: u8|e8m0 (M, K // {BLOCK}) to-lds-4", f"scale_b: u8|e8m0 (N, K // {BLOCK}) to-lds-4"),
    True: _contract("scale_a: u8|e8m0 (cdiv(M, 32), cdiv(K, 256) * 256) to-lds-4",
                    "scale_b: u8|e8m0 (cdiv(N, 32), cdiv(K, 256) * 256) to-lds-4",
                    "packed_a == packed_b == 2 -- scales of fp8 lie by rows: its tiles have four scales of a row")}

__all__ = ["CONTRACTS", "Configuration", "arguments", "configuration", "in_bytes", "kernel", "shuffled", "takes"]


def arguments(a, b, c, scale_a, scale_b, chosen: Configuration | None = None, *,
              are_shuffled: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) of c = a b^T, where number k of row m of a counts 2^(scale_a[m, k // 32] - 127) times, and of b alike.

    args:      a, b       (M, K) and (N, K): fp4 e2m1 packed in pairs along K, the first in the low half of a byte, as (M, K / 2) of
                          uint8 or float4_e2m1fn_x2; or fp8 e4m3 or e5m2. Rows contiguous, a multiple of 16 bytes from one to the
                          next. K a multiple of 128: then 16 bytes of a row, and four scales, are inside or outside as a whole
               c          (M, N), rows contiguous; bf16, fp16 or fp32
               scale_a    (M, K / 32) e8m0, as uint8 or float8_e8m0fnu: rows contiguous, multiples of 4 bytes from one to the next;
                          255 is NaN. scale_b (N, K / 32)
               chosen     by default by the number of tiles
               are_shuffled   both scales are as `shuffled` gives them, of fp4 by fp4 only
    errors:    ValueError where a shape, a stride, an address or a type is not what the copies and the matrix cores take
    """
    formats = a_format, b_format = tuple(FORMATS.get(type_of(one), "e4m3") for one in (a, b))
    packed_a, packed_b = (2 if one == "e2m1" else 1 for one in formats)
    chosen = chosen or configuration(a.shape[0], b.shape[0])
    reach = max(chosen.bm, chosen.bn) * max(_step(one) * one.dtype.itemsize for one in (a, b, c))
    of = CONTRACTS[are_shuffled].check(a=a, b=b, c=c, scale_a=scale_a, scale_b=scale_b, packed_a=packed_a, packed_b=packed_b,
                                       K=a.shape[-1] * packed_a, reach=reach, bm=chosen.bm, bn=chosen.bn,
                                       least=chosen.least(are_shuffled))
    steps = StepsOfAll(*map(_step, (a, b, c)), *(_step(one) // 4 for one in (scale_a, scale_b)))
    tiles = -(-of.M // chosen.bm) * -(-of.N // chosen.bn)
    meta = chosen.meta(of.K, a_format, b_format, are_shuffled)
    return (tiles, ), (in_bytes(a), in_bytes(b), c, in_bytes(scale_a), in_bytes(scale_b), Sizes(of.M, of.N, of.K), steps), meta


def takes(a, b, c, scale_a, scale_b) -> bool:
    """True if `arguments` takes them."""
    try:
        arguments(a, b, c, scale_a, scale_b)
    except ValueError:
        return False
    return True


def shuffled(scales: Any) -> Any:
    """Scales (rows, K / 32) in the order in which lanes take them: (rows / 32, K) bytes, both rounded up by scales of 1.

    Of 32 rows and 8 scales of each, 256 bytes: byte 4 (16 g + r) + 2 h + s is the scale of row 16 s + r and group 4 h + g, so
    that a lane reads those of four instructions as one word.
    """
    rows, groups = scales.shape
    (tall, wide), scales = TILE, in_bytes(scales)
    blocks, lines = -(-rows // tall), -(-groups // wide)
    if (rows, groups) != (blocks * tall, lines * wide):
        whole = _filled(scales, (blocks * tall, lines * wide))
        whole[:rows, :groups] = scales
        scales = whole
    parts = scales.reshape(blocks, 2, 16, lines, 2, 4)
    order = 0, 3, 5, 2, 4, 1
    turned = parts.permute(order) if hasattr(parts, "permute") else parts.transpose(order)
    flat = turned.reshape(blocks, lines * 256)
    return flat.contiguous() if hasattr(flat, "contiguous") else flat


def in_bytes(array: Any) -> Any:
    """The same memory as uint8."""
    if type_of(array) == "uint8":
        return array
    if hasattr(array, "data_ptr"):
        import torch
        return array.view(torch.uint8)
    return array.view("uint8")


def _filled(like: Any, shape: tuple[int, int]) -> Any:
    if hasattr(like, "new_full"):
        return like.new_full(shape, ONE)
    import numpy
    return numpy.full(shape, ONE, numpy.uint8)


def _step(array: Any) -> int:
    """Elements from one row to the next; of one row its length, since its stride may be anything."""
    return strides(array)[0] if array.shape[0] > 1 else array.shape[-1]
