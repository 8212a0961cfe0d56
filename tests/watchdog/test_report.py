"""The report, from tables of stamps made by hand."""

import pytest

import mimw
from mimw.compiler.analysis.barrier_ops import signals
from mimw.errors import Deadlock, WaitCycle
from mimw.runtime.watchdog.hung import Hung
from mimw.runtime.watchdog.report import lines_that_wait, places
from mimw.runtime.watchdog.table import seen, taken_apart
from mimw.simulator import watching
from mimw.simulator.machine.deadlock import cause, waiting_lines
from mimw.simulator.machine.stuck import StuckCluster, StuckCta, StuckLaunch, StuckTask
from tests.kernels.hangs import case

from .fabricated import FIRST_ADDRESS, Table, stamped, word
from .test_on_the_gpu import LINES, at

FULL, FREE = LINES["tlx.barrier_wait(full[0], i & 1)"], LINES["tlx.barrier_wait(free[0], (i & 1) ^ FLIP)"]


def ring(name="wrong_parity", ctas=3):
    return Table(stamped(case(name)), ctas)


def both_wait(table: Table, cta: int, began=0) -> None:
    table.put(cta, range(4), table.number("storer", "waits", FULL), row=0, parity=0, began=began)
    table.put(cta, range(4, 8), table.number("loader", "waits", FREE), row=1, parity=0, began=began)
    table.words(cta, word(0, 0, 1), word(0, 0, 1))


def test_a_word_is_taken_apart():
    assert taken_apart(word(1, 2, 3, 4096)) == (found := taken_apart(word(1, 2, 3, -4096)))
    assert (found.parity, found.pending, found.count, found.pending_bytes) == (1, 1, 3, 4096)
    assert taken_apart(0x7FFFF800001FFFFE >> 0).count == 1           # as `mbarrier.init` of 1 leaves it
    assert taken_apart(0x7FFFF800001FFFFE).pending == 1


def test_waits_are_told_as_the_simulator_tells_them():
    table = ring()
    for cta in range(3):
        both_wait(table, cta, began=cta)
    told = places(table.program, (3, 1, 1), table.bytes).splitlines()
    here, blocked = case.__code__.co_filename, "which is blocked at"
    arrive = "      an arrival could have come from barrier_arrive at"
    fresh = "it is in a phase of parity 0 with 0 of 1 arrivals and 0 bytes pending"
    assert told[:5] == [
        "WaitCycle: no task of CTA (0, 0, 0) and 2 others in the same state can go on.",
        f"  task 'storer' of CTA (0, 0, 0) waits at {here}:{FULL} for parity 0 of 'full'[0]: {fresh}",
        f"{arrive} {here}:{LINES['tlx.barrier_arrive(full[0])']}, in task 'loader', {blocked} {here}:{FREE}",
        f"  task 'loader' of CTA (0, 0, 0) waits at {here}:{FREE} for parity 0 of 'free'[0]: {fresh}",
        f"{arrive} {here}:{LINES['tlx.barrier_arrive(free[0])']}, in task 'storer', {blocked} {here}:{FULL}"]
    assert f"    'full'[0]  0  0 of 1  0  {word(0, 0, 1):#018x}" in told
    assert "3 of 3 CTAs have begun and not ended." in told
    assert f"{here}:{FULL} in handed_on" in told


def simulated_deadlock() -> list:
    """The tasks that wait at the end of the same launch on the simulator."""
    kernel, grid, args, meta = case("wrong_parity")
    machines, token = [], watching.set(lambda machine: machines.append(machine))
    try:
        with pytest.raises(Deadlock):
            mimw.simulate(kernel, grid, *args, **meta)
    finally:
        watching.reset(token)
    return [task for task in machines[0].blocked if task.wait.kind != "join"]


def test_a_task_of_the_simulator_and_one_of_a_hung_gpu_are_what_the_report_takes():
    table = ring(ctas=1)
    both_wait(table, 0)
    hung = Hung(table.program, seen(table.program, table.bytes, 1), (1, 1, 1)).blocked
    for tasks in (simulated_deadlock(), hung):
        assert {task.name for task in tasks} == {"storer", "loader"}
        for task in tasks:
            assert isinstance(task, StuckTask) and isinstance(task.cta, StuckCta)
            assert isinstance(task.cta.cluster, StuckCluster) and isinstance(task.machine, StuckLaunch)
            assert [one.is_body for one in task.cta.tasks].count(True) == 1
            assert "could have come from barrier_arrive" in waiting_lines(task, signals(task.machine.program))[1]
        assert cause(tasks, signals(tasks[0].machine.program))[0] is WaitCycle


def test_a_word_that_nobody_has_seen_is_not_a_word_of_zero():
    table = Table(stamped(case("missing_arrive")), 1)
    table.put(0, range(4), table.number("default", "waits"), row=0)
    table.words(0, None)
    told = places(table.program, (1, 1, 1), table.bytes)       # the row is empty, and the warp itself has seen 0
    assert "for parity 0 of 'met'[0]: its state reads as 0, so this chip does not show its phase and counts" in told
    assert "last seen: parity" not in told
    table.words(0, 0)
    assert "'met'[0]  0  0 of 3  0  0x0000000000000000" in places(table.program, (1, 1, 1), table.bytes)
    table.words(0, None)
    table.put(0, range(4), table.number("default", "waits"), row=0, word=word(0, 2, 3))
    assert "in a phase of parity 0 with 2 of 3 arrivals" in places(table.program, (1, 1, 1), table.bytes)

    other = ring()
    other.put(0, range(4), other.number("storer", "waits", FULL), row=0, word=word(0, 0, 1))
    other.words(0, None, None)
    (cta, ) = seen(other.program, other.bytes, 3)
    assert cta.words == (None, None) and cta.addresses == (FIRST_ADDRESS, FIRST_ADDRESS + 8)
    barriers = Hung(other.program, [cta], (3, 1, 1)).ctas[0].barriers
    assert barriers[0].state().endswith("0 of 1 arrivals and 0 bytes pending")
    assert barriers[1].state() == "its state was not read"


