"""The part of `mimw demo` that needs a GPU, in a process of its own: a hung launch cannot be interrupted from inside.

Input: the process that waits for it, with which it ends; the shape of the GEMM is fixed. Output: four lines, with the check
against fp64 and the times of mimw and cuBLAS:

    python -m mimw.cli.demo_gpu $$
    C[8192,8192] = A[8192,2048] B[2048,8192] in bf16 equals fp64 on every 64th row ...
"""

from __future__ import annotations

import sys

from ..testing import compare
from ..testing.benchmark import alternate
from ..tools.lifeline import end_with_parent

_SHAPE = (8192, 8192, 2048)


def main() -> None:
    import torch

    from mimw.kernels import gemm

    m, n, k = _SHAPE
    torch.manual_seed(0)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = gemm.arguments(a, b, c, programs)

    def multiply() -> None:
        gemm.kernel[grid](*args, **meta)

    multiply()
    rows = slice(None, None, 64)
    compare(c[rows], a[rows].double() @ b.double(), rtol=2**-7, atol=1e-1)
    print(f"   C[{m},{n}] = A[{m},{k}] B[{k},{n}] in bf16 equals fp64 on every 64th row")
    times = alternate({"mimw": multiply, "cuBLAS": lambda: a @ b})
    for name, microseconds in times.items():
        print(f"   {name:<7} {microseconds:8.1f} us {2 * m * n * k / microseconds / 1e6:6.0f} TFLOP/s")
    print(f"   mimw is {times['cuBLAS'] / times['mimw']:.2f} times as fast as cuBLAS here")


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]) if sys.argv[1:] else None)
    main()
