"""Copies past the registers into AMD's shared memory (LDS): may a copy be one, as its pointers and its buffer lie?

Input: the layout of a copy's pointers, that of its buffer, the tile and the chip. Output: true or false. For example, on gfx950 for
fp16[64, 64] on 4 waves, where a wave writes 64 pieces of 16 bytes one after the other:

    blocked([1, 8], [8, 8], ..), plain rows              True: the lanes of a wave follow each other in the buffer
    the same, rows padded after each 64 elements         False: a wave's 512 elements would have gaps

On gfx9 the wave has one address in LDS, and lane i writes its piece i pieces behind it; so the pieces of a wave lie together (LLVM
AMDGPU, global_load_lds and buffer_load with lds), and a tile with less than a piece for each lane goes through registers. Swizzles
move lanes within such a range, by other addresses in global memory: of at most `vector` elements at a time. On gfx1250 each lane
has an address in LDS of its own.
"""

from __future__ import annotations

from ...ir.layouts import LinearShared, PaddedShared, RegisterLayout, SharedLayout, SwizzledShared
from ...ir.linear import linear_of
from ...target import Target

_LANE_ADDRESSES = "gfx12"


def fits(pointers: RegisterLayout | None, buffer: SharedLayout | None, shape: tuple[int, ...], size: int, chip: Target,
         allocated: tuple[int, ...] | None = None) -> bool:
    """True if the chip can copy elements of `size` bytes so. A layout of None is one of a kind that is not known; `allocated` are
    the extents of the whole buffer, if the copy fills a part of one: the rows of half of its columns do not follow each other."""
    linear, bases = pointers and linear_of(pointers, shape), _bases(buffer, allocated or shape)
    if linear is None or bases is None:
        return False
    bits = min(_together(linear.registers, bases), _unswizzled(buffer), (max(chip.copy_pieces) // size).bit_length() - 1)
    if size << max(bits, 0) not in chip.copy_pieces:
        return False
    if chip.assembly == _LANE_ADDRESSES:
        return True
    lanes = linear.lanes
    return lanes == bases[bits:bits + len(lanes)] and _gap(buffer) >= 1 << bits + len(lanes)


def _bases(buffer: SharedLayout | None, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The coordinate that each bit of the offset in a buffer stands for, without padding and swizzles."""
    match buffer:
        case PaddedShared(_, bases, _) | LinearShared(bases, _):
            return bases if len(bases[0]) == len(shape) else None
        case SwizzledShared(_, _, _, order) if len(order) == len(shape):
            return tuple(tuple(1 << bit if at == axis else 0 for at in range(len(shape)))
                         for axis in order for bit in range(shape[axis].bit_length() - 1))
    return None


def _together(registers, bases) -> int:
    """The bits of the register number that step through elements which lie side by side."""
    return next((bit for bit, (have, want) in enumerate(zip(registers, bases)) if have != want), min(len(registers), len(bases)))


def _unswizzled(buffer: SharedLayout) -> int:
    """The bits of an offset that no swizzle takes apart."""
    swizzled = isinstance(buffer, SwizzledShared) and buffer.max_phase > 1
    return buffer.vector.bit_length() - 1 if swizzled else 64


def _gap(buffer: SharedLayout) -> int:
    """The elements from one gap of a padded buffer to the next."""
    return min(interval for interval, _ in buffer.pairs) if isinstance(buffer, PaddedShared) else 1 << 64
