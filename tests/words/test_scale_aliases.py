"""Tables of scales that share columns of tensor memory with a tile, by alias specs and reuse groups: values, places, mistakes.

The simulator against numpy; what is compiled for sm_100a by its PTX, since no chip was at hand.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare
from tests.check.tables import rows
from tests.compiling import to_assembly
from tests.words.test_tensor_memory_scaled import elements, packed, reference, scales

CHIP = dict(target="sm_100a")


@mimw.jit
def tables_over_a_tile(x_desc, w_desc, sx, sw, source, seen, c, SHARED: tl.constexpr = True, NUMBER: tl.constexpr = 1,
                       COPIED: tl.constexpr = True, WAIT_READ: tl.constexpr = True, WAIT_DONE: tl.constexpr = True,
                       AGAIN: tl.constexpr = True, FIRST: tl.constexpr = False):
    """c = x w^T scaled, with tables over the columns of a tile that another task has read before, and writes again behind."""
    x, w = tlx.local_alloc((128, 128), tlx.dtype_of(x_desc), 1), tlx.local_alloc((128, 128), tlx.dtype_of(w_desc), 1)
    packed_x, packed_w = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1), tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    columns = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    tile = tlx.local_alloc((128, 32), tl.float32, NUMBER, tlx.storage_kind.tmem, reuse=columns)
    left = tlx.local_alloc((128, 4), tl.uint8, NUMBER, tlx.storage_kind.tmem, reuse=columns)
    right = tlx.local_alloc((128, 4), tl.uint8, NUMBER, tlx.storage_kind.tmem, reuse=columns)
    if SHARED:
        tables = tlx.reuse_group(left, right, group_type=tlx.reuse_group_type.distinct)
        columns.set_buffer_overlap(tlx.reuse_group(tile, tables))
    else:
        columns.set_buffer_overlap(tlx.reuse_group(tile, left, right, group_type=tlx.reuse_group_type.distinct))
    full, read, done = tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    LAST: tl.constexpr = NUMBER - 1
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(tile[LAST], tl.load(source + at))
    tlx.local_store(packed_x[0], tl.load(sx + tl.arange(0, 512)).reshape(1, 1, 32, 16))
    tlx.local_store(packed_w[0], tl.load(sw + tl.arange(0, 512)).reshape(1, 1, 32, 16))
    tlx.fence("async_shared")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            found = tlx.local_load(tile[LAST])
            tlx.barrier_arrive(read[0])
            tl.store(seen + at, found)
            if AGAIN:
                if WAIT_DONE:
                    tlx.barrier_wait(done[0], 0)
                tlx.local_store(tile[LAST], found + 1)
            tlx.barrier_wait(done[0], 0)
            for part in tl.static_range(4):
                some = tlx.local_load(tlx.subslice(acc[0], part * 32, 32))
                tl.store(c + tl.arange(0, 128)[:, None] * 128 + part * 32 + tl.arange(0, 32)[None, :], some)
        with tlx.async_task(num_warps=4):
            tlx.barrier_expect_bytes(full[0], 2 * 128 * 128)
            tlx.async_descriptor_load(x_desc, x[0], [0, 0], full[0])
            tlx.async_descriptor_load(w_desc, w[0], [0, 0], full[0])
            tlx.barrier_wait(full[0], 0)
            if WAIT_READ:
                tlx.barrier_wait(read[0], 0)
            if COPIED:
                tlx.tmem_copy(packed_x[0], left[LAST])
                tlx.tmem_copy(packed_w[0], right[LAST])
            else:
                columns_of = tl.arange(0, 128)[:, None] * 4 + tl.arange(0, 4)[None, :]
                tlx.local_store(left[LAST], tl.load(sx + columns_of))
                tlx.local_store(right[LAST], tl.load(sw + columns_of))
            tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], left[LAST], "e4m3", right[LAST], "e4m3", use_acc=False,
                                 mBarriers=[done[0]])


def case(copied=True):
    """Arguments, and what is seen of the tile and of the product."""
    (x, x_wide), (w, w_wide) = elements((128, 128), "e4m3", 1), elements((128, 128), "e4m3", 2)
    (sx, sx_wide), (sw, sw_wide) = scales(128, 4, 32, 3), scales(128, 4, 32, 4)
    tile = np.random.default_rng(0).standard_normal((128, 32)).astype(np.float32)
    tables = [packed(one).ravel() if copied else one.ravel() for one in (sx, sw)]
    describe = mimw.TensorDescriptor.from_tensor
    args = (describe(x, [128, 128]), describe(w, [128, 128]), *tables, tile, np.zeros_like(tile), np.zeros((128, 128), np.float32))
    return args, tile, reference(x_wide, sx_wide, w_wide, sw_wide, 32)


@pytest.mark.parametrize("meta", [{}, dict(SHARED=False), dict(NUMBER=2), dict(COPIED=False, AGAIN=False),
                                  dict(COPIED=False, AGAIN=False, NUMBER=3)], ids=str)
def test_a_product_by_tables_that_share_columns(meta):
    args, tile, wanted = case(meta.get("COPIED", True))
    mimw.simulate(tables_over_a_tile, (1, ), *args, races=True, **meta, **CHIP)
    np.testing.assert_array_equal(args[-2], tile)
    np.testing.assert_array_equal(args[-1], wanted)


@pytest.mark.parametrize("meta, columns", [
    ({}, dict(tile=["128"], left=["128"], right=["132"])), (dict(SHARED=False), dict(tile=["128"], left=["160"], right=["164"])),
    (dict(NUMBER=2), dict(tile=["128", "160"], left=["128", "160"], right=["132", "164"]))], ids=["over", "beside", "of a ring"])
def test_their_columns(meta, columns):
    """Four scales of 128 rows take four columns; a ring of tables goes by the step of what it lies over."""
    program = prepare(tables_over_a_tile, (1, ), case()[0], dict(meta), "sm_100a").program
    places = {op.result.name: str(op.attrs["place"]).strip("[]").split(", ") for op in program.walk()
              if op.name == "local_alloc" and op.result.type.space == "tmem"}
    assert places == columns | dict(acc=["0"])


def test_assembly():
    """What is copied is what the product reads: the two tables of the second place, in one allocation."""
    types = dict.fromkeys(("x_desc", "w_desc"), "tensordesc<fp8e4nv[128,128]>") | dict.fromkeys(("sx", "sw"), "*u8")
    types |= dict.fromkeys(("source", "seen", "c"), "*fp32")
    ptx = to_assembly(tables_over_a_tile, types, dict(NUMBER=2), "sm_100a").stage("ptx")
    place = r"\[ (%r\d+) \+ 0 \]"
    copied = re.findall(rf"tcgen05\.cp\S+warpx4\.32x128b {place}", ptx)
    read = set(re.findall(rf"tcgen05\.mma\S+block_scale\S+ {place}(?:, %\w+){{3}}, {place}, {place}", ptx))
    assert len(re.findall(r"tcgen05\.alloc", ptx)) == 1 and {one[1:] for one in read} == {tuple(copied)} and len(set(copied)) == 2


@rows("wait_read", "wait_done", "again")
def test_when_it_is_right(wait_read, wait_done, again):
    """Iff the tables come after the tile was read, and the tile again after the product that uses the tables."""
    args, *_ = case()
    meta = dict(WAIT_READ=wait_read, WAIT_DONE=wait_done, AGAIN=again)
    report = mimw.check(tables_over_a_tile, (1, ), *args, seeds=6, shrink=False, rounds=False, **meta, **CHIP)
    assert report.ok == (wait_read and (wait_done or not again)), report
