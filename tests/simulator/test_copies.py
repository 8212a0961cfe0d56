"""Asynchronous copies land late: TMA loads and stores, cp.async groups, and shared memory that nobody has written."""

import numpy as np
import pytest

from mimw.errors import Deadlock, IllegalCopy, OutOfBounds, SimulatorMisuse, UnwrittenRead
from mimw.ir import Tensor

from .programs import FP32, I1, I32, HostTensor, Sketch, line_of


def load_tile(offsets=(0, 0), padding="zero", shape=(4, 8), expect=None, wait=True, predicate=None):
    """One TMA load of a 4 x 8 block of x, stored to y."""
    k = Sketch()
    x, y = k.descriptor(FP32, shape, "x"), k.pointer(FP32, "y")
    tile, bar = k.buffers(FP32, shape, 1), k.barriers(1)
    size = 4 * shape[0] * shape[1] if expect is None else expect
    where = tuple(k.const(offset) for offset in offsets)
    k.op("barrier_expect", k.bar(bar, 0), size, None)
    k.op("tma_load", x, where, k.bar(bar, 0), k.op("buffer_index", tile, 0), predicate and predicate(k), None)
    if wait:
        k.op("barrier_wait", k.bar(bar, 0), k.const(0), None)
    k.store(y, k.op("local_load", k.op("buffer_index", tile, 0), None))
    return k


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("offsets", [(0, 0), (2, 4), (-1, -4), (5, 8), (100, 0)])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_blocks_beyond_the_edge_are_padded_and_their_bytes_still_count(offsets, padding, seed):
    x, y = np.arange(60, dtype=np.float32).reshape(6, 10), np.zeros((4, 8), np.float32)
    load_tile(offsets).run(HostTensor(x, padding), y, seed=seed)
    padded = np.full((120, 40), np.nan if padding == "nan" else 0, np.float32)
    padded[10:16, 10:20] = x
    np.testing.assert_array_equal(y, padded[10 + offsets[0]:, 10 + offsets[1]:][:4, :8])


@pytest.mark.parametrize("offsets", [(0, 1), (2, -3)])
def test_a_block_begins_at_a_multiple_of_16_bytes(offsets):
    """An H200 calls another one an illegal instruction."""
    with pytest.raises(IllegalCopy, match=f"begins at element {offsets[1]} of a row: .* from multiples of 16 bytes on"):
        load_tile(offsets).run(HostTensor(np.ones((6, 12), np.float32)), np.zeros((4, 8), np.float32))


def test_a_read_before_the_landing_names_barrier_and_both_lines():
    with pytest.raises(UnwrittenRead, match=r"it lands by barrier 'full'\[0\], phase 0 \(parity 0\)") as caught:
        load_tile(wait=False).run(HostTensor(np.ones((4, 8), np.float32)), np.zeros((4, 8), np.float32))
    assert 'k.op("local_load"' in line_of(caught.value, 0) or "k.store" in line_of(caught.value, 0)
    assert 'k.op("tma_load"' in line_of(caught.value, 1)


def test_a_false_predicate_starts_nothing():
    x, y = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    with pytest.raises(Deadlock, match="128 bytes pending"):
        load_tile(predicate=lambda k: k.const(0, I1)).run(HostTensor(x), y)


def test_a_buffer_of_another_shape():
    k = Sketch()
    x, tile, bar = k.descriptor(FP32, (4, 8), "x"), k.buffers(FP32, (8, 8), 1), k.barriers(1)
    k.op("tma_load", x, (k.const(0), k.const(0)), k.bar(bar, 0), k.op("buffer_index", tile, 0), None, None)
    with pytest.raises(SimulatorMisuse, match=r"block is \(4, 8\) and 'tiles'\[0\] is \(8, 8\)"):
        k.run(HostTensor(np.ones((4, 8), np.float32)))


def test_memory_that_nobody_has_written():
    k = Sketch()
    tile = k.buffers(FP32, (4, 4), 2)
    k.op("local_store", k.op("buffer_index", tile, 0), k.op("constant", 1.0, Tensor(FP32, (4, 4))))
    y = k.pointer(FP32, "y")
    k.store(y, k.op("local_load", k.op("buffer_index", tile, 0), None))
    k.store(y, k.op("local_load", k.op("buffer_index", tile, 1), None))
    with pytest.raises(UnwrittenRead, match=r"'tiles'\[1\], element \(0, 0\), which nobody has written, and store") as caught:
        k.run(np.zeros(16, np.float32))
    assert line_of(caught.value).endswith('1), None))')


def test_views_share_memory_and_marks():
    """A tile is written in two slices, and read through its transpose."""
    k = Sketch()
    y = k.pointer(FP32, "y")
    whole = k.op("buffer_index", k.buffers(FP32, (4, 8), 1), 0)
    left = k.op("buffer_slice", whole, (0, 0), (4, 4))
    right = k.op("buffer_slice", whole, (0, k.const(4)), (4, 4))
    k.op("local_store", left, k.op("constant", 1.0, Tensor(FP32, (4, 4))))
    k.op("local_store", right, k.op("constant", 2.0, Tensor(FP32, (4, 4))))
    k.store(y, k.op("local_load", k.op("buffer_trans", whole, (1, 0)), None))
    out = np.zeros((8, 4), np.float32)
    k.run(out)
    assert out.tolist() == [[1.0] * 4] * 4 + [[2.0] * 4] * 4


def test_half_a_tile_is_not_enough():
    k = Sketch()
    whole = k.op("buffer_index", k.buffers(FP32, (4, 8), 1), 0)
    left = k.op("buffer_slice", whole, (0, 0), (4, 4))
    k.op("local_store", left, k.op("constant", 1.0, Tensor(FP32, (4, 4))))
    k.store(k.pointer(FP32, "y"), k.op("local_load", whole, None))
    with pytest.raises(UnwrittenRead, match=r"element \(0, 4\)"):
        k.run(np.zeros(32, np.float32))


