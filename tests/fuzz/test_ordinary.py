"""Ordinary loops under automatic orchestration: a fixed set is right, planted mistakes are found, and the grammar reaches all it
has."""

import re
from dataclasses import replace

import pytest

from mimw.tools.orchestrate import written as steps
from tests.fuzz.ordinary.draw import drawn
from tests.fuzz.ordinary.fixed import SEEDS
from tests.fuzz.ordinary.judge import FINE, judged
from tests.fuzz.ordinary.mutants import MUTANTS, hunted
from tests.fuzz.worker import run_seed

KINDS = {
    "persistent tiles": r"for tile in", "heads": r"for head in", "a loop in a loop": r"\n {8}for k", "a while": r"while ",
    "a loop from the second trip": r"range\(C, K", "a trip's number": r"tl\.cdiv\(K", "stages": r"num_stages=3",
    "a descriptor of the kernel's": r"make_tensor_descriptor", "a carried pointer": r"at\d+ \+=", "strides of 64 bits": r"int64",
    "masks": r"mask=", "turned tiles": r"\.T\b", "attention": r"top\d+ = tl\.full", "sums that fade": r"\* 0\.75",
    "a condition by the trip": r"% \(2 \* C\)", "by an argument": r"if flag", "by a table": r"tl\.load\(table",
    "by a tile": r"tl\.sum\(tl\.sum",
    "else": r"else:", "stores in a loop": r"\bo_desc\.store|tl\.store\(o ", "updates in place": r"\bu_desc\.store|tl\.store\(u ",
    "bias": r"bias \+", "a residual": r"\bx_desc\.load|tl\.load\(x ", "numbers a row": r"peaks", "columns": r"tl\.sum\(\w+, 0\)",
    "8-bit integers": r"tl\.int8", "8-bit floats": r"tl\.float8e4nv", "bf16": r"tl\.bfloat16",
}


@pytest.mark.long(but=[str(seed) for place, seed in enumerate(SEEDS) if place % 3], everywhere=True)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_is_right_under_a_plan(seed):
    outcomes = judged(seed, ("sim", "check", "one")).outcomes
    assert outcomes and [one for one in outcomes if one[1] not in FINE] == []


def test_the_fixed_set_has_each_kind_of_statement():
    sources = [drawn(seed)[0].source for seed in SEEDS]
    missing = [kind for kind, pattern in KINDS.items() if not any(re.search(pattern, source) for source in sources)]
    assert missing == [], "the grammar has changed: choose the seeds of ordinary/fixed.py anew"


@pytest.mark.long(but=["1-*"], everywhere=True)
@pytest.mark.parametrize("stages, count", [(("sim", ), 6), (("sim", "check"), 100)], ids=["1-few", "2-many"])
def test_refusing_is_no_way_to_pass(stages, count):
    """Every plan is right, and at least 40 % of the loops with products are orchestrated by one of four."""
    found = [judged(seed, stages) for seed in range(1000, 1000 + count)]
    assert [one for each in found for one in each.outcomes if one[1] not in FINE] == []
    assert sum(each.orchestrated for each in found) >= 0.4 * sum(each.loops for each in found) >= 0.4 * count / 2


@pytest.mark.long(but=["a counter*", "the offset of a box*", "a chunk of the wrong*"], everywhere=True)
@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_is_found(mistake):
    verdict = hunted(mistake)
    assert verdict.how == "found", verdict


def test_a_wrong_number_is_seen(monkeypatch):
    """The judge compares bits: a kernel that loads another box is a mismatch, or leaves its array."""
    right, (step, change) = steps.lifted, MUTANTS["the offset of a box"]
    seed = next(seed for seed in SEEDS if ("sim", "ok", "") in judged(seed, ("sim", "one")).outcomes)
    assert step == "lifted"
    monkeypatch.setattr(steps, "lifted", lambda *given, **more: change(right(*given, **more)))
    assert {kind for _, kind, _ in judged(seed, ("sim", "one")).outcomes} <= {"mismatch", "alarm OutOfBounds"}


def test_a_record_makes_the_program_again():
    program, draws = drawn(SEEDS[0])
    again, _ = drawn(SEEDS[0], draws.record)
    assert again == replace(program) and drawn(5, [])[0].source.count("tl.dot") == 1


def test_the_command_counts_the_loops():
    result = run_seed(SEEDS[0], ("sim", "one"), "ordinary")
    assert result["family"] == "ordinary" and result["loops"]["with products"] >= 1
    assert all(kind in FINE for _, kind, _ in result["outcomes"])
