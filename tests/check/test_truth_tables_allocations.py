"""Memory that an op allocates again and again, as Triton's TTGIR does: mbarriers that begin and end, buffers of each trip of a
loop, and buffers that are freed. No word records these ops, so the programs are written op by op; each is right, or wrong in one
place.
"""

from dataclasses import replace

import numpy as np
import pytest

from mimw.errors import (
    BarrierMisuse,
    BarrierNotReady,
    CopyReadEarly,
    DataRace,
    MissingFence,
    OperandOverwritten,
    SlotReusedEarly,
    SourceOverwritten,
    TooManyArrivals,
    UnwrittenRead,
)
from mimw.ir import ALONE, Buffer, LaunchFacts, Tensor, parse_program, print_program
from mimw.simulator import run
from tests.simulator.programs import FP16, FP32, HostTensor, Sketch, line_of

SHAPE = (16, 16)
TRIPS = 3


def memory(k, count=1, name="bars"):
    return k.op("barrier_memory", count, named=name)


def one(k, bars, index=0):
    return k.op("barrier_index", bars, index)


def found(k, kind, *arrays, seeds=(0, 1, 2), races=True, grid=(1, ), cluster=ALONE):
    """The error of each seed, all of one kind; None if the program has to be right, on each seed."""
    errors, program = [], replace(k.finish(), launch_facts=LaunchFacts(cluster))
    paths = list(dict.fromkeys(param.path for param in k.params))
    for seed in seeds:
        try:
            run(program, grid, dict(zip(paths, arrays, strict=True)), seed=seed, races=races)
        except Exception as error:
            if kind is None or not isinstance(error, kind):
                raise
            errors.append(error)
    assert len(errors) == (len(seeds) if kind else 0)
    return errors[0] if errors else None


# ---- barriers that begin and end -----------------------------------------------------------------------------------------


def loads(where="outside", drop=""):
    """Each trip copies a tile in by TMA and stores it: its barrier begins, is used for one phase, and ends. The memory of the
    barrier is allocated outside of the loop or in it."""
    k = Sketch()
    desc, y = k.descriptor(FP32, SHAPE, "x"), k.pointer(FP32, "y")
    tile, outside = k.op("buffer_index", k.buffers(FP32, SHAPE, 1), 0), memory(k) if where == "outside" else None

    def trip(index):
        bar = one(k, outside or memory(k))
        if drop != "init":
            k.op("barrier_init", bar, 1)
        k.op("barrier_expect", bar, 4 * 256, None)
        k.op("tma_load", desc, (k.const(0), k.op("mul", index, k.const(16))), bar, tile, None, None)
        if drop != "wait":
            k.op("barrier_wait", bar, k.const(0), None)
            k.store(y, k.op("local_load", tile, None))
        if drop != "invalidate":
            k.op("barrier_invalidate", bar)
        k.op("fence", "async_shared")

    k.loop(TRIPS, trip)
    return k


def arrays():
    return HostTensor(np.arange(16 * 48, dtype=np.float32).reshape(16, 48)), np.zeros(SHAPE, np.float32)


@pytest.mark.parametrize("where", ["outside", "in the loop"])
def test_a_barrier_of_each_trip(where):
    x, y = arrays()
    found(loads(where), None, x, y)
    np.testing.assert_array_equal(y, x.base[:, 32:])


@pytest.mark.parametrize("where, drop, kind, lines", [
    ("outside", "init", BarrierNotReady, ("barrier_expect", "barrier_memory")),
    ("outside", "invalidate", BarrierMisuse, ("barrier_init", "barrier_init")),
    ("outside", "wait", BarrierMisuse, ("barrier_invalidate", "tma_load")),
    ("in the loop", "init", BarrierNotReady, ("barrier_expect", "barrier_memory")),
    ("in the loop", "wait", BarrierMisuse, ("barrier_invalidate", "tma_load"))])
def test_one_op_of_a_life_is_left_out(where, drop, kind, lines):
    error = found(loads(where, drop), kind, *arrays())
    for number, line in enumerate(lines):
        assert line in line_of(error, number)


def test_fresh_memory_needs_no_invalidation_of_what_nobody_uses():
    found(loads("in the loop", "invalidate"), None, *arrays())


