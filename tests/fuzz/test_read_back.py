"""Programs as they are compiled: their TTGIR, read back, is simulated and checked beside the recorded one."""

import time
from dataclasses import replace

import pytest

from mimw.compiler.ttgir import readable
from mimw.compiler.ttgir.reading import _READERS
from tests.fuzz.__main__ import main
from tests.fuzz.compiled_ttgir import judged
from tests.fuzz.families import program_of
from tests.fuzz.launch import load, reference, run_stage, shared
from tests.fuzz.shrink import Failure, shrunk

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")      # programs use words that Triton will drop
PROGRAMS = (
    (62, None), (134, None), (139, None), (147, None), (238, None), (395, None), (394, None), (72, "stream"), (528, None),
    (611, None), (14, "stream"), (25, "blackwell"), (64, "blackwell"), (73, "blackwell"), (53, "amd"), (45, "amd"),
     (1, "boxes"), (0, "whiles"),
    (1, "planes"), (2, "rates"))


@pytest.mark.long(but=["*-None", "14-stream", "*-blackwell", "53-amd", "1-*", "0-*", "2-*"], everywhere=True)
@pytest.mark.parametrize("seed, only", PROGRAMS)
def test_what_is_compiled_is_what_is_recorded(seed, only, tmp_path):
    program, kernel = shared(seed, only)
    want, _ = reference(program)
    (outcome, ) = run_stage(program, "ttgir", tmp_path, want, kernel)
    assert outcome.kind == "ok", outcome


def test_the_programs_are_of_many_families():
    assert len(PROGRAMS) == 20 and len({program_of(*one)[0].family for one in PROGRAMS}) > 14


def test_a_mistake_of_the_reader_is_found_and_shrunk(monkeypatch, tmp_path):
    program, draws = program_of(139)

    def kind(record):
        small, _ = program_of(139, program.family, record)
        return run_stage(small, "ttgir", tmp_path, reference(small)[0])[0].kind

    monkeypatch.setitem(_READERS, "arith.addi", lambda here: here.op("sub", *here.operands))
    assert kind(None) != "ok"
    found = kind(None)
    record = shrunk(Failure(139, program.family, "ttgir", found), lambda one: kind(one) == found, time.time() + 1)
    assert len(record) < len(draws.record)


def test_another_bit_is_a_mismatch(monkeypatch, tmp_path):
    """Within the tolerance of numpy's side, and not what the recorded program gives."""
    from tests.fuzz import compiled_ttgir

    program, kernel = shared(513, None)
    want, _ = reference(program)
    program = replace(program, arguments=tuple(replace(one, tolerance=10.0) for one in program.arguments))
    other = compiled_ttgir.arrays_of

    def nudged(made):
        arrays = other(made)
        if counted.append(1) or len(counted) == 2:      # the second ones are the compiled program's
            for one in made.arguments:
                if one.kind == "array" and not one.output:
                    arrays[one.name] = (arrays[one.name] + 1).astype(arrays[one.name].dtype)
        return arrays

    counted: list = []
    monkeypatch.setattr(compiled_ttgir, "arrays_of", nudged)
    outcome = judged(program, kernel, want)
    assert outcome.kind == "mismatch" and "the recorded program's" in outcome.detail


def test_an_op_that_is_not_read_is_counted(monkeypatch, capsys, tmp_path):
    """By its name; it is neither right nor a failure."""
    program, kernel = shared(139, None)
    assert "arith.addi" in readable()
    monkeypatch.delitem(_READERS, "arith.addi")
    (outcome, ) = run_stage(program, "ttgir", tmp_path, reference(program)[0], load(program, tmp_path))
    assert outcome.kind == "unread arith.addi" and not outcome.bad and "arith.addi" in outcome.detail


def test_the_command(capsys):
    assert main(["1", "2", "--family", "boxes", "--read-back", "--jobs", "1"]) == 0
    assert "ttgir: ok 2" in capsys.readouterr().out
