"""Ordinary Triton kernels, orchestrated, against themselves and against kernels written by hand, on one GPU.

    python -m benchmarks.orchestrate                    all cases
    python -m benchmarks.orchestrate attention-full-4096-128 gemm-descriptors-4096x4096x4096
    python -m benchmarks.orchestrate attention-full-4096-128 --plans        a row for each plan: orchestrate_plans.jsonl
    python -m benchmarks.orchestrate fp8-joined-4096x4096x4096              with `reassociate`, beside the best plan without it
    python -m benchmarks.orchestrate --recorded         no GPU: what was kept, of kernels by others too, beside the goals

Each case is a kernel of tests/orchestrate/cases as it stands. `plain` is the best of its configurations as stock Triton compiles
them, `mimw` the best orchestrated form of these, `hand` the library's kernel. All are timed in turn with a cold L2
(`mimw.testing.benchmark.alternate`); the orchestrated kernel's result is compared with the plain one's and with torch in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import triton

import mimw
from mimw.testing.benchmark import Row, alternate
from mimw.tools.orchestrate import Plan
from mimw.tools.orchestrate.choose import candidates
from mimw.tools.orchestrate.measure import compile_side_by_side
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.orchestrate.cases import (
    attention,
    gathered_gemm,
    gemm_bias_gelu,
    gemm_cast,
    gemm_descriptors,
    gemm_fp8_blocks,
    gemm_int4,
    gemm_persistent,
    gemm_pointers,
    grouped_addresses,
    grouped_descriptors,
    grouped_gemm,
    grouped_pointers,
)

from .driver import command, some_of
from .gpu import multiprocessors, parsed, row_of, table, torch
from .orchestrate_recorded import tables
from .progress import each

NEAR = 1.15      # times the quickest plan's: what is timed in turn with it
WARPS_STAGES = [(4, 3), (4, 4), (8, 3), (8, 4)]


@dataclass
class Problem:
    """A case on the GPU: `launches` gives (kernel, grid, args, meta) of each configuration, `hand` the library's launch, `out` the
    result, `expected` a part of it by torch in fp32, and where it lies; `memory` what the kernel reaches by addresses. With
    `reassociate` ours may have other bits, and is timed beside the best plan that has the plain kernel's, `same bits`."""

    shape: dict[str, int]
    launches: list[tuple[Any, Any, tuple, dict[str, Any]]]
    hand: Callable[[], Any] | None
    out: Any
    expected: Any
    part: Callable[[Any], Any]
    memory: Sequence[Any] = ()
    reassociate: bool = False


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
    for bm, bn in ((128, 128), (128, 64), (256, 64)):
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
           "unpromised": grouped_gemm.grouped_gemm, "addresses": grouped_addresses.by_descriptors,
           "addresses-by-pointers": grouped_addresses.by_pointers}      # it takes whole tiles alone, so groups of whole ones
WHOLE = 256         # rows
GROUPS = {"8x1024": (8, 1024, 4096, 4096), "64x256": (64, 256, 2048, 7168), "ragged": (64, 256, 2048, 7168)}   # groups, rows, N, K


