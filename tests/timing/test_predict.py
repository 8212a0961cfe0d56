"""Predicted timelines: the sums of the cost model, what bounds a kernel, and whose bubbles they are."""

import json
from importlib import import_module

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import SimulatorMisuse, TargetError
from mimw.simulator.costs import Figure, Model
from tests.kernels.clusters import swap
from tests.kernels.drawn_tiles import drawn
from tests.kernels.lines import line_of
from tests.kernels.product import WAITS, product, product_case
from tests.kernels.rounds_by_data import as_often_as_told, branches, told_by_a_peer, told_in_tiles, until_small

# One SM at 1 GHz, so that a cycle is a nanosecond; everything small is free.
_FREE = """
    launch.first_cta launch.next_cta launch.tasks launch.join issue.scalar issue.division issue.reduce shared.latency
    shared.store_latency barrier.wait barrier.wake barrier.arrive barrier.expect barrier.named barrier.named_wake
    barrier.fence barrier.cluster tensor.latency tensor.issue tensor.wait tma.issue tma.wait tma.load_ns
    tma.load_dram_ns tma.store_ns copy.wait copy.ns copy.dram_ns global.ns global.dram_ns
"""
ROUND = {name: 0 for name in _FREE.split()} | {
    "chip.sms": 1, "chip.boost_mhz": 1000, "chip.shared_bytes": 233472, "chip.shared_reserved": 1024,
    "chip.registers": 65536, "chip.warps": 64, "chip.ctas": 32, "chip.l2_bytes": 1 << 20, "launch.microseconds": 2,
    "rate.float": 1 << 30, "rate.compare": 1 << 30, "rate.int": 1 << 30, "rate.convert": 1 << 30,
    "rate.special": 1 << 30, "shared.bytes": 128, "tensor.macs_16": 2048, "tensor.operand_bytes": 1 << 20,
    "copy.issue_bytes": 1 << 30, "atomic.ns": 700, "memory.sm_gb_per_s": 64, "memory.sm_store_gb_per_s": 1e12,
    "memory.l2_gb_per_s": 1e6, "memory.l2_store_gb_per_s": 1e12, "memory.dram_gb_per_s": 1e6,
}


@pytest.fixture
def chip(monkeypatch):
    """`chip(name=value, ...)` predicts for a chip of round figures, with those changed."""
    def change(**figures):
        found = ROUND | {name.replace("__", "."): value for name, value in figures.items()}
        made = Model("sm_90a", "round figures", {name: Figure(value, "", "a test") for name, value in found.items()})
        monkeypatch.setattr(import_module("mimw.tools.timing.predict"), "model", lambda target: made)
    return change


def predicted(case):
    kernel, grid, args, meta = case
    return mimw.predict(kernel, grid, *args, **meta)


# A slot is 64 x 64 of A and of B in fp16, 16 KiB: 256 cycles to load; a dot of 64 x 64 x 64 takes 128.

def test_loads_bound_a_ring(chip):
    chip()
    found = predicted(product_case(stages=4))
    assert found.cycles == pytest.approx(16 * 256 + 128)              # sixteen slots, and the last one's dot
    assert found.microseconds == pytest.approx(2 + found.cycles / 1000) and found.launch == 2
    assert f"2.0 us of the launch and {found.cycles:,.0f} cycles (4.2 us)" in str(found)
    assert found.units["inbound"] == pytest.approx(16 * 256 / found.cycles)
    assert found.units["tensor"] == pytest.approx(16 * 128 / found.cycles)
    assert found.bound.startswith("loads into the SM")


@mimw.jit
def nothing(x):
    pass


def test_the_time_of_a_kernel_without_work_is_the_launch(chip):
    chip()
    found = mimw.predict(nothing, (1, ), np.zeros(4, np.float32))
    assert (found.cycles, found.microseconds, found.as_json()["launch_microseconds"]) == (0, 2, 2)
    assert "2.0 us at 1,000 MHz, on round figures: all of it the launch (2.0 us)" in str(found)
    assert found.bound.startswith("the launch") and "\n\n" not in str(found) and "busy" not in str(found)


def test_dots_bound_a_ring(chip):
    chip(memory__sm_gb_per_s=256)
    found = predicted(product_case(stages=4))
    assert found.cycles == pytest.approx(64 + 16 * 128)               # the first slot, then dots back to back
    assert found.bound.startswith("tensor cores")


