"""cp.async where the hardware's own rules end: other values than zero, masks that cut words, types below 4 bytes."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def gather(x_ptr, y_ptr, length, ROWS: tl.constexpr, COLS: tl.constexpr, OTHER: tl.constexpr, MODIFIER: tl.constexpr,
           POLICY: tl.constexpr):
    tile = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(x_ptr), 1)
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    inside = tl.arange(0, COLS)[None, :] < length
    token = tlx.async_load(x_ptr + at, tile[0], mask=inside, other=OTHER, cache_modifier=MODIFIER, eviction_policy=POLICY)
    group = tlx.async_load_commit_group([token])
    done = tlx.async_load_wait_group(0, [group])
    tl.store(y_ptr + at, tlx.local_load(tile[0], done))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("length", [0, 21, 32, 64])
@pytest.mark.parametrize("other", [None, 0, 7])
def test_masks_and_others(machine, dtype, length, other):
    x = (np.arange(16 * 64) % 100 + 1).astype(dtype).reshape(16, 64)
    y = np.full_like(x, 99)
    machine.launch(gather, (1, ), x, y, length, 16, 64, other, "", "")
    assert (y == np.where(np.arange(64) < length, x, other or 0)).all()


@pytest.mark.parametrize("modifier", ["", ".ca", ".cg"])
@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_hints_change_nothing(machine, modifier, policy):
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    y = np.zeros_like(x)
    machine.launch(gather, (1, ), x, y, 48, 16, 64, None, modifier, policy)
    assert (y == np.where(np.arange(64) < 48, x, 0)).all()
