"""Tutorial 18 on the simulator, and compiled for sm_100a: types, head dimensions, causal and full; "what if" edits."""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.testing import compare
from tests.compiling import to_assembly, to_ttgir
from tests.lowering.assembly import assembled
from tests.seeds import shows

CHIP = dict(target="sm_100a")


@pytest.mark.long(everywhere=True, but=[
    "1-128-64-{}-False-float16-0.005", "1-256-128-{'PARTS': 8}-True-bfloat16-0.04",
    "1-384-16-{'PARTS': 2, 'STAGES': 3}-False-float16-0.005", "2-256-32-{'PARTS': 2}-True-bfloat16-0.04"])
@pytest.mark.parametrize("causal, dtype, allowed", [(False, np.float16, 5e-3), (True, ml_dtypes.bfloat16, 4e-2)])
@pytest.mark.parametrize("heads, seq, dim, chosen", [
    (1, 128, 64, {}), (2, 256, 32, dict(PARTS=2)), (1, 384, 16, dict(PARTS=2, STAGES=3)), (1, 256, 128, dict(PARTS=8))], ids=str)
def test_gradients(tutorial, heads, seq, dim, chosen, causal, dtype, allowed):
    arrays, wanted = tutorial.problem(heads, seq, dim, causal, dtype)
    grid, args, meta = tutorial.arguments(*arrays, causal, **chosen)
    mimw.simulate(tutorial.attention_backward, grid, *args, races=True, **meta, **CHIP)
    for got, one in zip(arrays[4:7], wanted):
        compare(got.astype(np.float32), one, rtol=allowed, atol=allowed)


def checked(tutorial, causal=False, seeds=6, seq=256):
    arrays, _ = tutorial.problem(1, seq, 16, causal)
    grid, args, meta = tutorial.arguments(*arrays, causal, PARTS=2)
    return mimw.check(tutorial.attention_backward, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
def test_right_under_every_interleaving(tutorial, causal):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, causal, seeds=6)
    assert report.ok and report.runs == 6, report


@pytest.mark.parametrize("old, new, kind", [
    ("                tlx.barrier_wait(taken[0], n & 1 ^ 1)\n", "", "SlotReusedEarly"),
    ("if part == PARTS - 1:", "if part == 0:", "SlotReusedEarly"),
    ("                tlx.barrier_wait(stored[0], n & 1)\n", "", "DataRace"),
    (', store_reduce="add")', ")", "DataRace"),
    ("dk[0], use_acc=n > 0", "dk[0], use_acc=True", "UnwrittenRead"),
], ids=["no wait for taken", "early", "no wait for stored", "no sum", "no zero"])
def test_what_if(edited, old, new, kind):
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 6)


def test_a_fence_that_is_left_out_is_put_in(edited):
    """By the compiler, which `mimw explain` says."""
    assert checked(edited('    tlx.fence("async_shared")\n    tlx.barrier_arrive(ready[0])', "    tlx.barrier_arrive(ready[0])"),
                   causal=True, seeds=2).ok


@pytest.mark.parametrize("old, new", [
    ("tlx.local_trans(q_tiles[after])", "tlx.local_trans(q_tiles[(after + 1) % STAGES])"),
    ("(ds[0], q_tiles[slot]", "(ds[0], q_tiles[(slot + 1) % STAGES]")], ids=["scores", "dK"])
def test_a_wrong_operand_that_only_numbers_show(edited, old, new):
    """The two missed mutants of `benchmarks.mutations --list`: the other queries are there, too, and nobody overwrites them."""
    tutorial = edited(old, new)
    arrays, wanted = tutorial.problem(1, 256, 16, False)
    grid, args, meta = tutorial.arguments(*arrays, False, PARTS=2)
    mimw.simulate(tutorial.attention_backward, grid, *args, races=True, **meta, **CHIP)
    assert max(np.abs(got - one).max() for got, one in zip(arrays[4:7], wanted)) > 0.1


def compiled(tutorial, by, causal):
    types = dict.fromkeys(("q_desc", "k_desc", "v_desc", "do_desc", "dk_desc", "dv_desc"), "tensordesc<bf16[128,128]>")
    types |= {"dq_desc": "tensordesc<fp32[128,32]>", "lse_ptr": "*fp32", "delta_ptr": "*fp32", "seq": "i32", "scale": "fp32"}
    return by(tutorial.attention_backward, types, dict(D=128, STAGES=2, PARTS=4, CAUSAL=causal), "sm_100a", dict(num_warps=4))


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
def test_no_tile_is_converted(tutorial, causal):
    """At head dimension 128."""
    text = compiled(tutorial, to_ttgir, causal).stage("ttgir")
    assert not re.search(r"convert_layout.*tensor<128x\d+x", text) and text.count("ttng.tc_gen5_mma ") == 6


@pytest.mark.long(shown_by="test_21_blackwell_block_scaled_gemm.py::test_it_compiles")      # LLVM and ptxas of a whole kernel
def test_it_compiles(tutorial, sass_has, tmp_path):
    """At head dimension 128: all 512 columns; P^T is a left operand out of tensor memory, dS^T one as it lies and transposed. With
    the mask, which is all that the other has and more."""
    done = compiled(tutorial, to_assembly, True)
    ptx = done.stage("ptx")
    said = assembled(ptx, tmp_path, "sm_100a")
    sass_has(done, "UTCHMMA", r"LDTM\.x32", r"STTM\.x16", "UTMALDG", r"UTMAREDG\.2D\.ADD", "UTMASTG",
             cubin=(tmp_path / "kernel.cubin").read_bytes())
    assert "], 512;" in ptx[ptx.index("tcgen05.alloc"):] and done.metadata.shared < 232448
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 6 * 8
    assert len(re.findall(r"tcgen05\.mma\S+ \[[^]]*\], \[", ptx)) == 8, "one product of six takes P^T out of tensor memory"
    assert int(re.search(r"(\d+) bytes spill stores", said)[1]) <= 44
