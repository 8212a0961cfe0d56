"""Products over several GPUs: all-gather GEMM, GEMM reduce-scatter and all-reduce, against cuBLAS and NCCL in turn, and torch's
fused ones.

    python -m benchmarks.distributed_gemm [--gpus 2] [--shapes 8192x2048x16384 ...] [--tune] [--check]

Input: M, N, K of the whole product, in bf16. Of the all-gather each rank has M / ranks rows of A and a B of its own; of the
reductions K / ranks of the inner extent. Output: a row for each shape, kind and configuration, with all baselines of the same
run, each result checked against fp32. `--tune` tries further configurations; `--check` times nothing, and calls the operators
over and over, one rank late.
"""

from __future__ import annotations

import random
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import mimw.distributed
from mimw.testing.benchmark import Row

from .distributed import alternate, compiled_ahead, ended, graphed, keep_row, started, together, worst
from .driver import command, some_of
from .gpu import multiprocessors, row_of, torch
from .progress import each

SHAPES = ("8192x2048x16384", "8192x8192x16384", "4096x8192x16384", "16384x4096x8192")
KINDS = ("scatter", "reduce", "gather")
INPUTS = "standard normal, B by 1 / sqrt(K)"
CHECKED = ((776, 264, 272), (4096, 2048, 4096), (8192, 2048, 4096))
FORMS_AT = 4096, 2048, 4096      # where `--check` tries all forms
BATCH = 20              # results that are kept before they are compared
LATE = 2_000_000        # cycles, about 1 ms


@dataclass(frozen=True)
class Problem:
    """One rank's arrays: `a`, `b` of a kind; `expected` in fp32, for this rank."""

    a: Any
    b: Any
    expected: Any


