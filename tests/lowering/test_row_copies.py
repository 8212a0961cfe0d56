"""Picked rows in PTX and SASS: gather4 and scatter4 where the chip has them, one copy a row and box elsewhere."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LayoutConflict
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.row_copies import by_registers, gathered_from, moved, moved_by_tasks, own_descriptors

POINTERS = {"from_ptr": "*i32", "to_ptr": "*i32", "column": "i32"}


def compiled(kernel, target, rows, width, element="fp16", warps=4, **constants):
    described = {name: f"tensordesc<{element}[1,{width}]>" for name in ("x_desc", "y_desc")}
    more = {"count": "i32"} if kernel is moved_by_tasks else {}
    return compile_kernel(kernel, described | POINTERS | more, {"BX": rows, "BY": width} | constants, target, {"num_warps": warps})


def lines(result, stage, pattern):
    return [line.strip() for line in result.stage(stage).splitlines() if re.search(pattern, line)]


BLACKWELL = ["sm_100a", "sm_103a"]


@pytest.mark.long(but=["64-256-1-sm_103a", "8-16-4-sm_100a"], everywhere=True)
@pytest.mark.parametrize("target", BLACKWELL)
@pytest.mark.parametrize("rows, width, warps", [(8, 16, 4), (64, 256, 1)])
def test_four_rows_an_instruction(target, rows, width, warps, sass_has):
    """Warps share out the rows; rows of more than 128 bytes are several boxes."""
    result = compiled(moved, target, rows, width, warps=warps)
    boxes = max(1, width * 2 // 128)
    each = max(1, rows // 4 // warps) * boxes
    assert len(lines(result, "ptx", r"cp\.async\.bulk\.tensor\.2d\.tile::gather4.*mbarrier::complete_tx::bytes")) == each
    assert len(lines(result, "ptx", r"cp\.async\.bulk\.tensor\.2d\.tile::scatter4\.global")) == each
    sass_has(result, (r"UTMALDG\.2D\.GATHER4", each), (r"UTMASTG\.2D\.SCATTER4", each))
    assert result.metadata.tensordesc_meta[0]["block_size"] == [1, min(width, 64)]


@pytest.mark.parametrize("target", BLACKWELL)
def test_four_rows_an_instruction_in_tasks(target, sass_has):
    result = compiled(moved_by_tasks, target, 64, 64, STAGES=2)
    sass_has(result, (r"UTMALDG\.2D\.GATHER4", 16), (r"UTMASTG\.2D\.SCATTER4", 4))    # the first by a task of one warp


@pytest.mark.long(but=["sm_100a-fp32-8", "sm_100a-fp8e5-128", "sm_90a-i8-32"], everywhere=True)
@pytest.mark.parametrize("element, width", [("i8", 32), ("fp8e5", 128), ("fp32", 8)])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_elements(target, element, width):
    result = compiled(moved, target, 16, width, element)
    assert result.stage("cubin") and lines(result, "ptx", r"cp\.async\.bulk\.tensor\.2d")


@pytest.mark.long(but=["128-64-1-sm_90a", "32-256-8-sm_90a", "8-512-1-sm_120a"], everywhere=True)
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("rows, width, warps", [(128, 64, 1), (8, 512, 1), (32, 256, 8)])
def test_a_warp_copies_the_rows_of_its_lanes(target, rows, width, warps, sass_has):
    """An instruction a row, with no loop over lanes; boxes of 128 bytes one after the other, and warps to spare share those out."""
    result = compiled(moved, target, rows, width, warps=warps)
    each = rows // min(warps, max(1, rows // 32))
    copies = lines(result, "ptx", r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\.tile")
    assert len(copies) == each and all(copy.startswith("@on ") for copy in copies)
    assert len(lines(result, "ptx", r"@on cp\.async\.bulk\.tensor\.2d\.global\.shared::cta\.tile\.bulk_group")) == each
    assert len(lines(result, "ptx", r"cp\.async\.bulk\.commit_group")) == 1
    assert not lines(result, "ptx", r"gather4|complete_tx\.relaxed")
    assert result.metadata.tensordesc_meta[0]["block_size"] == [1, 64]
    sass_has(result, (r"GATHER4|BRA\.U\.ANY", 0), r"UTMALDG\.2D", r"UTMASTG\.2D")


@pytest.mark.long(but=["16-sm_120a", "32-sm_90a"], everywhere=True)
@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("width", [16, 32])
def test_narrow_rows_go_through_lines(target, width):
    """TMA begins at multiples of 128 bytes: the threads move the rows between there and the tile, and complete the bytes."""
    result = compiled(moved, target, 128, width)
    assert len(lines(result, "ptx", r"@on cp\.async\.bulk\.tensor\.2d\.shared::cluster")) == 32
    pieces = width * 2 // 16
    for move in ("ld", "st"):
        assert len(lines(result, "ptx", rf"@on {move}\.shared\.v4\.b32")) == 2 * pieces
    (complete, ) = lines(result, "ptx", r"mbarrier\.complete_tx")
    assert complete.startswith("@on mbarrier.complete_tx.relaxed.cta.shared::cta.b64")
    assert complete.endswith(f", {128 * width * 2};")
    assert len(lines(result, "ptx", r"cp\.async\.bulk\.wait_group\.read 0;")) == 1
    assert result.metadata.shared >= 128 * 128 + 128 * width * 2


@pytest.mark.long(but=["gathered_from-constants1-64-sm_90a", "moved_by_tasks-constants0-16-sm_100a"], everywhere=True)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("kernel, constants", [(moved_by_tasks, {"STAGES": 2}), (gathered_from, {})])
def test_every_form_compiles(target, width, kernel, constants):
    result = compiled(kernel, target, 32, width, **constants)
    assert result.stage("cubin") and lines(result, "ptx", r"cp\.async\.bulk\.tensor\.2d.*\.bulk_group")


@pytest.mark.long(but=["False-sm_90a", "True-sm_100a"], everywhere=True)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("slot", [False, True])
def test_descriptors_of_the_kernel(target, slot):
    result = compile_kernel(own_descriptors, {"x_ptr": "*fp16", "y_ptr": "*fp16", "from_ptr": "*i32", "to_ptr": "*i32", "M": "i32",
                                              "N": "i32"}, {"BX": 16, "BY": 128, "SLOT": slot}, target)
    assert lines(result, "ptx", "tensormap.replace.tile.box_dim") and result.stage("cubin")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_register_form(target, sass_has):
    signature = {"x_desc": "tensordesc<fp32[1,32]>", "y_desc": "tensordesc<fp32[1,32]>"} | POINTERS
    result = compile_kernel(by_registers, signature, {"BX": 32}, target)
    sass_has(result, r"UTMALDG\.2D", r"UTMASTG\.2D")


@mimw.jit
def mixed(x_desc, from_ptr, y_ptr, BLOCK: tl.constexpr):
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    one = tlx.local_alloc((1, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 8 * 128 + BLOCK * 128)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), 0, full[0])
    if BLOCK:
        tlx.async_descriptor_load(x_desc, one[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)


def test_a_descriptor_is_for_rows_or_for_blocks():
    signature = {"x_desc": "tensordesc<fp16[1,64]>", "from_ptr": "*i32", "y_ptr": "*fp16"}
    assert compile_kernel(mixed, signature, {"BLOCK": 0}, "sm_90a")
    with pytest.raises(LayoutConflict, match="tma_load copies a block .* of which tma_gather copies picked rows") as error:
        compile_kernel(mixed, signature, {"BLOCK": 1}, "sm_90a")
    assert len(error.value.sites) == 2 and "a second descriptor" in error.value.hint


@mimw.jit
def handed_on(x_desc, y_desc, from_ptr, which):
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    desc = x_desc
    if which > 0:
        desc = y_desc
    tlx.barrier_expect_bytes(full[0], 8 * 128)
    tlx.async_descriptor_gather(desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), 0, full[0])
    tlx.barrier_wait(full[0], 0)


def test_a_descriptor_that_an_if_hands_on(sass_has):
    """Triton's op takes one; for assembly tests/words/test_handed_on.py."""
    signature = {"x_desc": "tensordesc<fp16[1,64]>", "y_desc": "tensordesc<fp16[1,64]>", "from_ptr": "*i32", "which": "i32"}
    result = compile_kernel(handed_on, signature, {}, "sm_100a")
    assert [meta["swizzle"] for meta in result.metadata.tensordesc_meta] == [3, 3]
    sass_has(result, "GATHER4")
