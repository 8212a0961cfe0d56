"""A core with engines in time: what overlaps, what waits for what, and through which memories data go. Figures are the model's."""

import functools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.cli import main
from mimw.simulator.costs import model

CHIP = "ascend_910b"
UB, L1, L0A, L0B, L0C = (getattr(tle.dsa.ascend, name) for name in ("UB", "L1", "L0A", "L0B", "L0C"))
ENGINES = {"Scalar", "MTE1", "MTE2", "MTE3", "Vector", "Cube", "FixPipe"}


@mimw.jit
def doubled(x, y, TRIPS: tl.constexpr, N: tl.constexpr, SLOTS: tl.constexpr):
    """y = x + x, block by block, in SLOTS buffers by turns."""
    at = tl.arange(0, N)
    first = tle.dsa.alloc([N], tl.float32, UB)
    second = tle.dsa.alloc([N], tl.float32, UB)
    for i in tl.static_range(TRIPS):
        if SLOTS == 2 and i % 2:
            tle.dsa.copy(x + i * N + at, second, [N])
            tle.dsa.add(second, second, second)
            tle.dsa.copy(second, y + i * N + at, [N])
        else:
            tle.dsa.copy(x + i * N + at, first, [N])
            tle.dsa.add(first, first, first)
            tle.dsa.copy(first, y + i * N + at, [N])


@mimw.jit
def product(a, b, c, K: tl.constexpr, SCALED: tl.constexpr):
    """c = a @ b of 64 rows and columns, by way of L1 and L0; SCALED halves the sum in each trip, as attention does."""
    rows, ks = tl.arange(0, 64), tl.arange(0, 64)
    left, right = tle.dsa.alloc([64, 64], tl.float16, L1), tle.dsa.alloc([64, 64], tl.float16, L0B)
    total = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        tle.dsa.copy(a + rows[:, None] * K + (k + ks)[None, :], left, [64, 64])
        tle.dsa.copy(b + (k + ks)[:, None] * 64 + rows[None, :], right, [64, 64])
        if SCALED:
            total = total * 0.5
        total = tl.dot(tle.dsa.to_tensor(left), tle.dsa.to_tensor(right), total)
    tl.store(c + rows[:, None] * 64 + rows[None, :], total)


@functools.cache
def predicted(slots: int):
    x = np.empty(4 * 8192, np.float32)
    return mimw.predict(doubled, (8, ), x, x, TRIPS=4, N=8192, SLOTS=slots, target=CHIP)


@functools.cache
def multiplied(scaled: bool):
    a, c = np.empty(64 * 256, np.float16), np.empty(64 * 64, np.float32)
    return mimw.predict(product, (24, ), a, a, c, K=256, SCALED=scaled, target=CHIP)


@mimw.jit
def ahead(x, y, n, N: tl.constexpr, STAGES: tl.constexpr):
    """y = x + x by a loop of `tle.dsa.pipeline`."""
    at = tl.arange(0, N)
    block = tle.dsa.alloc([N], tl.float32, UB)
    for first in tle.dsa.pipeline(0, n, N, num_stages=STAGES):
        tle.dsa.copy(x + first + at, block, [N], inter_no_alias=True)
        tle.dsa.add(block, block, block)
        tle.dsa.copy(block, y + first + at, [N])


def lane(found, name: str):
    return [(event.start, event.end) for event in found.trace.events if event.lane == name and event.end > event.start]


def overlap(one, other) -> float:
    return sum(max(0.0, min(end, stop) - max(start, begin)) for start, end in one for begin, stop in other)


def test_one_buffer_takes_turns_and_two_overlap():
    """With one buffer a load waits until the store has read it; with two it only waits for the one before the last."""
    single, double = predicted(1), predicted(2)
    assert {name for _, name in double.trace.lanes()} == {"Scalar", "MTE2", "Vector", "MTE3"}
    assert overlap(lane(single, "MTE2"), lane(single, "MTE3")) == 0 < overlap(lane(double, "MTE2"), lane(double, "MTE3"))
    assert double.cycles < 0.8 * single.cycles
    for (_, stored), (loaded, _) in zip(lane(single, "MTE3"), lane(single, "MTE2")[1:]):
        assert loaded >= stored
    for (_, loaded), (added, _) in zip(lane(double, "MTE2"), lane(double, "Vector")):
        assert added >= loaded


def test_a_pipelined_loop_loads_ahead_of_its_trips():
    """Of two stages, the load of a trip is under way while the trip before is computed and stored."""
    x = np.empty(8 * 4096, np.float32)
    single, double = (mimw.predict(ahead, (8, ), x, x, 8 * 4096, N=4096, STAGES=stages, target=CHIP) for stages in (1, 2))
    for found, ahead_of_store in (single, False), (double, True):
        loads, stores = lane(found, "MTE2"), lane(found, "MTE3")
        assert len(loads) == len(stores) == 8
        assert all((load < stored) == ahead_of_store for (load, _), (_, stored) in zip(loads[1:], stores))
    assert double.cycles < 0.7 * single.cycles