@pytest.mark.parametrize("stages, cycles", [(1, 16 * (256 + 300 + 128)), (2, 256 + 300 + 128 + 7 * (256 + 300 + 128) + 256),
                                            (4, 16 * 256 + 300 + 128)])
def test_too_few_stages_show_as_bubbles(chip, stages, cycles):
    """With a latency of 300 one slot waits for everything, two hide a part of it, four all."""
    chip(tma__load_ns=300, tma__load_dram_ns=300)
    found = predicted(product_case(stages=stages))
    assert found.cycles == pytest.approx(cycles)
    waits = {bubble.lane[1]: bubble for bubble in reversed(found.bubbles())}
    assert waits["consumer"].what == "full" and waits["consumer"].site.line == line_of(product, WAITS)
    assert waits["consumer"].time == pytest.approx((cycles - 16 * 128) / 1000)


def test_a_latency_bound_kernel_says_so(chip):
    chip(tma__load_ns=3000, tma__load_dram_ns=3000)
    found = predicted(product_case(stages=1))
    assert found.bound.startswith("latency: no unit is busy more than")
    assert "for full at " in found.bound and f"product.py:{line_of(product, WAITS)}" in found.bound


def test_the_share_of_memory_bounds(chip):
    """One SM of one has all of L2: 16 GB/s are 16 bytes a cycle at 1 GHz."""
    chip(memory__l2_gb_per_s=16)
    found = predicted(product_case())
    assert found.cycles == pytest.approx(16 * 1024 + 128, rel=0.02)
    assert found.bound.startswith("L2 bandwidth")


def test_loads_that_a_wave_shares_come_from_l2(chip):
    """Eight programs on eight SMs ask for the same bytes: one in eight loads goes to DRAM."""
    chip(chip__sms=8, chip__l2_bytes=1)
    kernel, _, args, meta = product_case()
    assert mimw.predict(kernel, (8, ), *args, **meta).from_dram == pytest.approx(1 / 8)
    assert mimw.predict(kernel, (1, ), *args, **meta).from_dram == 1.0


@mimw.jit
def behind_a_table(x, table, out, NUMBERS: tl.constexpr):
    """Sixteen tiles that all programs load, behind numbers of a table."""
    total = 0
    for number in range(NUMBERS):
        total += tl.load(table + number)
    sums = tl.zeros((64, ), tl.float32)
    for tile in range(16):
        sums += tl.load(x + tile * 64 + tl.arange(0, 64))
    tl.store(out + tl.program_id(0) * 64 + tl.arange(0, 64), sums + total)


@pytest.mark.parametrize("numbers", [1, 40])
def test_numbers_of_a_table_do_not_hide_that_tiles_are_shared(chip, numbers):
    """What is looked at are the first loads of each program: of tiles, however many numbers come before them."""
    chip(chip__sms=8, chip__l2_bytes=1)
    args = np.zeros(1024, np.float32), np.zeros(64, np.int32), np.zeros(512, np.float32)
    assert mimw.predict(behind_a_table, (8, ), *args, NUMBERS=numbers).from_dram == pytest.approx(1 / 8)


def test_more_ctas_than_the_sm_holds_come_in_waves(chip):
    chip(chip__shared_bytes=2 * (4 * 16384 + 16384 + 2048))      # with the scratch of a compiled kernel
    kernel, _, args, meta = product_case()
    one, six = (mimw.predict(kernel, (programs, ), *args, **meta) for programs in (1, 6))
    assert one.residency == (2, "shared memory") and one.waves == 1
    assert six.waves == 3
    assert six.cycles == pytest.approx(6 * 16 * 256 + 128, rel=0.02)     # the loads of all six, one after the other


def test_ctas_that_are_left_out_count(chip):
    chip(chip__shared_bytes=4 * 16384 + 2048)
    kernel, _, args, meta = product_case(k=256)
    whole, sampled = (mimw.predict(kernel, (12, ), *args, ctas=ctas, **meta) for ctas in (12, 4))
    assert sampled.simulated == (4, 12) and sampled.cycles == pytest.approx(whole.cycles, rel=0.01)


def test_power_holds_the_clock_down(chip):
    chip(power__base=0.5, power__tensor=1.5, memory__sm_gb_per_s=1 << 20)
    found = predicted(product_case())
    assert found.units["tensor"] > 0.95
    assert found.megahertz == pytest.approx(1000 / (0.5 + 1.5 * found.units["tensor"]), rel=0.01)
    assert found.microseconds == pytest.approx(2 + found.cycles / found.megahertz)


