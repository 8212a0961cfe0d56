"""What every tutorial does besides its kernel: simulate a small case where there is no GPU, check and measure where there is one.

    harness.gemm("pipelined GEMM", gemm, arguments, case)                       a product, against cuBLAS
    harness.run(case, measure_one, (1152, 65536), (4, 65536))                   anything else

Input: the tutorial's kernel; its `case`, a small launch on numpy arrays with what should come out, which `mimw check FILE:case`
takes as well; and its `arguments`, which makes the launch (grid, args, meta) of arrays of numpy or torch, or a function that
measures. Output: lines on standard output. Numbers on the command line stand in place of the sizes:
`python tutorials/17_distributed_dot.py 1024 1024 16384`.
"""

import sys
from collections.abc import Callable

import numpy as np

import mimw
from mimw.runtime.simulating import simulating
from mimw.testing import gpu_available


def run(simulate: Callable, measure: Callable, *sizes: tuple) -> None:
    """`simulate()` without a GPU, or under MIMW_SIMULATE=1: what it returns, if that is a launch, is checked and simulated. Else
    `measure(*size)` for each size, or that of the command line."""
    if not gpu_available() or simulating():
        case = simulate()
        return simulated(case) if isinstance(case, mimw.Case) else None
    given = tuple(int(one) if one.isdigit() else one for one in sys.argv[1:])
    for size in [given] if given else sizes:
        measure(*size)


def simulated(case: mimw.Case, seeds: int = 3, **how) -> None:
    """Check a launch of numpy arrays under a few interleavings, say what was found and whether its results are as expected, and
    simulate it: the arrays are filled. `how` names a chip, target="sm_100a"."""
    kernel, grid, args, meta = case
    print("checked:", mimw.check(kernel, grid, *args, seeds=seeds, expected=case.expected, tolerance=case.tolerance, **meta, **how))
    mimw.simulate(kernel, grid, *args, **meta, **how)


def product(kernel, arguments: Callable, m: int, n: int, k: int, *programs: int, **chosen) -> mimw.Case:
    """A launch of `kernel` on numpy arrays, and its result C = A B; `programs`, if `arguments` takes their number."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    grid, args, meta = arguments(a, b, c, *programs, **chosen)
    return mimw.Case(kernel, grid, args, meta, expected=a.astype(np.float32) @ b)


def gemm(name: str, kernel, arguments: Callable, case: Callable, sizes=((8192, 8192, 8192), ), persistent: bool = False) -> None:
    """Run a tutorial whose kernel computes C = A B in fp16.

    args:      case        the launch on the simulator
               sizes       (M, N, K) on a GPU; one number on the command line is all three
               persistent  `arguments` takes the number of programs: on a GPU one an SM
    """

    def measure(m: int, n: int | None = None, k: int | None = None) -> None:
        import torch
        from measure import measured
        n, k = n or m, k or m
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        c = torch.empty(m, n, device="cuda", dtype=torch.float16)
        programs = torch.cuda.get_device_properties(0).multi_processor_count
        grid, args, meta = arguments(a, b, c, *([programs] if persistent else []))
        print(measured(name, dict(M=m, N=n, K=k), meta, lambda: kernel[grid](*args, **meta), {"cuBLAS": lambda: torch.matmul(a, b)},
                       c, a @ b, flops=2 * m * n * k, allowed=2e-3))

    run(case, measure, *sizes)
