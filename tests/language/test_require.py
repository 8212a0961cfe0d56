"""Words about the layout of a tile: what is recorded, what is refused."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, NotYet
from mimw.ir.layouts import LinearShared, PaddedShared, ThreadValue

LAYOUT = tlx.layout(((32, 2), 2), ((1, 32), 64))
IN_IR = ThreadValue(((32, 1), (2, 32)), ((2, 64), ))


@pytest.fixture
def tile(kernel):
    return kernel.tensor("x", tl.float32, 128)


def ops(kernel):
    return [(op.name, *op.args[1:]) for op in kernel.program().body.ops if op.name != "constant"]


def test_recorded(kernel, tile):
    pinned = kernel(tlx.require_layout, tile, LAYOUT)
    hinted = kernel(tlx.require_layout, tile, LAYOUT, pin=False, late_address_compute=True)
    free = kernel(tlx.release_layout, pinned)
    kernel(tlx.dump_layout, free)
    kernel(tlx.assert_same_layout, pinned, LAYOUT)
    assert pinned.type == hinted.type == free.type == tile.type
    assert ops(kernel) == [("require_layout", IN_IR, True), ("require_layout", IN_IR, False), ("release_layout", ),
                           ("dump_layout", ), ("assert_same_layout", IN_IR)]


@pytest.mark.parametrize("flag", ["pin", "late_address_compute"])
def test_flags(kernel, tile, flag):
    with pytest.raises(AssertionError, match=f"{flag} must be a bool, got 1"):
        kernel(tlx.require_layout, tile, LAYOUT, **{flag: 1})


def test_tiles_only(kernel):
    scalar = kernel.tensor("s", tl.float32)
    words = {"require_layout": (LAYOUT, ), "release_layout": (), "assert_same_layout": (LAYOUT, ), "dump_layout": ()}
    for name, rest in words.items():
        with pytest.raises(KernelError, match=f"{name}: `x` must be a block tensor"):
            kernel(getattr(tlx, name), scalar, *rest)


def test_register_layouts_only(kernel, tile):
    with pytest.raises(TypeError, match="must be a register layout such as .*, got int"):
        kernel(tlx.require_layout, tile, 3)
    several = tlx.amd_mfma_layout(4, [16, 16, 32], True, [2, 2], cga_layout=[[0, 1]])
    for layout in (tlx.dot_operand_layout(0, LAYOUT), tlx.dot_operand_layout(0, several), several):
        with pytest.raises(NotYet, match=rf"require_layout\(layout={type(layout).__name__}\)"):
            kernel(tlx.require_layout, tile, layout)


def test_comparisons(kernel, tile):
    with pytest.raises(TypeError, match="rhs must be a tensor or a layout, got int"):
        kernel(tlx.assert_same_layout, tile, 3)
    with pytest.raises(KernelError, match=r"the shapes \[128\] and \[64\] differ"):
        kernel(tlx.assert_same_layout, tile, kernel.tensor("y", tl.float32, 64))


def test_dump_of_a_buffer(kernel):
    ring = kernel(tlx.local_alloc, (64, ), tl.float32, 2)
    kernel(tlx.dump_layout, kernel(tlx.local_view, ring, 0))
    with pytest.raises(KernelError, match="an array of 2"):
        kernel(tlx.dump_layout, ring)


def test_zeros(kernel):
    plain, pinned = kernel(tlx.zeros, (4, 32), tl.float16), kernel(tlx.zeros, [128], tl.int32, layout=LAYOUT)
    assert (plain.type, pinned.type) == (tl.block_type(tl.float16, [4, 32]), tl.block_type(tl.int32, [128]))
    op = kernel.program().body.ops[-1]
    assert (op.name, op.args[0], op.attrs["layout"]) == ("constant", 0, IN_IR)
    with pytest.raises(AssertionError, match="`layout` must be a register layout"):
        kernel(tlx.zeros, [128], tl.int32, layout=tlx.swizzled_layout(0))


def test_shared_layouts_in_the_ir():
    padded = tlx.padded_shared_layout_encoding.with_identity_for([(16, 4)], [2, 4])
    bases = ((0, 1), (0, 2), (1, 0))
    assert padded.to_ir((2, 4), 16) == PaddedShared(((16, 4), ), bases, (2, 4))
    turned = padded.make_permute((1, 0))
    assert turned.to_ir((4, 2), 16) == PaddedShared(((16, 4), ), ((1, 0), (2, 0), (0, 1)), (4, 2))
    linear = tlx.shared_linear_layout_encoding(bases, alignment=128)
    assert linear.to_ir((2, 4), 16) == LinearShared(bases, 128)
    assert linear.make_permute((1, 0)).offset_bases == ((1, 0), (2, 0), (0, 1))
