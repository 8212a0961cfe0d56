"""Two numbers of bf16 out of a 32-bit register by one instruction each.

Input: a tile. Output: the same in fp32. For example:

    x = unpacked(tlx.local_load(tile))          of bf16: a shift for the low half, a mask for the high one

ptxas makes two instructions of the conversion of a high half, one that takes it out and one that shifts it, and these kernels
read each number two or three times. Other types are converted as always.
"""

import triton.language as tl

import mimw

_HALVES = tl.constexpr("shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;")


@mimw.jit
def unpacked(tile):
    """The numbers of a tile in fp32."""
    if tile.dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(_HALVES, "=f,=f,r", [tile], tl.float32, True, 2)
    else:
        return tile.to(tl.float32)
