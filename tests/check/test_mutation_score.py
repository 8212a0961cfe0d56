"""The mutation score: of a small ring here and now, and of the tutorials and the library as last measured."""

from pathlib import Path

import pytest

from benchmarks.mutants import mutants
from benchmarks.mutation_kernels import CASES, NOT_JUDGED, ON_SEVERAL_GPUS
from benchmarks.mutation_reasons import NOT_ARGUED
from benchmarks.mutation_table import score, table
from benchmarks.mutations import ROWS, judge, main, read_rows
from mimw.runtime.simulate import prepare
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

ROOT = Path(__file__).parents[2]
GOAL = 0.97
# Their programs share nothing: `cumsum` orders its own exchange, what `tle.dsa` moves is ordered by the compiler, a body's
# threads are lanes of ops in order, the others are tl alone.
ORDERS_NOTHING = {
    "tutorials/13_stream_compaction.py", "tutorials/23_local_memories.py", "tutorials/25_raw_bodies.py",
    "tutorials/27_orchestrate.py",
    "src/mimw/kernels/attention_decode/combine/kernel.py", "src/mimw/kernels/plain_attention/kernel.py",
    "src/mimw/kernels/plain_attention_backward/kernel.py",
    "src/mimw/kernels/linear_attention_step/kernel.py", "src/mimw/kernels/plain_attention_decode/kernel.py",
    "src/mimw/kernels/plain_lightning_indexer/kernel.py",
    "src/mimw/kernels/plain_matmul/kernel.py", "src/mimw/kernels/plain_mla_decode/kernel.py",
    "src/mimw/kernels/plain_simplicial_attention/kernel.py", "src/mimw/kernels/plain_sparse_mla/kernel.py",
    "src/mimw/kernels/plain_topk/kernel.py", "src/mimw/kernels/rope/kernel.py", "src/mimw/kernels/swiglu/kernel.py"}

FORMS = (       # that stand in files of another name
    "attention_decode/few_rows_epilogue/fp8.py", "collectives/direct.py",
    "collectives/flagged.py", "collectives/ring.py", "collectives/two_shot.py", "gemm/promoted.py",
    "linear_attention/by_key.py", "linear_attention/prepare.py", "linear_attention_backward/by_roles.py", "moe/few_rows.py",
    "moe/few_rows_scaled.py", "moe/gathered.py", "moe/scaled.py", "moe_dispatch/few.py", "moe_dispatch/few_rows.py",
    "moe_dispatch/rows.py", "moe_dispatch/whole_rows.py", "moe_dispatch/words.py",
    "ring_attention/gather.py", "ring_attention_backward/collect.py", "skinny_scaled_gemm/parts.py", "sparse_mla/pipe.py",
    "sparse_mla/shared.py")


def test_wrong_rings_are_noticed():
    """Every mutant of the ring of tests/kernels/tma_pipeline.py is caught, or right and argued for."""
    grid, args, meta = pipeline_arguments(5)
    launch = prepare(pipeline, grid, args, dict(meta))
    outcomes = [judge(launch, mutant) for mutant in mutants(launch.recorded)]
    assert len(outcomes) >= 40
    assert [one for one in outcomes if one.verdict == "missed" or one.by == NOT_ARGUED] == []
    assert sum(one.verdict == "caught" for one in outcomes) > 0.8 * len(outcomes)


def test_every_kernel_is_among_those_that_are_mutated():
    kernels = [*ROOT.glob("tutorials/[0-9]*.py"), *ROOT.glob("src/mimw/kernels/**/kernel.py"),
               *ROOT.glob("src/mimw/kernels/*/blackwell.py"), *(ROOT / "src/mimw/kernels" / form for form in FORMS)]
    mutated = {case.file for case in (*CASES, *ON_SEVERAL_GPUS, *NOT_JUDGED) if not case.file.startswith("tests/")}
    assert {str(path.relative_to(ROOT)) for path in kernels} == mutated | ORDERS_NOTHING


@pytest.fixture(scope="module")
def measured():
    return read_rows(ROWS)


def test_the_score_as_measured(measured):
    """At least 97 % of the wrong mutants are caught, and none of the kernels as they are raises an alarm on 200 seeds."""
    heads = [row for row in measured if row["kind"] == "kernel"]
    assert {row["kernel"] for row in heads} == {case.name for case in (*CASES, *ON_SEVERAL_GPUS)}
    assert all(row["alarms"] == 0 and row["seeds"] >= 200 for row in heads)
    assert score([row for row in measured if row["kind"] == "mutant"]) >= GOAL
    assert [row for row in measured if row.get("by") == NOT_ARGUED] == []


def test_the_page_is_what_was_measured(measured):
    assert (ROOT / "docs" / "MUTATIONS.md").read_text() == table(measured, [case.name for case in (*CASES, *ON_SEVERAL_GPUS)])


def test_what_became_of_each_mutant_is_printed(measured, capsys):
    """Without a run; those that were not caught one by one, the others by the class that caught them."""
    main(["--list", "--kernels", "tutorial 10"])
    told = capsys.readouterr().out
    rows = [row for row in measured if row["kind"] == "mutant" and row["kernel"] == "Tutorial 10"]
    assert told.startswith("## Tutorial 10 (`tutorials/10_blackwell_attention.py`)\n") and told.count("\n## ") == 0
    assert told.count("| missed |") == sum(row["verdict"] == "missed" for row in rows) == 4
    assert told.count("| equivalent |") == sum(row["verdict"] == "equivalent" for row in rows) > 0
    assert all(row["by"] in told for row in rows)


def test_all_mutants_are_printed_where_no_kernel_is_named(measured, capsys):
    main(["--list"])
    told = capsys.readouterr().out
    assert told.count("\n## ") + 1 == sum(row["kind"] == "kernel" for row in measured)
    assert told.count("| missed |") + told.count("| equivalent |") == sum(
        row["kind"] == "mutant" and row["verdict"] != "caught" for row in measured)
