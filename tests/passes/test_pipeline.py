"""The list of passes as a whole."""

import warnings
from collections import Counter
from dataclasses import replace

import pytest

import mimw.compiler.passes.pipeline as pipeline
from mimw.compiler.analysis import Uses
from mimw.compiler.passes import PASS, PASSES, Context, run_passes
from mimw.errors import ArriveCountMismatch, InvalidProgram, RemarkWarning, TargetError
from mimw.ir import Op, collected_warnings, verify
from mimw.target import target
from tests.analysis.building import Kernel, ring_copy

SM90 = target("sm_90a")


def test_the_order():
    assert [step.name for step in PASSES] == [
        "pipeline_dsa", "expand_dsa", "descriptors_by_pointers",
        "target", "pipes", "bytes_by_arrivals", "copies_by_pointers", "expand_pipes", "dots_at_once", "drop_proxy_fences",
        "descriptors", "rows", "slot_arrays", "shared_pointers", "share_captures", "tasks",
        "warp_stages", "double_operands", "pairs", "pair_commits", "pair_copies", "cluster", "peers", "exclusive", "named_barriers",
        "group_barriers_and_tasks", "count_moves", "drop_unused",
        "aliases", "pad_fp4", "stage_scales", "tile_bytes", "place_aliases", "place_tensor_memory", "space_slots",
        "accumulate_dots", "shared_operands", "trail_dots", "registers", "elements", "buffer_atomics", "scaled_dots", "spaces",
        "paths", "overlap", "shared",
        "arrivals", "bytes", "waits", "async_dot", "warpgroups", "join_copies", "arrive_later", "group_barriers", "wait_pairs",
        "late_commits", "await_commits", "sync_clusters", "fence_barriers", "fence_globals", "fence_pairs", "fence_deliveries",
        "fence_handovers", "narrow_releases", "order_globals", "keep_loops",
        "grant_registers", "place_lanes", "align_uniforms", "settle_stages"]


def test_each_pass_comes_after_those_that_it_follows():
    names = [step.name for step in PASSES]
    assert len(set(names)) == len(names) and list(PASS) == names
    for index, step in enumerate(PASSES):
        assert set(step.after) <= set(names[:index]), step.name
        assert step.doc and "\n" not in step.doc


def test_one_pass_by_its_name():
    """A rewrite gives a program, a check gives its own back and tells the context what it has to remark."""
    program, found = greedy(), []
    assert PASS["drop_unused"](program, Context(SM90)).name == program.name
    assert PASS["registers"](program, Context(SM90, found.append)) is program and len(found) == 1
    with pytest.raises(TargetError):
        PASS["target"](ring_copy().program(), Context(target("sm_80")))


def test_a_right_kernel_goes_through_and_every_pass_is_seen():
    seen = []
    program = ring_copy().program()
    result = run_passes(program, SM90, observer=lambda name, after: seen.append((name, after)))
    assert [name for name, _ in seen] == [step.name for step in PASSES]
    assert seen[-1][1] is result


def test_only_what_changed_is_looked_at_again(monkeypatch):
    """Each op's own row is read once, each program's uses are indexed once, and most passes give the program back as it was."""
    program = replace(ring_copy().program())    # another object, of which nothing is known
    rows, indexed, programs = Counter(), [], []
    read, index = verify.__globals__["_op"], Uses.__init__
    monkeypatch.setitem(verify.__globals__, "_op", lambda op: rows.update([op]) or read(op))
    monkeypatch.setattr(Uses, "__init__", lambda self, program: indexed.append(program) or index(self, program))
    run_passes(program, SM90, observer=lambda name, after: programs.append(after))
    different = {id(one) for one in [program, *programs]}
    assert rows and set(rows.values()) == {1}
    assert len(indexed) == len({id(one) for one in indexed}) <= len(different)
    assert len(different) < len([step for step in PASSES if step.rewrites]) / 2


def test_a_program_that_was_verified_is_right(monkeypatch):
    program, looked = ring_copy().program(), []
    verify(program)
    monkeypatch.setitem(verify.__globals__, "_op", looked.append)
    known: set = set()
    verify(program, known)
    assert looked == [] and known == set(program.walk())


def test_a_rewrite_that_breaks_the_program(monkeypatch):
    def broken(program):
        return replace(program, body=replace(program.body, ops=(*program.body.ops, Op("fence", (3, )))))

    monkeypatch.setattr(pipeline, "PASSES", (*PASSES, pipeline.rewrite("broken", broken, "breaks it")))
    with pytest.raises(InvalidProgram, match="'scope' is the constant 3"):
        run_passes(ring_copy().program(), SM90)


def test_errors_come_out():
    with pytest.raises(ArriveCountMismatch):
        run_passes(ring_copy(arrive_count=2).program(), SM90)
    with pytest.raises(TargetError):
        run_passes(ring_copy().program(), target("sm_80"))


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


def test_remarks_can_be_listened_to():
    """Aloud, with the Python warning; not aloud, without one."""
    with pytest.warns(RemarkWarning), collected_warnings() as found:
        run_passes(greedy(), SM90)
    assert [(one.category, one.file, one.line) for one in found] == [("RemarkWarning", "kernel.py", 9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with collected_warnings(aloud=False) as again:
            run_passes(greedy(), SM90)
    assert again == found
    with pytest.warns(RemarkWarning, match="512 registers"):
        found[0].repeat()
