"""The library's GEMM at a small size: what tests of the tools launch where they want a real kernel.

Shapes: a (m, k), b (k, n) and c (m, n), 256 each by default, standard normal.
No mistake can be planted here; benchmarks/mutants.py plants them in any kernel.
"""

import ml_dtypes
import numpy as np


def gemm_arguments(m=256, n=256, k=256, programs=2, dtype=ml_dtypes.bfloat16, **configuration):
    """(grid, args, meta) of the library's GEMM at a small size."""
    from mimw.kernels.gemm import Configuration, arguments
    random = np.random.default_rng(0)
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
    return arguments(a, b, np.zeros((m, n), dtype), programs, Configuration(**configuration))
