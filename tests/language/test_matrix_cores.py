"""Words of AMD's matrix cores: what is recorded on which chip, and which calls are refused."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError
from mimw.ir.layouts import AmdMfma, AmdWmma, DotOperand

from .harness import Kernel


@pytest.fixture
def amd():
    return Kernel("gfx950")


def test_layouts_in_the_ir():
    accumulator = tlx.amd_mfma_layout(3, [32, 32, 8], True, [2, 2], tiles_per_warp=[1, 2])
    wanted = AmdMfma(3, (32, 32, 8), True, (2, 2), 32, (1, 2))
    assert accumulator.to_ir() == wanted
    assert tlx.dot_operand_layout(1, accumulator, 4).to_ir() == DotOperand(1, wanted, 4)
    depths = {(version, tile): tlx.amd_mfma_layout(version, list(tile), tile != (4, 64), [2, 2]).to_ir().instruction[2]
              for version in (3, 4) for tile in ((32, 32), (16, 16), (64, 4), (4, 64))}
    assert depths == {(3, (32, 32)): 8, (3, (16, 16)): 16, (3, (64, 4)): 64, (3, (4, 64)): 64,
                      (4, (32, 32)): 16, (4, (16, 16)): 32, (4, (64, 4)): 64, (4, (4, 64)): 64}
    assert tlx.amd_mfma_layout(4, [16, 16], True, [2, 2], element_bitwidth=64).to_ir().instruction == (16, 16, 4)


@pytest.mark.parametrize("arguments, text", [
    ((5, [16, 16, 32], True, [2, 2]), "version must be 1 to 4"),
    ((4, [16, 32, 32], True, [2, 2]), r"instr_shape must be \[M, N, K\]"),
    ((4, [64, 4, 64], False, [2, 2]), "64 x 4 exists only with transposed=True"),
    ((4, [4, 64, 64], True, [2, 2]), "4 x 64 exists only with transposed=False"),
    ((4, [16, 16, 32], True, [2, 2], 16), "element_bitwidth must be 32, or 64 for 16 x 16"),
    ((4, [32, 32, 4], True, [2, 2], 64), "got 64 for 32 x 32"),
    ((4, [16, 16, 32], True, [3, 1]), "warps_per_cta must be a power of two"),
    ((4, [16, 16, 32], True, [2, 2], 32, [1]), "tiles_per_warp must be a power of two for each")])
def test_layouts_that_no_instruction_has(arguments, text):
    with pytest.raises(ValueError, match=text):
        tlx.amd_mfma_layout(*arguments)


def test_operand_widths():
    with pytest.raises(ValueError, match="k_width must be a power of two, got 6"):
        tlx.dot_operand_layout(0, tlx.amd_mfma_layout(4, [16, 16, 32], True, [2, 2]), 6)


def test_recorded(amd):
    tile = amd.tensor("x", tl.float16, 64, 64)
    amd(tlx.amd_register_resident, tile, registers_per_group=8)
    amd(tlx.amd_register_handoff, tile)
    acc = amd.tensor("c", tl.float32, 64, 64)
    both = amd(tlx.amd_mfma_commit, (acc, ))
    done, (kept, other) = amd(tlx.amd_mfma_commit, acc, (tile, tile))
    part = amd(tlx.extract_slice, acc, (32, 16), (0, 48))
    assert (part.type, done.type, kept.type) == (tl.block_type(tl.float32, [32, 16]), acc.type, tile.type)
    assert both[0].type == acc.type and other.type == tile.type
    ops = [op for op in amd.program().body.ops if op.name not in ("constant", "splat")]
    assert [(op.name, *op.args[1:], op.attrs) for op in ops] == [
        ("keep_in_registers", "agpr", 8, {}), ("keep_in_registers", "vgpr", 1, {"fixed": True}), ("commit_products", True, {}),
        ("commit_products", True, {}), ("commit_products", False, {}), ("commit_products", False, {}),
        ("extract_slice", (32, 16), (0, 48), {})]


def test_slices_elsewhere_are_gathered(kernel):
    part = kernel(tlx.extract_slice, kernel.tensor("x", tl.float32, 64, 64), (32, 64), (32, 0))
    assert part.type == tl.block_type(tl.float32, [32, 64])
    assert [op.name for op in kernel.program().body.ops].count("gather") == 1


def test_wmma_layouts(amd):
    tile = amd.tensor("x", tl.float32, 64, 64)
    amd(tlx.require_amd_wmma_layout, tile, transposed=False)
    op = amd.program().body.ops[-1]
    wanted = AmdWmma(3, False, ((0, 2), (2, 0)), ((0, 1), (1, 0)), (16, 16, 128))
    assert (op.name, op.layout, op.pin) == ("require_layout", wanted, True)
    for arguments, text in ((dict(version=2), "version must be 3"),
                            (dict(instr_shape=(32, 16, 128)), r"instr_shape must be \(16, 16, K\)"),
                            (dict(warp_bases=((1, 1), )), "a basis steps along M or along N"),
                            (dict(reg_bases=((3, 0), )), "power of two")):
        with pytest.raises(ValueError, match=text):
            amd(tlx.require_amd_wmma_layout, tile, **arguments)
    with pytest.raises(KernelError, match="`src` must be a block tensor"):
        amd(tlx.require_amd_wmma_layout, amd.tensor("s", tl.float32))


@pytest.mark.parametrize("name, arguments, text", [
    ("amd_register_resident", dict(register_class="sgpr"), "register_class must be one of"),
    ("amd_register_resident", dict(registers_per_group=3), "power of two from 1 to 32, got 3"),
    ("amd_register_resident", dict(registers_per_group=64), "power of two from 1 to 32, got 64"),
    ("amd_register_handoff", dict(register_class="a"), "register_class must be one of")])
def test_registers_that_are_none(kernel, name, arguments, text):
    with pytest.raises(ValueError, match=text):
        kernel(getattr(tlx, name), kernel.tensor("x", tl.float32, 64), **arguments)
    with pytest.raises(ValueError, match="elements of 16 or 32 bits, got int8"):
        kernel(getattr(tlx, name), kernel.tensor("b", tl.int8, 64))
    with pytest.raises(KernelError, match="must be a block tensor"):
        kernel(getattr(tlx, name), kernel.tensor("s", tl.float32))


@pytest.mark.parametrize("arguments, text", [
    (("forever", ), "accumulator_role must be one of"), (("transient", 2), "resident_operand must be None, 0 or 1"),
    (("transient", None, "v"), "accumulator_register_class must be one of"),
    (("transient", None, None, 1), "initialize must be a bool")])
def test_schedules_that_are_none(kernel, arguments, text):
    tile, acc = kernel.tensor("x", tl.float16, 64, 64), kernel.tensor("c", tl.float32, 64, 64)
    with pytest.raises(ValueError, match=text):
        kernel(tlx.amd_scheduled_mfma, tile, tile, acc, *arguments)
    with pytest.raises(KernelError, match="amd_scheduled_mfma: `acc` must be a block tensor"):
        kernel(tlx.amd_scheduled_mfma, tile, tile, None, "transient")
    with pytest.raises(KernelError, match="amd_mfma_commit: `preserve` must be a block tensor"):
        kernel(tlx.amd_mfma_commit, acc, 3)


@pytest.mark.parametrize("shape, offsets, text", [
    ((32, ), (0, 0), "must have rank 2"), ((0, 64), (0, 0), "must be positive"), ((32, 64), (-1, 0), "not negative"),
    ((32, 64), (40, 0), "32 elements from 40 are outside the extent 64"), ((24, 64), (0, 0), "powers of two, got 24")])
def test_boxes_that_are_none(kernel, shape, offsets, text):
    with pytest.raises(AssertionError, match=text):
        kernel(tlx.extract_slice, kernel.tensor("x", tl.float32, 64, 64), shape, offsets)
