"""Tutorial 09 on the simulator, and compiled for sm_100a: shapes that tiles do not divide; "what if" edits."""

import numpy as np
import pytest

import mimw
from mimw.runtime.compile_kernel import compile_kernel
from mimw.testing import compare
from tests.seeds import shows

CHIP = dict(target="sm_100a")
SMALL = dict(BN=64, BK=32, STAGES=2, PARTS=2)
TYPES = {"a_desc": "tensordesc<fp16[128,64]>", "b_desc": "tensordesc<fp16[64,256]>", "c_desc": "tensordesc<fp16[128,64]>",
         "M": "i32", "N": "i32", "K": "i32"}
FULL = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=3, PARTS=4, ANSWERS=2)


@pytest.mark.parametrize("shape, chosen", [
    ((128, 64, 64), {}), ((136, 72, 40), dict(STAGES=3)), ((384, 256, 96), dict(GROUP_M=2)), ((104, 304, 72), dict(PARTS=4)),
    ((256, 192, 64), dict(ANSWERS=1))], ids=str)
def test_products(tutorial, shape, chosen):
    a, b, c = tutorial.matrices(*shape)
    grid, args, meta = tutorial.arguments(a, b, c, **SMALL | chosen)
    for seed in (0, 1, 2):
        c[:] = np.nan
        mimw.simulate(tutorial.gemm, grid, *args, seed=seed, races=True, **meta, **CHIP)
        compare(c, (a.astype(np.float64) @ b).astype(np.float16), rtol=2e-2, atol=2e-2)


def checked(tutorial, seeds=8):
    grid, args, meta = tutorial.arguments(*tutorial.matrices(256, 192, 128), **SMALL)
    return mimw.check(tutorial.gemm, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


def test_right_under_every_interleaving(tutorial):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, seeds=6)
    assert report.ok and report.runs == 6, report


@pytest.mark.parametrize("old, new, kind", [
    ("if part == PARTS - 1:", "if part == 0:", "SlotReusedEarly"),
    ("tlx.subslice(sums[which], part", "tlx.subslice(sums[0], part", "SlotReusedEarly"),
    ("clc_create_context(4, ANSWERS)", "clc_create_context(3, ANSWERS)", "SlotReusedEarly"),
    ("                tlx.tcgen05_commit(done[which])\n", "", "TooFewArrivals"), ("use_acc=k > 0", "use_acc=True", "UnwrittenRead"),
    ("tlx.barrier_wait(read[which], phase ^ 1)", "pass", "SlotReusedEarly"), (", mBarriers=[empty[slot]])", ")", "TooFewArrivals"),
    ("store_wait(1)", "store_wait(2)", "SourceOverwritten"),
])
def test_what_if(edited, old, new, kind):
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 8)


def test_a_fence_that_is_left_out_is_put_in(edited):
    """By the compiler, which `mimw explain` says."""
    assert checked(edited('                    tlx.fence("async_shared")\n', ""), seeds=2).ok


def test_in_clusters(edited, sass_has):
    """Pairs of CTAs that ask together: each has two tiles side by side, and all eight roles read each answer."""
    tutorial = edited("clc_create_context(4, ANSWERS)", "clc_create_context(8, ANSWERS)")
    a, b, c = tutorial.matrices(256, 256, 64)
    grid, args, meta = tutorial.arguments(a, b, c, **SMALL)
    pairs = dict(ctas_per_cga=(2, 1, 1))
    mimw.simulate(tutorial.gemm, grid, *args, seed=1, races=True, **meta, **pairs, **CHIP)
    compare(c, (a.astype(np.float64) @ b).astype(np.float16), rtol=2e-2, atol=2e-2)
    report = mimw.check(tutorial.gemm, grid, *args, seeds=12, shrink=False, **meta, **pairs, **CHIP)
    assert report.ok and any(tried.outcome == "ok" for tried in report.tried), report
    narrow = TYPES | {"b_desc": "tensordesc<fp16[64,128]>"}, FULL | dict(BN=128, PARTS=2)
    done = compile_kernel(tutorial.gemm, *narrow, "sm_100a", dict(num_warps=4, **pairs))
    sass_has(done, (r"UGETNEXTWORKID\.BROADCAST", 1))


def test_it_compiles(tutorial, sass_has):
    """At full size: two accumulators of 256 columns, a product of 128 x 256 an instruction, no register spilled."""
    done = compile_kernel(tutorial.gemm, TYPES, FULL, "sm_100a", dict(num_warps=4))
    ptx = done.stage("ptx")
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 4 and "], 512;" in ptx[ptx.index("tcgen05.alloc"):]
    assert done.metadata.shared < 232448
    sass_has(done, (r"UGETNEXTWORKID\.SELFCAST", 1), "UTCHMMA", "LDTM", "UTMALDG", ("STL", 0), ("LDL", 0))


def test_the_program_runs(tutorial, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tutorial.__file__.rpartition("/")[0])
    tutorial.simulate_one()
    assert "ok: nothing found in 4 runs" in capsys.readouterr().out