def made(world, kind: str, m: int, n: int, k: int, dtype=None, seed: int = 0) -> Problem:
    """The arrays of this rank; the reference by NCCL and cuBLAS in fp32."""
    dist, dtype = torch.distributed, dtype or torch.bfloat16
    torch.manual_seed(1000 * seed + world.rank)
    rows, inner = (m // world.size, k) if kind == "gather" else (m, k // world.size)
    a = torch.randn(rows, inner, device="cuda", dtype=dtype)
    b = torch.randn(inner, n, device="cuda", dtype=dtype) / k ** 0.5
    if kind == "gather":
        whole = a.new_empty(m, k)
        dist.all_gather_into_tensor(whole, a, group=world.group)
        return Problem(a, b, whole.float() @ b.float())
    total = a.float() @ b.float()
    dist.all_reduce(total, group=world.group)
    return Problem(a, b, total if kind == "reduce" else total.chunk(world.size)[world.rank].clone())


def error_of(world, found, problem: Problem) -> float:
    """The largest error of any rank, as a part of the largest element."""
    difference = (found.float() - problem.expected).abs().max() / problem.expected.abs().max()
    return worst(world, float(difference))


# ---- ours, in each configuration -----------------------------------------------------------------------------------------


def gathering(world, problem: Problem, chosen, push: bool) -> Callable[[], Any]:
    """A call of the all-gather GEMM."""
    from mimw.kernels import all_gather_gemm
    from mimw.ops.distributed.copy_engine import CopyEngines
    from mimw.ops.distributed.gemm_memory import memory_of
    from mimw.ops.distributed.launching import RankLaunch
    (rows, k), n, sms = problem.a.shape, problem.b.shape[1], multiprocessors()
    m = rows * world.size
    sizes = all_gather_gemm.room_for(m, n, k, sms, world.size, push=push, chosen=chosen)
    workspace = memory_of(world, ("benchmark", m, n, k, push, chosen), sizes)
    c = problem.a.new_empty(m, n)
    grid, args, meta = all_gather_gemm.arguments(problem.a, problem.b, c, workspace, world, sms, chosen, push)
    launch = RankLaunch(world, problem.a, all_gather_gemm.kernel, grid, args, meta, tuple(workspace.values()))
    if push:
        def call():
            launch(problem.a, workspace["gathered"], problem.b, c, problem.a)
            return c
        return call
    grid, args, meta = all_gather_gemm.opening(workspace, world)
    opened = RankLaunch(world, problem.a, all_gather_gemm.open_gather, grid, args, meta, tuple(workspace.values()))
    bring = CopyEngines(world, workspace, rows, k, chosen)

    def call():
        opened()
        bring(problem.a)
        launch(problem.a, workspace["gathered"], problem.b, c)
        bring.joined()
        return c
    return call


def summing(world, problem: Problem, chosen, everywhere: bool, partials: str = "bfloat16") -> Callable[[], Any]:
    """A call of the GEMM reduce-scatter, or all-reduce."""
    from mimw.kernels import gemm_reduce_scatter
    from mimw.ops.distributed.gemm_memory import memory_of
    from mimw.ops.distributed.launching import RankLaunch
    from mimw.ops.distributed.sum_engine import SumEngines
    (m, k), n, sms = problem.a.shape, problem.b.shape[1], multiprocessors()
    sizes = gemm_reduce_scatter.room_for(m, n, k, sms, world.size, partials, everywhere, chosen)
    workspace = memory_of(world, ("benchmark", m, n, k, everywhere, partials, chosen), sizes)
    c = problem.a.new_empty(m if everywhere else m // world.size, n)
    grid, args, meta = gemm_reduce_scatter.arguments(problem.a, problem.b, c, workspace, world, sms, chosen, everywhere)
    launch = RankLaunch(world, problem.a, gemm_reduce_scatter.kernel, grid, args, meta, tuple(workspace.values()))
    carry = SumEngines(world, workspace, m, n, everywhere, chosen) if chosen.parcel() else None

    def call():
        if carry:
            carry.begin()
        launch(problem.a, problem.b, c)
        if carry:
            carry()
            carry.joined()
        return c
    return call


def ours(world, kind: str, problem: Problem, options) -> dict[str, tuple[dict, Callable[[], Any]]]:
    """Name -> (configuration as it is kept, call), of the forms that are asked for."""
    from mimw.kernels import all_gather_gemm, gemm_reduce_scatter
    tall, wide = all_gather_gemm.PUSHED, replace(all_gather_gemm.PUSHED, bn=256, stages=4, staging=2, ping_pong=False)
    found = {}
    if kind == "gather":
        tried = {"push": (tall, True), "engines": (replace(tall, stages=6), False), "engines, wide": (wide, False)}
        if options.tune:
            tried |= {"push, bands of 4": (replace(tall, group_m=4), True),
                      "engines, wide, bands of 4": (replace(wide, group_m=4), False)}
        for name, (chosen, push) in asked(tried, options):
            found[name] = asdict(chosen) | {"push": push}, gathering(world, problem, chosen, push)
        return found
    everywhere, tall = kind == "reduce", gemm_reduce_scatter.Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True)
    two, wide = replace(tall, stages=5, staging=2), gemm_reduce_scatter.Configuration(**asdict(wide))
    tried = {"put, tall": (tall, "bfloat16"), "put, tall, two": (two, "bfloat16"), "put, wide": (wide, "bfloat16")}
    if options.tune and not everywhere:
        tried["put, tall, fp32"] = tall, "float32"
    for name, one in [("tall", tall), ("tall, two", two), *([("wide", wide)] if options.tune else [])]:
        for mib in (4, 8):
            tried[f"carried, {name}, {mib} MiB"] = replace(one, parcel_bytes=mib << 20), "bfloat16"
    for name, (chosen, partials) in asked(tried, options):
        found[name] = asdict(chosen) | {"partials": partials}, summing(world, problem, chosen, everywhere, partials)
    return found


def asked(tried: dict[str, Any], options) -> list[tuple[str, Any]]:
    """The forms of `--forms`."""
    return [(name, one) for name, one in tried.items() if re.search(options.forms, name)]


# ---- baselines -------------------------------------------------------------------------------------------------------------


def baselines(world, kind: str, problem: Problem) -> dict[str, Callable[[], Any]]:
    """The collective alone and the products alone, and what computes the whole."""
    import torch.distributed._symmetric_memory  # noqa: F401  torch's fused operators

    from mimw import ops
    dist, a, b = torch.distributed, problem.a, problem.b
    if kind == "gather":
        whole = a.new_empty(a.shape[0] * world.size, a.shape[1])
        c = a.new_empty(whole.shape[0], b.shape[1])
        dist.all_gather_into_tensor(whole, a, group=world.group)

        def both():
            dist.all_gather_into_tensor(whole, a, group=world.group)
            return torch.mm(whole, b, out=c)
        return {"NCCL all-gather alone": lambda: dist.all_gather_into_tensor(whole, a, group=world.group),
                "cuBLAS alone": lambda: torch.mm(whole, b, out=c), "mimw GEMM alone": lambda: ops.matmul(whole, b),
                "NCCL, cuBLAS": both,
                "torch fused": lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, world.name)[1][0]}
    c = a.new_empty(a.shape[0], b.shape[1])
    part = c.new_empty(c.shape[0] // world.size, c.shape[1])
    alone = {"cuBLAS alone": lambda: torch.mm(a, b, out=c), "mimw GEMM alone": lambda: ops.matmul(a, b)}
    if kind == "reduce":
        def reduced():
            torch.mm(a, b, out=c)
            dist.all_reduce(c, group=world.group)
            return c
        return alone | {"NCCL all-reduce alone": lambda: dist.all_reduce(c, group=world.group), "cuBLAS, NCCL": reduced}

    def scattered():
        dist.reduce_scatter_tensor(part, torch.mm(a, b, out=c), group=world.group)
        return part
    return alone | {"NCCL reduce-scatter alone": lambda: dist.reduce_scatter_tensor(part, c, group=world.group),
                    "cuBLAS, NCCL": scattered,
                    "torch fused": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, world.name)}


