"""Predicted launches on several GPUs: what goes over links takes the links' time, signals and barriers take theirs."""

from importlib import import_module

import numpy as np
import pytest

import mimw
from benchmarks import link_kernels
from benchmarks.link_kernels import launch_of
from mimw.errors import SimulatorMisuse, TargetError
from mimw.ir.trace import LINKS
from mimw.kernels import collectives
from tests.check.test_several_gpus import grouped, passed
from tests.kernels import spread_experts
from tests.kernels.several_gpus import gathering
from tests.kernels.told_behind_copies import told_behind_copies
from tests.timing.test_predict import ROUND, chip  # noqa: F401  a fixture

LINK = {"link.get_ns": 100, "link.put_ns": 200, "link.signal_ns": 1000, "link.fence_ns": 500, "link.barrier_ns": 2000,
        "link.put_gb_per_s": 64, "link.get_gb_per_s": 32, "link.sm_put_gb_per_s": 16, "link.sm_get_gb_per_s": 8}


@pytest.fixture
def links(chip):  # noqa: F811
    """A chip of round figures with links of such: a cycle is a nanosecond, a GB/s a byte of it."""
    chip(**{name.replace(".", "__"): value for name, value in (LINK | {"chip.sms": 4}).items()})


def moved(way, source, target, programs, elements=1 << 14, both=True, **more):
    world = mimw.World(2)
    x, y = (world.symmetric(elements, "int32", name) for name in "xy")
    meta = dict(N=1024, num_warps=4) | (dict(STAGES=4, UNREAD=2) if way == "TMA" else {}) | more
    grid, kernel, args, meta = launch_of(way, x, y, world, programs, 1, source, target, both, elements, **meta)
    return mimw.predict(kernel, grid, *args, **meta)


@pytest.mark.parametrize("way", ["vectors", "TMA"])
@pytest.mark.parametrize("source, target, whole, of_sm", [(0, 1, 64, 16), (1, 0, 32, 8)])
def test_an_sm_takes_so_much_of_a_link(links, way, source, target, whole, of_sm):
    """64 KiB by one SM, and by four, which fill the link; besides two barriers of 2000, and a latency."""
    size = 1 << 16
    alone, four = (moved(way, source, target, programs).cycles - 4000 for programs in (1, 4))
    assert size / of_sm <= alone < 1.4 * size / of_sm
    assert size / whole <= four < 2.1 * size / whole


def test_what_a_rank_copies_for_itself_takes_no_link(links):
    found = moved("vectors", 0, 0, 1)
    assert found.units["link out"] == 0 and not [event for event in found.trace.events if event.cta == LINKS]


def test_signals_take_their_time(links):
    world = mimw.World(2)
    flag = world.symmetric(1, "int32", "flag")
    few, many = (mimw.predict(link_kernels.round_trips, 1, flag, world, rounds).cycles for rounds in (2, 12))
    assert many - few == pytest.approx(10 * 2 * 1000, rel=0.01) and not any(one.any() for one in flag)
    few, many = (mimw.predict(link_kernels.meetings, 1, world, rounds).cycles for rounds in (1, 4))
    assert many - few == pytest.approx(3 * 2000)


def test_waits_have_their_lines_and_links_their_lanes(links):
    kernel, grid, args, meta = gathering(3)
    found = mimw.predict(kernel, grid, *args, **meta)
    lanes = {lane for cta, lane in found.trace.lanes() if cta == LINKS}
    assert lanes == {f"rank {one} to rank {other}" for one in range(3) for other in range(3) if one != other}
    assert sum(event.bytes for event in found.trace.events if event.cta == LINKS) == 6 * 16 * 16 * 4
    assert found.trace.ranks == {0: 0, 1: 1, 2: 2} and any("signal flags" in bubble.what for bubble in found.bubbles())
    assert {(wait["rank"], wait["cta"]) for wait in found.as_json()["waits"]} == {(0, 0), (1, 1), (2, 2)}
    assert not args[1][0].any() and not args[3][0].any(), "arrays are left as they are"


def test_programs_that_wait_for_others_are_all_run(links, monkeypatch):
    """Each program of a group waits for all of it: of one SM's there is one."""
    kernel, grid, *args = grouped(programs=4, wide=4)
    found = mimw.predict(kernel, grid, *args)
    assert found.simulated == (4, 4) and len(found.trace.ranks) == 8
    one = mimw.predict(*grouped(programs=8, wide=1))
    assert one.simulated == (2, 2)
    monkeypatch.setattr(import_module("mimw.tools.timing.predict"), "MOST_STEPS", 50)
    with pytest.raises(SimulatorMisuse, match="to run all 4 clusters of 2 GPUs takes more than 50 steps"):
        mimw.predict(kernel, grid, *args)


