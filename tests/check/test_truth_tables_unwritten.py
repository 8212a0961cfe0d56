"""Truth tables of elements that nobody has written: they may be read and computed with; what they become may not be used.

As attention does it, a task scales an accumulator in every trip, also in the first one, in which the product overwrites it. The
report names the read and the use.
"""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly

from .tables import SWITCHES, found, lines_of, right, rows, states


@mimw.jit
def corrected(a_ptr, c_ptr, STEPS: tl.constexpr, FRESH: tl.constexpr, SCALED_BY: tl.constexpr, ZEROS: tl.constexpr):
    """acc = acc * 0.5 + a a[:16], STEPS times: one task scales, one multiplies."""
    tile = tlx.local_alloc((64, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem)
    factors = tlx.local_alloc((64, ), tl.float32, 1)
    scaled, done = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    tlx.fence("async_shared")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            rows = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
            if ZEROS:
                tlx.local_store(acc[0], tl.zeros((64, 16), tl.float32))
            for i in range(STEPS):
                factor = tl.full((64, ), 0.5, tl.float32)
                if SCALED_BY == "buffer":
                    factor = tlx.local_load(factors[0])
                old = tlx.local_load(acc[0])                        # read
                tlx.local_store(acc[0], old * factor[:, None])
                tlx.local_store(factors[0], tl.full((64, ), 0.5, tl.float32))
                tlx.barrier_arrive(scaled[0])
                tlx.barrier_wait(done[0], i & 1)
            tl.store(c_ptr + rows, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):
            for i in range(STEPS):
                tlx.barrier_wait(scaled[0], i & 1)
                adds = i > 0 if FRESH else i >= 0
                tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=adds, mBarriers=[done[0]])  # use


@states("tmem_load", "tmem_store", "tcgen05_mma")
def correction(steps=3, fresh=True, zeros=False, scaled_by="number"):
    a, c = np.ones((64, 16), np.float16), np.zeros((64, 16), np.float32)
    return corrected, (1, ), (a, c), dict(STEPS=steps, FRESH=fresh, SCALED_BY=scaled_by, ZEROS=zeros, target="sm_100a")


@rows("fresh", "zeros")
def test_an_accumulator_that_is_scaled_before_it_is_written(fresh, zeros):
    """Right iff the first product overwrites it, or somebody has written zeros there."""
    assert right(correction(fresh=fresh, zeros=zeros), "random") == (fresh or zeros)
    if fresh or zeros:
        kernel, grid, args, meta = correction(fresh=fresh, zeros=zeros)
        mimw.simulate(kernel, grid, *args, **meta)
        assert (args[1] == 16 * (1 + 0.5 + 0.25)).all()


def test_the_read_and_the_product_that_keeps_it_are_named():
    one = found(correction(fresh=False), "UnwrittenRead")
    first = corrected.fn.__code__.co_firstlineno
    source = open(__file__).read().splitlines()
    assert {line for line in lines_of(one)} == {
        next(number for number, text in enumerate(source, 1) if text.endswith(mark) and number > first)
        for mark in ("# read", "# use")}
    assert "reads 'acc'[0], element (0, 0), which nobody has written, and tcgen05_mma" in one.message


@rows("fresh", "zeros")
def test_factors_that_nobody_has_written(fresh, zeros):
    """What is scaled by poison is poison, and no zeros help: it survives iff the product keeps it."""
    assert right(correction(fresh=fresh, zeros=zeros, scaled_by="buffer"), "random") == fresh


def test_the_form_compiles():
    meta = {name: value for name, value in correction()[3].items() if name != "target"}
    ptx = to_assembly(corrected, dict(a_ptr="*fp16", c_ptr="*fp32"), meta, target="sm_100a").stage("ptx")
    assert "tcgen05.ld" in ptx and "tcgen05.st" in ptx and "tcgen05.mma" in ptx


