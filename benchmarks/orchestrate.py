"""Ordinary Triton kernels, orchestrated, against themselves and against kernels written by hand, on one GPU.

    python -m benchmarks.orchestrate                    all cases
    python -m benchmarks.orchestrate attention-full-4096-128 gemm-descriptors-4096

Each case is a kernel of tests/orchestrate/cases as it stands. `plain` is the best of its configurations as stock Triton compiles
them, `mimw` the best orchestrated form of these, `hand` the library's kernel. All are timed in turn with a cold L2
(`mimw.testing.benchmark.alternate`); the orchestrated kernel's result is compared with the plain one's and with torch in fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import triton

import mimw
from mimw.testing.benchmark import Row, alternate
from mimw.tools.orchestrate.choose import candidates
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from tests.orchestrate.cases import (
    attention,
    gemm_bias_gelu,
    gemm_descriptors,
    gemm_persistent,
    gemm_pointers,
    grouped_descriptors,
    grouped_gemm,
    grouped_pointers,
)

from .driver import command, some_of
from .gpu import multiprocessors, parsed, row_of, table, torch
from .progress import each

WARPS_STAGES = [(4, 3), (4, 4), (8, 3), (8, 4)]


@dataclass
class Problem:
    """A case on the GPU: `launches` gives (kernel, grid, args, meta) of each configuration, `hand` the library's launch, `out` the
    result, `expected` a part of it by torch in fp32, and where it lies."""

    shape: dict[str, int]
    launches: list[tuple[Any, Any, tuple, dict[str, Any]]]
    hand: Callable[[], Any] | None
    out: Any
    expected: Any
    part: Callable[[Any], Any]


def _gemm_inputs(m: int, n: int, k: int, turned: bool):
    torch.manual_seed(0)
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(n, k, device="cuda", dtype=torch.float16) if turned else torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    return a, b, c, (a[:256].float() @ (b.T if turned else b).float())


def _gemm(kind: str, m: int, n: int, k: int) -> Problem:
    a, b, c, expected = _gemm_inputs(m, n, k, kind == "persistent")
    launches, describe = [], mimw.TensorDescriptor.from_tensor
    for bm, bn in ((128, 256), (128, 128), (256, 128)):
        for warps, stages in WARPS_STAGES:
            tiles = -(-m // bm) * -(-n // bn)
            how = dict(BM=bm, BN=bn, BK=64, num_warps=warps, num_stages=stages)
            if kind == "descriptors":
                args = describe(a, [bm, 64]), describe(b, [64, bn]), describe(c, [bm, bn]), m, n, k
                launches.append((gemm_descriptors.gemm_descriptors, (tiles, ), args, how))
            elif kind == "persistent":
                grid = (min(tiles, multiprocessors()), )
                launches.append((gemm_persistent.gemm_persistent, grid, (a, b, c, m, n, k), how | {"GROUP": 8}))
            else:
                args = (a, b, c, m, n, k, k, 1, n, 1, n, 1)
                launches.append((gemm_pointers.gemm_pointers, (tiles, ), args, how | {"GROUP": 8}))
    hand_b = b.T if kind == "persistent" else b
    return Problem(dict(M=m, N=n, K=k), launches, lambda: mimw.ops.matmul(a, hand_b), c, expected, lambda out: out[:256])


def _gelu(m: int, n: int, k: int) -> Problem:
    a, b, c, _ = _gemm_inputs(m, n, k, False)
    a, b, bias = 0.1 * a, 0.1 * b, torch.randn(n, device="cuda", dtype=torch.float16)
    launches = [(gemm_bias_gelu.gemm_bias_gelu, (m // bm, n // bn), (a, b, bias, c, m, n, k),
                 dict(BM=bm, BN=bn, BK=64, num_warps=warps, num_stages=stages))
                for bm, bn in ((128, 256), (128, 128)) for warps, stages in WARPS_STAGES]
    expected = torch.nn.functional.gelu(a[:256].float() @ b.float() + bias.float(), approximate="tanh")
    return Problem(dict(M=m, N=n, K=k), launches, lambda: mimw.ops.addmm(bias, a, b, activation="gelu_tanh"), c, expected,
                   lambda out: out[:256])


def _attention(causal: bool, length: int, dim: int) -> Problem:
    torch.manual_seed(0)
    heads = max(1, 16384 // length) * 16
    q, k, v = (torch.randn(heads * length, dim, device="cuda", dtype=torch.float16) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(heads * length, device="cuda")
    describe, launches = mimw.TensorDescriptor.from_tensor, []
    for bm, bn in ((128, 128), (128, 64)):
        for warps, stages in ((4, 3), (8, 2), (8, 3), (8, 4)):
            described = (describe(one, [rows, dim]) for one, rows in ((q, bm), (k, bn), (v, bn), (o, bm)))
            args = (*described, lse, dim ** -0.5, length)
            meta = dict(BM=bm, BN=bn, D=dim, CAUSAL=causal, num_warps=warps, num_stages=stages)
            launches.append((attention.attention, (length // bm, heads), args, meta))
    whole = [one.view(1, heads, length, dim) for one in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*(one[:, :1].float() for one in whole), is_causal=causal)[0, 0]
    return Problem(dict(heads=heads, length=length, dim=dim), launches,
                   lambda: mimw.ops.attention(*whole, causal=causal), o, expected, lambda out: out[:length])


GROUPED = {"descriptors": grouped_descriptors.grouped_descriptors, "pointers": grouped_pointers.grouped_pointers,
           "unpromised": grouped_gemm.grouped_gemm}
GROUPS = {"8x1024": (8, 1024, 4096, 4096), "64x256": (64, 256, 2048, 7168), "ragged": (64, 256, 2048, 7168)}   # groups, rows, N, K


def _grouped(kind: str, name: str) -> Problem:
    """Rows in groups, whose sizes and places the kernel loads; `ragged` has groups of the same sum with random sizes, some 0."""
    torch.manual_seed(0)
    groups, rows, n, k = GROUPS[name]
    total = groups * rows
    ends = torch.arange(1, groups + 1) * rows
    if name == "ragged":
        ends = torch.randint(0, total + 1, (groups, )).sort().values
        ends[1::8], ends[-1] = ends[0::8].clone(), total
    a = torch.randn(total, k, device="cuda", dtype=torch.float16)
    b = torch.randn(groups, k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(total, n, device="cuda", dtype=torch.float16)
    starts = [0, *ends.tolist()[:-1]]
    lines = [[end - start, n, k, start * k, group * k * n, start * n] for group, (start, end) in enumerate(zip(starts, ends.tolist()))]
    table = torch.tensor(lines, dtype=torch.int32, device="cuda").flatten()
    args, grid, on_device = (a, b, c, table, groups), (multiprocessors(), ), ends.int().cuda()
    launches = [(GROUPED[kind], grid, args, dict(BM=bm, BN=bn, BK=64, num_warps=warps, num_stages=stages))
                for bm, bn in ((128, 256), (128, 128)) for warps, stages in WARPS_STAGES]
    first = next(group for group, (start, end) in enumerate(zip(starts, ends.tolist())) if end > start)
    some = slice(starts[first], min(starts[first] + 256, int(ends[first])))
    expected = a[some].float() @ b[first].float()
    return Problem(dict(G=groups, M=rows, N=n, K=k), launches, lambda: mimw.ops.grouped_matmul(a, b, on_device), c, expected,
                   lambda out: out[some])


CASES: dict[str, Callable[[], Problem]] = {
    **{f"gemm-{kind}-{'x'.join(map(str, shape))}": lambda kind=kind, shape=shape: _gemm(kind, *shape)
       for kind in ("descriptors", "persistent", "pointers")
       for shape in ((8192, 8192, 1024), (4096, 4096, 4096), (8192, 8192, 4096))},
    "gemm-bias-gelu-4096": lambda: _gelu(4096, 4096, 4096),
    **{f"grouped-{kind}-{name}": lambda kind=kind, name=name: _grouped(kind, name) for kind in GROUPED for name in GROUPS},
    **{f"attention-{'causal' if causal else 'full'}-{length}-{dim}": lambda c=causal, n=length, d=dim: _attention(c, n, d)
       for dim in (128, 64) for causal in (False, True) for length in (1024, 4096, 16384)},
}


def measure(name: str, prove_it: bool = False) -> Row:
    """One row, checked."""
    problem = CASES[name]()
    plain = _best([lambda k=k, g=g, a=a, m=m: k[g](*a, **m) for k, g, a, m in problem.launches])
    least = min(meta["num_stages"] for *_, meta in problem.launches)
    ours = [(at, one) for at, launch in enumerate(problem.launches) if launch[3]["num_stages"] == least for one in _plans(*launch)]
    runs: dict[str, Callable[[], Any]] = {}
    chosen: dict[str, Any] = {"plans": len(ours)}
    if ours:
        best = _best([one.runs(*problem.launches[at][1:]) for at, one in ours])
        at, one = ours[best]
        runs["mimw"] = one.runs(*problem.launches[at][1:])
        tile = {key: value for key, value in problem.launches[at][3].items() if key.startswith("B") or key == "num_warps"}
        chosen |= {"plan": asdict(one.plan), "tile": tile}
        if prove_it:
            proof = prove(one)
            assert proof.ok, proof
            chosen["proof"] = str(proof)
    kernel, grid, args, meta = problem.launches[plain]
    runs["plain"] = lambda: kernel[grid](*args, **meta)
    problem.out.fill_(float("nan"))
    runs["mimw" if ours else "plain"]()
    part = problem.part(problem.out).float()
    error = ((part - problem.expected).norm() / problem.expected.norm()).item()
    assert error < 1e-2, f"{name}: wrong by {error}"
    if problem.hand is not None:
        runs["hand"] = problem.hand
    times = alternate(runs, 150.0)
    times.setdefault("mimw", times["plain"])
    return row_of(f"orchestrate-{name}", problem.shape, chosen | {"plain": meta}, times, error, "standard normal")


def _plans(kernel: Any, grid: Any, args: tuple, meta: dict[str, Any]) -> list[Any]:
    """All plans for a launch, written."""
    found = candidates(plain_of(kernel, grid, args, meta), predict=False)
    return [one.written for one in found.candidates if not one.out]


def _best(runs: list[Callable[[], Any]]) -> int:
    """The number of the quickest of these; those that do not run are said."""
    from triton.testing import do_bench
    mimw.compile_ahead(lambda: [run() for run in runs])
    times = {}
    for at, run in enumerate(runs):
        try:
            times[at] = do_bench(run, warmup=5, rep=20, return_mode="median")
        except Exception as error:      # more shared memory or registers than there are: no configuration for this shape
            print(f"  {at} of {len(runs)}: {type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)
    return min(times, key=times.get)


def line(row: Row) -> str:
    """A row for people."""
    ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in row.ratios().items())
    plan = row.configuration.get("plan")
    how = "no plan" if plan is None else ", ".join([f"{plan['consumers']} consumers", *(
        name for name in ("delayed", "persistent", "stores") if plan[name])])
    return f"{row.name:<40} {row.microseconds:9.1f} us   against {ratios}   error {row.error:.1e}   {how}"


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "cases", CASES)
    parser.add_argument("--prove", action="store_true", help="prove the plan of each row as well; takes ten seconds a row")
    options = parsed(parser)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    rows = (measure(name, options.prove) for name in each(options.cases or CASES))
    table(rows, options.results / "orchestrate.jsonl", line, lambda row: "plain", "plain Triton")


if __name__ == "__main__":
    main()