@pytest.mark.parametrize("index, offset", [(2, 0), (-1, 0), (0, 5)])
def test_views_stay_inside(index, offset):
    k = Sketch()
    tile = k.op("buffer_index", k.buffers(FP32, (4, 8), 2), k.const(index))
    k.op("buffer_slice", tile, (0, k.const(offset)), (4, 4))
    with pytest.raises(OutOfBounds, match="index|elements 5 to 9 along axis 1"):
        k.run()


def store_tile(reduce="", waits=True, overwrite=False, start=0.0):
    k = Sketch()
    y = k.descriptor(FP32, (4, 8), "y")
    tile = k.op("buffer_index", k.buffers(FP32, (4, 8), 1), 0)
    k.op("local_store", tile, k.op("constant", 3.0, Tensor(FP32, (4, 8))))
    k.op("fence", "async_shared")
    k.op("tma_store", y, (k.const(2), k.const(4)), tile, None, reduce)
    if waits:
        k.op("tma_store_wait", 0)
    if overwrite:
        k.op("local_store", tile, k.op("constant", 9.0, Tensor(FP32, (4, 8))))
    return k


@pytest.mark.parametrize("reduce, expected", [("", 3.0), ("add", 8.0), ("min", 3.0), ("max", 5.0)])
def test_stores_leave_out_what_lies_outside(reduce, expected):
    y = np.full((5, 10), 5.0, np.float32)
    store_tile(reduce).run(HostTensor(y))
    inside = np.full((5, 10), 5.0)
    inside[2:, 4:] = expected
    assert y.tolist() == inside.tolist()


@pytest.mark.parametrize("waits, written", [(True, 3.0), (False, 9.0)])
def test_a_store_reads_its_buffer_when_it_lands(waits, written):
    """Seed 0 lands as late as it can: a source overwritten before the wait goes out wrong."""
    y = np.zeros((5, 10), np.float32)
    store_tile(waits=waits, overwrite=True).run(HostTensor(y), seed=0)
    assert y[2, 4] == written


@pytest.mark.parametrize("signed, expected", [(True, -1), (False, 2)])
def test_integer_reductions_go_by_the_descriptors_sign(signed, expected):
    k = Sketch()
    y = k.descriptor(I32, (1, 4), "y", signed=signed)
    k.op("descriptor_reduce", "MIN", y, k.op("constant", 2, Tensor(I32, (1, 4))), (k.const(0), k.const(0)))
    out = np.full((1, 4), -1, np.int32)
    k.run(HostTensor(out))
    assert out.tolist() == [[expected] * 4]


def cp_async(waits, pending=0, groups=2, mask=False):
    """Load rows of 8 in `groups` groups; read all `waits` of them after waiting for all but `pending`."""
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(FP32, "y")
    tiles = k.buffers(FP32, (8, ), groups)
    condition = k.op("icmpSLT", k.arange(8), k.op("constant", 5, Tensor(I32, (8, )))) if mask else None
    other = k.op("constant", -1.0, Tensor(FP32, (8, ))) if mask else None
    for i in range(groups):
        at = k.grid(k.op("addptr", x, k.const(8 * i)), (8, ))
        token = k.op("async_load", at, k.op("buffer_index", tiles, i), condition, other, None, False)
        k.op("async_commit", (token, ))
    k.op("async_wait", pending, ())
    for i in range(waits):
        k.store(k.op("addptr", y, k.const(8 * i)), k.op("local_load", k.op("buffer_index", tiles, i), None))
    return k


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pending, readable", [(0, 3), (1, 2), (2, 1)])
def test_groups_finish_oldest_first(pending, readable, seed):
    x, y = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    cp_async(readable, pending, groups=3).run(x, y, seed=seed)
    assert y[:8 * readable].tolist() == x[:8 * readable].tolist()


def test_the_newest_group_is_not_readable_yet():
    with pytest.raises(UnwrittenRead, match="the async_load .* has landed(.|\n)*commits and waits for that"):
        cp_async(2, 1).run(np.zeros(16, np.float32), np.zeros(16, np.float32))


def test_an_empty_group_counts():
    k = Sketch()
    x, tile = k.pointer(FP32, "x"), k.op("buffer_index", k.buffers(FP32, (8, ), 1), 0)
    token = k.op("async_load", k.grid(x, (8, )), tile, None, None, None, False)
    k.op("async_commit", (token, ))
    k.op("async_commit", ())
    k.op("async_wait", 1, ())
    k.op("local_load", tile, None)
    assert k.run(np.zeros(8, np.float32)).counts["local_load"] == 1


def test_a_load_that_was_not_committed_is_not_waited_for():
    k = Sketch()
    x, tile = k.pointer(FP32, "x"), k.op("buffer_index", k.buffers(FP32, (8, ), 1), 0)
    k.op("async_load", k.grid(x, (8, )), tile, None, None, None, False)
    k.op("async_wait", 0, ())
    k.op("local_load", tile, None)
    with pytest.raises(UnwrittenRead):
        k.run(np.zeros(8, np.float32))


def test_masked_elements_get_other_and_are_not_read():
    x, y = np.arange(5, dtype=np.float32), np.zeros(8, np.float32)
    cp_async(1, groups=1, mask=True).run(x, y)
    assert y.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


def test_a_wrong_address_is_the_issuing_lines_error():
    with pytest.raises(OutOfBounds, match="async_load reads") as caught:
        cp_async(1, groups=1).run(np.zeros(5, np.float32), np.zeros(8, np.float32))
    assert 'k.op("async_load"' in line_of(caught.value)
