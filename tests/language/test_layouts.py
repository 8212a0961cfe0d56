"""Layouts as plain values: constructors, defaults, checks, and what they become in the IR."""

import copy
import dataclasses
import pickle

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.ir.layouts import NvmmaShared, SwizzledShared


def test_swizzled_layout():
    layout = tlx.swizzled_layout(3, 4, 3)
    assert (layout.maxPhase, layout.vectorSize, layout.order) == (8, 16, None)
    assert layout == tlx.swizzled_layout(tl.constexpr(3), 4, shift=3) and hash(layout) == hash(tlx.swizzled_layout(3, 4, 3))
    assert layout != tlx.swizzled_layout(3, 4, 4)
    assert tlx.swizzled_layout.make_default(3) == tlx.swizzled_shared_layout_encoding.make_default(3)
    assert isinstance(layout.make_default(), tlx.swizzled_shared_layout_encoding) and layout.make_default().order == [1, 0]
    assert layout.to_ir((64, 32), 16) == SwizzledShared(16, 4, 8, (1, 0))
    assert tlx.swizzled_layout.make_default(2).to_ir((64, 32), 16) == SwizzledShared(1, 1, 1, (1, 0))


@pytest.mark.parametrize("layout, shape, expected", [
    (tlx.swizzled_layout(3, 3, 3), [64, 64], (8, 1, 8, [1, 0])), (tlx.swizzled_layout(2, 3, 3), [64, 32], (8, 2, 4, [1, 0])),
    (tlx.swizzled_layout(3, 3, 3, [0, 1]), [64, 16], (8, 1, 8, [0, 1])), (tlx.swizzled_layout(0), [4, 8, 16], (1, 1, 1, [2, 1, 0])),
])
def test_the_encoding_of_a_swizzle(layout, shape, expected):
    encoding = layout._to_encoding(shape)
    assert isinstance(encoding, tlx.swizzled_shared_layout_encoding)
    assert (encoding.vectorSize, encoding.perPhase, encoding.maxPhase, encoding.order) == expected
    assert encoding.numCTAs == encoding.numCTAsPerCGA == encoding.numCTASplit == [1] * len(shape)
    assert layout.to_ir(tuple(shape), 16) == encoding.to_ir(tuple(shape), 16)


@pytest.mark.parametrize("bits, base, shift, columns", [(3, 3, 3, 64), (2, 3, 3, 32), (1, 3, 3, 16), (3, 4, 3, 128), (3, 2, 6, 64)])
def test_a_coordinate_goes_to_the_offset_that_the_swizzle_gives_it(bits, base, shift, columns):
    """Bits base + shift and on of the row-major offset are added to its bits base and on."""
    layout = tlx.swizzled_layout(bits, base, shift)
    for row in range(64):
        for column in range(0, columns, 3):
            offset = row * columns + column
            swizzled = offset ^ (offset >> base + shift & (1 << bits) - 1) << base
            assert layout((row, column), [64, columns]) == swizzled


def test_where_a_swizzle_puts_the_columns_of_an_array_by_columns():
    layout = tlx.swizzled_layout(3, 3, 3, order=[0, 1])
    assert [layout((0, column), (64, 16)) for column in range(3)] == [0, 72, 144]
    offsets = {layout((row, column), (64, 16)) for row in range(64) for column in range(16)}
    assert offsets == set(range(64 * 16))


def test_a_phase_shorter_than_a_row():
    with pytest.raises(AssertionError, match="perPhase must be at least 1"):
        tlx.swizzled_layout(3, 3, 3).to_ir((64, 128), 16)


def test_swizzled_encoding():
    layout = tlx.swizzled_shared_layout_encoding.make_default(tl.constexpr(2))
    assert (layout.vectorSize, layout.perPhase, layout.maxPhase, layout.order) == (1, 1, 1, (1, 0))
    assert layout.make_permute((1, 0)).order == (0, 1)
    assert tlx.swizzled_shared_layout_encoding(8, 1, 8, [2, 1, 0], [1] * 3, [1] * 3, [1] * 3, [2, 1, 0]).make_permute(
        [2, 0, 1]).order == (0, 2, 1)
    ones = [1] * 3
    identity = tlx.swizzled_shared_layout_encoding(8, 1, 8, [0, 1, 2], ones, ones, [1, 2, 4], [0, 1, 2])
    turned = identity.make_permute((1, 2, 0))
    assert (turned.order, turned.numCTASplit, turned.numCTAOrder) == ((1, 2, 0), (2, 4, 1), (1, 2, 0))
    assert tlx.swizzled_layout(3, 3, 3, [0, 1, 2]).make_permute((1, 2, 0)).order == (1, 2, 0)
    assert identity.transposed((1, 2, 0)).order == (2, 0, 1)       # where a tile lies whose dimensions change places


