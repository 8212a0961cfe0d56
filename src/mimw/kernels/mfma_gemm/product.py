"""A product of tiles in registers, by the quickest matrix instruction of the chip.

Input: operands, sums. Output: the sums with the product added. For example:

    acc = product(x, y, acc, FORM)          v_mfma_f32_16x16x32_f16 with acc in accumulation registers
                                            v_mfma_f32_16x16x128_f8f6f4 of fp8 on gfx950, with WHOLE_RATE
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@triton.constexpr_function
def format_of(dtype):
    """The name of fp8 as products with scales have it."""
    return {"fp8e4nv": "e4m3", "fp8e5": "e5m2"}[str(dtype)]


@mimw.jit
def product(x, y, acc, FORM: tl.constexpr):
    """acc + x y. fp8 goes by the instructions for scaled blocks, without scales: gfx950's others are those of gfx942 and half as
    fast."""
    if FORM.WHOLE_RATE:
        return tl.dot_scaled(x, None, format_of(x.dtype), y, None, format_of(y.dtype), acc)
    elif FORM.SUMS is None:
        return tl.dot(x, y, acc)
    else:
        return tlx.amd_scheduled_mfma(x, y, acc, "persistent")


@mimw.jit
def kept(acc, FORM: tl.constexpr):
    """Sums that stay where products left them until they are stored: together they do not fit the vector registers."""
    if FORM.WHOLE_RATE or FORM.SUMS is None:
        return acc
    else:
        return tlx.amd_register_resident(acc, "agpr")
