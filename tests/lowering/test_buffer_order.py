"""Triton's passes leave buffer words in their order: two loads stay two where something may have changed between them."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_ttgir

EFFECTS = "buffer_store buffer_atomic_add buffer_load_to_local store local_store async_wait debug_barrier".split()


@mimw.jit
def between_loads(x, y, n, WHAT: tl.constexpr):
    tile, at = tlx.local_alloc((1024, ), tl.float32, 1), tl.arange(0, 1024)
    before = tlx.buffer_load(x, at)
    if WHAT == "buffer_store":
        tlx.buffer_store(before, y, at + n)
    elif WHAT == "buffer_atomic_add":
        tlx.buffer_atomic_add(y, at, before, sem="relaxed")
    elif WHAT == "buffer_load_to_local":
        tlx.buffer_load_to_local(tile[0], x, at)
    elif WHAT == "store":
        tl.store(y + at, before)
    elif WHAT == "local_store":
        tlx.local_store(tile[0], before)
    elif WHAT == "async_wait":
        tlx.async_load_wait_group(0)
    elif WHAT == "debug_barrier":
        tl.debug_barrier()
    tl.store(y + 1024 + at, before + tlx.buffer_load(x, at))


@mimw.jit
def turned(x, y, RUN: tl.constexpr):
    """What is loaded row by row is stored column by column, behind a store to where it came from."""
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tile = tlx.buffer_load(x, rows * 64 + cols, contiguity=RUN)
    tlx.buffer_store(0, x, rows * 64 + cols)
    tl.store(y + rows + cols * 64, tile)


def lines(kernel, target="gfx950", **constants) -> list[str]:
    signature = {"x": "*fp32", "y": "*fp32"} | ({"n": "i32"} if kernel is between_loads else {})
    text = to_ttgir(kernel, signature, constants, target, {"num_warps": 4},
                    attrs={(at, ): [["tt.divisibility", 16]] for at in (0, 1)}).stages["ttgir"]
    return text[text.index("tt.func"):].splitlines()


def where(found, word) -> list[int]:
    return [index for index, line in enumerate(found) if word in line]


@pytest.mark.parametrize("what", EFFECTS)
def test_two_loads_with_an_effect_between_stay_two(what):
    assert len(where(lines(between_loads, WHAT=what), " = amdg.buffer_load ")) == 2


def test_without_an_effect_between_they_become_one():
    assert len(where(lines(between_loads, WHAT="nothing"), " = amdg.buffer_load ")) == 1


@pytest.mark.long(but=["1-gfx942", "4-gfx1250"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("run", [1, 4])
def test_no_load_goes_behind_a_store(target, run):
    """Triton computes values again in another layout; a load only where nothing between may write."""
    found = lines(turned, target, RUN=run)
    (load, ), (store, ) = where(found, " = amdg.buffer_load "), where(found, "amdg.buffer_store ")
    assert load < store < where(found, " tt.store ")[0] and "convert_layout" in "".join(found[load:])


@mimw.jit
def added_in_two_layouts(x, y, RUN: tl.constexpr):
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    before = tlx.buffer_atomic_add(x, rows * 64 + cols, 1, contiguity=RUN)
    tlx.buffer_store(before, y, rows * 64 + cols)
    tl.store(y + 4096 + rows + cols * 64, before)


@pytest.mark.parametrize("run", [1, 4])
def test_an_atomic_is_done_once(run):
    """Also where what it gives is wanted in two layouts."""
    assert len(where(lines(added_in_two_layouts, RUN=run), " = amdg.buffer_atomic_rmw ")) == 1
