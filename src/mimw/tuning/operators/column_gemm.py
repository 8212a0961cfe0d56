"""Products of few rows by whole columns: `C[M, N] = X[M, K] W` against cuBLAS, or of fp8 against `torch._scaled_mm`.

Input: shapes MxNxK, M up to 128. Output: candidates of `mimw.kernels.column_gemm`. For example:

    mimw tune column_gemm --shapes 16x6144x4096 64x10240x8192 --dtype fp8
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...kernels import column_gemm
from ...kernels.column_gemm.configs import Configuration, as_row
from ..arrays import bytes_of, empty
from ..operator import Operator, Problem, Trial
from .gemm import check, out_type, tensors

SMALLEST = 32       # weights of a tile


class ColumnGemm(Operator):
    """Tiles as many as programs, two and four times as many; clusters of 2 and 4 that divide K; chunks of one and two lines."""

    name, names, dtypes = "column_gemm", ("M", "N", "K"), ("bf16", "fp16", "fp8")
    configuration_type = Configuration
    file = Path(column_gemm.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        size = bytes_of(problem.dtype)
        return column_gemm.configuration(*problem.extents, size, bytes_of(out_type(problem.dtype)), sms)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        used = self.used(problem, sms)
        tiles = {replace(used, tn=max(SMALLEST, -(-used.tn // part // 16) * 16), split=1) for part in (1, 2, 4)}
        tiles |= {replace(used, tn=tn, split=split) for tn in (64, 128) for split in (2, 4)
                  if -(-problem.extents[1] // tn) * split <= sms}
        found = {replace(one, lines=lines, streamed=streamed) for one in tiles for lines in (1, 2) for streamed in (True, False)}
        out_bytes = bytes_of(out_type(problem.dtype))
        return sorted((replace(one, stages=one.deepest(out_bytes)) for one in found if one.deepest(out_bytes) > 1), key=str)

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        (m, n, k), dtype = problem.extents, problem.dtype
        arrays = empty((m, k), dtype), empty((n, k), dtype).T, empty((m, n), out_type(dtype))
        return [(column_gemm.kernel, *column_gemm.arguments(*arrays, sms, chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        x, w, c, baseline = tensors(problem.extents, problem.dtype, b_is_nk=True)
        grid, args, meta = column_gemm.arguments(x, w, c, torch.cuda.get_device_properties(0).multi_processor_count, chosen)
        run = column_gemm.kernel.freeze(grid, *args, **meta)
        name = "torch._scaled_mm" if x.dtype.itemsize == 1 else "cuBLAS"
        c.fill_(float("nan"))
        torch.cuda.synchronize()
        return Trial(run, lambda: check(x, w, c, baseline()), {name: baseline})

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(problem.extents, bytes_of(problem.dtype), chosen)

    def rate(self, problem: Problem, microseconds: float) -> str:
        _, n, k = problem.extents
        return f"{bytes_of(problem.dtype) * n * k / microseconds / 1e3:.0f} GB/s"
