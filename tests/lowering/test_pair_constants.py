"""Golden: what our assembly tells the tensor cores of a pair's product is what Triton's own code for two CTAs tells them.

The grid is types x orders of both operands x swizzles x rows of a CTA. Our side is the function that emission calls.
"""

from __future__ import annotations

import pytest

from mimw.compiler.lowering.blackwell.matrices import instruction, kind, operand
from mimw.ir import types
from mimw.ir.layouts import NvmmaShared

from .native_pairs import BITS, Product, Told, native

ELEMENTS = {name: types.Scalar(name) for name in BITS}
SWIZZLES = (32, 64, 128)
KINDS = {"fp16": "f16", "bf16": "f16", "fp32": "tf32", "fp8e5": "f8f6f4", "fp8e4nv": "f8f6f4", "i8": "i8"}


def ours(product: Product) -> Told:
    element, bits = ELEMENTS[product.element], BITS[product.element]
    a_shape, b_shape = (product.rows, product.depth), (product.depth, product.columns // 2)
    a = operand(NvmmaShared(product.a_swizzle, bits, 2, not product.a_k_major), a_shape, a_shape, element, 1)
    b = operand(NvmmaShared(product.b_swizzle, bits, 2, product.b_k_major), b_shape, b_shape, element, 0)
    described = instruction(element, element, a.k_major, b.k_major, 2 * product.rows, product.columns)
    return Told(kind(element), described, *(tuple((step, one.high) for step in one.steps) for one in (a, b)))


def grid():
    for element, bits in BITS.items():
        orders = [(True, True)] if bits == 32 else [(True, True), (False, False), (True, False), (False, True)]
        for a_k_major, b_k_major in orders:
            for swizzle in SWIZZLES:
                for rows in (64, 128):
                    if not a_k_major and rows * bits < 8 * swizzle:
                        continue        # no buffer has a swizzle wider than its rows
                    # K of two swizzle widths, and columns of two in each CTA where 256 have so many, so that every stride is
                    # in use; the time that Triton takes grows with the bytes of the operands
                    width = swizzle * 8 // bits
                    yield Product(element, rows, max(64, min(256, 4 * width)), 2 * width, a_k_major, b_k_major, swizzle, swizzle)


@pytest.mark.long(but=list(map(str, list(grid())[::3])), everywhere=True)
@pytest.mark.parametrize("product", list(grid()), ids=str)
def test_the_constants_are_tritons(product):
    assert ours(product) == native(product)


@pytest.mark.parametrize("product", [
    Product("fp16", 64, 32, 32, False, False, 32, 32), Product("bf16", 128, 256, 128, True, False, 128, 64),
    Product("fp8e4nv", 128, 64, 64, False, True, 128, 64), Product("fp16", 128, 64, 64, True, False, 128, 64),
], ids=str)
def test_operands_of_one_stripe_and_of_two_swizzles(product):
    assert ours(product) == native(product)
