"""Planted edits of TTGIR: of a ring and of a GEMM here and now, of all kernels as last measured."""

from pathlib import Path

import pytest

from benchmarks.mutations import read_rows
from benchmarks.ttgir_edit_kernels import CASES
from benchmarks.ttgir_edit_table import listing, page, score
from benchmarks.ttgir_edits import ROWS, found, judge, main
from benchmarks.ttgir_planted import KINDS, edits
from tests.ttgir.test_products import made

ROOT = Path(__file__).parents[2]
QUICK = 2, 6        # of the edits of the ring and of the GEMM one in so many is judged here


@pytest.fixture(scope="module")
def measured():
    return read_rows(ROWS)


def test_edits_of_a_ring_are_found():
    ring = CASES["Ring by hand, sm_90"].made()
    assert found(ring, ring.text) == ""
    planted = list(edits(ring.text))
    assert len(planted) >= 36
    verdicts = [(edit.kind, edit.line, *judge(ring, edit)) for edit in planted[::QUICK[0]]]
    assert [one for one in verdicts if one[2] != "found"] == []


def test_edits_of_a_gemm_of_stock_triton():
    """Each one found, or harmless for a reason."""
    gemm = made("GEMM by TMA, sm_90")
    planted = list(edits(gemm.text))
    assert {"wait gone", "wait weaker", "fence gone", "other index", "phase flipped", "expect gone", "other bytes", "other count",
            "predicate dropped", "swizzle changed", "init gone"} == {edit.kind for edit in planted}
    verdicts = [(edit.kind, edit.line, *judge(gemm, edit)) for edit in planted[::QUICK[1]]]
    assert [one for one in verdicts if one[2] == "missed"] == []


def test_an_edit_changes_one_place():
    """Each has another text than the module and the others, and names a line that has its op."""
    text = made("GEMM by TMA, sm_90").text
    planted = list(edits(text))
    assert len({edit.text for edit in planted}) == len(planted) and text not in {edit.text for edit in planted}
    assert all(edit.op in text.splitlines()[edit.line - 1] for edit in planted if edit.kind != "swizzle changed")


def test_the_score_as_measured(measured):
    """All kernels are there, none of them raises an alarm, all kinds were planted, and nothing that is wrong is missed."""
    heads, planted = ([row for row in measured if row["row"] == kind] for kind in ("kernel", "edit"))
    assert {row["kernel"] for row in heads} == set(CASES)
    assert [row["kernel"] for row in heads if row["alarm"]] == []
    assert {row["kind"] for row in planted} == set(KINDS)
    assert score(planted) == 1 and all(row["by"] for row in planted)


def test_only_layouts_are_left_to_the_verifier_of_mlir(measured):
    """Every other edit is a module that MLIR reads: the check finds it."""
    assert {row["kind"] for row in measured if "MLIR" in row.get("by", "")} == {"swizzle changed"}


def test_the_page_is_what_was_measured(measured):
    assert (ROOT / "docs" / "TTGIR_EDITS.md").read_text() == page(measured, list(CASES))


def test_what_was_not_found_is_printed(measured, capsys):
    main(["--list", "--kernels", "sm_80"])
    told = capsys.readouterr().out
    assert told == listing(measured, ["GEMM by cp.async, sm_80"])
    assert told.count("| harmless |") == sum(row.get("verdict") == "harmless" and "sm_80" in row["kernel"] for row in measured) > 0
