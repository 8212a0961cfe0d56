"""The GEMM: `C[M, N] = A[M, K] B[K, N]` against cuBLAS, or of fp8 against `torch._scaled_mm` with scales of 1.

Input: shapes MxNxK. Output: candidates of `mimw.kernels.gemm`, their launches and trials. For example:

    mimw tune gemm --shapes 4096x4096x4096 --dtype bf16 --set group_m=8,16
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...kernels import gemm
from ...kernels.gemm.configs import Configuration, as_row
from ...kernels.gemm.rounds import COLUMNS, MOST_STAGES
from ...testing.gemm_error import allowed
from ..arrays import bytes_of, empty, normal, relative_error
from ..operator import Operator, Problem, Trial

# bm, bn, ping_pong, consumers
TILES = ((128, 256, False, 2), (256, 128, False, 2), (128, 128, True, 2), (64, 256, True, 2), (64, 128, False, 1))
ANY_COLUMNS = (*((128, columns, turns, 2) for columns in COLUMNS if columns != 128 for turns in (False, True) if columns <= 192
                 or not turns), *((256, columns, False, 2) for columns in (144, 160, 176, 192)))
GROUPS = (4, 8, 16)
ROWS = 64               # that are compared with fp64


class Gemm(Operator):
    """Rings as deep as shared memory holds, and one slot less, for each tile and schedule."""

    name, names, dtypes = "gemm", ("M", "N", "K"), ("bf16", "fp16", "tf32", "fp8")
    configuration_type = Configuration
    file = Path(gemm.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        return gemm.configuration(*problem.extents, bytes_of(problem.dtype), sms).fitted(
            bytes_of(problem.dtype), bytes_of(out_type(problem.dtype)), bytes_of(problem.dtype) != 2)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        sizes = bytes_of(problem.dtype), bytes_of(out_type(problem.dtype)), bytes_of(problem.dtype) != 2
        return [replace(one, group_m=group) for one in cuts(*sizes) for group in GROUPS]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        (m, n, k), dtype = problem.extents, problem.dtype
        b = empty((k, n), dtype) if bytes_of(dtype) == 2 else empty((n, k), dtype).T
        numbers, flags = gemm.room_for(m, n, k, bytes_of(dtype), sms, chosen)
        rooms = dict(room=empty((numbers, ), "fp32"), flags=empty((flags, ), "i32")) if flags else {}
        return [(gemm.kernel, *gemm.arguments(empty((m, k), dtype), b, empty((m, n), out_type(dtype)), sms, chosen, **rooms))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        a, b, c, baseline = tensors(problem.extents, problem.dtype)
        run = launcher(a, b, c, chosen)
        c.fill_(float("nan"))
        name = "torch._scaled_mm" if a.dtype.itemsize == 1 else "cuBLAS"
        torch.cuda.synchronize()
        return Trial(run, lambda: check(a, b, c, baseline()), {name: baseline})

    def rate(self, problem: Problem, microseconds: float) -> str:
        m, n, k = problem.extents
        return f"{2 * m * n * k / microseconds / 1e6:.0f} TFLOP/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(problem.extents, bytes_of(problem.dtype), chosen)


def out_type(dtype: str) -> str:
    """C's type: fp8 inputs give bf16."""
    return "bf16" if dtype == "fp8" else dtype


def cuts(in_bytes: int, out_bytes: int, b_is_nk: bool) -> list[Configuration]:
    """Every tile and schedule with the deepest ring that fits, powers of two also with a slot less, and with one and two staging
    tiles."""
    found = []
    for bm, bn, ping_pong, consumers in (*TILES, *ANY_COLUMNS):
        for staging in (1, 2) if (bm, bn, ping_pong, consumers) in TILES else (1, ):
            one = Configuration(bm, bn, stages=2 * MOST_STAGES, staging=staging, ping_pong=ping_pong, consumers=consumers)
            one = one.fitted(in_bytes, out_bytes, b_is_nk)
            fewer = [replace(one, stages=one.stages - 1)] if (bm, bn, ping_pong, consumers) in TILES and one.stages > 2 else []
            found += [one, *fewer]
    return found


def tensors(shape: tuple[int, int, int], dtype: str, b_is_nk: bool = False):
    """(a, b, c, baseline) of standard normal inputs on the GPU; 8-bit and 32-bit b's are contiguous along K, 16-bit ones if
    `b_is_nk`."""
    import torch
    m, n, k = shape
    torch.manual_seed(0)
    a, size = normal((m, k), dtype), bytes_of(dtype)
    b = normal((k, n), dtype) if size == 2 and not b_is_nk else normal((n, k), dtype).T
    if size == 1:
        one = torch.ones((), device="cuda")
        return (a, b, torch.empty(m, n, device="cuda", dtype=torch.bfloat16),
                lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True))
    if size == 4:
        torch.backends.cuda.matmul.allow_tf32 = True
    return a, b, torch.empty(m, n, device="cuda", dtype=a.dtype), lambda: torch.matmul(a, b)


def launcher(a, b, c, chosen: Configuration | None):
    """A call without arguments that computes c: a frozen launch, as an ordinary one may take the host longer than L2 is flushed."""
    import torch
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    numbers, flags = gemm.room_for(*c.shape, a.shape[1], a.itemsize, sms, chosen)
    given = {"flags": torch.zeros(flags, device="cuda", dtype=torch.int32)} if flags else {}
    if numbers:
        given["room"] = torch.empty(numbers, device="cuda")
    grid, args, meta = gemm.arguments(a, b, c, sms, chosen, **given)
    return gemm.kernel.freeze(grid, *args, **meta)


def check(a, b, c, reference) -> float:
    """The error of c on some of its rows against fp64; an AssertionError if it is larger than the types allow, or if c is far from
    the reference as a whole."""
    import torch
    rows = torch.randperm(a.shape[0], device="cuda")[:ROWS]
    error = relative_error(c[rows], a[rows].double() @ b.double())
    most = allowed(a.dtype.itemsize, c.dtype.itemsize, a.shape[1])
    whole = relative_error(c[:65536], reference[:65536])
    if not (error < most and whole < 2 * most):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, {whole:.2e} against the baseline (allowed {most:.2e} "
                             f"and twice that, for K = {a.shape[1]})")
    return error
