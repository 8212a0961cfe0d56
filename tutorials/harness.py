"""What every tutorial does besides its kernel: simulate a small case where there is no GPU, check and measure where there is one.

    harness.gemm("pipelined GEMM", gemm, arguments, small=(128, 128, 256), BM=64, BN=64)        a product, against cuBLAS
    harness.run(simulate_one, measure_one, (1152, 65536), (4, 65536))                           anything else

Input: the tutorial's kernel and its `arguments`, which makes the launch (grid, args, meta) of arrays of numpy or torch; or two
functions, for the one case and for the other. Output: lines on standard output. Numbers on the command line stand in place of
the cases: `python tutorials/17_distributed_dot.py 1024 1024 16384`.
"""

import sys
from collections.abc import Callable

import numpy as np

import mimw
from mimw.runtime.simulating import simulating
from mimw.testing import gpu_available


def run(simulate: Callable, measure: Callable, *cases: tuple) -> None:
    """`simulate()` without a GPU, or under MIMW_SIMULATE=1; else `measure(*case)` for each case, or that of the command line."""
    if not gpu_available() or simulating():
        return simulate()
    given = tuple(int(one) if one.isdigit() else one for one in sys.argv[1:])
    for case in [given] if given else cases:
        measure(*case)


def simulated(kernel, grid: tuple, args: tuple, meta: dict, seeds: int = 3) -> None:
    """Check a launch of numpy arrays under a few interleavings, say what was found, and simulate it: the arrays are filled."""
    print("checked:", mimw.check(kernel, grid, *args, seeds=seeds, **meta))
    mimw.simulate(kernel, grid, *args, **meta)


def difference(out: np.ndarray, expected: np.ndarray) -> None:
    """Say how far a simulated result is from numpy's."""
    print("simulated; largest difference to numpy:", np.abs(out.astype(np.float64) - expected).max())


def gemm(name: str, kernel, arguments: Callable, small: tuple[int, int, int], cases=((8192, 8192, 8192), ),
         persistent: bool = False, **chosen) -> None:
    """Run a tutorial whose kernel computes C = A B in fp16.

    args:      small       (M, N, K) on the simulator, with the configuration `chosen`
               cases       (M, N, K) on a GPU; one number on the command line is all three
               persistent  `arguments` takes the number of programs: 2 on the simulator, one an SM on a GPU
    """

    def simulate() -> None:
        m, n, k = small
        random = np.random.default_rng(0)
        a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
        c = np.zeros((m, n), np.float16)
        simulated(kernel, *arguments(a, b, c, *([2] if persistent else []), **chosen))
        difference(c, a.astype(np.float32) @ b)

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

    run(simulate, measure, *cases)