@mimw.jit
def loads_a_trip_ahead(x, y, FIRST: tl.constexpr, TRIPS: tl.constexpr, TILES: tl.constexpr):
    at = tl.arange(0, 128) if TILES else 0
    ahead, total = tl.load(x + at), tl.zeros([128], tl.float32)
    for trip in range(1, TRIPS + 1):
        here = ahead
        if FIRST:
            ahead = tl.load(x + trip * 128 + at)
            total += here
        else:
            total += here
            ahead = tl.load(x + trip * 128 + at)
    tl.store(y + tl.arange(0, 128), total + ahead)


@pytest.mark.parametrize("first, trips_a_latency, tiles", [(False, 1, True), (True, 2, True), (True, 2, False)])
def test_what_a_loop_loads_for_its_next_trip_is_waited_for_there(chip, first, trips_a_latency, tiles):
    chip(global__dram_ns=1000)
    x, y = np.zeros(17 * 128, np.float32), np.zeros(128, np.float32)
    found = mimw.predict(loads_a_trip_ahead, (1, ), x, y, FIRST=first, TRIPS=16, TILES=tiles)
    assert found.cycles == pytest.approx(17 / trips_a_latency * 1000, rel=0.1)


def test_arrays_are_left_alone(chip):
    chip()
    case = product_case(fill=np.ones)
    predicted(case)
    assert not case[2][2].any()


def test_a_counter_goes_on_as_fast_as_all_programs_draw(chip):
    """Four programs draw sixteen tiles: the one that is simulated gets every fourth, and the counter is put back."""
    chip(chip__sms=4)
    counter, order = np.zeros(1, np.int32), np.full(16, -1, np.int32)
    found = mimw.predict(drawn, (4, ), counter, order, 16, LIMIT=16)
    assert counter[0] == 0 and (order == -1).all()
    assert 4 * 700 <= found.cycles < 5 * 700                       # four draws of a round trip each


def test_loops_that_depend_on_data(chip):
    """What is loaded is looked at where the course depends on it; what is copied is not there."""
    chip(shared__latency=100)
    x, out = np.full(128, 100.0, np.float32), np.zeros(128, np.float32)
    found = mimw.predict(until_small, (1, ), x, out, SIZE=128, COPIED=False)
    assert 8 * 100 <= found.cycles < 9 * 100 and not out.any()         # seven rounds until 100 is below 1, and the last load
    with pytest.raises(SimulatorMisuse, match="bounds of a loop come from a copy") as error:
        mimw.predict(until_small, (1, ), x, out, SIZE=128, COPIED=True)
    assert "while highest" in str(error.value)


@pytest.mark.parametrize("how", ["pointers", "masked", "atomics", "old values"])
def test_loops_that_depend_on_shared_memory_written_through_pointers(chip, how):
    """Each round reads a tile of shared memory, 100 cycles: the rounds are those of a real launch, whatever way the number took."""
    chip(shared__latency=100)
    out = np.zeros(128, np.float32)
    none, some, many = (mimw.predict(as_often_as_told, (1, ), np.full(1, told, np.int32), out, SIZE=32, HOW=how).cycles
                        for told in (3, 10, 1003))
    assert some - none == pytest.approx(7 * 104) and many - none == pytest.approx(1000 * 104)


@pytest.mark.parametrize("how", ["stores", "atomics", "loads"])
def test_loops_that_depend_on_what_other_ctas_hold(chip, how):
    chip(chip__sms=2, cluster__bytes=32, cluster__latency=200)
    told, out = np.full(1, 5, np.int32), np.zeros(32, np.int32)
    with pytest.raises(SimulatorMisuse, match="come from a copy, a dot or another CTA") as error:
        mimw.predict(told_by_a_peer, (1, ), told, out, SIZE=32, HOW=how)
    assert "for i in range(rounds)" in str(error.value)


def test_elements_of_other_ctas_take_the_clusters_network(chip):
    """32 elements of 4 bytes at 32 bytes a cycle, and the latency until they are there; the loop goes by a number from memory."""
    chip(chip__sms=2, cluster__bytes=32, cluster__latency=200)
    out = np.zeros(32, np.int32)
    found = mimw.predict(told_by_a_peer, (1, ), np.full(1, 5, np.int32), out, SIZE=32, HOW="memory")
    store = next(event for event in found.trace.events if event.lane == "cluster")
    assert store.end - store.start == pytest.approx(4 / 1000) and not out.any()
    assert found.cycles >= 204


