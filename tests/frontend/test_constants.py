"""Replica numbers under plain names, and comprehensions over constants."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.ir import print_program
from mimw.runtime.simulate import prepare


@mimw.jit
def ids_of_helpers():
    rank = tlx.async_task_replica_id()
    return 9 + rank


@mimw.jit
def needs_constant(y, WHERE: tl.constexpr, VALUE: tl.constexpr):
    tl.store(y + WHERE, VALUE)


@mimw.jit
def plainly_named(y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4, replicate=2):
            cid = tlx.async_task_replica_id()
            bar = 9 + cid
            other = ids_of_helpers() ^ 3
            bar -= 1
            tlx.named_barrier_arrive(bar + 1, 256)
            tlx.named_barrier_wait(9 + cid, 256) if cid < 0 else None
            needs_constant(y, cid * 4, bar)
            needs_constant(y, 4 * cid + 1, other)
            if cid == 0:
                name: tl.constexpr = "first"
                tl.static_assert(name == "first")
                tl.store(y + 2, 7)
            else:
                tl.store(y + 6, 8)
            first, second = cid, -cid
            needs_constant(y, 4 * first + 3, second)


@mimw.jit
def named_and_indexed(x, y, ROUNDS: tl.constexpr):
    tiles = tlx.local_alloc((32, ), tl.int32, 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1, replicate=2):
            cid = tlx.async_task_replica_id()
            at = tl.arange(0, 32)
            tlx.local_store(tiles[cid], tl.load(x + cid * 32 + at))
            tile = cid
            total = tl.zeros((32, ), tl.int32)
            n = tl.num_programs(0) * ROUNDS
            while tile < n:
                total += tlx.local_load(tiles[cid]) * tile
                tile += 2
            step = cid
            if tl.program_id(0) == 0:
                step = step + 10
            for i in range(2):
                cid2 = tlx.async_task_replica_id()
                needs_constant(y, 64 + cid2, cid2)
                step += cid2
            wide = cid.to(tl.int64)
            tl.store(y + tl.multiple_of(cid * 32, 32) + at, total + step + wide.to(tl.int32))


def test_plain_names_stay_constants():
    y = np.full(8, -1, np.int32)
    mimw.simulate(plainly_named, (1, ), y)
    assert y.tolist() == [8, 9 ^ 3, 7, 0, 9, 10 ^ 3, 8, -1]


def test_loops_and_branches_make_them_numbers(machine):
    x, y = np.arange(64, dtype=np.int32), np.zeros(66, np.int32)
    machine.launch(named_and_indexed, (1, ), x, y, 6)
    for cid in range(2):
        tiles = sum(range(cid, 6, 2))
        assert (y[32 * cid:32 * cid + 32] == x[32 * cid:32 * cid + 32] * tiles + (cid + 10 + 2 * cid) + cid).all()
    assert y[64:].tolist() == [0, 1]


@mimw.jit
def both_branches(y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1, replicate=2):
            if tl.program_id(0) == 0:
                found = tlx.async_task_replica_id()
            else:
                found = 5
            tl.store(y + tlx.async_task_replica_id(), found)


def test_an_if_that_decides_gives_a_number():
    y = np.zeros(2, np.int32)
    mimw.simulate(both_branches, (1, ), y)
    assert y.tolist() == [0, 1]


@mimw.jit
def ordinary(y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            n = 2
            needs_constant(y, 0, n)
            tlx.local_alloc((32, ), tl.int32, n)


def test_other_constants_do_not():
    with pytest.raises(Exception, match="must be a constexpr"):
        mimw.simulate(ordinary, (1, ), np.zeros(2, np.int32))


@mimw.jit
def several(x, y, N: tl.constexpr):
    at = tl.arange(0, 32)
    sums = [tl.zeros((32, ), tl.float32) for _ in range(N)]
    tiles = [tl.load(x + i * 32 + at) for i in tl.static_range(N)]
    for k in range(3):
        sums = [total + tile * k for total, tile in [(sums[0], tiles[0]), (sums[1], tiles[1])]]
    scaled = [sums[i] * 2 for i in range(0, N, 1) if i != 1]
    i = 3
    for j in tl.static_range(N):
        tl.store(y + j * 32 + at, sums[j])
    tl.store(y + N * 32 + at, scaled[0] + i)
    tl.store(y + N * 32 + 32 + at, 0.0 + sum_of([each + 0 for each in sums]))


@mimw.jit
def sum_of(tiles):
    total = tiles[0]
    for i in tl.static_range(1, len(tiles)):
        total += tiles[i]
    return total


def test_comprehensions_over_ranges(machine):
    x, y = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((4, 32), np.float32)
    machine.launch(several, (1, ), x, y, 2)
    assert (y[:2] == 3 * x).all() and (y[2] == 6 * x[0] + 3).all() and (y[3] == 3 * x.sum(0)).all()


@mimw.jit
def by_run_time(y, n):
    tlx.clock64()
    zeros = [tl.zeros((32, ), tl.float32) for _ in range(n)]
    tl.store(y + tl.arange(0, 32), zeros[0])


def test_run_time_bounds_are_refused():
    with pytest.raises(Exception, match="goes through a tuple or a range of constants, and `range.n.` is neither") as caught:
        mimw.simulate(by_run_time, (1, ), np.zeros(32, np.float32), 2)
    assert "make the bound a tl.constexpr" in str(caught.value)


def test_no_scalar_is_made_of_a_kept_one():
    """A number in each copy, as if the author had written it."""
    text = print_program(prepare(plainly_named, (1, ), (np.zeros(8, np.int32), ), {}).program)
    assert "named_barrier_arrive" in text and " add " not in text


@mimw.jit
def sum_from(start, n):
    total = 0
    while start < n:
        total += start
        start += 2
    return total


@mimw.jit
def more_if(cid, flag):
    if flag:
        cid = cid + 5
    return cid


@mimw.jit
def early_return(cid, flag):
    if flag:
        return cid
    return 7


@mimw.jit
def ways_of_use(y, n):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1, replicate=2):
            cid = tlx.async_task_replica_id()
            s = 0
            for t in range(cid, n, 2):
                s += t
            tl.store(y + cid * 16 , s)
            tl.store(y + cid * 16 + 1, sum_from(cid, n))
            tl.store(y + cid * 16 + 2, more_if(cid, n > 3))
            tl.store(y + cid * 16 + 3, tl.where(cid == 0, 4, 5))
            tl.store(y + cid * 16 + 4, early_return(cid, n > 3))
            state = (cid, 1)
            for i in range(3):
                state = (state[0] + 1, state[1] * 2)
            tl.store(y + cid * 16 + 5, state[0] * 10 + state[1])
            phase = cid
            for i in range(3):
                phase ^= 1
            tl.store(y + cid * 16 + 6, phase)
            tl.store(y + cid * 16 + 7, tl.minimum(cid, n) + (cid if n > 2 else 9) + min(cid, 1) + (not cid))
            a, b = cid, n
            for i in range(2):
                a, b = b, a
            tl.store(y + cid * 16 + 8, a)
            at = tl.arange(0, 4) + cid * 4
            tl.store(y + cid * 16 + 12 + tl.arange(0, 4), at)
            x = cid
            if n > 100:
                x += 1
            elif n > 2:
                x += 2
            else:
                x = 0
            tl.store(y + cid * 16 + 9, x)
            if cid > 0 and n > 2:
                tl.store(y + 10, 77)
            off = cid * 64 // 2 % 7
            tl.store(y + cid * 16 + 11, off)


def test_ways_of_use(machine):
    """As a bound, an argument that helpers assign, a condition, in tuples and operators, before loops that assign it."""
    y, n = np.zeros((2, 16), np.int32), 6
    machine.launch(ways_of_use, (1, ), y, n)
    wanted = [[sum(range(cid, n, 2)), sum(range(cid, n, 2)), cid + 5, 4 + cid, cid, 10 * (cid + 3) + 8, cid ^ 1,
               3 * cid + (cid == 0), cid, cid + 2, 77 * (cid == 0), cid * 64 // 2 % 7, *(4 * cid + i for i in range(4))]
              for cid in range(2)]
    assert y.tolist() == wanted


@mimw.jit
def rounded_up(y, N: tl.constexpr):
    at = tl.arange(0, triton.next_power_of_2(N))
    tl.store(y + at, at, mask=at < triton.cdiv(N, 1))


def test_functions_that_a_server_puts_into_triton_are_constants(monkeypatch):
    """SGLang replaces `triton.next_power_of_2` by a plain function, for its host; kernels compile all the same."""
    def next_power_of_2(n):
        return 1 << (n - 1).bit_length()

    monkeypatch.setattr(triton, "next_power_of_2", next_power_of_2)
    y = np.zeros(5, dtype=np.int32)
    mimw.simulate(rounded_up, (1, ), y, 5)
    assert y.tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr(triton, "next_power_of_2", lambda n: 8)
    with pytest.raises(mimw.errors.LanguageError, match="is a Python function, which a kernel cannot call"):
        mimw.simulate(rounded_up, (1, ), y, 6)
