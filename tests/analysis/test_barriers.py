"""Who does what to which barriers."""

from mimw.compiler.analysis import Symbols, Uses, barrier_arrays, ring_of_wait, task_label
from tests.analysis.building import I32, Kernel, Pointer, ring_copy


def test_a_ring():
    full, free = barrier_arrays(ring_copy().program())
    assert (full.name, full.count, full.arrive_count, full.escapes) == ("full", 4, 1, False)
    assert [(one.kind, task_label(one.task), one.count, one.bytes) for one in full.accesses] == [
        ("expect", "load", 1, 16384), ("complete", "load", 0, 16384), ("wait", "mma", 0, 0)]
    assert [(one.kind, task_label(one.task)) for one in free.accesses] == [("wait", "load"), ("arrive", "mma")]


def test_names_and_single_barriers():
    k = Kernel()
    where = k.param("where")
    k.arrive(k.barriers("", 1))
    k.arrive(k.one(k.barriers("", 2), where))
    one, two = barrier_arrays(k.program())
    assert (one.name, two.name) == ("barriers0", "barriers1")
    assert [str(access.index) for array in (one, two) for access in array.accesses] == ["0", "%where.0"]


def test_rings_of_waits():
    uses = Uses(ring_copy(stages=3).program())
    full, free = barrier_arrays(uses.program, uses)
    assert [ring_of_wait(uses, array.of_kind("wait")[0]) for array in (full, free)] == [3, None]


def test_slots_of_two_tasks_are_the_same_expression():
    uses = Uses(ring_copy().program())
    symbols = Symbols(uses)
    full, free = barrier_arrays(uses.program, uses)
    expect, wait = full.of_kind("expect")[0], full.of_kind("wait")[0]
    assert expect.index is not wait.index
    assert symbols.of(expect.index) is not None
    assert symbols.of(expect.index) == symbols.of(wait.index)
    assert symbols.loops(expect.op) == symbols.loops(wait.op)
    assert symbols.of(wait.op.args[1]) != symbols.of(wait.index)


def test_rounds_of_two_loops_deep_are_told_apart():
    k = Kernel()
    bar = k.barriers("b", 4)
    with k.loop(4) as (i, _):
        with k.loop(4) as (j, _):
            k.arrive(k.one(bar, i))
            k.arrive(k.one(bar, j))
    uses = Uses(k.program())
    first, second = barrier_arrays(uses.program, uses)[0].accesses
    symbols = Symbols(uses)
    assert symbols.of(first.index) != symbols.of(second.index)


def test_what_a_task_reads_from_memory_is_not_compared():
    k = Kernel()
    bar, where = k.barriers("b", 4), k.param("where", Pointer(I32))
    with k.task("t"):
        k.arrive(k.one(bar, k.op("load", where, None, False)))
    uses = Uses(k.program())
    assert Symbols(uses).of(barrier_arrays(uses.program, uses)[0].accesses[0].index) is None
