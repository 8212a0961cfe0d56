"""Tutorial 10 on the simulator, and compiled for sm_100a: types, head dimensions, causal and full; "what if" edits."""

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
    "1-256-128-{'STAGES': 1}-True-bfloat16-0.015", "1-256-64-{}-False-float16-0.002", "1-768-16-{'PARTS': 1}-True-bfloat16-0.015",
    "2-512-32-{'BN': 64, 'PARTS': 2}-False-float16-0.002"])
@pytest.mark.parametrize("causal, dtype, allowed", [(False, np.float16, 2e-3), (True, ml_dtypes.bfloat16, 1.5e-2)])
@pytest.mark.parametrize("heads, seq, dim, chosen", [
    (1, 256, 64, {}), (2, 512, 32, dict(BN=64, PARTS=2)), (1, 768, 16, dict(PARTS=1)), (1, 256, 128, dict(STAGES=1))], ids=str)
def test_attention(tutorial, heads, seq, dim, chosen, causal, dtype, allowed):
    q, k, v, o, lse = tutorial.problem(heads, seq, dim, dtype)
    grid, args, meta = tutorial.arguments(q, k, v, o, lse, causal, **chosen)
    mimw.simulate(tutorial.attention, grid, *args, races=True, **meta, **CHIP)
    wanted, wanted_lse = tutorial.expected(q, k, v, causal)
    compare(o.astype(np.float32), wanted, rtol=0, atol=allowed)
    compare(lse, wanted_lse, rtol=0, atol=1e-4)


def checked(tutorial, causal=True, seeds=8):
    grid, args, meta = tutorial.arguments(*tutorial.problem(1, 256, 16), causal, BN=64, PARTS=1)
    return mimw.check(tutorial.attention, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
def test_right_under_every_interleaving(tutorial, causal):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, causal, seeds=6)
    assert report.ok and report.runs == 6, report


P_AND_NEXT = ["tlx.async_dot(p[0], v_tiles[before], o[0], use_acc=n > 1, force_async=True)\n",
              "tlx.async_dot(q_tiles[0], tlx.local_trans(k_tiles[slot]), s[0], use_acc=False, mBarriers=[scored[0]])\n"]
INDENT = " " * 16


@pytest.mark.parametrize("edits, kind", [
    (("arrive_count=2", "arrive_count=1"), "PhaseMissed"),
    (("totalled[me])", "shrunk[me])", "totalled[i], 0)", "shrunk[i], blocks & 1)"), "PhaseMissed"),
    ((INDENT.join(P_AND_NEXT), INDENT.join(reversed(P_AND_NEXT))), "UnwrittenRead"),      # p lies in columns of s
    (("group_type=tlx.reuse_group_type.distinct)", ")"), "SlotReusedEarly"),
    (("                tlx.barrier_wait(summed[i], 0)\n", ""), "SlotReusedEarly"),
    (("use_acc=n > 1, force_async", "use_acc=True, force_async"), "UnwrittenRead"),
], ids=["one arrival", "one barrier for two things", "scores before the product", "all shared", "no last wait", "no zero"])
def test_what_if(edited, edits, kind):
    wrong = edited(*edits)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 8)


def test_a_fence_that_is_left_out_is_put_in(edited):
    """By the compiler, which `mimw explain` says."""
    assert checked(edited('                tlx.fence("async_shared")\n', ""), seeds=2).ok


@pytest.mark.parametrize("old, new", [
    ("(q_tiles[1], tlx.local_trans(k_tiles[0])", "(q_tiles[0], tlx.local_trans(k_tiles[0])"),
    ("(q_tiles[0], tlx.local_trans(k_tiles[slot])", "(q_tiles[1], tlx.local_trans(k_tiles[slot])"),
    ("(q_tiles[1], tlx.local_trans(k_tiles[slot])", "(q_tiles[0], tlx.local_trans(k_tiles[slot])"),
    ("v_tiles[last]", "v_tiles[(last + 1) % STAGES]")], ids=["first scores", "scores of tile 0", "scores of tile 1", "last values"])
def test_a_wrong_operand_that_only_numbers_show(edited, old, new):
    """The four missed mutants of `benchmarks.mutations --list`: the other tile is there, too, and nobody overwrites it."""
    tutorial = edited(old, new)
    q, k, v, o, lse = tutorial.problem(1, 256, 16)
    grid, args, meta = tutorial.arguments(q, k, v, o, lse, BN=64, PARTS=1)
    mimw.simulate(tutorial.attention, grid, *args, races=True, **meta, **CHIP)
    assert np.abs(o - tutorial.expected(q, k, v, False)[0]).max() > 0.1


def compiled(tutorial, by, causal):
    types = dict.fromkeys(("q_desc", "k_desc", "v_desc", "o_desc"), "tensordesc<bf16[128,128]>")
    types |= {"lse": "*fp32", "seq": "i32", "scale": "fp32"}
    return by(tutorial.attention, types, dict(BN=128, D=128, STAGES=2, PARTS=4, CAUSAL=causal), "sm_100a", dict(num_warps=4))


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
def test_no_tile_is_converted(tutorial, causal):
    """At head dimension 128."""
    text = compiled(tutorial, to_ttgir, causal).stage("ttgir")
    assert not re.search(r"convert_layout.*tensor<128x\d+x", text) and text.count("ttng.tc_gen5_mma ") == 8


@pytest.mark.long(shown_by="test_21_blackwell_block_scaled_gemm.py::test_it_compiles")      # LLVM and ptxas of a whole kernel
def test_it_compiles(tutorial, sass_has, tmp_path):
    """At head dimension 128: all 512 columns, a row a thread, P as left operand out of tensor memory. With the mask, which is all
    that the other has and more."""
    done = compiled(tutorial, to_assembly, True)
    ptx = done.stage("ptx")
    said = assembled(ptx, tmp_path, "sm_100a")
    sass_has(done, "UTCHMMA", r"LDTM\.x64", r"STTM\.x64", "UTMALDG", "UTMASTG", cubin=(tmp_path / "kernel.cubin").read_bytes())
    assert "], 512;" in ptx[ptx.index("tcgen05.alloc"):] and done.metadata.shared < 232448
    assert ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 64
    assert len(re.findall(r"tcgen05\.mma\S+ \[[^]]*\], \[", ptx)) == 32, "half of the products take P out of tensor memory"
    assert "tcgen05.ld.sync.aligned.32x32b.x64" in ptx and "tcgen05.st.sync.aligned.32x32b.x1.b32" in ptx
    assert re.search(r"\b0 bytes spill stores", said)
