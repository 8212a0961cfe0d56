"""The fuzzer itself: it finds what is planted, shrinks it, survives its workers, and its reference knows nothing of mimw."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mimw.compiler.pipeline import stages as pipeline
from mimw.errors import OutOfSharedMemory, TooFewRegisters, TooManyWarps
from mimw.ir import print_program
from mimw.simulator.machine.table import HANDLERS, Handler
from tests.fuzz.__main__ import main
from tests.fuzz.amd import AMD
from tests.fuzz.blackwell import BLACKWELL
from tests.fuzz.draws import Draws
from tests.fuzz.families import FAMILIES, program_of
from tests.fuzz.launch import borrowed, load, reference, run_program, run_stage
from tests.fuzz.mutants import LEFT_ALONE, ROLES, mutants
from tests.fuzz.reproduction import written
from tests.fuzz.shrink import Failure, shrunk
from tests.fuzz.workers import Died, run_all
from tests.processes import python

ROOT = Path(__file__).parents[2]


# ---- programs ------------------------------------------------------------------------------------------------------------


def test_the_stage_text(tmp_path):
    """IR of a program is read back; a printer that loses something is found."""
    program, _ = program_of(5)
    (outcome, ) = run_stage(program, "text", tmp_path, None, load(program, tmp_path))
    assert outcome.kind == "ok"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.ir.same.print_program", lambda program, sites=True: print_program(program, sites=False))
        (outcome, ) = run_stage(program, "text", tmp_path, None, load(program, tmp_path))
    assert outcome.bad and "sites Site(" in outcome.detail


@pytest.mark.parametrize("family", [*FAMILIES, *BLACKWELL, *AMD])
def test_a_seed_is_a_program(family):
    """The same seed gives the same program, its record replayed gives it again, and any shorter record gives a valid one."""
    one, draws = program_of(5, family)
    assert program_of(5, family)[0] == one and program_of(5, family, draws.record)[0] == one
    for length in (0, len(draws.record) // 3, len(draws.record) // 2):
        small, _ = program_of(5, family, draws.record[:length])
        compile(small.kernel, "kernel", "exec")
        reference(small)


def test_draws_replay_clipped():
    draws = Draws(record=[7, 1])
    assert draws.integer(2, 4) == 4 and draws.chance(1) and draws.pick("ab") == "a" and draws.record == [2, 1, 0]


def test_the_reference_does_without_mimw():
    code = (
        "import sys; sys.modules['mimw'] = None; sys.modules['triton'] = None\n"
        "from tests.fuzz.families import program_of\nfrom tests.fuzz.launch import reference\n"
        "print(sum(len(reference(program_of(seed)[0])[0]) for seed in range(30)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and int(done.stdout) > 50, done.stderr


# ---- what is planted is found --------------------------------------------------------------------------------------------


def _smaller_for_larger(task, op):
    task.env[op.result] = np.minimum(task.read(op.args[0], op), task.read(op.args[1], op))


def _forgets_a_store(task, op):
    """Every store into shared memory but the first of each buffer value is lost."""
    seen = task.machine.__dict__.setdefault("stored", set())
    if (op in seen) == bool(seen.add(op)):
        HELD["local_store"].run(task, op)


HELD = {}
PLANTED = {"plain": ("maxsi", _smaller_for_larger), "looped": ("local_store", _forgets_a_store)}


@pytest.mark.long(but=["plain"], everywhere=True)
@pytest.mark.parametrize("family", PLANTED)
def test_a_bug_of_the_simulator_is_found_and_shrunk(family, monkeypatch, tmp_path):
    name, wrong = PLANTED[family]
    HELD[name] = HANDLERS[name]
    monkeypatch.setitem(HANDLERS, name, Handler(wrong, False, HANDLERS[name].switches))

    def kinds(program):
        return [(one.stage, one.kind) for one in run_program(program, ("sim",), tmp_path) if one.bad]

    seed = next(seed for seed in range(60) if ("sim", "mismatch") in kinds(program_of(seed, family)[0]))
    program, draws = program_of(seed, family)
    failure = Failure(seed, family, "sim", "mismatch")
    record = shrunk(
        failure, lambda one: ("sim", "mismatch") in kinds(program_of(seed, family, one)[0]), time.time() + 2
    )
    small, _ = program_of(seed, family, record)
    assert len(record) < len(draws.record) and len(small.kernel) < len(program.kernel)
    file = tmp_path / "small.py"
    file.write_text(written(small, "sim", "mismatch", "planted"))
    scope = {"__name__": "small", "__file__": str(file)}
    import linecache

    linecache.checkcache(str(file))
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with pytest.raises(AssertionError):
        scope["main"]()
    monkeypatch.undo()
    done = python(file, timeout=120, PYTHONPATH=str(ROOT))
    assert done.stdout.strip() == "no failure", done.stderr


def test_a_refusal_is_a_failure(monkeypatch, tmp_path):
    import mimw.compiler.passes
    from mimw.errors import InvalidProgram

    def refuse(program, target, observer=None):
        raise InvalidProgram("planted")

    monkeypatch.setattr(mimw.simulate, "run_passes", refuse, raising=False)
    monkeypatch.setattr(pipeline, "run_passes", refuse)
    outcomes = run_program(program_of(3, "stream")[0], ("sim", "compile sm_90a"), tmp_path)
    assert [one.kind for one in outcomes] == ["internal InvalidProgram"] * 2


@pytest.mark.parametrize("error, kind", [(OutOfSharedMemory, "skipped"), (TooFewRegisters, "skipped"),
                                         (TooManyWarps, "refused TooManyWarps")])
def test_only_what_compiling_finds_too_large_is_skipped(error, kind, monkeypatch, tmp_path):
    def refuse(program, target, observer=None):
        raise error("planted")

    monkeypatch.setattr(pipeline, "run_passes", refuse)
    outcomes = run_program(program_of(3, "stream")[0], ("compile sm_90a", ), tmp_path)
    assert [(one.kind, "planted" in one.detail) for one in outcomes] == [(kind, True)]


# ---- other chips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, family, kinds", [
    (2, "halves", {"skipped"}),             # words of AMD's
    (0, "rates", {"ok"}),
    (96, "boxes", {"skipped"}),             # a store whose end another vendor's chips write otherwise
])
def test_a_chip_that_the_generator_did_not_ask(seed, family, kinds, tmp_path):
    """What it lacks is skipped; the program's own chip may lack nothing."""
    other = "sm_90a" if family == "halves" else "gfx942"
    program = borrowed(program_of(seed, family)[0], other)
    outcomes = run_program(program, ("sim", "check"), tmp_path)
    assert program.chip == other and {one.kind for one in outcomes} == kinds
    if family == "halves":
        assert run_program(replace(program, foreign=False), ("sim", ), tmp_path)[0].kind == "refused TargetError"


