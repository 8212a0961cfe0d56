"""Maps of tiles and buffers out of the text of their layouts, against Triton's own, and texts that are refused."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.compiler.ttgir.layout_memory import buffer_map
from mimw.compiler.ttgir.layout_text import LayoutProblem, read_layout
from mimw.compiler.ttgir.layouts import tile_map
from tests.processes import python

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [8, 1], order = [1, 0]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
PADDED = ("#ttg.padded_shared<[512:+8] {offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [64, 0], [32, 0], [16, 0], "
          "[1, 0], [2, 0], [4, 0], [8, 0]], block = []}>")


@cache
def said_by_triton():
    """[text, shape, bits (0 of a tile), maps] of each case."""
    run = python(Path(__file__).with_name("layout_oracle.py"), PYTHONPATH=str(Path(mimw.__file__).parents[1]))
    return [json.loads(line) for line in run.stdout.splitlines()]


def lists(bases):
    return [list(basis) for basis in bases]


def test_tiles_lie_as_triton_says():
    seen = set()
    for text, shape, bits, maps in said_by_triton():
        if not bits:
            registers, lanes, warps, blocks = maps
            found = tile_map(text, tuple(shape))
            ours = [lists(bases) for bases in (found.registers, found.lanes, found.warps, found.blocks)]
            held = [[basis for basis in bases if any(basis)] for bases in (ours[0], registers)]    # zeros are the same register
            assert [held[0], *ours[1:]] == [held[1], lanes, warps, blocks], (text, shape)
            seen.add(read_layout(text).kind)
    assert seen == {"blocked", "slice", "dot_op", "nvidia_mma", "amd_mfma", "amd_wmma", "linear"}


def test_buffers_lie_as_triton_says():
    seen = set()
    for text, shape, bits, maps in said_by_triton():
        if bits:
            offsets, blocks = maps
            found = buffer_map(text, tuple(shape), bits)
            assert [found.offset(basis) for basis in offsets if any(basis)] == [
                bits // 8 << bit for bit, basis in enumerate(offsets) if any(basis)], (text, shape)
            assert [found.block(basis) for basis in blocks] == [1 << bit for bit in range(len(blocks))], (text, shape)
            assert not any(map(found.block, offsets)) and not any(map(found.offset, blocks)), (text, shape)
            seen.add(read_layout(text).kind)
    assert seen == {"nvmma_shared", "swizzled_shared", "shared_linear"}


def test_padding_comes_after_intervals():
    """The example of Gluon's `PaddedSharedLayout`: rows of 4, those 2 further next, one unused element after each 8."""
    found = buffer_map("#ttg.padded_shared<[8:+1] {offset = [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], block = []}>", (8, 4), 16)
    rows = [0, 2, 4, 6, 1, 3, 5, 7]
    expected = np.array([rows.index(row) * 4 + column + rows.index(row) // 2 for row in range(8) for column in range(4)])
    assert (found.offsets() == 2 * expected.reshape(8, 4)).all()
    by_order = buffer_map("#ttg.padded_shared<[128:+8, 512:+16] {order = [1, 0], shape = [64, 64]}>", (64, 64), 16).offsets()
    number = np.arange(64 * 64).reshape(64, 64)
    assert (by_order == 2 * (number + number // 128 * 8 + number // 512 * 16)).all()


def test_offsets_are_the_sums_of_steps():
    found = buffer_map(SWIZZLED, (64, 64), 16)
    assert found.steps[0][:3] == (144, 288, 576)
    assert all(found.offsets()[at] == found.offset(at) for at in np.ndindex(64, 64))
    assert len(np.unique(buffer_map(PADDED, (128, 64), 16).offsets())) == 128 * 64


def test_elements_of_a_thread():
    held = tile_map(BLOCKED, (64, 64)).elements()
    assert held.shape == (1, 8, 32, 16) and sorted(held.reshape(-1)) == list(range(64 * 64))
    assert list(held[0, 3, 17]) == [row * 64 + 8 + column for row in (14, 46) for column in range(8)]


@pytest.mark.parametrize("text, shape, said", [
    ("#mma", (64, 64), "not the alias #mma"),
    (BLOCKED[:-2], (64, 64), "expected , or } at column 100"),
    (BLOCKED + ">", (64, 64), "the layout's end"),
    ("#ttg.blocked<{sizePerThread = [1, 8]}>", (64, 64), "has no field 'threadsPerWarp', only sizePerThread"),
    ("#ttg.blocked<{sizePerThread = <1>}>", (64, 64), "a number, true, false, a list or a layout"),
    (BLOCKED, (64, ), "sizePerThread = [1, 8] of #ttg.blocked is none of a tile of rank 1"),
    (BLOCKED, (64, 48), "no power of two"),
    ("#ttg.slice<{dim = 2, parent = " + BLOCKED + "}>", (64, ), "a slice along dimension 2"),
    ("#ttg.linear<{register = [], lane = [[0, 2], [0, 2]], warp = [[1, 0]], block = []}>", (2, 4), "a tile of 2 x 4 to no thread"),
    ("#ttg.linear<{register = [], lane = [[0, 1], [0, 2]], warp = [[1, 0]], block = []}>", (8, ), "none of a tile of 8"),
    ("#ttg.dot_op<{opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
     "instrShape = [16, 64, 16]}>, kWidth = 2}>", (64, 64), "operand B of wgmma lies in shared memory"),
    ("#ttg.amd_wmma<{version = 2, isTranspose = true, ctaLayout = {warp = [[0, 1]]}}>", (64, 64), "version 2 is RDNA's"),
    (SWIZZLED, (64, 64), "#ttg.swizzled_shared is no layout of a tile in registers"),
    (BLOCKED.replace("[1, 8]", "8"), (64, 64), "sizePerThread = 8 of #ttg.blocked is none"),
    ("#ttg.linear<{register = 1, lane = [], warp = [], block = []}>", (1, ), "a field of another kind than Triton's"),
    ("#ttg.nvidia_mma<{versionMajor = 1, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 16]}>", (64, 64),
     "version 1, Volta's"),
])
def test_tiles_that_are_refused(text, shape, said):
    with pytest.raises(LayoutProblem) as refused:
        tile_map(text, shape)
    assert said in str(refused.value)


@pytest.mark.parametrize("text, shape, bits, said", [
    (SWIZZLED, (3, 64, 64), 16, "give the shape of one slot"),
    (SWIZZLED, (2, 64, 64), 16, "none of a buffer of rank 3: give the shape of one slot"),
    (SWIZZLED, (64, 64), 4, "elements of 4 bits share bytes"),
    (PADDED, (64, 64, 64), 16, "none of a buffer of rank 3"),
    ("#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 16>", (2, 4), 16, "has no place for some element"),
    ("#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 8}>", (64, 64), 16, "but 16 bits"),
    ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 8, fp4Padded = true}>", (64, 64), 8,
     "fp4Padded"),
    (BLOCKED, (64, 64), 16, "#ttg.blocked is no layout in shared memory"),
    ("#ttg.shared_linear<{offset = 1}, alignment = 16>", (2, 4), 16, "a field of another kind than Triton's"),
])
def test_buffers_that_are_refused(text, shape, bits, said):
    with pytest.raises(LayoutProblem) as refused:
        buffer_map(text, shape, bits)
    assert said in str(refused.value)
