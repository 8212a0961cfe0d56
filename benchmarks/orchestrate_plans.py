"""Every plan of published kernels, predicted and measured on one GPU beside the plain kernel: how far predictions are right.

    python -m benchmarks.orchestrate_plans                                  all kernels of orchestrate_others
    python -m benchmarks.orchestrate_plans fla-chunk-o vllm-bmm --packages /tmp/packages

Each row is a kernel: microseconds of the plain one, and of each plan with registers, spilled bytes and the largest difference
from the plain kernel's result, relative to its largest element. Nothing is proved, and nothing is taken. Without a GPU rows
have predictions alone.
"""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import triton

from mimw.compiler.launch import extents_of
from mimw.runtime.call import resolve
from mimw.tools.orchestrate.choose import Candidate, Search, candidates
from mimw.tools.orchestrate.measure import may_measure, measured
from mimw.tools.orchestrate.plain import plain_of

from .driver import command, keep_row, some_of
from .others_launches import KERNELS
from .others_sources import NotFetched, kernel_of
from .progress import each


def report(name: str, packages: Path) -> dict[str, Any]:
    """A kernel's row."""
    start, row = perf_counter(), {"name": f"plans-{name}"}
    try:
        kernel = kernel_of(KERNELS[name].source, packages)
    except NotFetched as error:
        return row | {"not_fetched": str(error)}
    grid, given = KERNELS[name].launch()
    kernel, args, meta = resolve(kernel, (), given)
    search = candidates(plain_of(kernel, grid, args, meta))
    different: dict[int, float] = {}
    if may_measure(args, meta):
        different = _different(search, kernel, grid, meta)
        search = measured(search, kernel, grid, args, meta, near=inf)
    plans = [_line(one, different.get(id(one.written))) for one in search.candidates]
    for line in plans:
        print(f"  {line['name']:58s} {_us(line['predicted_us'])} predicted {_us(line['measured_us'])} measured  {line['out'][:90]}")
    print(f"  {'plain':58s} {_us(search.plain)} predicted {_us(search.plain_measured)} measured", flush=True)
    return row | {"plain_us": search.plain, "plain_measured_us": search.plain_measured, "plans": plans,
                  "seconds": round(perf_counter() - start, 1)}


def _line(one: Candidate, different: float | None) -> dict[str, Any]:
    return {"name": one.name, "plan": asdict(one.plan), "predicted_us": one.predicted, "measured_us": one.measured,
            "registers": one.registers, "stack": one.stack, "different": different, "out": one.out}


def _different(search: Search, kernel: Any, grid: Any, meta: dict[str, Any]) -> dict[int, float]:
    """By plan the largest difference of what it writes from what the plain kernel does; infinity where one is no number."""
    tensors = [one for value in meta.values() if isinstance(one := getattr(value, "base", value), torch.Tensor) and one.is_cuda]
    before = [one.clone() for one in tensors]

    def after(run: Any) -> list[torch.Tensor]:
        for one, kept in zip(tensors, before):
            one.copy_(kept)
        run()
        torch.cuda.synchronize()
        return [one.clone() for one in tensors]

    found, expected = {}, after(lambda: kernel[grid](**meta))
    for one in search.candidates:
        if not one.out:
            try:
                pairs = zip(after(one.written.runs(extents_of(grid, meta), (), meta)), expected)
                found[id(one.written)] = max(_largest(ours, plain) for ours, plain in pairs)
            except Exception as error:      # more shared memory or registers than there are: `measured` says it as well
                print(f"  {one.name}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
    for one, kept in zip(tensors, before):
        one.copy_(kept)
    return found


def _largest(ours: torch.Tensor, plain: torch.Tensor) -> float:
    scale = plain.float().abs().max().item() or 1.0
    return torch.nan_to_num((ours.float() - plain.float()).abs(), nan=float("inf")).max().item() / scale


def _us(time: float | None) -> str:
    return f"{'-':>9s}" if time is None else f"{time:9.1f}"


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "kernels", KERNELS)
    parser.add_argument("--packages", type=Path, default=Path("packages-of-others"), metavar="DIR",
                        help="where packages are unpacked")
    options = parser.parse_args()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    for name in each(options.kernels or KERNELS):
        print(f"\n== {name}: {KERNELS[name].source.function}", flush=True)
        try:
            keep_row(report(name, options.packages), options.results / "orchestrate_plans.jsonl")
        except Exception as error:      # one kernel of many: the next one comes
            print(f"  {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
