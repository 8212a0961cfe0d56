"""Golden: what our assembly tells the tensor cores of a pair's block-scaled product, and of its copies to tensor memory, is what
Triton's own code for two CTAs tells them.

The grid is formats x orders of both operands x swizzles, 128 rows in each CTA. Our side are the functions that emission calls.
"""

from __future__ import annotations

import pytest

from mimw.compiler.lowering.blackwell.matrices import operand, packed_scales, scaled_instructions, scaled_kind
from mimw.ir import types
from mimw.ir.layouts import NvmmaShared

from .native_scaled_pairs import ScaledProduct, Told, native, native_tile

BYTE, WORD, ROWS = types.Scalar("i8"), types.Scalar("i32"), 128
SWIZZLES = (32, 64, 128)


def ours(product: ScaledProduct) -> Told:
    width_a, width_b = (product.depth // (1 + (one == "e2m1")) for one in (product.a_format, product.b_format))
    a_shape, b_shape = (ROWS, width_a), (width_b, product.columns // 2)
    padded = [product.mixed and one == "e2m1" for one in (product.a_format, product.b_format)]
    a = operand(NvmmaShared(product.a_swizzle, 8, 2, not product.a_k_major, padded[0]), a_shape, a_shape, BYTE, 1)
    b = operand(NvmmaShared(product.b_swizzle, 8, 2, product.b_k_major, padded[1]), b_shape, b_shape, BYTE, 0)
    told = list(scaled_instructions(product.a_format, product.b_format, product.block, a.k_major, b.k_major, 2 * ROWS,
                                    product.columns, (ROWS, product.columns), len(a.steps)))
    scales = product.depth // product.block
    copies = tuple(tuple(packed_scales(rows, scales)) if rows >= ROWS else () for rows in (ROWS, product.columns))
    return Told(scaled_kind(product.a_format, product.b_format, product.block), tuple(one.instruction for one in told),
                *(tuple((step, one.high) for step in one.steps) for one in (a, b)),
                tuple((one.a_scale, one.b_scale) for one in told), copies)


def grid():
    for a_k_major, b_k_major in ((True, True), (False, False), (True, False), (False, True)):
        for swizzle in SWIZZLES:        # K of two swizzle widths, and columns of two in each CTA
            yield ScaledProduct("e4m3", "e4m3", 32, 256, max(128, 2 * swizzle), a_k_major, b_k_major, swizzle, swizzle)
    yield ScaledProduct("e5m2", "e4m3")
    yield ScaledProduct("e4m3", "e5m2")
    for block in (32, 16):              # mxfp4, nvfp4
        for swizzle in SWIZZLES:
            yield ScaledProduct("e2m1", "e2m1", block, 256, max(256, 4 * swizzle), True, True, swizzle, swizzle)
    for k_major in (True, False):       # fp4 beside fp8 is padded, and that has one swizzle
        for swizzle in SWIZZLES:
            yield ScaledProduct("e2m1", "e4m3", 32, 256, 256, True, k_major, 128, swizzle)
            yield ScaledProduct("e5m2", "e2m1", 32, 256, 256, k_major, True, swizzle, 128)


@pytest.mark.long(everywhere=True, but=[
    "e2m1-e2m1-16-256x256-K64-K64", "e2m1-e2m1-16-256x512-K128-K128", "e2m1-e2m1-32-256x256-K32-K32",
    "e2m1-e2m1-32-256x512-K128-K128", "e2m1-e4m3-32-256x256-K128-MN64", "e4m3-e4m3-32-256x128-K32-MN32",
    "e4m3-e4m3-32-256x128-MN32-K32", "e4m3-e4m3-32-256x256-K128-MN128", "e4m3-e4m3-32-256x256-MN128-K128",
    "e4m3-e5m2-32-128x256-K128-K128", "e5m2-e2m1-32-256x256-K128-K128", "e5m2-e2m1-32-256x256-MN32-K128",
    "e5m2-e4m3-32-128x256-K128-K128"])
@pytest.mark.parametrize("product", list(grid()), ids=str)
def test_the_constants_are_tritons(product):
    assert ours(product) == native(product)


@pytest.mark.parametrize("product", [
    ScaledProduct("e4m3", "e4m3", 32, 16), ScaledProduct("e4m3", "e4m3", 32, 32), ScaledProduct("e2m1", "e2m1", 16, 64),
    ScaledProduct("e2m1", "e2m1", 32, 128, 512), ScaledProduct("e5m2", "e5m2", 32, 128, 512),
], ids=str)
def test_narrow_products_and_deep_ones(product):
    assert ours(product) == native(product)


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_tiles_that_are_copied(swizzle):
    shape = (ROWS, 64)
    tile = operand(NvmmaShared(swizzle, 32, 2), shape, shape, WORD, 1)
    assert [(tile.high, start, 8 * number) for number, start in enumerate(tile.steps)] == native_tile(swizzle, 64)