def test_the_command_for_another_chip(capsys):
    assert main(["0", "2", "--family", "rates", "--chip", "gfx950", "--stages", "sim", "--jobs", "1"]) == 0
    assert "sim: ok 2" in capsys.readouterr().out


# ---- workers -------------------------------------------------------------------------------------------------------------


def test_a_worker_costs_one_job():
    jobs = ["a", "crash", "b", "hang", "lost", "c"]
    results = dict(run_all(jobs, "tests.fuzz.misbehaving:misbehave", 1, limit=2, start_limit=20))
    assert list(results) == jobs
    assert isinstance(results["crash"], Died) and results["crash"].kind == "crash" and "139" in results["crash"].detail
    assert isinstance(results["hang"], Died) and results["hang"].kind == "hang"
    assert results["c"]["process"] != results["lost"]["process"]


def test_nothing_starts_after_the_time():
    assert list(run_all(range(5), "tests.fuzz.misbehaving:misbehave", 1, limit=2, until=time.time() - 1)) == []


def test_the_command(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    assert main(["0", "4", "--family", "gemm", "--stages", "sim", "--jobs", "1", "--jsonl", str(rows)]) == 0
    row = json.loads(rows.read_text())
    assert row["programs"] == 4 and row["outcomes"] == {"sim": {"ok": 4}} and row["families"] == {"gemm": 4}
    assert "4 programs, 0 failures" in capsys.readouterr().out


# ---- mutants -------------------------------------------------------------------------------------------------------------


def test_every_mark_has_a_rule():
    rules = {name.split(",")[0] for name in (*ROLES, *LEFT_ALONE)}
    seeds = [(seed, None) for seed in range(120)]
    seeds += [(seed, family) for seed in range(80) for family in ("cluster", "stream", "gemm", *BLACKWELL, *AMD)]
    marks = {mark.role for seed, family in seeds for _, mark in program_of(seed, family)[0].marks}
    assert marks <= rules and set(ROLES) <= marks


MUTATED = ["stream", "pipes", "gemm", "cluster", "mesh", "tensor", "accumulators", "pairs", *AMD]


@pytest.mark.long(but=["*-0"], everywhere=True)
@pytest.mark.parametrize("family, seed", [(family, seed) for family in MUTATED
                                          for seed in range(1 if family in BLACKWELL or family == "multiplied" else 3)])
def test_mutants_are_noticed(family, seed, tmp_path):
    from tests.fuzz.mutants import judged

    results = judged(seed, 2, family, str(tmp_path))["mutants"]
    assert results and [one for one in results if one["verdict"] not in ("found", "refused")] == []


def test_a_line_that_is_not_needed_is_left_alone():
    """A ring with more slots than tiles never waits for a slot, so that wait is in no mutant."""
    for seed in range(40):
        program, _ = program_of(seed, "stream")
        _, counts = reference(program)
        for one in mutants(program, counts):
            mark = dict(program.marks)[one.line]
            if one.role == "free wait" and one.change == "drop":
                assert counts[mark.channel] > dict(mark.facts)["slots"]