def _grouped(kind: str, name: str) -> Problem:
    """Rows in groups, whose sizes and places the kernel loads; `ragged` has groups of the same sum with random sizes, some 0."""
    torch.manual_seed(0)
    groups, rows, n, k = GROUPS[name]
    total = groups * rows
    ends = torch.arange(1, groups + 1) * rows
    if name == "ragged":
        ends = torch.randint(0, total + 1, (groups, )).sort().values
        if kind == "addresses-by-pointers":
            ends = ends // WHOLE * WHOLE
        ends[1::8], ends[-1] = ends[0::8].clone(), total
    a = torch.randn(total, k, device="cuda", dtype=torch.float16)
    b = torch.randn(groups, k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(total, n, device="cuda", dtype=torch.float16)
    starts = [0, *ends.tolist()[:-1]]
    spans = list(enumerate(zip(starts, ends.tolist())))
    lines = [[end - start, n, k, start * k, group * k * n, start * n] for group, (start, end) in spans]
    table = torch.tensor(lines, dtype=torch.int32, device="cuda").flatten()
    args, grid, on_device = (a, b, c, table, groups), (multiprocessors(), ), ends.int().cuda()
    if kind.startswith("addresses"):
        first_of = [[one.data_ptr() + 2 * line[place] for line in lines] for one, place in ((a, 3), (b, 4), (c, 5))]
        args = (*(torch.tensor(one, dtype=torch.int64, device="cuda") for one in first_of), table.view(-1, 6)[:, :3].flatten(),
                torch.tensor([k, n, n] * groups, dtype=torch.int32, device="cuda"), groups)
    launches = [(GROUPED[kind], grid, args, dict(BM=bm, BN=bn, BK=64, num_warps=warps, num_stages=stages))
                for bm, bn in ((128, 256), (128, 128)) for warps, stages in WARPS_STAGES]
    first = next(group for group, (start, end) in spans if end > start)
    some = slice(starts[first], min(starts[first] + 256, int(ends[first])))
    expected = a[some].float() @ b[first].float()
    return Problem(dict(G=groups, M=rows, N=n, K=k), launches, lambda: mimw.ops.grouped_matmul(a, b, on_device), c, expected,
                   lambda out: out[some], (a, b, c) if kind.startswith("addresses") else ())


def _fp8_blocks(m: int, n: int, k: int, reassociate: bool = False) -> Problem:
    """fp8 with a scale for each 1 x 128 of A and 128 x 128 of B; the library's kernel gets A's scales as it reads them."""
    torch.manual_seed(0)
    a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
    sa, sb = (torch.rand(rows, k // 128, device="cuda") + 0.5 for rows in (m, n // 128))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    launches = [(gemm_fp8_blocks.gemm_fp8_blocks, (m // bm, n // bn), (a, b, c, sa, sb, m, n, k),
                 dict(BM=bm, BN=bn, BK=128, num_warps=warps, num_stages=stages))
                for bm, bn in ((128, 128), (64, 128)) for warps, stages in WARPS_STAGES]
    wide = b.float() * sb.repeat_interleave(128, 0).repeat_interleave(128, 1)
    expected = (a[:256].float() * sa[:256].repeat_interleave(128, 1)) @ wide.T
    across = sa.mT.contiguous().mT
    return Problem(dict(M=m, N=n, K=k), launches, lambda: mimw.ops.scaled_mm(a, b.T, across, sb.T), c, expected,
                   lambda out: out[:256], reassociate=reassociate)


def _int4(m: int, n: int, k: int, group: int = 128) -> Problem:
    torch.manual_seed(0)
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    w = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scales = (torch.rand(k // group, n, device="cuda") * 0.1).half()
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    launches = [(gemm_int4.gemm_int4, (-(-m // 64), n // bn), (a, w, scales, c, m, n, k),
                 dict(GROUP=group, BM=64, BN=bn, BK=bk, num_warps=warps, num_stages=stages))
                for bn, bk in ((64, 128), (128, 64), (128, 128)) for warps, stages in WARPS_STAGES]
    numbers = torch.stack([(w & 15).to(torch.int8) - 8, (w >> 4).to(torch.int8) - 8], -1).reshape(n, k).half()
    numbers *= scales.repeat_interleave(group, 0).T
    return Problem(dict(M=m, N=n, K=k), launches, None, c, a[:256].float() @ numbers.float().T, lambda out: out[:256])


def _gathered(tokens: int, top: int, count: int, n: int, k: int) -> Problem:
    """A mixture of experts' first product. By hand rows are picked by torch, which is timed as well, and the library's grouped
    product follows: no kernel of its own both picks rows and leaves out the activation."""
    torch.manual_seed(0)
    a = torch.randn(tokens, k, device="cuda", dtype=torch.float16)
    b = torch.randn(count, n, k, device="cuda", dtype=torch.float16)
    chosen = torch.randint(count, (tokens * top, ), device="cuda", dtype=torch.int32)
    c = torch.empty(tokens * top, n, device="cuda", dtype=torch.float16)
    ids, experts = (torch.tensor(one, device="cuda") for one in gathered_gemm.sorted_rows(chosen.cpu().numpy(), count, 128))
    args = a, b, c, ids, experts, torch.tensor([len(ids)], device="cuda", dtype=torch.int32), tokens * top, n, k, n * k
    launches = [(gathered_gemm.gathered_gemm, (len(experts), -(-n // bn)), args,
                 dict(TOP=top, BM=128, BN=bn, BK=64, num_warps=warps, num_stages=stages))
                for bn in (256, 128) for warps, stages in WARPS_STAGES]
    order, ends = chosen.sort(stable=True)[1] // top, torch.bincount(chosen, minlength=count).cumsum(0).to(torch.int32)
    expected = torch.stack([a[row // top].float() @ b[chosen[row]].float().T for row in range(64)])
    return Problem(dict(tokens=tokens, top=top, experts=count, N=n, K=k), launches,
                   lambda: mimw.ops.grouped_matmul(a.index_select(0, order), b.mT, ends), c, expected, lambda out: out[:64])


def _cast(kind: str, m: int, n: int, k: int) -> Problem:
    """bf16 times weights of 8 bits that become bf16."""
    torch.manual_seed(0)
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda")
    b = (16 * b).to(torch.int8) if kind == "int8" else b.to(torch.float8_e4m3fn)
    scales, c = torch.rand(n, device="cuda") * 0.1, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    describe, launches = mimw.TensorDescriptor.from_tensor, []
    for bm, bn in ((64, 64), (64, 128)) if m <= 64 else ((128, 128), (128, 256), (256, 128), (64, 256)):
        for warps, stages in WARPS_STAGES:
            args = describe(a, [bm, 64]), describe(b, [bn, 64]), scales, describe(c, [bm, bn]), k
            launches.append((gemm_cast.gemm_cast, (m // bm, n // bn), args, dict(BM=bm, BN=bn, BK=64, num_warps=warps,
                                                                                 num_stages=stages)))
    expected = (a[:256].float() @ b.float().T) * scales
    return Problem(dict(M=m, N=n, K=k), launches, None, c, expected, lambda out: out[:256])


CASES: dict[str, Callable[[], Problem]] = {
    **{f"gemm-{kind}-{'x'.join(map(str, shape))}": lambda kind=kind, shape=shape: _gemm(kind, *shape)
       for kind in ("descriptors", "persistent", "pointers")
       for shape in ((8192, 8192, 1024), (4096, 4096, 4096), (8192, 8192, 4096))},
    "gemm-bias-gelu-4096": lambda: _gelu(4096, 4096, 4096),
    **{f"grouped-{kind}-{name}": lambda kind=kind, name=name: _grouped(kind, name) for kind in GROUPED for name in GROUPS},
    **{f"fp8-blocks-{'x'.join(map(str, shape))}": lambda shape=shape: _fp8_blocks(*shape)
       for shape in ((4096, 4096, 4096), (4096, 4096, 7168), (4096, 7168, 2048))},
    **{f"fp8-joined-{'x'.join(map(str, shape))}": lambda shape=shape: _fp8_blocks(*shape, reassociate=True)
       for shape in ((4096, 4096, 4096), (4096, 4096, 7168))},
    **{f"cast-{kind}-{'x'.join(map(str, shape))}": lambda kind=kind, shape=shape: _cast(kind, *shape)
       for kind in ("e4m3", "int8") for shape in ((64, 8192, 8192), (4096, 4096, 4096))},
    **{f"int4-{'x'.join(map(str, shape))}": lambda shape=shape: _int4(*shape) for shape in ((64, 8192, 8192), (64, 28672, 8192))},
    **{f"gathered-gemm-{'x'.join(map(str, sizes))}": lambda sizes=sizes: _gathered(*sizes)
       for sizes in ((4096, 2, 8, 4096, 4096), (8192, 8, 64, 1536, 2048))},
    **{f"attention-{'causal' if causal else 'full'}-{length}-{dim}": lambda c=causal, n=length, d=dim: _attention(c, n, d)
       for dim in (128, 64) for causal in (False, True) for length in (1024, 4096, 16384)},
}


def measure(name: str, prove_it: bool = False, without: Collection[str] = (), named: str = "", only: Sequence[Plan] = ()) -> Row:
    """One row, checked. `without` are names of choices that no plan makes; of plans, those whose names have `named` are tried, or
    `only` these, of tiles that can have them."""
    problem = CASES[name]()
    plain = _best([lambda k=k, g=g, a=a, m=m: k[g](*a, **m) for k, g, a, m in problem.launches])
    ours = _every(problem, without, named, only, problem.reassociate)
    runs: dict[str, Callable[[], Any]] = {}
    if problem.reassociate:
        same = _every(problem, without, named, only, False)
        at, one = same[_best([one.runs(*problem.launches[at][1:]) for at, one in same])]
        runs["same bits"] = one.runs(*problem.launches[at][1:])
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


def _every(problem: Problem, without: Collection[str], named: str, only: Sequence[Plan],
           reassociate: bool) -> list[tuple[int, Any]]:
    """(number of the launch, plan written) of each tile's plans."""
    least = min(meta["num_stages"] for *_, meta in problem.launches)
    return [(at, one) for at, launch in enumerate(problem.launches) if launch[3]["num_stages"] == least
            for one in _plans(without, named, *launch, problem.memory, reassociate, only)]


def every_plan(name: str, named: str = "", only: Sequence[Plan] = ()) -> Iterator[Row]:
    """A row for each plan of each tile, the quickest first: those within NEAR of the quickest are timed in turn with the plain
    kernel's best configuration and the hand kernel. What is wrong is said, and has no row. `named`: plans whose names hold this
    text; `only`: these plans."""
    problem = CASES[name]()
    plain = problem.launches[_best([lambda k=k, g=g, a=a, m=m: k[g](*a, **m) for k, g, a, m in problem.launches])]
    least = min(meta["num_stages"] for *_, meta in problem.launches)
    ours = [(launch, one) for launch in problem.launches if launch[3]["num_stages"] == least
            for one in _candidates(*launch, problem.memory, problem.reassociate, only) if named in one.name]
    runs = [one.written.runs(*launch[1:]) for launch, one in ours]
    times = _times(runs)
    near = sorted((at for at in times if times[at] <= NEAR * min(times.values())), key=times.get)
    errors = {}
    for at in near:
        problem.out.fill_(float("nan"))
        runs[at]()
        part = problem.part(problem.out).float()
        errors[at] = ((part - problem.expected).norm() / problem.expected.norm()).item()
        if not errors[at] < 1e-2:
            print(f"WRONG by {errors[at]}: {ours[at][1].plan}", flush=True)
    right = {str(at): runs[at] for at in near if errors[at] < 1e-2}
    found = alternate(right | {"plain": lambda: plain[0][plain[1]](*plain[2], **plain[3])} | (
        {} if problem.hand is None else {"hand": problem.hand}), 60.0)
    others = {key: found[key] for key in ("plain", "hand") if key in found}
    for at in sorted(map(int, right), key=lambda at: found[str(at)]):
        launch, one = ours[at]
        tile = {key: value for key, value in launch[3].items() if key.startswith("B") or key == "num_warps"}
        made = {"plan": asdict(one.plan), "tile": tile, "plain": plain[3], "name": one.name}
        yield row_of(f"plans-{name}", problem.shape, made, {"mimw": found[str(at)], **others}, errors[at], "standard normal")


def _candidates(kernel: Any, grid: Any, args: tuple, meta: dict[str, Any], memory: Sequence[Any] = (),
                reassociate: bool = False, only: Sequence[Plan] = ()) -> list[Any]:
    """All plans for a launch that are not out, or these of them."""
    plain = plain_of(kernel, grid, args, meta, memory=memory, reassociate=reassociate)
    return [one for plan in only or (None, ) for one in candidates(plain, plan, predict=False).candidates if not one.out]


def _plans(without: Collection[str], named: str, kernel: Any, grid: Any, args: tuple, meta: dict[str, Any],
           memory: Sequence[Any] = (), reassociate: bool = False, only: Sequence[Plan] = ()) -> list[Any]:
    """All plans for a launch whose names have `named`, written."""
    found = [one.written for one in _candidates(kernel, grid, args, meta, memory, reassociate, only) if named in one.name]
    return [written(one.plain, replace(one.plan, **dict.fromkeys(without, False))) for one in found] if without else found


def _best(runs: list[Callable[[], Any]]) -> int:
    """The number of the quickest of these. Those near it are timed once more, in turn: each by itself, the ones that a cool chip
    has run would be quicker."""
    times = _times(runs)
    near = [at for at in times if times[at] <= NEAR * min(times.values())]
    if len(near) > 1:
        times = {int(at): time for at, time in alternate({str(at): runs[at] for at in near}, 40.0).items()}
    return min(times, key=times.get)


def _times(runs: list[Callable[[], Any]]) -> dict[int, float]:
    """Milliseconds by number; those that do not run are said."""
    from triton.testing import do_bench
    compile_side_by_side(runs)
    times = {}
    for at, run in enumerate(runs):
        try:
            times[at] = do_bench(run, warmup=5, rep=20, return_mode="median")
        except Exception as error:      # more shared memory or registers than there are: no configuration for this shape
            print(f"  {at} of {len(runs)}: {type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)
    return times


def line(row: Row) -> str:
    """A row for people."""
    ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in row.ratios().items())
    plan = row.configuration.get("plan")
    how = "no plan" if plan is None else ", ".join([f"{plan['consumers']} consumers", *(
        name for name in ("gathers", "delayed", "persistent", "stores", "pingpong", "tiles_in_turn", "transform")
        if plan[name]),
        *[f"{plan['together']} trips together"] * (plan["together"] > 1)])
    how = row.configuration.get("name", how) + (f" {row.configuration['tile']}" if "name" in row.configuration else "")
    return f"{row.name:<40} {row.microseconds:9.1f} us   against {ratios}   error {row.error:.1e}   {how}"


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "cases", CASES)
    parser.add_argument("--prove", action="store_true", help="prove the plan of each row as well; takes ten seconds a row")
    parser.add_argument("--plans", action="store_true", help="a row for each plan, not the best one's alone")
    parser.add_argument("--recorded", action="store_true", help="measure nothing: the newest rows beside the goals")
    parser.add_argument("--only", default="", metavar="TEXT", help="plans whose names hold this: `trips together`")
    parser.add_argument("--plan", type=Plan.parse, nargs="+", default=(), metavar="JSON",
                        help="of each tile these plans alone, as of `mimw orchestrate --plan`; all take a second each to write")
    parser.add_argument("--without", nargs="+", default=(), metavar="CHOICE", help="choices that no plan makes: ahead")
    options = parser.parse_args()
    if options.recorded:
        print(*tables(options.results, options.cases or CASES), sep="\n")
        return
    parsed(parser)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    names = each(options.cases or CASES)
    rows = (row for name in names for row in every_plan(name, options.only, options.plan)) if options.plans else (
        measure(name, options.prove, options.without, options.only, options.plan) for name in names)
    file = "plans/orchestrate.jsonl" if options.plans else "orchestrate.jsonl"
    table(rows, options.results / file, line, lambda row: "plain", "plain Triton")


if __name__ == "__main__":
    main()
