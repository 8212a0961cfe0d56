"""The layouts of tiles and buffers of which no op demands another.

Input: a shape, an element, the warps. Output: a layout; `default_blocked((128, 64), 4)` is

    blocked([1, 1], [1, 32], [2, 2], [1, 0])        the last dimension fastest, over lanes, then over warps

They are Triton's own defaults, so its passes (coalesce, remove_layout_conversions) start where they are used to start.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ...ir.layouts import Blocked, NvmmaShared, SharedLayout, SwizzledShared
from ...ir.types import Element

_NVMMA_BITS = (8, 16, 32)


@lru_cache(maxsize=4096)
def default_blocked(shape: tuple[int, ...], num_warps: int, warp_size: int = 32) -> Blocked:
    """One element a thread, the last dimension fastest, lanes and warps given out from the fastest dimension on.

    `shape`, `num_warps` and `warp_size` are powers of two. The slowest dimension takes what is left, so the lanes
    always multiply to `warp_size` and the warps to `num_warps`; a tile with fewer elements than that is replicated.
    The same as the blocked encoding of `convert-triton-to-tritongpu`.
    """
    rank = len(shape)
    order = tuple(reversed(range(rank)))
    threads, warps = [1] * rank, [1] * rank
    lanes_left, warps_left = warp_size, num_warps
    for dim in order[:-1]:
        across = min(shape[dim], lanes_left * warps_left)
        threads[dim] = min(across, lanes_left)
        warps[dim] = min(across // threads[dim], warps_left)
        lanes_left //= threads[dim]
        warps_left //= warps[dim]
    threads[order[-1]], warps[order[-1]] = lanes_left, warps_left
    return Blocked((1, ) * rank, tuple(threads), tuple(warps), order)


def nvmma_shared(shape: tuple[int, ...], element: Element, transposed: bool = False) -> NvmmaShared:
    """The NV-MMA layout with the widest swizzle that rows of `shape` fill; a TMA descriptor of that block gets it.

    Rows of 128, 64 or 32 bytes (or multiples) swizzle; other rows, fewer than 8 rows and rank 1 do not. `transposed`
    makes the first dimension the contiguous one. The same as Gluon's `NVMMASharedLayout.get_default_for`.
    """
    extents = (*shape[1:], shape[0]) if transposed else shape
    row_bytes = extents[-1] * element.bits // 8
    swizzle = next((width for width in (128, 64, 32) if row_bytes >= width and row_bytes % width == 0), 0)
    if len(shape) < 2 or prod(extents[:-1]) < 8:
        swizzle = 0
    return NvmmaShared(swizzle, element.bits, len(shape), transposed)


def plain_shared(rank: int) -> SwizzledShared:
    """Rows without swizzle, the last dimension fastest."""
    return SwizzledShared(1, 1, 1, tuple(reversed(range(rank))))


def holds_nvmma(element: Element) -> bool:
    """True if the NV-MMA layout is defined for this element: 8, 16 or 32 bits."""
    return element.bits in _NVMMA_BITS


def default_shared(shape: tuple[int, ...], element: Element, tensor_cores: bool = True) -> SharedLayout:
    """The layout of a buffer without wishes: NV-MMA from rank 2 on where the element allows it, else plain rows."""
    if tensor_cores and len(shape) >= 2 and holds_nvmma(element):
        return nvmma_shared(shape, element)
    return plain_shared(len(shape))