def test_ctas_in_other_states_are_groups_of_their_own():
    table = ring()
    both_wait(table, 0)
    table.put(1, range(4), table.number("storer", "runs"))
    table.put(1, range(4, 8), table.number("loader", "ends"))
    table.ended(2)
    told = places(table.program, (3, 1, 1), table.bytes)
    assert "WaitCycle: no task of CTA (0, 0, 0) can go on." in told
    assert "The tasks of CTA (1, 0, 0) run." in told
    assert "task 'storer' of CTA (1, 0, 0) runs, and does not wait" in told
    assert "2 of 3 CTAs have begun and not ended." in told and "CTA (2, 0, 0)" not in told


def test_a_phase_that_got_some_arrivals_names_who_has_finished():
    table = Table(stamped(case("missing_arrive")), 1)
    table.put(0, range(4), table.number("default", "waits"), row=0)
    table.put(0, range(4, 5), table.number("second", "ends"))
    table.put(0, range(5, 7), table.number("third", "ends"))
    table.words(0, word(0, 2, 3))
    told = places(table.program, (1, 1, 1), table.bytes)
    assert "TooFewArrivals: no task of CTA (0, 0, 0) can go on." in told
    assert "with 2 of 3 arrivals and 0 bytes pending" in told and "in task 'third', which has finished" in told
    blocked = at("tlx.barrier_wait(met[0], 0)")
    assert f"in task 'default', which is blocked at {case.__code__.co_filename.removesuffix('hangs.py')}{blocked}" in told


def test_bytes_that_nobody_sent():
    table = Table(stamped(case("missing_bytes")), 1)
    table.put(0, range(4), table.number("", "waits", body=True), row=0)
    table.words(0, word(1, 1, 1, 8192))
    told = places(table.program, (1, 1, 1), table.bytes)
    assert "BytesNeverSent: no task of CTA (0, 0, 0) can go on." in told
    assert "it is in a phase of parity 0 with 1 of 1 arrivals and 8192 bytes pending" in told   # as the wait knows, not the word


def test_warps_of_a_task_that_stand_apart():
    table = ring()
    both_wait(table, 0)
    table.put(0, [3], table.number("storer", "runs"))
    told = places(table.program, (3, 1, 1), table.bytes)
    assert told.startswith("Some tasks of CTA (0, 0, 0) wait, and others run.")
    assert "  3 of 4 warps of task 'storer' of CTA (0, 0, 0) waits at" in told
    assert "  1 of 4 warps of task 'storer' of CTA (0, 0, 0) runs" in told


def test_named_barriers_clusters_and_loops():
    table = Table(stamped(case("named_barrier")), 1)
    table.put(0, range(4), table.number("default", "waits"))
    table.put(0, range(4, 8), table.number("other", "ends"))
    assert "for named barrier 9, which opens for 256 threads" in places(table.program, (1, 1, 1), table.bytes)

    table = Table(stamped(case("cluster")), 2)
    table.put(0, range(4), table.number("", "waits", LINES["tlx.cluster_barrier()"], body=True))
    table.put(1, range(4), table.number("", "waits", LINES["tlx.barrier_wait(called[0], 0)"], body=True), row=0)
    table.words(1, word(0, 0, 1))
    told = places(table.program, (2, 1, 1), table.bytes)
    assert "no task of CTAs (0, 0, 0), (1, 0, 0) can go on" in told
    assert "for the cluster barrier, to which CTA (1, 0, 0) has not arrived" in told
    assert "of CTA (0, 0, 0), which is blocked at" in told

    table = Table(stamped(case("spin")), 1)
    table.put(0, range(4), table.number("", "loops", body=True))
    told = places(table.program, (1, 1, 1), table.bytes)
    assert told.startswith("The tasks of CTA (0, 0, 0) run.\n  task 'default' of CTA (0, 0, 0) runs in the loop at "
                           f"{case.__code__.co_filename}:{LINES['while tl.atomic_cas(word, 1, 1) != 1:']}\n")


def test_a_place_that_is_used_in_turn_belongs_to_one_cta():
    table = ring(ctas=20_000)
    both_wait(table, 16_384 + 5)
    table.put(5, range(4, 8), table.number("loader", "ends"))        # what an earlier one left there
    (cta, ) = seen(table.program, table.bytes, 20_000)
    assert cta.number == 16_389 and [slot.stamp for slot in cta.slots[4:]] == [0] * 4


def test_no_stamp_at_all():
    table = ring()
    assert places(table.program, (3, 1, 1), table.bytes).startswith("No CTA has left a stamp")


def test_without_stamps_the_lines_are_told():
    told = lines_that_wait(stamped(case("right")))
    assert told.startswith("It may wait at\n")
    assert at("tlx.barrier_wait(full[0], i & 1)") + ": barrier_wait on 'full', in task 'storer'" in told
    assert "wait_stamp" not in told
    assert "a loop without a bound" in lines_that_wait(stamped(case("spin")))
