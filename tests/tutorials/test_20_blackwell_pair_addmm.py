"""Tutorial 20 on the simulator, and compiled for sm_100a: shapes that tiles of pairs do not divide; "what if" edits."""

import re

import numpy as np
import pytest

import mimw
from mimw.testing import compare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled
from tests.seeds import shows

CHIP = dict(target="sm_100a")
SMALL = dict(BN=64, BK=32, STAGES=2, PARTS=2, PLACES=2)


@pytest.mark.parametrize("shape, chosen", [
    ((264, 72, 40), dict(STAGES=3, PLACES=3)), ((520, 136, 48), dict(PARTS=4, GROUP_M=1)),
    ((320, 64, 32), dict(BM=64, BK=16, ANSWERS=1))], ids=str)
def test_products(tutorial, shape, chosen):
    a, b, d, c = tutorial.matrices(*shape)
    grid, args, meta = tutorial.arguments(a, b, d, c, **SMALL | chosen)
    mimw.simulate(tutorial.addmm, grid, *args, races=True, **meta, **CHIP)
    compare(c.astype(np.float32), tutorial.expected(a, b, d), rtol=1e-2, atol=2e-2)


def checked(tutorial, seeds=3):
    grid, args, meta = tutorial.arguments(*tutorial.matrices(256, 96, 32), **SMALL | dict(BN=32, BK=16))
    return mimw.check(tutorial.addmm, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


def test_right_under_every_interleaving(tutorial):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, seeds=6)
    assert report.ok and report.runs == 6, report


@pytest.mark.parametrize("old, new, kind", [
    ("if part == PARTS - 1:", "if part == 0:", "SlotReusedEarly"), ("arrive_count=2)", ")", "WaitCycle"),
    ("full[slot], 2 * BYTES", "full[slot], BYTES", "BytesNotExpected"), ("store_wait(1)", "store_wait(2)", "SourceOverwritten"),
    ("clc_create_context(9", "clc_create_context(10", "TooFewArrivals"),
])
def test_what_if(edited, old, new, kind):
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 3)


def test_every_commit_is_the_pairs(edited):
    assert checked(edited("tlx.tcgen05_commit(done[which], two_ctas=True)", "tlx.tcgen05_commit(done[which])"), seeds=2).ok


@pytest.mark.parametrize("old, new", [("n + rank * HALF", "n"), ("[m + rank * BM, k]", "[m, k]")], ids=["B", "A"])
def test_whose_half_it_is_only_numbers_show(edited, old, new):
    """A CTA that loads the other's half keeps to the protocol: nothing is found, and the product is another."""
    tutorial = edited(old, new)
    assert checked(tutorial, seeds=1).ok
    a, b, d, c = tutorial.matrices(256, 64, 32)
    grid, args, meta = tutorial.arguments(a, b, d, c, **SMALL)
    mimw.simulate(tutorial.addmm, grid, *args, **meta, **CHIP)
    assert np.abs(c - tutorial.expected(a, b, d)).max() > 1


@pytest.mark.long(shown_by="tests/words/test_pairs.py::test_the_gemm_compiles")
def test_it_compiles(tutorial, sass_has, tmp_path):
    """At full size: two accumulators of 256 columns, four instructions a step for both CTAs, no register spilled."""
    types = dict.fromkeys(("a_desc", "d_desc", "c_desc"), "tensordesc<fp16[128,64]>") | {"b_desc": "tensordesc<fp16[64,128]>"}
    sizes = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=5, PARTS=4, PLACES=3, ANSWERS=2)
    done = to_assembly(tutorial.addmm, types | dict.fromkeys("MNK", "i32"), sizes, "sm_100a",
                       dict(num_warps=4, ctas_per_cga=(2, 1, 1)))
    ptx = done.stage("ptx")
    assert "0 bytes spill stores, 0 bytes spill loads" in assembled(ptx, tmp_path, "sm_100a")
    sass_has(done, r"UTCHMMA\.2CTA", r"UTMALDG\.2D\.2CTA", r"UTCBAR\.2CTA\.MULTICAST", (r"UGETNEXTWORKID\.BROADCAST", 1),
             cubin=(tmp_path / "kernel.cubin").read_bytes())
    assert ptx.count("tcgen05.mma.cta_group::2.kind::f16") == 4 and not re.search(r"tcgen05\S*cta_group::1", ptx)
    assert re.search(r"tcgen05\.alloc\.cta_group::2\S+ \[%r\d+\], 512;", ptx) and done.metadata.shared < 232448


def test_the_program_runs(tutorial, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tutorial.__file__.rpartition("/")[0])
    tutorial.simulate_one()
    assert "ok: nothing found in 3 runs" in capsys.readouterr().out
