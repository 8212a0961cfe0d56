"""Arrivals for copies that are still in flight, on chips of AMD: values, races, deadlocks, mutants, and waits by count in the code.

A ring of S slots: one task copies, the other adds up, and gives a slot back BEHIND chunks later; a chunk may reach over the edge.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import TensorDescriptor, tle, tlx
from mimw.compiler.passes import PASSES, Context
from mimw.errors import DataRace, Deadlock
from mimw.ir import Program
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.target import target
from mimw.tools.explain.loops import own_loop_text

AMD = ("gfx942", "gfx950", "gfx1250")


@mimw.jit
def summed(x_desc, y, steps, S: tl.constexpr, N: tl.constexpr, BEHIND: tl.constexpr):
    """y = the sum of the blocks (N, N) of x."""
    tiles = tlx.local_alloc((N, N), tl.float32, S)
    full, free = tlx.alloc_barriers(S), tlx.alloc_barriers(S)
    with tlx.async_tasks():
        with tlx.async_task("default"):         # load
            for i in range(steps):
                slot = i % S
                tlx.barrier_wait(free[slot], (i // S & 1) ^ 1)
                tlx.barrier_expect_bytes(full[slot], N * N * 4)
                tlx.async_descriptor_load(x_desc, tiles[slot], [i * N, 0], full[slot])
        with tlx.async_task(num_warps=4):       # add
            total = tl.zeros((N, N), tl.float32)
            for i in range(steps):
                tlx.barrier_wait(full[i % S], i // S & 1)
                total += tlx.local_load(tiles[i % S])
                if i >= BEHIND:
                    tlx.barrier_arrive(free[(i - BEHIND) % S])
            tl.store(y + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], total)


@mimw.jit
def alternating(x_desc, y, steps, N: tl.constexpr):
    """y = the sum of x0 x1 + x2 x3 ..: two rings, one of one slot, which a task fills in turn."""
    left, right = tlx.local_alloc((N, N), tl.float32, 1), tlx.local_alloc((N, N), tl.float32, 2)
    of_left, of_right = tlx.alloc_barriers(1), tlx.alloc_barriers(2)
    left_free, right_free = tlx.alloc_barriers(1), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):         # load
            for i in range(steps):
                tlx.barrier_wait(left_free[0], (i & 1) ^ 1)
                tlx.barrier_expect_bytes(of_left[0], N * N * 4)
                tlx.async_descriptor_load(x_desc, left[0], [2 * i * N, 0], of_left[0])
                tlx.barrier_wait(right_free[i % 2], (i // 2 & 1) ^ 1)
                tlx.barrier_expect_bytes(of_right[i % 2], N * N * 4)
                tlx.async_descriptor_load(x_desc, right[i % 2], [(2 * i + 1) * N, 0], of_right[i % 2])
        with tlx.async_task(num_warps=4):       # add
            total = tl.zeros((N, N), tl.float32)
            for i in range(steps):
                tlx.barrier_wait(of_right[i % 2], i // 2 & 1)
                second = tlx.local_load(right[i % 2])
                tlx.barrier_arrive(right_free[i % 2])
                tlx.barrier_wait(of_left[0], i & 1)
                total += tlx.local_load(left[0]) * second
                tlx.barrier_arrive(left_free[0])
            tl.store(y + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], total)


@mimw.jit
def piped(x_desc, y, steps, N: tl.constexpr):
    """As `summed`, by a pipe of three slots."""
    pipe = tle.pipe(capacity=3, x=tle.gpu.alloc([3, N, N], tl.float32))
    with tlx.async_tasks():
        with tlx.async_task("default"):         # load
            for i in range(steps):
                tle.gpu.copy(x_desc, pipe.writer().acquire(i).x, [N, N], [i * N, 0])
                pipe.writer().commit(i)
        with tlx.async_task(num_warps=4):       # add
            total = tl.zeros((N, N), tl.float32)
            for i in range(steps):
                total += tlx.local_load(pipe.reader().wait(i).slot.x)
                pipe.reader().release(i)
            tl.store(y + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], total)


def launch(kernel=summed, rows=104, n=16, steps=None, **meta):
    """(kernel, grid, arguments, meta, x, y) for so many steps, by default all of the tensor's: the last block has 8 rows in it."""
    x, y = np.random.default_rng(0).standard_normal((rows, n)).astype(np.float32), np.zeros((n, n), np.float32)
    steps = -(-rows // n) // (1 + (kernel is alternating)) if steps is None else steps
    return kernel, (1, ), (TensorDescriptor.from_tensor(x, [n, n]), y, steps), dict(N=n, **meta), x, y


def expected(x, steps, kernel=summed):
    blocks = np.concatenate((x, np.zeros((-len(x) % 16, 16), np.float32))).reshape(-1, 16, 16)
    return ((blocks[:-1:2] * blocks[1::2])[:steps] if kernel is alternating else blocks[:steps]).sum(0)


def loops(program: Program) -> list:
    return [loop for loop in program.named("for") if loop.attrs.get("later")]


RINGS = [dict(S=slots, BEHIND=behind) for slots in (1, 2, 3) for behind in range(slots)]


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_no_order_of_the_tasks_ends_in_a_deadlock_or_a_race(ring):
    """Also where the consumer holds all slots but one: the producer then makes its arrivals before it waits."""
    kernel, grid, args, meta, _, _ = launch(rows=72, **ring)
    report = mimw.check(kernel, grid, *args, target="gfx950", search="both", seeds=4, limit=40, jobs=1, rounds=False, **meta)
    assert not report.findings, str(report)
    kept = loops(prepare(kernel, grid, args, meta, "gfx950").program)
    assert [loop.attrs["later"] for loop in kept] == [ring["S"] - 1] * (ring["S"] > 1)


@pytest.mark.parametrize("chip", AMD)
@pytest.mark.parametrize("kernel, meta, later", [(summed, dict(S=3, BEHIND=1), 2), (alternating, {}, 1), (piped, {}, 2)])
def test_values(kernel, meta, later, chip):
    """With no trip, one, as many as the ring has slots, and more; the last block over the edge, or not."""
    for rows, steps in ((8, 1), (96, 3), (104, 0), (104, 3), (104, None)):
        kernel, grid, args, all_meta, x, y = launch(kernel, rows, steps=steps, **meta)
        mimw.simulate(kernel, grid, *args, target=chip, races=True, **all_meta)
        np.testing.assert_allclose(y, expected(x, args[2], kernel), atol=1e-4)
    assert [loop.attrs["later"] for loop in loops(prepare(kernel, grid, args, all_meta, chip).program)] == [later]


# ---- what would be wrong ------------------------------------------------------------------------------------------------


def changed(program: Program, name: str, change) -> Program:
    """The program with `change` of each op of that name; None takes an op away."""
    def block(one):
        made = (change(op) if op.name == name else op.with_blocks(block) for op in one.ops)
        return one.with_ops(op for op in made if op is not None)

    return replace(program, body=block(program.body))


def later_wait(op):
    """A wait of the loop that leaves one group more in flight than it may."""
    return op.with_operands(pending=op.pending + 1) if op.attrs.get("in_flight") else op


def never_before(op):
    """The look ahead of a wait finds a slot, whatever there is: the arrivals stay kept."""
    return replace(op, name="constant", args=(True, op.result.type), attrs={})


def without_arrival(op):
    """The arrivals behind the loop are left out."""
    return None if op.attrs.get("in_flight") and op.predicate is not None else op


@pytest.mark.parametrize("name, change, wrong", [
    ("async_wait", later_wait, DataRace), ("barrier_test", never_before, Deadlock),
    ("barrier_arrive", without_arrival, Deadlock)])
def test_mutants_are_found(name, change, wrong):
    kernel, grid, args, meta, x, y = launch(S=3, BEHIND=2)
    made = prepare(kernel, grid, args, meta, "gfx950")
    run(made.program, made.grid, made.values, races=True)
    np.testing.assert_allclose(y, expected(x, args[2]), atol=1e-4)
    with pytest.raises(wrong):
        for seed in range(4):
            run(changed(made.program, name, change), made.grid, made.values, races=True, seed=seed)


# ---- what stays as it is ------------------------------------------------------------------------------------------------


@mimw.jit
def reading(x_desc, y, steps, N: tl.constexpr):
    """A task that looks at what it has copied."""
    tiles, full = tlx.local_alloc((N, N), tl.float32, 2), tlx.alloc_barriers(2)
    total = tl.zeros((N, N), tl.float32)
    for i in range(steps):
        tlx.barrier_expect_bytes(full[i % 2], N * N * 4)
        tlx.async_descriptor_load(x_desc, tiles[i % 2], [i * N, 0], full[i % 2])
        tlx.barrier_wait(full[i % 2], i // 2 & 1)
        total += tlx.local_load(tiles[i % 2])
    tl.store(y + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], total)


@mimw.jit
def jumping(x_desc, y, steps, N: tl.constexpr):
    """Blocks whose place in the tensor grows by ever more."""
    tiles, full = tlx.local_alloc((N, N), tl.float32, 2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(steps):
                tlx.barrier_expect_bytes(full[i % 2], N * N * 4)
                tlx.async_descriptor_load(x_desc, tiles[i % 2], [i * i * N, 0], full[i % 2])
        with tlx.async_task(num_warps=4):
            tlx.barrier_wait(full[0], 0)
            tl.store(y + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(tiles[0]))


@pytest.mark.parametrize("kernel, meta, why", [
    (reading, {}, r"tlx.local_load|local_load at line \d+ stands among its copies"),
    (jumping, {}, r"in which trips the blocks reach over an edge is not known in front of it"),
    (summed, dict(S=1, BEHIND=0), "each trip fills the same buffer, or arrives on the same barrier")])
def test_the_reason_is_told(kernel, meta, why):
    kernel, grid, args, meta, _, _ = launch(kernel, rows=32, **meta)
    program = prepare(kernel, grid, args, meta, "gfx950").program
    assert not loops(program) and re.search(rf"each trip waits for its copies: .*{why}", own_loop_text(program))


def test_chips_that_count_bytes_are_left_alone():
    kernel, grid, args, meta, _, _ = launch(S=3, BEHIND=0)
    program = prepare(kernel, grid, args, meta, "sm_90a").program
    step = next(one for one in PASSES if one.name == "arrive_later")
    assert step(program, Context(target("sm_90a"))) is program and not own_loop_text(program)


# ---- the code -----------------------------------------------------------------------------------------------------------

WAIT = {"gfx942": ("global_load_lds_dword ", "s_waitcnt vmcnt(8)"), "gfx950": ("global_load_lds_dwordx4", "s_waitcnt vmcnt(2)"),
        "gfx1250": ("global_load_async_to_lds_b128", "s_wait_asynccnt 0x4")}


@pytest.mark.parametrize("chip", AMD)
def test_the_loop_waits_by_count(chip):
    """Behind the copies of a trip, four loads a lane on gfx942, one and two, the copies of two trips stay in flight."""
    kernel, grid, args, meta, _, _ = launch(S=3, BEHIND=0, n=32, rows=96)
    compiled = mimw.compile(kernel, grid, *args, target=chip, **meta)
    assert compiled.hsaco[:4] == b"\x7fELF" and compiled.stack_bytes == 0
    copy, wait = WAIT[chip]
    behind = [part[:200] for part in compiled.amdgcn.split("; wait_asyncmark(2)")[1:]]
    assert copy in compiled.amdgcn and any(wait in part for part in behind)