def launches(world, kind: str, shape: tuple[int, int, int], options) -> list[Callable[[], Any]]:
    """What `measured` will launch of ours."""
    problem = made(world, kind, *shape)
    return [*(call for _, call in ours(world, kind, problem, options).values()), baselines(world, kind, problem)["mimw GEMM alone"]]


def measured(world, kind: str, shape: tuple[int, int, int], options) -> list[Row]:
    """A row for each configuration of ours."""
    problem = made(world, kind, *shape)
    found, others = ours(world, kind, problem, options), baselines(world, kind, problem)
    errors = {}
    for name, (_, call) in found.items():
        for _ in range(3):
            result = call()
        errors[name] = error_of(world, result, problem)
        assert errors[name] < 0.01, f"{kind} {shape} {name}: an error of {errors[name]}"
    for name in list(others):
        try:
            result = others[name]()
        except Exception as error:  # a baseline that this torch does not have
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            del others[name]
            continue
        if "alone" not in name:
            assert (wrong := error_of(world, result, problem)) < 0.02, f"{kind} {shape} {name}: an error of {wrong}"
    together(world)
    times = alternate(world, {name: call for name, (_, call) in found.items()} | others, options.ms)
    kept = {name: times[name] for name in others}
    facts = dict(zip("MNK", shape)) | {"gpus": world.size}
    return [row_of(f"distributed-gemm-{kind}", facts, {"form": name} | configuration, {"mimw": times[name]} | kept, errors[name],
                   INPUTS) for name, (configuration, _) in found.items()]


def line(row: Row) -> str:
    others = ", ".join(f"{name} {time:.0f}" for name, time in row.baselines.items())
    return (f"{row.name} {'x'.join(str(row.shape[name]) for name in 'MNK')} on {row.shape['gpus']}, {row.configuration['form']}: "
            f"{row.microseconds:.0f} us; {others}; error {row.error:.1e}")


# ---- calls over and over ---------------------------------------------------------------------------------------------------


def attempt(world, what: str, run: Callable[[], str]) -> bool:
    """Whether `run` ends, and what it says; its error is printed, and others follow."""
    try:
        said = run()
    except Exception:
        print(f"rank {world.rank}, {what}: {traceback.format_exc()[-2000:]}", flush=True)
        return False
    if world.rank == 0:
        print(f"{what}: {said}", flush=True)
    return True


