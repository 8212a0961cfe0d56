"""The list of passes as a whole."""

import pytest

from mimw.errors import ArriveCountMismatch, RemarkWarning, TargetError
from mimw.passes import PASSES, run_passes
from mimw.target import target
from tests.analysis.building import Kernel, ring_copy

SM90 = target("sm_90a")


def test_the_order():
    assert [step.name for step in PASSES] == [
        "target", "descriptors", "slot_arrays", "shared_pointers", "share_captures", "tasks", "cluster", "exclusive",
        "named_barriers", "drop_unused", "aliases", "place_aliases", "space_slots", "accumulate_dots", "shared_operands",
        "registers", "shared", "arrivals", "bytes", "waits", "async_dot", "warpgroups", "join_copies", "meetings", "sync_clusters",
        "fence_barriers", "fence_globals", "fence_handovers", "narrow_releases", "keep_loops", "grant_registers"]


def test_a_right_kernel_goes_through_and_every_pass_is_seen():
    seen = []
    program = ring_copy().program()
    result = run_passes(program, SM90, observer=lambda name, after: seen.append((name, after)))
    assert [name for name, _ in seen] == [step.name for step in PASSES]
    assert seen[-1][1] is result


def test_errors_come_out():
    with pytest.raises(ArriveCountMismatch):
        run_passes(ring_copy(arrive_count=2).program(), SM90)
    with pytest.raises(TargetError):
        run_passes(ring_copy().program(), target("gfx942"))


def greedy():
    k = Kernel()
    with k.at(9).task("greedy", registers=512):
        pass
    return k.program()


def test_remarks_are_warnings_unless_asked_for():
    found = []
    run_passes(greedy(), SM90, remark=found.append)
    assert [remark.site.line for remark in found] == [9]
    with pytest.warns(RemarkWarning, match="task 'greedy' asks for 512 registers per thread") as caught:
        run_passes(greedy(), SM90)
    assert (caught[0].filename, caught[0].lineno) == ("kernel.py", 9)
