"""Tiles of indices read as constant + scalars + strides."""

import pytest
import triton.language as tl

from mimw.compiler.analysis.affine import Affine, affine
from mimw.compiler.analysis.uses import Uses
from tests.language.harness import Kernel


@pytest.fixture
def kernel():
    return Kernel()


def scalar(kernel):
    tensor = kernel.tensor("i", tl.int32)
    tensor.handle.name = "i"
    return tensor


def of(kernel, tensor):
    """The affine form of a tensor, with the names of its scalars."""
    kernel.builder.record("print", "", False, (tensor.handle, ), (False, ))
    uses = Uses(kernel.program())
    found = affine(uses, uses.ops[-1].args[2][0])
    return found and (found.constant, {value.name: factor for value, factor in found.terms}, found.strides)


def test_sums_products_and_shapes(kernel):
    s, i = kernel.semantic, scalar(kernel)
    rows = s.expand_dims(s.arange(0, 8), 1)
    cols = s.expand_dims(s.arange(4, 20), 0)
    at = s.add(s.add(s.mul(rows, 64, False), cols, False), s.mul(i, 3, False), False)
    assert of(kernel, at) == (4, {"i": 3}, (64, 1))
    assert of(kernel, s.permute(at, (1, 0))) == (4, {"i": 3}, (1, 64))
    assert of(kernel, s.sub(at, at, False)) == (0, {}, (0, 0))
    assert of(kernel, s.cast(s.sub(at, i, False), tl.int64)) == (4, {"i": 2}, (64, 1))


def test_what_has_no_form(kernel):
    s, i = kernel.semantic, scalar(kernel)
    range_ = s.arange(0, 8)
    assert of(kernel, s.mul(range_, range_, False)) is None and of(kernel, s.mul(range_, i, False)) is None
    assert of(kernel, kernel.tensor("x", tl.int32, 8)) is None


def test_any_scalar_is_a_term(kernel):
    s, i = kernel.semantic, scalar(kernel)
    square = s.mul(i, i, False)
    square.handle.name = "square"
    assert of(kernel, s.add(square, 1, False)) == (1, {"square": 1}, ())


def test_a_range_of_one_has_no_stride():
    assert Affine(3).plus(Affine(4), -1) == Affine(-1) and Affine(2, (), (1, )).times(3) == Affine(6, (), (3, ))