def test_memory_is_not_allocated_again_under_a_copy():
    def make(waits):
        k = Sketch()
        desc, tile = k.descriptor(FP32, SHAPE, "x"), k.op("buffer_index", k.buffers(FP32, SHAPE, TRIPS), 0)

        def trip(index):
            bar = one(k, memory(k))
            k.op("barrier_init", bar, 1)
            k.op("barrier_expect", bar, 4 * 256, None)
            k.op("tma_load", desc, (k.const(0), k.const(0)), bar, tile, None, None)
            if waits:
                k.op("barrier_wait", bar, k.const(0), None)

        k.loop(TRIPS, trip)
        return k

    found(make(True), None, arrays()[0])
    error = found(make(False), BarrierMisuse, arrays()[0])
    assert "allocates again the memory of 'bars'[0]" in str(error) and '"tma_load"' in line_of(error, 1)


USES = {
    "barrier_wait": lambda k, bar: k.op("barrier_wait", bar, k.const(1), None),
    "barrier_test": lambda k, bar: k.op("barrier_test", bar, k.const(1)),
    "barrier_phase": lambda k, bar: k.op("barrier_phase", bar),
    "barrier_arrive": lambda k, bar: k.op("barrier_arrive", bar, 1, None),
    "barrier_expect": lambda k, bar: k.op("barrier_expect", bar, 0, None),
    "barrier_bytes": lambda k, bar: k.op("barrier_bytes", bar, 0),
    "tcgen05_commit": lambda k, bar: k.op("tcgen05_commit", bar, None),
    "barrier_invalidate": lambda k, bar: k.op("barrier_invalidate", bar),
}


@pytest.mark.parametrize("races", [True, False])
@pytest.mark.parametrize("use", USES)
def test_a_barrier_is_used_between_its_two_ends(use, races):
    def make(ended):
        k = Sketch()
        bar = one(k, memory(k, 2), 1)
        if ended is not None:
            k.op("barrier_init", bar, 1)
        if ended:
            k.op("barrier_invalidate", bar)
        USES[use](k, bar)
        return k

    found(make(False), None, seeds=[0], races=races)
    error = found(make(None), BarrierNotReady, seeds=[0], races=races)
    assert f'"{use}"' in line_of(error, 0) and '"barrier_memory"' in line_of(error, 1)
    assert "'bars'[1], which nobody has initialised" in str(error)
    error = found(make(True), BarrierMisuse, seeds=[0], races=races)
    assert f'"{use}"' in line_of(error, 0) and '"barrier_invalidate"' in line_of(error, 1)


def test_a_barrier_that_is_one_already():
    k = Sketch()
    bar = memory(k)
    k.op("barrier_init", bar, 2)
    k.op("barrier_arrive", bar, 1, None)
    k.op("barrier_init", bar, 2)
    error = found(k, BarrierMisuse, seeds=[0])
    assert "with 1 of 2 arrivals" in str(error) and "barrier_invalidate" not in str(error) and "mbarrier.inval" in str(error)


@pytest.mark.parametrize("arrivals, kind", [((2, ), None), ((1, 1), None), ((1, 2), TooManyArrivals)])
def test_each_life_has_its_count(arrivals, kind):
    k = Sketch()
    bar = memory(k)
    k.op("barrier_init", bar, 1)
    k.op("barrier_arrive", bar, 1, None)
    k.op("barrier_invalidate", bar)
    k.op("barrier_init", bar, 2)
    for count in arrivals:
        k.op("barrier_arrive", bar, count, None)
    k.op("barrier_wait", bar, k.const(0), None)
    found(k, kind, seeds=[0])


@pytest.mark.parametrize("count", [0, 1 << 20])
def test_as_many_arrivals_as_no_barrier_counts(count):
    k = Sketch()
    k.op("barrier_init", memory(k), count)
    assert f"{count} arrivals a phase" in str(found(k, BarrierMisuse, seeds=[0]))


def test_barriers_of_the_kernel_have_no_ends():
    k = Sketch()
    k.op("barrier_invalidate", k.barriers(1))
    assert "alloc_barriers has initialised" in str(found(k, BarrierMisuse, seeds=[0]))


