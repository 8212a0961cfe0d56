"""The main job from end to end: the persistent warp-specialised GEMM, simulated, compiled, explained and drawn.

Input: a seed and the path of a picture. Output: four steps on the terminal, and the picture:

    mimw demo --out gemm.svg        1  Simulate C[512,512] = A[512,256] B[256,512] in bf16 on 2 simulated CTAs ...

1. The kernel runs in the simulator on numpy arrays and is compared with numpy.
2. The kernel is compiled for sm_90a to a cubin; a table shows the resources of each task.
3. The simulated run is drawn: a page with its source and timeline, or the timeline as SVG.
4. If a GPU and torch are present, the kernel is launched, checked and timed against cuBLAS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .errors import CommandError
from .output import check_output, writing
from .progress import working

HELP = "simulate, compile, explain and draw the shipped GEMM"
EXAMPLES = """\
  mimw demo
  mimw demo --out gemm.svg --seed 3
"""
_SHAPE = (512, 512, 256)
_PROGRAMS = 2
_TARGET = "sm_90a"
_GPU_TIME_LIMIT_S = 180


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", default="timeline.html", metavar="PATH",
                        help="the picture, .html or .svg (default timeline.html)")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="picks the interleaving of the tasks (default 0)")


def execute(options: Namespace) -> int:
    out = Path(options.out).absolute()
    if out.suffix not in (".html", ".svg"):
        raise CommandError(f"--out {options.out!r} should end in .html or .svg.")
    check_output(out)
    grid, args, meta, check = _problem()
    run = _simulate(grid, args, meta, check, options.seed)
    _compile(args, meta)
    _draw(run, out)
    return _launch()


def _problem() -> tuple:
    """The launch of a small GEMM on numpy arrays, and the check of its result."""
    import ml_dtypes
    import numpy as np

    from mimw.kernels import gemm

    from ..testing import compare

    m, n, k = _SHAPE
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), ml_dtypes.bfloat16)

    def check() -> str:
        expected = a.astype(np.float32) @ b.astype(np.float32)
        compare(c, expected, rtol=2**-8, atol=1e-3)
        difference = np.abs(c.astype(np.float32) - expected).max()
        return f"largest difference {difference:.2g} at values up to {np.abs(expected).max():.3g}"

    return *gemm.arguments(a, b, c, programs=_PROGRAMS), check


def _simulate(grid, args, meta, check, seed: int):
    import mimw
    from mimw.kernels import gemm

    m, n, k = _SHAPE
    print(f"1  Simulate C[{m},{n}] = A[{m},{k}] B[{k},{n}] in bf16 on {_PROGRAMS} simulated CTAs", flush=True)
    start = time.perf_counter()
    with working("simulating"):
        run = mimw.simulate(gemm.kernel, grid, *args, **meta, seed=seed, trace=True)
    seconds = time.perf_counter() - start
    print(f"   equal to numpy up to the rounding to bf16 ({check()}), in {seconds:.1f} s\n")
    return run


def _compile(args, meta) -> None:
    from mimw.kernels import gemm

    from ..report import resource_table
    from ..runtime.compile_kernel import compile_kernel
    from ..runtime.host import specialise

    print(f"2  Compile for {_TARGET}, without a GPU", flush=True)
    kernel = gemm.kernel
    options = {name: value for name, value in meta.items() if name not in kernel.arg_names}
    bound = kernel.signature.bind(*args, **{name: value for name, value in meta.items() if name not in options})
    bound.apply_defaults()
    signature, constants, _ = specialise(kernel, bound.arguments)
    start = time.perf_counter()
    constants = {kernel.arg_names[path[0]]: value for path, value in constants.items()}
    with working("compiling"):
        compiled = compile_kernel(kernel, signature, constants, target=_TARGET, options=options)
    print(f"   a cubin of {len(compiled.stages['cubin'])} bytes in {time.perf_counter() - start:.1f} s\n")
    print(resource_table(compiled.program, compiled.target, compiled.metadata.shared).rstrip())


def _draw(run, out: Path) -> None:
    from ..report import timeline_svg

    with writing(out):
        if out.suffix == ".svg":
            out.write_text(timeline_svg(run.trace, "Persistent warp-specialised GEMM, simulated"))
        else:
            run.save_html(out)
    print(f"\n3  Timeline of the simulated run: {out}\n")


def _launch() -> int:
    from ..testing.gpus import gpu_available, gpus

    if not gpus():
        print("4  Launch: no GPU here, skipped")
        return 0
    if not gpu_available():
        print("4  Launch: skipped, no torch that sees the GPU (pip install 'mimw[torch]')")
        return 0
    if gpus()[0].capability != (9, 0):
        print(f"4  Launch: skipped, the kernel is for sm_90a and this is a {gpus()[0].name}")
        return 0
    print(f"4  Launch on {gpus()[0].name}", flush=True)
    # A hang on a GPU cannot be interrupted from inside the process that waits for it.
    command = [sys.executable, "-m", "mimw.cli.demo_gpu", str(os.getpid())]
    environment = {name: value for name, value in os.environ.items() if name != "MIMW_SIMULATE"}
    try:
        return subprocess.run(command, timeout=_GPU_TIME_LIMIT_S, env=environment).returncode
    except subprocess.TimeoutExpired:
        raise CommandError(f"the launch did not come back within {_GPU_TIME_LIMIT_S} s and was ended.") from None