def late(delays: random.Random, share: float) -> None:
    """Now and then, keep this GPU busy for up to a millisecond."""
    if delays.random() < share:
        torch.cuda._sleep(delays.randrange(LATE))


def right(world, results: Sequence, problems: Sequence[Problem]) -> None:
    """AssertionError unless each result is that of the problem whose turn it was."""
    wrong = max(error_of(world, one, problems[number % len(problems)]) for number, one in enumerate(results))
    assert wrong < 0.01, f"an error of {wrong}"


def form_over_and_over(world, call: Callable, problem: Problem) -> str:
    """20 calls with delays."""
    delays = random.Random(world.rank)
    for _ in range(20):
        late(delays, 0.3)
        result = call()
    right(world, [result], [problem])
    return "right"


def operator_over_and_over(world, kind: str, shape: tuple[int, int, int], dtype, calls: int) -> str:
    """Single calls, `calls` in a row with a rank late now and then, then a CUDA graph that is replayed."""
    from mimw.ops import distributed as ops
    operator = {"gather": ops.all_gather_matmul, "scatter": ops.matmul_reduce_scatter, "reduce": ops.matmul_all_reduce}[kind]
    delays, problems = random.Random(world.rank), [made(world, kind, *shape, dtype, seed) for seed in range(2)]
    right(world, [operator(one.a, one.b) for one in problems], problems)
    for _ in range(0, calls, BATCH):
        results = []
        for number in range(BATCH):
            late(delays, 0.1)
            results.append(operator(problems[number % 2].a, problems[number % 2].b))
        right(world, results, problems)
    outputs = []
    replay = graphed(world, lambda: outputs.append(operator(problems[0].a, problems[0].b)), 4)
    between = []
    for _ in range(5):
        for one in outputs[-4:]:
            one.zero_()
        replay()
        between.append(operator(problems[0].a, problems[0].b))      # behind a replay that still runs
        late(delays, 0.5)
    right(world, outputs[-4:] + between, problems[:1])
    return f"right in {calls} calls with delays, replayed, and between replays"


def checked(world, kinds: Sequence[str], options) -> bool:
    """Whether all is right: the forms that are timed at one size, then the operators at several."""
    well = True
    for kind in kinds:
        problem = made(world, kind, *FORMS_AT)
        for name, (_, call) in ours(world, kind, problem, options).items():
            well = attempt(world, f"{kind}, {name}", lambda: form_over_and_over(world, call, problem)) and well
        if world.rank == 0 and well:
            print(f"forms of {kind} are right", flush=True)
        for shape in CHECKED if options.calls else ():
            for dtype in (torch.bfloat16, torch.float16)[:1 + (shape == CHECKED[0])]:
                well = attempt(world, f"{kind} {shape} {dtype}",
                               lambda: operator_over_and_over(world, kind, shape, dtype, options.calls)) and well
    return well


def main() -> None:
    parser = command(__doc__, tune=True, ms=100.0)
    some_of(parser, "kinds", KINDS)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--calls", type=int, default=200, help="of each operator and shape with --check; 0: forms alone")
    parser.add_argument("--forms", default="", metavar="REGEX", help="only configurations of such names")
    options, world = started(parser, "benchmarks.distributed_gemm")
    mimw.distributed.init(heap=4 << 30)
    kinds = options.kinds or KINDS
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes]
    if not options.check:
        compiled_ahead(world, (call for kind in kinds for shape in shapes for call in launches(world, kind, shape, options)))
    well = checked(world, kinds, options) if options.check else True
    every = [] if options.check else [(kind, shape) for kind in kinds for shape in shapes]
    for kind, shape in each(every, lambda one: f"{one[0]} {'x'.join(map(str, one[1]))}", world.rank > 0):
        for row in measured(world, kind, shape, options):
            keep_row(world, row, options.results / "distributed-gemm.jsonl", line)
    ended()
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