def test_a_cluster_is_simulated_whole(chip):
    """Each of two CTAs stores 8 KiB into the other, 32 bytes a cycle and a latency of 200, before both meet."""
    chip(chip__sms=2, cluster__bytes=32, cluster__latency=200)
    x, y = np.zeros((4, 32, 64), np.float32), np.zeros((4, 32, 64), np.float32)
    found = mimw.predict(swap, (4, ), x, y, tl.float32, 32, 64, ctas_per_cga=(2, 1, 1))
    assert {cta for cta, _ in found.trace.lanes()} == {0, 1, 2, 3} and found.waves == 1        # both clusters at once
    store = next(event for event in found.trace.events if event.lane == "cluster")
    met = next(event for event in found.trace.events if event.label == "its stores to other CTAs")
    assert store.end - store.start == pytest.approx(256 / 1000) and met.end == pytest.approx(store.end + 200 / 1000)


def test_branches_that_depend_on_data_are_taken_and_said(chip):
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    chip()
    free = mimw.predict(branches, (1, ), x, out, 5, SIZE=128)
    chip(rate__special=64)
    found = mimw.predict(branches, (1, ), x, out, 5, SIZE=128)
    assert [site.line for site in found.assumed] == [line_of(branches, "if tl.max(value, 0)")]
    assert f"the branch at {found.assumed[0]}" in str(found)
    assert found.cycles - free.cycles == pytest.approx(128 / 64, rel=0.01)           # the division in it


def test_the_same_launch_is_the_same_prediction(chip):
    chip(tma__load_ns=300)
    first, second = predicted(product_case()), predicted(product_case())
    assert first.trace.events == second.trace.events and first.cycles == second.cycles


def test_a_chip_without_figures():
    kernel, grid, args, meta = product_case()
    with pytest.raises(TargetError, match="there is no cost model of sm_120a.*There are .*sm_90a"):
        mimw.predict(kernel, grid, *args, target="sm_120a", **meta)


def test_pictures_and_plain_data(tmp_path):
    found = predicted(product_case())
    for name in ("a.json", "a.html", "a.svg"):
        found.write(tmp_path / name)
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["otherData"]["unit"] == "us" and {event["ph"] for event in read["traceEvents"]} == {"M", "X"}
    assert max(event.get("ts", 0) + event.get("dur", 0) for event in read["traceEvents"]) < found.microseconds
    assert all(said in (tmp_path / "a.html").read_text() for said in ("7.4 us", "4.0 us of the launch", "waits for", "Units of"))
    assert json.loads(json.dumps(found.as_json()))["bound"] == found.bound
    assert found.bound in str(found) and "tensor cores" in str(found)


@mimw.jit
def assembled(x, y, ASM: tl.constexpr):
    at = tl.arange(0, 4096)
    tile = tl.load(x + at)
    for _ in tl.static_range(16):
        tile = tl.inline_asm_elementwise(ASM, "=f,f", [tile], tl.float32, True, 1)
    tl.store(y + at, tile)


def test_assembly_of_plain_instructions_is_arithmetic():
    """What a special function costs, only an instruction that is none of the plain ones does."""
    x = np.zeros(4096, np.float32)
    plain, special = (mimw.predict(assembled, (1, ), x, x, one, target="sm_90a").microseconds
                      for one in ("add.f32 $0, $1, $1;", "tanh.approx.f32 $0, $1;"))
    assert plain < special


@pytest.mark.parametrize("number, stored", [(2, 2 * 512), (3, 2 * 512 + 32)])
def test_a_branch_on_a_tile_in_an_argument_is_known(chip, number, stored):
    """It is taken where the numbers that were stored, one more each, are above 3: a store more. Arrays are left as they are."""
    chip(memory__sm_store_gb_per_s=1)
    x, words, out = np.full(128, number, np.int32), np.zeros(128, np.int32), np.zeros(128, np.int32)
    found = predicted((told_in_tiles, 1, (x, words, out), dict(SIZE=128)))
    assert found.units["outbound"] * found.cycles == pytest.approx(stored)
    assert not found.assumed and not words.any() and not out.any()