def test_the_figures_of_the_h200():
    """As measured: 46 GB/s of an SM, 357 of eight."""
    found = [moved("vectors", 0, 1, programs, 1 << 19, N=8192, num_warps=16).cycles / 1980 - 2 * 2.13 for programs in (1, 8)]
    assert 2.1e6 / 46e3 < found[0] < 1.5 * 2.1e6 / 46e3 and 2.1e6 / 370e3 < found[1] < 2 * 2.1e6 / 370e3
    with pytest.raises(TargetError, match="no figure 'link"):
        kernel, grid, *args = passed()
        mimw.predict(kernel, grid, *args, target="sm_100a")


def test_a_branch_by_rank_is_known(links):
    """What a table says is no data of the kernel."""
    found = moved("vectors", 0, 1, 1, both=False)
    senders = {event.lane for event in found.trace.events if event.cta == LINKS and event.bytes > 64}
    assert senders == {"rank 0 to rank 1"} and not found.assumed and np.isfinite(found.cycles)


def test_words_with_flags_arrive_when_the_link_has_brought_them(links):
    """Who looks at flags goes on when they are there: later on a slower link. Slots and counters are left as they are."""
    def cycles():
        world = mimw.World(2)
        x, out = (world.each(lambda rank: np.ones(64, np.float32), name) for name in ("x", "out"))
        kernel, grid, args, meta = collectives.arguments("all_reduce", x, out, world, False,
                                                         collectives.Configuration("flagged", 128, 128, 1))
        found = mimw.predict(kernel, grid, *args, **meta)
        assert (out[0] == 1).all() and not any(one.any() for arg in args if getattr(arg, "name", "") in ("slots", "calls")
                                               for one in arg)
        return found.cycles

    assert 500 < cycles() < 5000


def test_a_slower_link_brings_words_later(chip):  # noqa: F811
    def took(put_ns):
        chip(**{name.replace(".", "__"): value for name, value in (LINK | {"link.put_ns": put_ns, "atomic.ns": 100}).items()})
        world = mimw.World(2)
        x, out = (world.each(lambda rank: np.ones(64, np.float32), name) for name in ("x", "out"))
        kernel, grid, args, meta = collectives.arguments("all_reduce", x, out, world, False,
                                                         collectives.Configuration("flagged", 128, 128, 1))
        return mimw.predict(kernel, grid, *args, **meta).cycles

    assert took(6_000) - took(2_000) == pytest.approx(2_000, rel=0.1)      # half of the way there and back


def test_programs_that_also_wait_for_barriers_are_all_run():
    """Tokens to their experts: tasks behind barriers wait for one that waits for the programs of another SM."""
    kernel, grid, args, meta = spread_experts.dispatching(2, 5, 2, 2, 8, programs=2)[0]
    assert mimw.predict(kernel, grid, *args, **meta).simulated == (2, 2)


def test_a_signal_waits_for_what_other_tasks_have_on_the_way(chip):  # noqa: F811
    """Copies of 4096 bytes take 256 cycles each, and a release holds its task up for 500 more: the next signal leaves then."""
    figures = ROUND | LINK | {"memory.sm_store_gb_per_s": 16}
    chip(**{name.replace(".", "__"): value for name, value in figures.items()})

    def cycles(copies, signals):
        world = mimw.World(2)
        y, flag = world.each([np.empty(copies * 1024, np.int32) for _ in range(2)], "y"), world.symmetric(1, "int32", "flag")
        return mimw.predict(told_behind_copies, 1, y, flag, world, 1024, copies, signals).cycles

    alone = cycles(1, 1)
    assert alone > 256 + 1000
    assert cycles(16, 1) - alone == pytest.approx(15 * 256) and cycles(1, 3) - alone == pytest.approx(2 * 500)


def test_what_ranks_tell_each_other_in_tiles_decides():
    """Rows go to the places that tiles of choices, told to the peers, have given them: a copy for each, at the rank that has it."""
    launch, made = spread_experts.dispatching(2, 5, 2, 2, 8, programs=1, seed=4)
    found = mimw.predict(launch[0], launch[1], *launch[2], **launch[3])
    copies = [sum(event.label == "store" and event.cta == rank for event in found.trace.events) for rank in range(2)]
    assert copies == [len(made.route.rows_of(rank)) for rank in range(2)] and copies[0] != copies[1]
    assert all((one == -7).all() for one in (*made.rows, *made.places)), "arrays are left as they are"
