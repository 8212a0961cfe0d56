"""Products of groups of rows: `C[rows of g] = A[rows of g] B[g]` against `torch._grouped_mm`.

Input: shapes GxMxNxK, of G groups with M rows each on average; `:ragged` draws their sizes at random, some of them 0. Output:
candidates of `mimw.kernels.grouped_gemm`. For example:

    mimw tune grouped_gemm --shapes 64x256x2048x7168 64x256x2048x7168:ragged
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from ...kernels import grouped_gemm
from ...kernels.grouped_gemm import Configuration
from ...testing.gemm_error import allowed
from ..arrays import blank, empty, normal, relative_error
from ..operator import Operator, Problem, Trial
from .gemm import ROWS, cuts

GROUPS = (2, 4, 8, 16)


class GroupedGemm(Operator):
    """The GEMM's cuts: a group's last tile wastes rows, so small tiles win where groups are small."""

    name, names, words = "grouped_gemm", ("G", "M", "N", "K"), ("ragged", )
    configuration_type = Configuration
    file = Path(grouped_gemm.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        groups, rows, *_ = problem.extents
        return grouped_gemm.configuration(groups * rows, groups)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        return [replace(one, group_m=group) for one in cuts(2, 2, True) if one.staging == 1
                for group in GROUPS]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        groups, rows, n, k = problem.extents
        b = empty((groups, n, k), problem.dtype).swapaxes(1, 2)
        arrays = empty((groups * rows, k), problem.dtype), b, empty((groups * rows, n), problem.dtype), ends_of(problem)
        return [(grouped_gemm.kernel, *grouped_gemm.arguments(*arrays, sms, chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        groups, rows, n, k = problem.extents
        torch.manual_seed(0)
        a, b = normal((groups * rows, k), problem.dtype), normal((groups, n, k), problem.dtype).mT
        c, ends = blank((groups * rows, n), problem.dtype), torch.from_numpy(ends_of(problem)).cuda()
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        grid, args, meta = grouped_gemm.arguments(a, b, c, ends, sms, chosen)
        launch, baseline = grouped_gemm.kernel.freeze(grid, *args, **meta), lambda: torch._grouped_mm(a, b, offs=ends)
        return Trial(launch, lambda: check(a, b, c, ends, baseline()), {"torch": baseline})

    def rate(self, problem: Problem, microseconds: float) -> str:
        groups, rows, n, k = problem.extents
        return f"{2 * groups * rows * n * k / microseconds / 1e6:.0f} TFLOP/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return {"rows": problem.extents[1], "configuration": asdict(chosen)}


def ends_of(problem: Problem) -> np.ndarray:
    """The row behind each group's last one: groups of one size, or, where they are ragged, of random ones, every eighth empty."""
    groups, rows, *_ = problem.extents
    if "ragged" not in problem.words:
        return np.arange(1, groups + 1, dtype=np.int32) * np.int32(rows)
    ends = np.sort(np.random.default_rng(0).integers(0, groups * rows + 1, groups)).astype(np.int32)
    ends[1::8], ends[-1] = ends[0::8][:len(ends[1::8])], groups * rows
    return ends


def check(a, b, c, ends, expected) -> float:
    """The error of c on some of its rows against fp64; an AssertionError if it is larger than the types allow, or if c is far from
    torch's as a whole."""
    import torch
    some = torch.randperm(a.shape[0], device="cuda")[:ROWS]
    groups = torch.searchsorted(ends.long(), some, right=True)
    exact = torch.stack([a[row].double() @ b[group].double() for row, group in zip(some.tolist(), groups.tolist())])
    error, whole = relative_error(c[some], exact), ((c - expected).float().norm() / expected.float().norm()).item()
    most = allowed(2, 2, a.shape[1])
    if not (error < most and whole < 2 * most):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, {whole:.2e} against torch ({most:.2e}, twice)")
    return error
