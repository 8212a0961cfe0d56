"""Tutorial 19 on the simulator, and compiled for sm_100a: groups of any size, shapes that tiles do not divide; "what if" edits."""

import re

import numpy as np
import pytest

import mimw
from mimw.testing import compare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled
from tests.seeds import shows

CHIP = dict(target="sm_100a")
SMALL = dict(BN=64, BK=32, STAGES=2, PARTS=2)


@pytest.mark.parametrize("sizes, n, k, programs, chosen", [
    ((128, ), 64, 64, 1, {}), ((1, 0, 130, 5), 72, 40, 2, {}), ((0, 0, 200), 128, 32, 3, dict(PARTS=4)), ((300, 7), 96, 72, 2, {}),
    ((0, 0), 64, 32, 2, {})], ids=str)
def test_products(tutorial, sizes, n, k, programs, chosen):
    a, b, bias, c, offsets = tutorial.problem(sizes, n, k)
    grid, args, meta = tutorial.arguments(a, b, bias, c, offsets, programs, **SMALL | chosen)
    mimw.simulate(tutorial.grouped_gemm, grid, *args, races=True, **meta, **CHIP)
    wanted = tutorial.expected(a, b, bias, offsets)
    compare(c[:len(wanted)], wanted.astype(np.float16), rtol=2e-2, atol=2e-2)


def checked(tutorial, seeds=6, programs=2):
    grid, args, meta = tutorial.arguments(*tutorial.problem((130, 0, 40), 128, 64), programs, **SMALL)
    return mimw.check(tutorial.grouped_gemm, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


def test_right_under_every_interleaving(tutorial):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, seeds=6)
    assert report.ok and report.runs == 6, report


@pytest.mark.parametrize("old, new, kind", [
    ("c, [end, N], [N, 1]", "c, [tl.load(offsets + groups), N], [N, 1]", "DataRace"),
    ("if part == PARTS - 1:", "if part == 0:", "SlotReusedEarly"),
    ("store_wait(1)", "store_wait(2)", "SourceOverwritten"),
    ("use_acc=k > 0", "use_acc=True", "UnwrittenRead"),
], ids=["a map too long", "early", "two places", "no zero"])
def test_what_if(edited, old, new, kind):
    """With three programs, the tiles that share rows are those of two."""
    programs = 3 if kind == "DataRace" else 2
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds, programs=programs), 6)


@pytest.mark.long(shown_by="test_09_blackwell_gemm.py::test_it_compiles")
def test_it_compiles(tutorial, sass_has, tmp_path):
    """At full size, with nothing spilled: the map of C is made on the device, B has three dimensions."""
    types = {"a_desc": "tensordesc<fp16[128,64]>", "b_desc": "tensordesc<fp16[1,64,256]>", "bias": "*fp16", "c": "*fp16",
             "offsets": "*i32", "groups": "i32", "N": "i32", "K": "i32"}
    done = to_assembly(tutorial.grouped_gemm, types, dict(BM=128, BN=256, BK=64, STAGES=3, PARTS=4), "sm_100a",
                       dict(num_warps=4))
    ptx = done.stage("ptx")
    said = assembled(ptx, tmp_path, "sm_100a")
    sass_has(done, "UTCHMMA", "LDTM", r"UTMALDG\.3D", "UTMASTG", cubin=(tmp_path / "kernel.cubin").read_bytes())
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 4 and "], 512;" in ptx[ptx.index("tcgen05.alloc"):]
    assert "tensormap.replace" in ptx and "cp.async.bulk.tensor.3d" in ptx
    assert not re.search(r"convert_layout.*tensor<128x\d+x", done.stage("ttgir"))
    assert "0 bytes spill stores" in said and done.metadata.shared < 232448