@pytest.mark.parametrize("shape, dtype, swizzle", [([64, 64], tl.float16, 128), ([64, 32], tl.float16, 64), ([64, 32], tl.int8, 32),
                                                   ([64, 8], tl.float16, 0), ([64, 256], tl.float8e5, 128)])
def test_nvmma_default_swizzle(shape, dtype, swizzle):
    layout = tlx.nv_mma_shared_layout_encoding.make_default(shape, dtype)
    assert layout.to_ir(tuple(shape), dtype.primitive_bitwidth) == NvmmaShared(swizzle, dtype.primitive_bitwidth, 2)
    assert (layout.order, layout.swizzled, layout.fp4Padded) == ((1, 0), True, False)


def test_nvmma_transposed():
    layout = tlx.nv_mma_shared_layout_encoding.make_default([128, 32], tl.float16).make_permute((1, 0))
    assert (layout.shape, layout.order) == ((32, 128), (0, 1))
    assert layout.to_ir((32, 128), 16) == NvmmaShared(64, 16, 2, transposed=True)


def test_padded():
    layout = tlx.padded_shared_layout_encoding.with_identity_for([(16, 4)], [4, 8])
    assert layout.offset_bases == [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]] and layout.block_bases == []
    assert (layout.intervals, layout.paddings, layout.interval_padding_pairs) == ([16], [4], [[16, 4]])
    two = tlx.padded_shared_layout_encoding.with_identity_for([(16, 4), (64, 8)], [16, 64])
    assert (two.intervals, two.paddings) == ([16, 64], [4, 8])
    assert tlx.padded_shared_layout_encoding.with_identity_for([(16, 4)], [2, 2], order=[0, 1]).offset_bases == ((1, 0), (0, 1))
    assert tlx.padded_shared_layout_encoding.with_bases([(16, 4)], layout.offset_bases, [4, 8]) == layout
    assert layout.order == [1, 0] and two.make_permute((1, 0)).order == (0, 1)
    assert tlx.padded_shared_layout_encoding.with_identity_for([(4, 4)], [2, 4, 1, 8], order=[1, 3, 0, 2]).order == (1, 3, 0, 2)
    assert tlx.padded_shared_layout_encoding.with_identity_for([(4, 4)], [1, 1]).order == (1, 0)
    with pytest.raises(ValueError, match="powers of two"):
        tlx.padded_shared_layout_encoding.with_identity_for([(12, 4)], [4, 8])
    with pytest.raises(ValueError, match="at least one"):
        tlx.padded_shared_layout_encoding.with_identity_for([], [4, 8])


@pytest.mark.parametrize("bases", [None, [], [[0, 1], [0, 2]], [[0, 1], [0, 2], [0, 3]], [[0, 1], [0, 2], [2, 0]],
                                   [[0, 1], [0, 2], [1, 0], [0, 0]], [[1], [2], [4]]])
def test_padding_is_of_elements_that_have_one_place_each(bases):
    with pytest.raises(ValueError, match=r"reach each element of \(2, 4\) once: write padded_shared_layout_encoding.with_identity"):
        tlx.padded_shared_layout_encoding([[4, 4]], bases, [], [2, 4])
    assert tlx.padded_shared_layout_encoding([[4, 4]], [[1, 0], [0, 2], [0, 1]], [], [2, 4]).order == [0, 1]