@pytest.mark.parametrize("where, kind", [("before the tasks", None), ("in a task, told", None), ("in a task", BarrierNotReady)])
def test_who_may_know_that_a_barrier_has_begun(where, kind):
    k = Sketch()
    bars, told = memory(k), k.barriers(1, name="told")
    if where == "before the tasks":
        k.op("barrier_init", bars, 1)

    def first():
        if where != "before the tasks":
            k.op("barrier_init", bars, 1)
        k.op("barrier_arrive", told, 1, None)

    def second():
        if where != "in a task":
            k.op("barrier_wait", told, k.const(0), None)
        k.op("barrier_arrive", bars, 1, None)

    k.tasks(first=first, second=second)
    error = found(k, kind, seeds=range(6))
    if error is not None:
        assert '"barrier_arrive", bars' in line_of(error, 0)
        assert '"barrier_init"' in line_of(error, 1) or '"barrier_memory"' in line_of(error, 1)


@pytest.mark.parametrize("use", ["barrier_wait", "barrier_arrive"])
@pytest.mark.parametrize("where, kind", [("behind the tasks", None), ("in a task, told", None), ("in a task", BarrierMisuse)])
def test_who_may_know_that_a_barrier_is_used_no_more(where, kind, use):
    """The seed decides which of the two errors comes: the use that finds no barrier, or the end that comes before a use."""
    k = Sketch()
    bars, told = memory(k), k.barriers(1, name="told")
    k.op("barrier_init", bars, 1)

    def user():
        k.op(use, bars, *([k.const(1)] if use == "barrier_wait" else [1]), None)
        k.op("barrier_arrive", told, 1, None)

    def ender():
        if where == "in a task, told":
            k.op("barrier_wait", told, k.const(0), None)
        if where != "behind the tasks":
            k.op("barrier_invalidate", bars)

    k.tasks(user=user, ender=ender)
    if where == "behind the tasks":
        k.op("barrier_invalidate", bars)
    error = found(k, kind, seeds=range(8))
    if error is not None:
        assert {"k.op(use, bars" in line_of(error, number) for number in (0, 1)} == {True, False}
        assert any('"barrier_invalidate"' in line_of(error, number) for number in (0, 1))


def test_a_task_waits_for_a_barrier_that_ends():
    k = Sketch()
    bars, begun = memory(k), k.barriers(1, name="begun")
    k.op("barrier_init", bars, 1)

    def waiter():
        k.op("barrier_arrive", begun, 1, None)
        k.op("barrier_wait", bars, k.const(0), None)

    def ender():
        k.op("barrier_wait", begun, k.const(0), None)
        k.op("barrier_invalidate", bars)

    k.tasks(waiter=waiter, ender=ender)
    error = found(k, BarrierMisuse, seeds=range(4))
    assert any('"barrier_wait", bars' in line_of(error, number) for number in (0, 1))


@pytest.mark.parametrize("told, kind", [(True, None), (False, BarrierMisuse)])
def test_who_begins_a_barrier_anew_knows_that_it_has_ended(told, kind):
    k = Sketch()
    bars, over = memory(k), k.barriers(1, name="over")
    k.op("barrier_init", bars, 1)

    def first():
        k.op("barrier_invalidate", bars)
        k.op("barrier_arrive", over, 1, None)

    def second():
        if told:
            k.op("barrier_wait", over, k.const(0), None)
        k.op("barrier_init", bars, 1)

    k.tasks(first=first, second=second)
    error = found(k, kind, seeds=range(6))
    if error is not None:
        assert '"barrier_init"' in line_of(error, 0) or '"barrier_invalidate"' in line_of(error, 0)


@pytest.mark.parametrize("waits, kind", [(True, None), (False, BarrierMisuse)])
def test_a_commit_that_has_landed_and_nobody_has_waited_for(waits, kind):
    """Whether it has landed is the seed's; that nobody knows is not."""
    k = Sketch()
    bar, other = memory(k), k.barriers(1, name="other")
    k.op("barrier_init", bar, 1)
    k.op("tcgen05_commit", bar, None)
    k.op("barrier_arrive", other, 1, None)
    k.op("barrier_wait", other, k.const(0), None)
    if waits:
        k.op("barrier_wait", bar, k.const(0), None)
    k.op("barrier_invalidate", bar)
    error = found(k, kind, seeds=range(6))
    if error is not None:
        assert '"barrier_invalidate"' in line_of(error, 0) and '"tcgen05_commit"' in line_of(error, 1)


@pytest.mark.parametrize("drop, kind", [
    ("", None), ("init", BarrierNotReady), ("fence_mbarrier_init", BarrierNotReady), ("cluster_barrier", BarrierNotReady),
    ("wait", BarrierMisuse)])
