"""What the compiler costs, without a GPU: our GEMM for sm_90a, and what comes before and around compiling it.

    python -m benchmarks.compile_time [--cases cold start hit share] [--rounds 15] [--note TEXT] [--results DIR]

    cold     wall time of a cold compile against the same kernel in Gluon; the goal is a ratio of at most 1.5
    start    CPU time of fresh processes: `import mimw` (goal 300 ms), with `mimw.jit`, `mimw --help` (goal 200 ms), Python alone
    hit      CPU time of `compile_kernel` where the binary is in the cache on disk (goal 5 ms), and with the program asked for
    share    how much of the CPU time of a cold compile is mimw's own Python (goal 6 %; python_share.py says what counts)

`cold` has both kernels compile in turn in one process with a fresh cache folder each time, after one warm-up of each, and gives
medians, as `share` does; the other cases give the best of the rounds. Each case is a row of a file of one JSON object a line; the
file before a change is made by this script in the tree before it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from mimw.kernels.gemm.kernel import GemmForm
from mimw.kernels.gemm.kernel import gemm as mimw_kernel
from mimw.kernels.gemm.tiles import Tiles
from mimw.runtime.compile_kernel import compile_kernel

from .driver import command, in_turn, keep_row
from .gluon_gemm import gemm as gluon_kernel
from .progress import each
from .python_share import share

SIZES = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, CONSUMERS=2, PIECES=4)
FORM = GemmForm(Tiles(128, 256, 8, 64, CONSUMERS=2, PIECES=4, STAGING=2, PING_PONG=False, B_IS_NK=False), STAGES=4)
BLOCKS = dict(a_desc=[128, 64], b_desc=[64, 256], c_desc=[64, 64])
OPTIONS = dict(num_warps=4, enable_fp_fusion=True)
SCALARS = dict(M="i32", N="i32", K="i32")
PROCESSES = {
    "python": "pass",
    "import mimw": "import mimw",
    "import mimw; mimw.jit": "import mimw; mimw.jit",
    "mimw --help": "from mimw.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
}


def descriptor(block: list[int], layout: str = "") -> str:
    return f"tensordesc<bf16[{block[0]},{block[1]}]{layout}>"


def compiled_mimw():
    signature = {name: descriptor(block) for name, block in BLOCKS.items()} | SCALARS
    return compile_kernel(mimw_kernel, signature, dict(FORM=FORM), "sm_90a", OPTIONS)


def compile_mimw():
    return compiled_mimw().stages


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


def measure_cold(rounds: int) -> dict:
    candidates = {"mimw": partial(cold, compile_mimw), "gluon": partial(cold, compile_gluon)}
    in_turn(candidates, 1)
    medians = {name: statistics.median(values) for name, values in in_turn(candidates, rounds).items()}
    return dict(name="compile_time", milliseconds={name: round(1000 * value, 1) for name, value in medians.items()},
                ratio=round(medians["mimw"] / medians["gluon"], 3))


def process(program: str) -> float:
    """CPU seconds of a fresh Python that runs the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm(action) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measure_start(rounds: int) -> dict:
    times = in_turn({name: partial(process, program) for name, program in PROCESSES.items()}, rounds)
    return dict(name="start_time", cpu_milliseconds={name: round(1000 * min(values), 1) for name, values in times.items()})


def measure_hit(rounds: int) -> dict:
    asked = {"compile_kernel": lambda: compiled_mimw(), "and its program": lambda: compiled_mimw().program}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        compiled_mimw()
        times = in_turn({name: partial(warm, action) for name, action in asked.items()}, rounds)
    return dict(name="cache_hit", cpu_milliseconds={name: round(1000 * min(values), 2) for name, values in times.items()})


def measure_share(rounds: int) -> dict:
    shares: list[dict] = []
    cold(compile_mimw)
    for _ in range(rounds):
        cold(lambda: shares.append(share(compiled_mimw)) or compile_mimw())
    middle = statistics.median_low([one["share"] for one in shares])
    found = next(one for one in shares if one["share"] == middle)
    milliseconds = {name: round(1000 * value, 1) for name, value in found.items() if name != "share"}
    return dict(name="python_share", cpu_milliseconds=milliseconds, share=round(middle, 4))


CASES = {"cold": measure_cold, "start": measure_start, "hit": measure_hit, "share": measure_share}


def main() -> None:
    parser = command(__doc__, rounds=15)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--note", help="goes into the rows, such as `before`")
    args = parser.parse_args()
    for case in each(args.cases):
        row = CASES[case](args.rounds)
        if case != "start":
            row |= dict(kernel="gemm", target="sm_90a", configuration=SIZES)
        row |= dict(rounds=args.rounds, **({"note": args.note} if args.note else {}))
        keep_row(row, args.results / "compile_time.jsonl")


if __name__ == "__main__":
    main()