def test_linear():
    layout = tlx.shared_linear_layout_encoding([[0, 1], [1, 0]])
    assert (layout.offset_bases, layout.block_bases, layout.alignment) == ([[0, 1], [1, 0]], [], 16)
    assert isinstance(layout.offset_bases, list) and isinstance(layout.offset_bases[0], list)
    assert layout == tlx.shared_linear_layout_encoding(((0, 1), (1, 0)), []) and hash(layout) == hash(
        tlx.shared_linear_layout_encoding(((0, 1), (1, 0)), ()))
    assert tlx.shared_linear_layout_encoding([[0, 1]], [[1, 0]]).block_bases == [[1, 0]]
    assert layout.make_permute([1, 0]).offset_bases == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="alignment"):
        tlx.shared_linear_layout_encoding([[0, 1]], alignment=12)


def test_tensor_memory():
    layout = tlx.tensor_memory_layout_encoding.make_default([128, 64])
    assert layout == tlx.tensor_memory_layout_encoding(128, 64, 1, 1, 1, tlx.TMemCTAMode.DEFAULT)
    assert [mode.name for mode in tlx.TMemCTAMode] == ["DEFAULT", "TwoCTA_LHS", "TwoCTA_RHS"]


def test_register_layout():
    layout = tlx.layout(((4, 8), (2, )), ((2, 16), (1, )))
    assert (layout.shape, layout.stride) == (((4, 8), (2, )), ((2, 16), (1, )))
    assert layout == tlx.layout(((4, 8), (2, )), ((2, 16), (1, )))
    shared = tlx.swizzled_layout(3, 3, 3)
    assert tlx.layout(shared) is shared


@pytest.mark.parametrize("shape, stride, text", [(((3, ), (2, )), ((1, ), (4, )), "powers of two"),
                                                 (((4, ), (2, )), ((1, ), (3, )), "powers of two or 0"),
                                                 (((4, 8), (2, )), ((1, ), (4, )), "same modes"), ((4, ), ((1, ), (4, )), "pair")])
def test_register_layout_refusals(shape, stride, text):
    with pytest.raises(ValueError, match=text):
        tlx.layout(shape, stride)


def test_amd_layouts():
    parent = tlx.amd_mfma_layout(4, [32, 32], True, [2, 2])
    assert (parent.instr_shape, parent.element_bitwidth, parent.tiles_per_warp) == ([32, 32], 32, [1, 1])
    assert tlx.amd_mfma_layout(4, [32, 32, 16], True, [1, 2, 2]).tiles_per_warp == [1, 1, 1]
    assert tlx.amd_mfma_layout(4, [32, 32, 16], True, [2, 2], tiles_per_warp=[2, 1]).tiles_per_warp == [2, 1]
    assert parent == tlx.amd_mfma_layout(4, (32, 32), True, (2, 2), tiles_per_warp=(1, 1)) and len({parent, parent}) == 1
    assert tlx.dot_operand_layout(0, parent).k_width == 8
    with pytest.raises(ValueError, match="operand_index"):
        tlx.dot_operand_layout(2, parent)


def test_layouts_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        tlx.swizzled_layout(3).bits = 2
    bases = tlx.shared_linear_layout_encoding([[0, 1], [1, 0]]).offset_bases
    for change in (lambda: bases.append([2, 0]), lambda: bases.__setitem__(0, [2, 0]), lambda: bases[0].sort(), bases.clear):
        with pytest.raises(TypeError, match="do not change"):
            change()
    assert bases == [[0, 1], [1, 0]]


def test_layouts_can_be_copied_and_pickled():
    layout = tlx.padded_shared_layout_encoding.with_identity_for([(16, 4)], [4, 8])
    assert copy.deepcopy(layout) == pickle.loads(pickle.dumps(layout)) == layout


def test_kinds():
    assert issubclass(tlx.nv_mma_shared_layout_encoding, tlx.shared_layout_encoding)
    assert issubclass(tlx.shared_layout_encoding, tlx.layout_encoding)
    assert not issubclass(tlx.layout, tlx.shared_layout_encoding)


@pytest.mark.parametrize("swizzled", [tlx.swizzled_layout(3, 3, 3), tlx.swizzled_layout.make_default(2),
                                      tlx.swizzled_shared_layout_encoding(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0])])
def test_a_layout_of_a_swizzled_one_is_that_one(swizzled):
    assert tlx.layout(swizzled) is swizzled and tlx.layout(tl.constexpr(swizzled)) is swizzled
    with pytest.raises(ValueError, match="`shape` must be a pair"):
        tlx.layout(tlx.tensor_memory_layout_encoding.make_default([128, 64]))
