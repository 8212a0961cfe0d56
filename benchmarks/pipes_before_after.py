"""The library's GEMM and attention against the same kernels of another commit, and against cuBLAS and cuDNN, in one process.

    git archive COMMIT src/mimw/kernels | tar -x -C .old --strip-components=2
    python -m benchmarks.pipes_before_after --before .old/kernels              every row
    python -m benchmarks.pipes_before_after --before .old/kernels gemm --ms 100 --also mbarrier=.old/variant

Input: the folder of the kernels before, and of further forms of them by name. Output: a line a row for people, and one of JSON:

    gemm-bf16-GH4 before 1512.3 us  after 1510.8 us, 0.9990 (0.9971 1.0012)  cuBLAS 1571.2 us, 1.0389 (...)

Behind a time stands its ratio to `before`: the median over the rounds, in brackets the quartiles. A round calls each candidate once
with a cold L2, in an order that turns from round to round; the GPU is kept busy from round to round, since the first call after a
pause is slow. Results are checked. The other kernels must run on the package as it is now.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from datetime import date
from math import prod
from pathlib import Path
from statistics import quantiles

from mimw.kernels import attention, gemm
from mimw.testing.benchmark import versions

from . import attention as attention_rows
from . import gemm as gemm_rows
from .driver import append, command, some_of
from .gpu import multiprocessors, parsed, torch
from .progress import each

GEMM = [(name, "bf16") for name in gemm_rows.SHAPES] + [("GH4", "fp16"), ("GH4", "fp8"), ("GH3", "tf32")]
ATTENTION = [(128, seq, causal) for causal in (False, True) for seq in attention_rows.SEQS] + [
    (dim, 4096, causal) for dim in (64, 256) for causal in (False, True)]
_FLUSH_BYTES = 256 << 20


def kernels_of(name: str, folder: Path):
    """A function from "gemm" or "attention" to that module of `folder`, imported as a package of its own."""
    package = f"kernels_{name}"
    spec = importlib.util.spec_from_file_location(package, folder / "__init__.py", submodule_search_locations=[str(folder)])
    sys.modules[package] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package])
    return lambda kernel: importlib.import_module(f"{package}.{kernel}")


def rounds(candidates: dict, at_least_ms: float) -> list[dict[str, float]]:
    """Microseconds of each candidate, round by round, until the fastest has run for `at_least_ms` in sum."""
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    names, found = list(candidates), []
    for run in candidates.values():
        run()
    while not found or min(sum(times[name] for times in found) for name in names) < at_least_ms * 1000:
        candidates[names[0]]()  # not timed: the first after a pause
        events = []
        for number in range(len(names) * 2):
            turned = names[number % len(names):] + names[:number % len(names)]
            taken = {}
            for name in turned if number < len(names) else reversed(turned):
                flush.zero_()
                taken[name] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                taken[name][0].record()
                candidates[name]()
                taken[name][1].record()
            events.append(taken)
        torch.cuda.synchronize()
        found += [{name: start.elapsed_time(end) * 1000 for name, (start, end) in taken.items()} for taken in events]
    return found


def report(name: str, found: list[dict[str, float]], configuration: dict, results: Path) -> dict[str, float]:
    """Print and write a row; the ratio of each candidate to `before`."""
    microseconds, ratios, texts = {}, {}, []
    for which in found[0]:
        microseconds[which] = quantiles([times[which] for times in found], n=4)
        ratios[which] = low, middle, high = quantiles([times[which] / times["before"] for times in found], n=4)
        texts.append(f"{which} {microseconds[which][1]:.1f} us"
                     + ("" if which == "before" else f", {middle:.4f} ({low:.4f} {high:.4f})"))
    print(f"{name:<26} {'  '.join(texts)}  {len(found)} rounds", flush=True)
    row = dict(name=name, rounds=len(found), microseconds=microseconds, ratios=ratios, configuration=configuration,
               chip=torch.cuda.get_device_name(), versions=versions(), date=date.today().isoformat())
    append(row, results / "pipes_before_after.jsonl")
    return {which: quartiles[1] for which, quartiles in ratios.items()}


def gemm_row(name: str, dtype: str, forms: dict, options) -> dict[str, float]:
    """One shape of one type."""
    shape = gemm_rows.SHAPES[name]
    a, b, c, baseline = gemm_rows.problem(shape, dtype)
    programs = multiprocessors()
    expected, candidates = baseline(), {}
    for which, kernels in forms.items():
        module, out = kernels("gemm"), torch.zeros_like(c)
        grid, args, meta = module.arguments(a, b, out, programs)
        candidates[which] = lambda launch=module.kernel[grid], args=args, meta=meta: launch(*args, **meta)
        candidates[which]()
        torch.cuda.synchronize()
        gemm_rows.check(a, b, out, expected)
    found = rounds({**candidates, "cuBLAS": baseline}, options.ms)
    return report(f"gemm-{dtype}-{name}", found, vars(gemm.configuration(*shape, a.dtype.itemsize)), options.results)


def attention_row(dim: int, seq: int, causal: bool, forms: dict, options) -> dict[str, float]:
    """One head dim and length, with a mask or without; batch 4, 48 heads, bf16."""
    shape = dict(batch=4, heads=48, kv_heads=48, seq=seq, dim=dim)
    q, k, v = attention_rows.problem(shape, "bf16")
    programs = multiprocessors()
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    candidates = {}
    for which, kernels in forms.items():
        module, o, lse = kernels("attention"), torch.zeros_like(q), torch.empty(q.shape[:3], device="cuda")
        grid, args, meta = module.arguments(q, k, v, o, lse, counter, programs, causal)
        candidates[which] = lambda launch=module.kernel[grid], args=args, meta=meta: launch(*args, **meta)
        candidates[which]()
        torch.cuda.synchronize()
        if seq <= 4096:  # the reference is quadratic, in fp64
            attention_rows.check(q, k, v, o, lse, causal)
    found = rounds({**candidates, **attention_rows.baselines(q, k, v, causal)}, options.ms)
    name = f"attention-{dim}-{seq}-{'causal' if causal else 'full'}"
    return report(name, found, vars(attention.configuration(dim, causal)), options.results)


def named(text: str) -> tuple[str, Path]:
    """NAME=FOLDER."""
    name, _, folder = text.partition("=")
    return name, Path(folder)


def main() -> None:
    parser = command(__doc__, ms=400.0)
    some_of(parser, "kernels", ["gemm", "attention"])
    parser.add_argument("--before", type=Path, required=True, help="folder of the kernels before")
    parser.add_argument("--also", type=named, action="append", default=[], metavar="NAME=FOLDER", help="a further form")
    parser.add_argument("--rows", help="only rows whose name contains this")
    options = parsed(parser)
    forms = {"before": kernels_of("before", options.before), "after": {"gemm": gemm, "attention": attention}.__getitem__}
    forms |= {name: kernels_of(name, folder) for name, folder in options.also}
    for kernel, row, cases in (("gemm", gemm_row, GEMM), ("attention", attention_row, ATTENTION)):
        ratios: list[dict[str, float]] = []
        wanted = [] if options.kernels and kernel not in options.kernels else [
            case for case in cases if not options.rows or options.rows in "-".join(map(str, case))]
        for case in each(wanted):
            ratios.append(row(*case, forms, options))
            torch.cuda.empty_cache()
        for which in list(forms)[1:] if ratios else []:
            found = [one[which] for one in ratios]
            print(f"{kernel}: {which}/before, geometric mean of {len(found)}: {prod(found)**(1 / len(found)):.4f}, "
                  f"highest {max(found):.4f}", flush=True)


if __name__ == "__main__":
    main()
