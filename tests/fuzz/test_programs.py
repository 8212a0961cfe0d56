"""A fixed set of programs of all families: simulated, checked, some compiled; and that they hold every word and every op."""

import pytest

from mimw.ir import OPS
from tests.fuzz.amd import AMD
from tests.fuzz.blackwell import BLACKWELL
from tests.fuzz.coverage import NOT_HERE, OPS_NOT_HERE, missing, ops_of, words
from tests.fuzz.families import FAMILIES, program_of
from tests.fuzz.fixed import PROGRAMS, SEEDS
from tests.fuzz.launch import checked, guarded, load, reference, run_stage, shared, simulated

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")      # programs use words that Triton will drop
AGAIN = "the grammar has changed: choose the seeds of fixed.py anew (python -m tests.fuzz.coverage 640, 150 blackwell, 170 amd)"


@pytest.mark.parametrize("seed, only", PROGRAMS)
def test_simulated_and_checked(seed, only):
    program, kernel = shared(seed, only)
    want, _ = reference(program)
    for run in (lambda: simulated(program, kernel, want), lambda: checked(program, kernel, 2)):
        outcome = guarded("run", run)
        assert not outcome.bad, outcome


@pytest.mark.long(but=[f"{seed}-{only}" for seed, only in PROGRAMS[::8]], everywhere=True)
@pytest.mark.parametrize("seed, only", PROGRAMS[::4])
def test_compiled(seed, only, tmp_path):
    program, _ = program_of(seed, only)
    for outcome in run_stage(program, f"compile {program.chip}", tmp_path, None):
        assert not outcome.bad, outcome


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_gpu(seed, tmp_path):
    program, _ = program_of(seed)
    want, _ = reference(program)
    for outcome in run_stage(program, "gpu", tmp_path, want, load(program, tmp_path)):
        assert not outcome.bad, outcome


def test_every_word_is_reached():
    """By the first 400 seeds, 150 of those for sm_100a and 150 of those for AMD's chips; and the fixed set alone, too."""
    first = (*((seed, None) for seed in range(400)), *((seed, group) for group in ("blackwell", "amd") for seed in range(150)))
    assert missing(program_of(*one)[0].kernel for one in first) == []
    fixed = [program_of(*one)[0] for one in PROGRAMS]
    assert missing(one.kernel for one in fixed) == [], AGAIN
    assert {one.family for one in fixed} == {*FAMILIES, *BLACKWELL, *AMD}, AGAIN


def test_every_op_is_reached():
    reached = {name for one in PROGRAMS for name in ops_of(*shared(*one))}
    assert set(OPS) - reached - set(OPS_NOT_HERE) == set(), AGAIN
    assert reached & set(OPS_NOT_HERE) <= {"inline_asm"}, "no exception is needed for what programs hold"


def test_the_exceptions_are_words_and_ops():
    assert set(NOT_HERE) <= set(words()) and set(OPS_NOT_HERE) <= set(OPS)
    assert len(words()) > 80
