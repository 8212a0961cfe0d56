"""`tl.view`, and `reshape` and `cat` with `can_reorder=True`, let a compiler reorder elements; ours keeps them as numpy and the
simulator have them.

Triton took its licence where a tile out of shared memory was flattened: 899 of 1024 stored elements then stood elsewhere.
"""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_ttgir

SIGNATURE = {"x": "*fp16", "y": "*fp16", "z": "*fp16", "best": "*i32"}


@mimw.jit
def flattened(x, y, z, best):
    """A tile out of a buffer, flattened in three spellings; the last one is of a reduction over all axes."""
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    tlx.local_store(tile[0], tl.load(x + at))
    loaded = tlx.local_load(tile[0])
    tl.store(y + tl.arange(0, 512), tl.view(loaded, [512]))
    tl.store(z + tl.arange(0, 512), tl.reshape(loaded * 2, [512], can_reorder=True))
    tl.store(best, tl.max(loaded.to(tl.int32), axis=None))


@pytest.mark.filterwarnings("ignore:.*can_reorder")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "gfx950"])
def test_triton_is_given_no_licence_to_reorder(target):
    aligned = {(index, ): [["tt.divisibility", 16]] for index in range(4)}
    text = to_ttgir(flattened, SIGNATURE, {}, target, {"num_warps": 8}, attrs=aligned).stage("ttgir")
    assert text.count("tt.reshape") == 3 and "allow_reorder" not in text


@mimw.jit
def without_words(x, y, z, best):
    """The same in a kernel that takes Triton's own path."""
    loaded = tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])
    tl.store(y + tl.arange(0, 512), tl.view(loaded, [512]))
    tl.store(z + tl.arange(0, 512), (loaded * 2).reshape(512, can_reorder=True))
    tl.store(best, tl.max(loaded.to(tl.int32), axis=None))


@pytest.mark.filterwarnings("ignore:.*can_reorder")
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("kernel", [flattened, without_words], ids=["words", "no words"])
def test_elements_stay_in_row_major_order(machine, kernel, warps):
    x = np.random.default_rng(warps).permutation(512).astype(np.float16)
    y, z, best = np.zeros(512, np.float16), np.zeros(512, np.float16), np.zeros(1, np.int32)
    machine.launch(kernel, (1, ), x, y, z, best, num_warps=warps)
    assert (y == x).all() and (z == x * 2).all() and best[0] == 511


@pytest.mark.filterwarnings("ignore:.*can_reorder")
@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_only_a_reduction_has_the_licence_there(target):
    assert to_ttgir(without_words, SIGNATURE, {}, target, {"num_warps": 8}).stage("ttgir").count("allow_reorder") == 1


@mimw.jit
def spread(x, y):
    """A reduction over all axes of a tile of one dimension: nothing is reshaped."""
    row = tlx.local_alloc((2048, ), tl.bfloat16, 1)
    tlx.async_load(x + tl.arange(0, 2048), row[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y, tl.sum(tlx.local_load(row[0]).to(tl.float32)))


def test_a_tile_in_its_own_shape_is_itself():
    attrs = {(0, ): [["tt.divisibility", 16]]}
    assert "tt.reshape" not in to_ttgir(spread, {"x": "*bf16", "y": "*fp32"}, attrs=attrs).stage("ttgir")


@mimw.jit
def joined(x, y, z, WORDS: tl.constexpr):
    """Two halves out of memory put together, in each order."""
    if WORDS:
        tlx.fence("gpu")
    first, second = tl.load(x + tl.arange(0, 256)), tl.load(x + 256 + tl.arange(0, 256))
    tl.store(y + tl.arange(0, 512), tl.cat(first, second, can_reorder=True))
    tl.store(z + tl.arange(0, 512), tl.cat(second, first, can_reorder=True))


@pytest.mark.filterwarnings("ignore:.*can_reorder")
@pytest.mark.parametrize("words", [True, False])
def test_concatenated_elements_stay_in_order(machine, words):
    """`tt.cat` puts the registers of both operands side by side in each thread."""
    x = np.random.default_rng(3).permutation(512).astype(np.float16)
    y, z = np.zeros(512, np.float16), np.zeros(512, np.float16)
    machine.launch(joined, (1, ), x, y, z, words, num_warps=4)
    assert (y == x).all() and (z == np.roll(x, 256)).all()


@pytest.mark.filterwarnings("ignore:.*can_reorder")
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_triton_is_not_asked_to_concatenate(target, words):
    signature = {name: SIGNATURE[name] for name in "xyz"}
    assert "tt.cat" not in to_ttgir(joined, signature, {"WORDS": words}, target).stage("ttgir")
