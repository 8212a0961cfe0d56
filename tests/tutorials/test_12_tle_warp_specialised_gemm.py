"""Tutorial 12 on the simulator and the GPU, at shapes that no tile divides; its "what if" edits; what ptxas says of it."""

import re

import pytest
import triton

from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

from .gemm import checked, finds, run_and_compare

SMALL = dict(BN=128, STAGES=3)


@pytest.mark.parametrize("shape, programs", [((128, 128, 64), 1), ((256, 384, 256), 4), ((136, 200, 328), 3), ((8, 8, 8), 2)])
def test_product(machine, tutorial, shape, programs):
    run_and_compare(machine, tutorial, shape, programs, **SMALL)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial, (384, 136, 200), 2, BN=128, STAGES=2)
    assert report.ok, report


@pytest.mark.parametrize("old, new, text", [
    ('tiles.reader("high", fields=("a_high", "b"))', 'tiles.reader("low", fields=("a_high", "b"))',
     "reader 'low' is used in two partitions"),
    ("tiles.release(chunk - 1)\n            chunk += 1", "tiles.release(chunk)\n            chunk += 1",
     "may still read the slot")],
    ids=["one reader twice", "released early"])
def test_refused(edited, old, new, text):
    with pytest.raises(triton.CompilationError, match=text):
        compiled(edited(old, new))


@pytest.mark.parametrize("old, new, kind", [
    ("        acc = tlx.async_dot_wait(0, acc)\n        tiles.release(chunk - 1)\n", "        acc = tlx.async_dot_wait(0, acc)\n",
     "WaitCycle"),
    ("            out.release(piece)\n            piece += 1", "            out.release(piece)", "TooFewArrivals")],
    ids=["last release", "count"])
def test_what_if(edited, old, new, kind):
    assert finds(kind, edited(old, new), (256, 128, 256), 1, BN=128, STAGES=2)


def compiled(tutorial):
    meta = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, PIECES=4, ROOM=2)
    signature = {"a_desc": "tensordesc<fp16[64,64]>", "b_desc": "tensordesc<fp16[64,256]>", "c_desc": "tensordesc<fp16[64,64]>",
                 "M": "i32", "N": "i32", "K": "i32"}
    return to_assembly(tutorial.gemm, signature, meta, options=dict(num_warps=4))


@pytest.mark.long(shown_by="tests/lowering/test_gemm.py::test_products_overlap_and_nothing_spills")
def test_products_overlap_and_nothing_spills(tutorial, tmp_path):
    said = assembled(compiled(tutorial).stage("ptx"), tmp_path)
    assert "serialized" not in said and "C7510" not in said
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said)
