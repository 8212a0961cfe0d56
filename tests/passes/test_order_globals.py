"""Barriers of a task between its accesses to global memory."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.passes import run_passes
from mimw.compiler.passes.order_globals import order_globals
from mimw.target import target
from tests.compiling import to_assembly
from tests.orchestrate.again import recorded

ACCESSES = {"load": "load", "masked_load": "load", "store": "store", "masked_store": "store", "atomic_rmw": "atomic",
            "barrier": "barrier", "descriptor_load": "box load", "descriptor_store": "box store", "tma_store_wait": "wait",
            "async_load": "copy"}


@mimw.jit
def accesses(u, v, box, n, s, CASE: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * s + tl.arange(0, 16)[None, :]
    if CASE == "read what was written":
        tl.store(u + at, 1.0)
        tl.store(v + at, tl.load(u + at))
    elif CASE == "read another tile":
        tl.store(u + at, 1.0)
        tl.store(v + at, tl.load(u + at + 16 * s))
    elif CASE == "read a shifted tile":
        tl.store(u + at, 1.0)
        tl.store(v + at, tl.load(u + at + 1))
    elif CASE == "read a row further down":
        tl.store(u + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], 1.0)
        tl.store(v + at, tl.load(u + 16 + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    elif CASE == "read the tile below":
        tl.store(u + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], 1.0)
        tl.store(v + at, tl.load(u + 256 + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    elif CASE == "read another array":
        tl.store(u + at, 1.0)
        tl.store(v + at, tl.load(v + at))
    elif CASE == "in place":
        for i in range(n):
            tl.store(u + at + i * 16, tl.load(u + at + i * 16) + 1.0)
    elif CASE == "in place, the same each trip":
        for i in range(n):
            tl.store(u + at, tl.load(u + at) + i)
    elif CASE == "in place, beside its rows":
        for i in range(n):
            tl.store(u + at + i * 16 + 1, tl.load(u + at + i * 16) + 1.0)
    elif CASE == "written over, not by what was read":
        x = tl.load(u + at)
        tl.store(u + at, 1.0)
        tl.store(v + at, x)
    elif CASE == "written twice":
        tl.store(u + at, 1.0)
        tl.store(u + at, tl.load(v + at))
    elif CASE == "written beside":
        tl.store(u + at, 1.0)
        tl.store(u + at + 16, 2.0)
    elif CASE == "part of it written again":
        tl.store(u + tl.arange(0, 64), 1.0)
        tl.store(u + tl.arange(0, 16), 2.0)
    elif CASE == "columns of a table":
        tl.store(u + tl.arange(0, 16) * 3, 1.0)
        tl.store(u + tl.arange(0, 16) * 3 + 1, 2.0)
    elif CASE == "one number":
        tl.store(u, 1.0)
        tl.store(v, tl.load(u))
    elif CASE == "the author's barrier":
        tl.store(u + at, 1.0)
        tl.debug_barrier()
        tl.store(v + at, tl.load(u + at))
    elif CASE == "in a branch":
        if n > 3:
            tl.store(u + at, 1.0)
        tl.store(v + at, tl.load(u + at))
    elif CASE == "a trip later":
        for i in range(n):
            x = tl.load(u + at + i * 16)
            tl.store(u + at + i * 16 + 16, 1.0)
            tl.store(v + at + i * 16, x)
    elif CASE == "atomics":
        tl.atomic_add(u + at, 1.0)
        tl.atomic_add(u + at, 1.0)
    elif CASE == "boxes":
        box.store([0, 0], tl.load(v + at))
        box.store([0, 0], 2 * tl.load(v + at))
    elif CASE == "boxes beside":
        box.store([0, 0], tl.load(v + at))
        box.store([0, 16], 2 * tl.load(v + at))
    elif CASE == "a box that is read":
        box.store([0, 0], tl.load(v + at))
        tl.store(v + at, box.load([0, 0]))
    elif CASE == "tasks":
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(u + at, 1.0)
                tl.store(v + at, tl.load(u + at))
            with tlx.async_task(num_warps=4):
                tl.store(v + at + 16 * s, 1.0)


@pytest.mark.parametrize("case, order", [
    ("read what was written", "store barrier load store"),
    ("read another tile", "store load store"),
    ("read a shifted tile", "store barrier load store"),
    ("read a row further down", "store barrier load store"),
    ("read the tile below", "store load store"),
    ("read another array", "store load store"),
    ("in place", "load store"),
    ("in place, the same each trip", "barrier load store"),
    ("in place, beside its rows", "barrier load barrier store"),
    ("written over, not by what was read", "load barrier store store"),
    ("written twice", "store load barrier store"),
    ("written beside", "store store"),
    ("part of it written again", "store barrier store"),
    ("columns of a table", "store store"),
    ("one number", "store barrier load store"),
    ("the author's barrier", "store barrier load store"),
    ("in a branch", "store barrier load store"),
    ("a trip later", "barrier load store store"),
    ("atomics", "atomic atomic"),
    ("boxes", "load box store load wait barrier box store"),
    ("boxes beside", "load box store load box store"),
    ("a box that is read", "load box store wait barrier box load store"),
    ("tasks", "store barrier load store store"),
])
def test_a_barrier_stands_where_another_thread_may_meet_an_element(case, order):
    program = recorded(accesses, ARGUMENTS(), {"CASE": case}).program
    found = order_globals(program, target("sm_90a"))
    assert " ".join(ACCESSES[op.name] for op in found.walk() if op.name in ACCESSES) == order
    assert ("barrier" in order and "author" not in case) == (found is not program and _count(found) > _count(program))
    again = order_globals(found, target("sm_90a"))
    assert _count(again) == _count(found), "what stands once is enough"


def ARGUMENTS():
    u, v, w = (np.zeros((64, 64), np.float32) for _ in range(3))
    return u, v, mimw.TensorDescriptor(w, [64, 64], [64, 1], [16, 16]), 4, 64


def _count(program):
    return sum(op.name == "barrier" for op in program.walk())


@mimw.jit
def products(a, b, u, v, n):
    """Sums in the layout of a product, in place, and read again: two layouts of one tile."""
    ring = tlx.local_alloc((64, 64), tl.float16, 1)
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tlx.local_store(ring[0], tl.load(b + rows * 64 + columns))
    for _ in range(n):
        acc = tl.dot(tl.load(a + rows * 64 + columns), tlx.local_load(ring[0]))
        tl.store(u + rows * 64 + columns, tl.load(u + rows * 64 + columns) + acc)
    tl.store(v + rows * 64 + columns, tl.load(u + rows * 64 + columns))


def test_stores_and_loads_of_two_layouts_have_a_barrier_between():
    """A wrong number on an H200, found by the fuzzer: lines of the store and of the load behind it, without a barrier."""
    signature = {"a": "*fp16", "b": "*fp16", "u": "*fp32", "v": "*fp32", "n": "i32"}
    code = to_assembly(products, signature, {}, target="sm_90a").stage("ptx")
    lines = [line.strip() for line in code.splitlines() if "st.global" in line or "ld.global" in line or "bar.sync" in line]
    kinds = "".join({"st": "s", "ld": "l", "ba": "b"}[line.lstrip("@%p0123456789! \t")[:2]] for line in lines)
    assert "sl" not in kinds, kinds


@pytest.mark.parametrize("chip", ["sm_90a", "gfx942", "gfx950"])
def test_on_each_chip(chip):
    """A barrier of the task's threads; on AMD no wait for a TMA store."""
    program = recorded(accesses, ARGUMENTS(), {"CASE": "read what was written"}).program
    assert [op.name for op in run_passes(program, target(chip)).walk() if op.name in ("store", "barrier", "load")] == [
        "store", "barrier", "load", "store"]


@mimw.jit
def staged(u, n):
    at = tl.arange(0, 2048)
    tl.store(u + 2047 - at, 1.0)
    for i in range(n):
        with tlx.warp_pipeline_stage("read"):
            x = tl.load(u + at)
        with tlx.warp_pipeline_stage("write"):
            tl.store(u + at, x + i)
    tl.store(u + at, tl.load(u + 2047 - at))


def test_around_stages_of_halves():
    """No barrier of all waves can stand in a stage; one stands before the loop, and one behind it."""
    program = recorded(staged, (np.zeros(2048, np.float32), 3), {"num_warps": 8}, "gfx950").program
    names = [op.name for op in order_globals(program, target("gfx950")).walk() if op.name in ("store", "barrier", "load", "for")]
    assert names == ["store", "barrier", "for", "load", "store", "barrier", "load", "barrier", "store"]
