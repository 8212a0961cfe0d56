"""Tutorial 21 on the simulator, and compiled for sm_100a: mxfp8, mxfp4 and nvfp4; sizes that no tile divides; "what if" edits."""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.errors import OutOfTensorMemory
from mimw.testing import compare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled
from tests.seeds import shows

CHIP = dict(target="sm_100a")
KINDS = {"mxfp8": ("kind::mxf8f6f4.block_scale.block32", "UTCQMMA"), "nvfp4": ("kind::mxf4nvf4.block_scale.block16", "UTCOMMA")}
TWO = dict(BN=128, STAGES=2, PARTS=2, SUMS=2)


@pytest.mark.parametrize("name, shape, chosen", [
    ("mxfp8", (256, 128, 384), TWO), ("mxfp4", (128, 256, 512), TWO), ("nvfp4", (256, 256, 256), dict(STAGES=2)),
    ("mxfp8", (136, 72, 160), TWO), ("nvfp4", (72, 264, 96), TWO | dict(BK=64))], ids=str)
def test_products(tutorial, name, shape, chosen):
    arrays, wanted = tutorial.problem(*shape, name)
    grid, args, meta = tutorial.arguments(*arrays, name, 2, **chosen)
    mimw.simulate(tutorial.block_scaled_gemm, grid, *args, races=True, **meta, **CHIP)
    compare(arrays[-1].astype(np.float32), wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("name, allowed", [("mxfp8", 2**-3), ("mxfp4", 2**-1), ("nvfp4", 2**-2)])
def test_quantised(tutorial, name, allowed):
    """What elements and scales stand for is what the data say, and near the numbers: by a part of a block's largest."""
    x = np.random.default_rng(0).standard_normal((128, 64), np.float32)
    data, scales, meant = tutorial.quantised(x, name)
    element, block, *_ = tutorial.FORMATS[name]
    wide = scales.view(ml_dtypes.float8_e4m3fn if name == "nvfp4" else ml_dtypes.float8_e8m0fnu).astype(np.float32)
    if element == "e2m1":
        codes = np.stack([data & 15, data >> 4], -1).reshape(x.shape)
        elements = np.where(codes & 8, -1, 1) * tutorial.E2M1[codes & 7]
    else:
        elements = data.astype(np.float32)
    np.testing.assert_array_equal(elements * np.repeat(wide, block, 1), meant)
    largest = np.repeat(np.abs(x.reshape(128, -1, block)).max(-1), block, 1)
    assert (np.abs(meant - x) <= allowed * largest).all() and np.abs(meant).max() > 1


def launched(tutorial):
    """One program, three tiles, two accumulators."""
    arrays, _ = tutorial.problem(384, 128, 256, "nvfp4")
    return tutorial.block_scaled_gemm, *tutorial.arguments(*arrays, "nvfp4", 1, **TWO | dict(BK=64))


def checked(tutorial, seeds=3):
    kernel, grid, args, meta = launched(tutorial)
    return mimw.check(kernel, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta, **CHIP)


def test_right_under_every_interleaving(tutorial):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, seeds=6)
    assert report.ok and report.runs == 6, report


@pytest.mark.parametrize("old, new, kind", [
    ("(WIDTH + BK // BLOCK)", "WIDTH", "BytesNotExpected"), ("b_scales[slot], FORMAT", "b_scales[0], FORMAT", "CopyReadEarly"),
    ("                    tlx.barrier_wait(empty[slot], parity ^ 1)\n", "", "CopyReadEarly"),
    ("                tlx.barrier_wait(read[which], phase ^ 1)\n", "", "SlotReusedEarly"),
    ("use_acc=k > 0", "use_acc=True", "UnwrittenRead")], ids=["bytes", "scales", "empty", "read", "no zero"])
def test_what_if(edited, old, new, kind):
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 3)


def test_tables_of_scales_take_columns(tutorial):
    arrays, _ = tutorial.problem(128, 256, 256, "nvfp4")
    grid, args, meta = tutorial.arguments(*arrays, "nvfp4", 1, STAGES=2, SUMS=2)
    with pytest.raises(OutOfTensorMemory, match="560 columns of tensor memory are needed"):
        mimw.simulate(tutorial.block_scaled_gemm, grid, *args, **meta, **CHIP)


@pytest.mark.long(but=["nvfp4"], everywhere=True)
@pytest.mark.parametrize("name", KINDS)
def test_it_compiles(tutorial, sass_has, tmp_path, name):
    """At full size: all scales of a step are copied by tcgen05.cp, 512 columns are taken, no register is spilled. Of mxfp4
    benchmarks/results/blackwell.jsonl says the same."""
    element, block, step, stages = tutorial.FORMATS[name]
    (kind, instruction), groups = KINDS[name], step // block // 4
    width, type_ = (step // 2, "u8") if element == "e2m1" else (step, "fp8e4nv")
    types = {"a_desc": f"tensordesc<{type_}[128,{width}]>", "b_desc": f"tensordesc<{type_}[256,{width}]>",
             "a_scale_desc": f"tensordesc<u8[1,1,{groups},2,256]>", "b_scale_desc": f"tensordesc<u8[1,2,{groups},2,256]>",
             "c_desc": "tensordesc<fp16[128,32]>"}
    sizes = dict(FORMAT=element, BLOCK=block, BM=128, BN=256, BK=step, GROUP_M=8, STAGES=stages, PARTS=8, SUMS=1)
    done = to_assembly(tutorial.block_scaled_gemm, types | dict.fromkeys("MNK", "i32"), sizes, "sm_100a", dict(num_warps=4))
    ptx = done.stage("ptx")
    assert "0 bytes spill stores, 0 bytes spill loads" in assembled(ptx, tmp_path, "sm_100a")
    sass_has(done, instruction, (r"UTCCP\.T\.S", 3 * groups), cubin=(tmp_path / "kernel.cubin").read_bytes())
    assert ptx.count(f"tcgen05.mma.cta_group::1.{kind}") == 4 and re.search(r"tcgen05\.alloc\S+ \[%r\d+\], 512;", ptx)
    assert ptx.count("tcgen05.cp.cta_group::1.warpx4.32x128b") == 3 * groups and done.metadata.shared < 232448


def test_the_program_runs(tutorial, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tutorial.__file__.rpartition("/")[0])
    tutorial.simulate_one()
    assert capsys.readouterr().out.count("ok: nothing found in 3 runs") == 3