def test_a_barrier_that_the_other_cta_arrives_on(drop, kind):
    k = Sketch()
    bar = memory(k)
    other = k.op("sub", k.const(1), k.op("cluster_cta_rank"))
    if drop != "init":
        k.op("barrier_init", bar, 1)
    for name in ("fence_mbarrier_init", "cluster_barrier"):
        if name != drop:
            k.op(name)
    k.op("remote_arrive", bar, 1, other, None)
    if drop != "wait":
        k.op("barrier_wait", bar, k.const(0), None)
    k.op("barrier_invalidate", bar)
    k.op("cluster_barrier")
    found(k, kind, seeds=range(4), grid=(2, ), cluster=(2, 1, 1))


# ---- buffers that are allocated again, and freed --------------------------------------------------------------------------


def again(k, shape=SHAPE, element=FP32, space="smem", name="tile"):
    return k.op("local_alloc", Buffer(element, tuple(shape), 0, space), named=name, layout=None, again=True)


def tma_store(k, wait):
    """A tile of each trip goes out by TMA."""
    desc = k.descriptor(FP32, SHAPE, "out")

    def use(tile, index):
        k.op("local_store", tile, k.op("splat", Tensor(FP32, SHAPE), k.const(1.0, FP32)))
        k.op("fence", "async_shared")
        k.op("tma_store", desc, (k.const(0), k.const(0)), tile, None, "")
        if wait:
            k.op("tma_store_wait", 0)

    return [HostTensor(np.zeros(SHAPE, np.float32))], use, lambda: k.op("tma_store_wait", 0)


def tma_load(k, wait):
    desc, full = k.descriptor(FP32, SHAPE, "x"), k.barriers(TRIPS)

    def use(tile, index):
        k.op("barrier_expect", k.bar(full, index), 4 * 256, None)
        k.op("tma_load", desc, (k.const(0), k.const(0)), k.bar(full, index), tile, None, None)
        if wait:
            k.op("barrier_wait", k.bar(full, index), k.const(0), None)

    return [HostTensor(np.zeros(SHAPE, np.float32))], use, lambda: [
        k.op("barrier_wait", k.bar(full, number), k.const(0), None) for number in range(TRIPS)]


def cp_async(k, wait):
    x = k.pointer(FP32, "x")

    def use(tile, index):
        k.op("async_load", k.grid(x, SHAPE), tile, None, None, None, False)
        k.op("async_commit", ())
        if wait:
            k.op("async_wait", 0, ())

    return [np.zeros(SHAPE, np.float32)], use, lambda: k.op("async_wait", 0, ())


def wgmma(k, wait):
    other = k.op("buffer_index", k.buffers(FP16, (64, 64), 1, "b"), 0)
    k.op("local_store", other, k.op("splat", Tensor(FP16, (64, 64)), k.const(1.0, FP16)))

    def use(tile, index):
        k.op("local_store", tile, k.op("splat", Tensor(FP16, (64, 64)), k.const(1.0, FP16)))
        acc = k.op("splat", Tensor(FP32, (64, 64)), k.const(0.0, FP32))
        pending = k.op("async_dot", tile, other, acc, None, 0, type=Tensor(FP32, (64, 64)))
        if wait:
            k.op("async_dot_wait", 0, pending)

    return [], use, None


def tensor_memory(k, wait):
    """The accumulator of each trip, in tensor memory."""
    a, b = (k.op("buffer_index", k.buffers(FP16, (128, 128), 1, name), 0) for name in "ab")
    done = k.barriers(TRIPS)
    for tile in (a, b):
        k.op("local_store", tile, k.op("splat", Tensor(FP16, (128, 128)), k.const(1.0, FP16)))

    def use(acc, index):
        k.op("tcgen05_mma", a, b, acc, False, None)
        k.op("tcgen05_commit", k.bar(done, index), None)
        if wait:
            k.op("barrier_wait", k.bar(done, index), k.const(0), None)
            k.op("tmem_load", acc)

    return [], use, None


CASES = {
    "tma_store": (tma_store, SHAPE, FP32, "smem", SourceOverwritten),
    "tma_load": (tma_load, SHAPE, FP32, "smem", CopyReadEarly),
    "async_load": (cp_async, SHAPE, FP32, "smem", CopyReadEarly),
    "async_dot": (wgmma, (64, 64), FP16, "smem", OperandOverwritten),
    "tcgen05_mma": (tensor_memory, (128, 128), FP32, "tmem", CopyReadEarly),
}