@mimw.jit
def picked(x_ptr, y_ptr, n, USE: tl.constexpr, WRITE: tl.constexpr):
    """A buffer of 32 of which 16 are written at most; then one way to use what was read."""
    tile = tlx.local_alloc((32, ), tl.float32, 1)
    at = tl.arange(0, 32)
    if WRITE:
        tlx.local_store(tlx.local_slice(tile[0], [0], [16]), tl.load(x_ptr + tl.arange(0, 16)))
    value = tlx.local_load(tile[0])
    known = at < n
    if USE == "select":
        tl.store(y_ptr + at, tl.where(known, value, 0.0))
    elif USE == "mask":
        tl.store(y_ptr + at, value, mask=known)
    elif USE == "reduce":
        tl.store(y_ptr, tl.sum(tl.where(known, value, 0.0), 0))
    elif USE == "and":
        tl.store(y_ptr + at, 1.0, mask=known & (value == 1.0))
    elif USE == "other":
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=~known, other=value), mask=known)
    elif USE == "address":
        tl.store(y_ptr + value.to(tl.int32), 1.0, mask=known)
    elif USE == "branch":
        if tl.sum(tl.where(known, value, 0.0), 0) > 100.0:
            tl.store(y_ptr, 1.0)
    elif USE == "shapes":
        square = tl.trans(value.reshape(2, 16) * 1.0)
        both = tl.where(known.reshape(2, 16).trans(1, 0), square, 0.0)
        tl.store(y_ptr + at, tl.reshape(both, (32, )))
    elif USE == "scan":
        tl.store(y_ptr + at, tl.cumsum(value, 0), mask=known)
    elif USE == "again":
        tlx.local_store(tile[0], value + 1.0)
        tl.store(y_ptr + at, tlx.local_load(tile[0]), mask=known)
    elif USE == "atomic":
        tl.atomic_add(y_ptr + at, value, mask=known)
    elif USE == "loop":
        for _ in range(3):
            value = value * 2.0
        tl.store(y_ptr + at, value, mask=known)


USES = ["select", "mask", "reduce", "and", "other", "address", "branch", "shapes", "scan", "again", "atomic", "loop"]


@states("local_load", "local_store")
def use_of_a_read(use="select", n=16, write=True):
    return picked, (1, ), (np.ones(32, np.float32), np.zeros(32, np.float32), n), dict(USE=use, WRITE=write)


@pytest.mark.parametrize("write", SWITCHES)
@pytest.mark.parametrize("use", USES)
def test_every_use(use, write):
    """Elements that nobody has written may be in the tile, and in none of those that are used."""
    assert right(use_of_a_read(use, 16, write), "random") == write
    assert not right(use_of_a_read(use, 17, write), "random")


@pytest.mark.parametrize("use, said", [("address", "takes it as an address"), ("branch", "branches on it"), ("and", "as a mask"),
                                       ("mask", "puts it into global memory"), ("atomic", "puts it into global memory")])
def test_the_report_says_how(use, said):
    one = found(use_of_a_read(use, 17), "UnwrittenRead")
    assert "local_load reads 'tile'[0], element (16,), which nobody has written, and " in one.message and said in one.message
    assert len(lines_of(one)) == 2 and one.hint.startswith("store or load into it")


@mimw.jit
def handed_over(y_ptr, USE: tl.constexpr):
    """One task reads what nobody has written and stores it in a buffer; the other one takes it from there, and may store it."""
    source, tile = tlx.local_alloc((64, ), tl.float32, 1), tlx.local_alloc((64, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            value = tlx.local_load(tile[0])
            tl.store(y_ptr + tl.arange(0, 64), value if USE else tl.zeros((64, ), tl.float32))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tlx.local_load(source[0]) * 2.0)
            tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("use", SWITCHES)
def test_it_stays_what_it_is_from_task_to_task(use):
    launch = handed_over, (1, ), (np.zeros(64, np.float32), ), dict(USE=use)
    assert right(launch, "random") == (not use)
    if use:
        one = found(launch, "UnwrittenRead")
        assert "reads 'source'[0]" in one.message and "of task 'default'" in one.message and len(lines_of(one)) == 2
