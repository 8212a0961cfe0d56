"""Cold compile time of our GEMM against the same kernel in Gluon, offline for sm_90a.

    python benchmarks/compile_time.py [--rounds 15] [--out benchmarks/results/compile_time.jsonl]

Both compile in turn in one process with a fresh cache folder each time, after one warm-up of each; medians and their ratio
go to a file of one JSON object a line. The goal is a ratio of at most 1.5.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import triton
from gluon_gemm import gemm as gluon_kernel
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from mimw.compile import compile_kernel
from mimw.kernels.gemm.kernel import gemm as mimw_kernel

SIZES = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, CONSUMERS=2, PIECES=4)
BLOCKS = dict(a_desc=[128, 64], b_desc=[64, 256], c_desc=[64, 64])
OPTIONS = dict(num_warps=4, enable_fp_fusion=True)
SCALARS = dict(M="i32", N="i32", K="i32")


def descriptor(block: list[int], layout: str = "") -> str:
    return f"tensordesc<bf16[{block[0]},{block[1]}]{layout}>"


def compile_mimw():
    signature = {name: descriptor(block) for name, block in BLOCKS.items()} | SCALARS
    return compile_kernel(mimw_kernel, signature, dict(SIZES, STAGING=2, PING_PONG=False, B_IS_NK=False), "sm_90a", OPTIONS).stages


def compile_gluon():
    signature = {name: descriptor(block, f",{gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)!r}")
                 for name, block in BLOCKS.items()} | SCALARS | dict.fromkeys(SIZES, "constexpr")
    names = gluon_kernel.arg_names
    source = GluonASTSource(gluon_kernel, {name: signature[name] for name in names},
                            {(names.index(name), ): value for name, value in SIZES.items()})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(OPTIONS)).asm


def cold(compile_once) -> float:
    """Seconds of one compile into an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        start = time.perf_counter()
        stages = compile_once()
        seconds = time.perf_counter() - start
    assert len(stages["cubin"]) > 10_000 and "wgmma.mma_async" in stages["ptx"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "compile_time.jsonl")
    args = parser.parse_args()
    candidates = {"mimw": compile_mimw, "gluon": compile_gluon}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for compile_once in candidates.values():
        cold(compile_once)
    for _ in range(args.rounds):
        for name, compile_once in candidates.items():
            times[name].append(cold(compile_once))
    medians = {name: statistics.median(values) for name, values in times.items()}
    row = dict(name="compile_time", kernel="gemm", target="sm_90a", configuration=SIZES, rounds=args.rounds,
               milliseconds={name: round(1000 * value, 1) for name, value in medians.items()},
               ratio=round(medians["mimw"] / medians["gluon"], 3), triton=triton.__version__,
               python=platform.python_version(), date=datetime.date.today().isoformat())
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "a") as file:
        file.write(json.dumps(row, sort_keys=True) + "\n")
    print(json.dumps(row, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