@pytest.mark.parametrize("frees", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_memory_changes_hands_under_a_copy(case, frees):
    """Each trip allocates its tile anew, or frees one that was allocated before the loop."""
    make, shape, element, space, kind = CASES[case]
    for wait in (True, False):
        k = Sketch()
        given, use, end = make(k, wait)

        def trip(index, k=k, use=use):
            tile = again(k, shape, element, space)
            use(tile, index)
            if frees:
                k.op("local_free", tile)

        k.loop(TRIPS, trip)
        if end is not None:
            end()
        error = found(k, None if wait else kind, *given)
        if error is not None:
            assert f'"{case}"' in line_of(error, 0)
            assert '"local_free"' in line_of(error, 1) if frees else "again=True" in line_of(error, 1)
            assert ("local_free at" if frees else "local_alloc at") in str(error)
            assert ("frees 'tile'" if frees else "allocates again 'tile'") in str(error)


@pytest.mark.parametrize("frees", [False, True])
@pytest.mark.parametrize("told", [True, False])
def test_memory_changes_hands_while_another_task_reads_it(told, frees):
    k = Sketch()
    done = k.barriers(1, name="done")
    tile = k.op("local_alloc", Buffer(FP32, SHAPE), named="tile", layout=None)
    k.op("local_store", tile, k.op("splat", Tensor(FP32, SHAPE), k.const(1.0, FP32)))

    def reader():
        k.op("local_load", tile, None)
        k.op("barrier_arrive", done, 1, None)

    def owner():
        if told:
            k.op("barrier_wait", done, k.const(0), None)
        if frees:
            k.op("local_free", tile)
        else:
            k.op("local_store", tile, k.op("splat", Tensor(FP32, SHAPE), k.const(2.0, FP32)))

    k.tasks(reader=reader, owner=owner)
    found(k, None if told else (SlotReusedEarly, DataRace), seeds=range(4))


@pytest.mark.parametrize("change, kind", [("", None), ("again", UnwrittenRead), ("free", UnwrittenRead)])
def test_nothing_is_left_of_what_was_written_before(change, kind):
    """Only the first trip writes the tile."""
    k = Sketch()
    y = k.pointer(FP32, "y")
    outside = None if change == "again" else k.op("local_alloc", Buffer(FP32, SHAPE), named="tile", layout=None)

    def trip(index):
        tile = outside or again(k)

        def write():
            k.op("local_store", tile, k.op("splat", Tensor(FP32, SHAPE), k.const(1.0, FP32)))

        k.when(k.op("icmpEQ", index, k.const(0)), write)
        k.store(y, k.op("local_load", tile, None))
        if change == "free":
            k.op("local_free", tile)

    k.loop(2, trip)
    found(k, kind, np.zeros(SHAPE, np.float32), seeds=[0])


@pytest.mark.parametrize("fence, kind", [(True, None), (False, MissingFence)])
def test_an_allocation_is_no_access(fence, kind):
    """What was read in the trip before is what the next copy has to be fenced from, and the allocation fences nothing."""
    k = Sketch()
    desc, y, full = k.descriptor(FP32, SHAPE, "x"), k.pointer(FP32, "y"), k.barriers(TRIPS)

    def trip(index):
        tile = again(k)
        k.op("barrier_expect", k.bar(full, index), 4 * 256, None)
        k.op("tma_load", desc, (k.const(0), k.const(0)), k.bar(full, index), tile, None, None)
        k.op("barrier_wait", k.bar(full, index), k.const(0), None)
        k.store(y, k.op("local_load", tile, None))
        if fence:
            k.op("fence", "async_shared")

    k.loop(TRIPS, trip)
    error = found(k, kind, *(HostTensor(np.ones(SHAPE, np.float32)), np.zeros(SHAPE, np.float32)), seeds=[0])
    if error is not None:
        assert '"local_load"' in line_of(error, 0) or "k.store" in line_of(error, 0)
        assert '"tma_load"' in line_of(error, 1)


def test_the_text_says_it_all():
    for k in (loads("in the loop"), loads("outside")):
        again(k)
        program = k.finish()
        text = print_program(program)
        assert "barrier_memory count=1" in text and "barrier_init" in text and "again=True" in text
        assert print_program(parse_program(text)) == text
