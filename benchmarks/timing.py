"""Predicted beside measured time of library kernels.

    python -m benchmarks.timing [CASE...]            measure on the GPU of this machine; rows go to results/timing.jsonl
    python -m benchmarks.timing --table              predict every measured case without a GPU; prints the table of docs/TIMING.md

Measured are the time of the kernel as it is (medians by CUDA events, cold L2, `mimw.testing.benchmark.alternate`) and, in a launch
of its own with time stamps, what each task did. Inputs are standard normal and each timed result is checked.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import attention, gemm
from mimw.kernels.gemm.configs import Configuration
from mimw.testing.benchmark import alternate, versions

from .driver import RESULTS, append, command, some_of
from .gpu import multiprocessors, parsed, torch
from .progress import each

_ROWS = RESULTS / "timing.jsonl"
_COOPERATIVE = Configuration()
_PING_PONG = Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True, group_m=16)

# Name -> kind, then (M, N, K), type and configuration, or batch, heads, sequence, head dim and causal.
CASES = {
    "gemm-8192x8192x1024-pp": ("gemm", (8192, 8192, 1024), "bf16", _PING_PONG),
    "gemm-8192x8192x1024": ("gemm", (8192, 8192, 1024), "bf16", _COOPERATIVE),
    "gemm-8192x8192x4096": ("gemm", (8192, 8192, 4096), "bf16", _COOPERATIVE),
    "gemm-2048x2048x2048": ("gemm", (2048, 2048, 2048), "bf16", _COOPERATIVE),
    "gemm-4096x4096x4096": ("gemm", (4096, 4096, 4096), "bf16", _COOPERATIVE),
    "gemm-8192x1024x8192-64x256pp": ("gemm", (8192, 1024, 8192), "bf16", Configuration(bm=64, bn=256, ping_pong=True)),
    "gemm-4096x4096x4096-1stage": ("gemm", (4096, 4096, 4096), "bf16", Configuration(stages=1)),
    "gemm-4096x4096x4096-2stages": ("gemm", (4096, 4096, 4096), "bf16", Configuration(stages=2)),
    "gemm-524288x256x256": ("gemm", (524288, 256, 256), "bf16", _COOPERATIVE),
    "gemm-8192x8192x2048-fp8": ("gemm", (8192, 8192, 2048), "fp8", _COOPERATIVE),
    "attention-1024": ("attention", (4, 48, 1024, 128), "bf16", False),
    "attention-4096": ("attention", (4, 48, 4096, 128), "bf16", False),
    "attention-4096-causal": ("attention", (4, 48, 4096, 128), "bf16", True),
}
CALIBRATED = ("gemm-8192x8192x1024-pp", "gemm-8192x8192x1024", "gemm-8192x8192x4096", "gemm-2048x2048x2048")
_NUMPY = {"bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn}


def predicted(name: str, megahertz: float | None = None):
    """The prediction of a case, at the clock of the power model or at a given one."""
    kind, shape, dtype, what = CASES[name]
    if kind == "gemm":
        (m, n, k), element = shape, _NUMPY[dtype]
        b = np.empty((n, k), element).T if dtype == "fp8" else np.empty((k, n), element)
        c = np.empty((m, n), ml_dtypes.bfloat16)
        grid, args, meta = gemm.arguments(np.empty((m, k), element), b, c, 132, what)
        return mimw.predict(gemm.kernel, grid, *args, megahertz=megahertz, **meta)
    q, k, v, o = (np.empty(shape, ml_dtypes.bfloat16) for _ in range(4))
    grid, args, meta = attention.arguments(q, k, v, o, np.empty(shape[:3], np.float32), np.zeros(1, np.int32), 132, what)
    return mimw.predict(attention.kernel, grid, *args, megahertz=megahertz, **meta)


def problem(name: str):
    """(kernel, grid, args, meta, check) of a case on the GPU; `check()` gives the relative error of the last launch."""
    kind, shape, dtype, what = CASES[name]
    torch.manual_seed(0)
    programs = multiprocessors()
    if kind == "gemm":
        m, n, k = shape
        element = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[dtype]
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16).to(element)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).to(element).T
        b = b if dtype == "fp8" else b.contiguous()
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        expected = a[:256].float() @ b.float()
        launch = (gemm.kernel, *gemm.arguments(a, b, out, programs, what))
        part = out[:256]
    else:
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out, lse = torch.empty_like(q), torch.empty(shape[:3], device="cuda")
        counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        launch = (attention.kernel, *attention.arguments(q, k, v, out, lse, counter, programs, what))
        expected = torch.nn.functional.scaled_dot_product_attention(q[:1, :2].float(), k[:1, :2].float(), v[:1, :2].float(),
                                                                    is_causal=what)
        part = out[:1, :2]

    def error() -> float:
        found = ((part.float() - expected).norm() / expected.norm()).item()
        out.fill_(float("nan"))
        return found

    return *launch, error


def measure(name: str) -> dict:
    """One row: times in microseconds, the clock, and each lane's shares, all checked."""
    kernel, grid, args, meta, error = problem(name)
    launch = kernel[grid]

    def run():
        launch(*args, **meta)

    run()
    errors = [error()]
    time = alternate({"mimw": run}, 150)["mimw"]
    for _ in range(20):
        run()
    found = mimw.profile(kernel, grid, *args, capacity=32768, **meta)
    errors.append(error())
    assert max(errors) < 1e-2, f"{name}: wrong by {errors}"
    assert not found.dropped
    what = CASES[name][3]
    used = asdict(what) if isinstance(what, Configuration) else {"causal": what}
    return {"name": name, "shape": CASES[name][1], "configuration": used, "microseconds": time,
            "stamped_microseconds": found.microseconds, "megahertz": found.megahertz, "utilisation": found.utilisation(),
            "errors": errors, "chip": torch.cuda.get_device_name(), "versions": versions(),
            "date": datetime.date.today().isoformat()}


def table() -> None:
    """Markdown: the ratio of predicted to measured time, and of busy shares, for the newest row of each case."""
    rows = {row["name"]: row for row in map(json.loads, _ROWS.read_text().splitlines())}
    print("| case | predicted / measured time | at the measured clock | clock, predicted / measured | "
          "task: busy, predicted / measured |")
    print("|---|---|---|---|---|")
    for name, row in ((name, rows[name]) for name in CASES if name in rows):
        free, held = predicted(name), predicted(name, row["megahertz"])
        busy = held.busy()
        lanes = {lane: 1 - shares.get("wait", 0.0) for lane, shares in row["utilisation"].items() if lane != "default"}
        compared = ", ".join(f"{lane} {100 * busy[lane]:.0f} / {100 * share:.0f} %" for lane, share in lanes.items()
                             if lane in busy)
        star = " *" if name in CALIBRATED else ""
        print(f"| {name}{star} | {free.microseconds / row['microseconds']:.3f} | {held.microseconds / row['microseconds']:.3f} | "
              f"{free.megahertz / row['megahertz']:.3f} | {compared} |", flush=True)


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "cases", CASES)
    parser.add_argument("--table", action="store_true", help="predict the measured cases; needs no GPU")
    if parser.parse_args().table:
        table()
        return
    options = parsed(parser)
    for name in each(options.cases or CASES):
        row = measure(name)
        print(f"{name}: {row['microseconds']:.1f} us, stamped {row['stamped_microseconds']:.1f} us at {row['megahertz']:.0f} MHz",
              flush=True)
        append(row, options.results / _ROWS.name)


if __name__ == "__main__":
    main()