@mimw.jit
def apart(x, y, n, N: tl.constexpr, PARALLEL: tl.constexpr):
    """y = x + x, block by block, in trips that are independent, or in turn."""
    at = tl.arange(0, N)
    block = tle.dsa.alloc([N], tl.float32, UB)
    if PARALLEL:
        for first in tle.dsa.parallel(0, n, N):
            tle.dsa.copy(x + first + at, block, [N])
            tle.dsa.add(block, block, block)
            tle.dsa.copy(block, y + first + at, [N])
    else:
        for first in range(0, n, N):
            tle.dsa.copy(x + first + at, block, [N])
            tle.dsa.add(block, block, block)
            tle.dsa.copy(block, y + first + at, [N])


def test_trips_of_a_parallel_loop_are_shared_by_vector_cores():
    """Each has a buffer of its own, so that neither waits for the other; a program then has both vector cores of an AI core."""
    x = np.empty(8 * 4096, np.float32)
    alone, both = (mimw.predict(apart, (8, ), x, x, 8 * 4096, N=4096, PARALLEL=parallel, target=CHIP) for parallel in (False, True))
    assert {name for _, name in both.trace.lanes()} == {"Scalar", "MTE2", "MTE2 1", "Vector", "Vector 1", "MTE3", "MTE3 1"}
    assert len(lane(both, "Vector")) == len(lane(both, "Vector 1")) == 4 and len(lane(alone, "Vector")) == 8
    assert both.cycles < 0.6 * alone.cycles


def test_a_kernel_without_products_has_the_vector_cores():
    found, costs = predicted(1), model(CHIP)
    assert (found.waves, found.simulated, found.core) == (1.0, (1, 1), "core") and found.megahertz == costs["chip.boost_mhz"]
    assert "1 program a core (by its scalar unit)" in str(found) and "never measured" in found.chip
    assert 4 * costs.elements("float", 4 * 8192) / found.cycles == pytest.approx(found.units["Vector"], rel=1e-6)
    assert costs.cores(multiplied_program()) == 24


def multiplied_program():
    from mimw.runtime.simulate import prepare
    a, c = np.empty(64 * 256, np.float16), np.empty(64 * 64, np.float32)
    return prepare(product, (1, ), (a, a, c), dict(K=256, SCALED=False), CHIP).program


def test_a_product_goes_by_l1_l0_and_the_fixpipe():
    found = multiplied(False)
    assert {name for _, name in found.trace.lanes()} == {"Scalar", "MTE1", "MTE2", "Cube", "FixPipe"}
    assert len(lane(found, "Cube")) == len(lane(found, "MTE1")) == 4 and len(lane(found, "FixPipe")) == 1
    assert lane(found, "FixPipe")[0][0] >= lane(found, "Cube")[-1][1]       # sums that a loop carries are there behind it
    assert found.units["Cube"] == pytest.approx(4 * model(CHIP).product(64, 64, 64, 16) / found.cycles, rel=1e-6)


def test_a_sum_that_vectors_scale_goes_through_global_memory():
    """L0C has no path to UB: each product leaves by FixPipe and comes back by MTE2, and is added to the scaled sum there."""
    plain, scaled = multiplied(False), multiplied(True)
    assert {name for _, name in scaled.trace.lanes()} == ENGINES
    labels = [event.label for event in scaled.trace.events if event.lane == "FixPipe"]
    assert labels == ["product to global"] * 4 and scaled.cycles > 1.5 * plain.cycles
    assert len(lane(scaled, "MTE3")) == 1       # the sum lies in UB in the end


def test_the_command_line(tmp_path, capsys):
    picture = tmp_path / "engines.json"
    assert main(["timeline", f"{__file__}:doubled", "--grid", "48", "--target", CHIP, "--output", str(picture), "--args",
                 "fp32[32768]", "fp32[32768]", "TRIPS=2", "N=4096", "SLOTS=2"]) == 0
    told = capsys.readouterr().out
    assert "on Ascend 910B (published figures, never measured)" in told and '"MTE3"' in picture.read_text().replace("cta 0 / ", "")


@mimw.jit
def mixed(x, y, n):
    """Pointers into a local memory, numbers that decide, an atomic add whose result goes on, a loop that data do not bound."""
    at = tl.arange(0, 64)
    block = tle.dsa.alloc([64], tl.float32, UB)
    tle.dsa.copy(x + at, block, [64])
    turned = tl.load(tle.dsa.local_ptr(block, (63 - at, )))
    if tl.load(x) > 0:
        turned += 1.0
    done = 0
    while done < n:
        tl.store(y + at, turned + tl.atomic_add(y, 1.0))
        done += 1


def test_all_that_a_kernel_may_do_has_a_time():
    """Also what no engine copies in one piece: picked elements are the vector unit's, a number is waited for by the scalar unit."""
    x = np.ones(64, np.float32)
    found = mimw.predict(mixed, (2, ), x, x.copy(), 3, target=CHIP)
    labels = {(event.lane, event.label) for event in found.trace.events}
    assert ("Scalar", "a load") in labels and ("Vector", "local_gather") in labels
    assert len(lane(found, "MTE3")) == 3 and found.cycles > 0


def test_shared_bandwidth_is_given_where_there_is_time():
    """The scalar unit is ahead: what it asks for later in the program may be there earlier in time."""
    from mimw.simulator.clock.queue import Gaps

    unit = Gaps()
    assert unit.take(100.0, 50.0) == 150.0
    assert unit.take(0.0, 60.0) == 60.0         # before that
    assert unit.take(10.0, 60.0) == 210.0       # no gap of 60 from 60 to 100
    assert unit.take(10.0, 40.0) == 100.0
    assert (unit.free, unit.busy) == (210.0, 210.0)
