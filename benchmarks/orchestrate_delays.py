"""Products a trip later in a loop of several: attention's backward under each choice of them, on one GPU.

    python -m benchmarks.orchestrate_delays                     dkdv and dq, heads of 64 and 128, 16 heads of 4,096
    python -m benchmarks.orchestrate_delays dkdv-64 --predict   predictions and registers alone, which takes no GPU

Each choice is a kernel of its own (`delays_kernels.py`), orchestrated with two consumers. Results are compared with torch in fp32
first. A modulo schedule would choose among such delays: what the best one gains over none is what there is to gain.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

import mimw
from mimw.testing.benchmark import Row, alternate
from mimw.tools.orchestrate import Plan
from mimw.tools.orchestrate.choose import Candidate, finished
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.spent import Spent
from mimw.tools.orchestrate.written import written

from .delays_kernels import dkdv, dq
from .driver import command, some_of
from .gpu import parsed, row_of, table, torch
from .progress import each

HEADS, LENGTH, LOG2E = 16, 4096, 1.4426950408889634
CASES = {f"{name}-{dim}": (name, dim) for name in ("dkdv", "dq") for dim in (64, 128)}
PLAN = Plan(consumers=2, delayed=False)


def _inputs(dim: int, on_gpu: bool) -> SimpleNamespace:
    """Arrays, and the gradients of the first head by torch."""
    shape = HEADS * LENGTH, dim
    if not on_gpu:
        q, k, v, do, dk, dv, dq_ = (np.zeros(shape, np.float16) for _ in range(7))
        return SimpleNamespace(q=q, k=k, v=v, do=do, dk=dk, dv=dv, dq=dq_, lse=np.zeros(shape[0], np.float32),
                               delta=np.ones(shape[0], np.float32), expected={})
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(4))
    dk, dv, dq_ = (torch.empty_like(q) for _ in range(3))
    lse, delta, expected = torch.empty(shape[0], device="cuda"), torch.empty(shape[0], device="cuda"), {}
    for head in range(HEADS):
        rows = slice(head * LENGTH, (head + 1) * LENGTH)
        s = q[rows].float() @ k[rows].float().T * dim ** -0.5
        p = s.softmax(-1)
        lse[rows] = s.logsumexp(-1) * LOG2E
        dp = do[rows].float() @ v[rows].float().T
        delta[rows] = (p * dp).sum(-1)
        if not head:
            ds = p * (dp - delta[rows][:, None])
            expected = {"dv": p.T @ do[rows].float(), "dk": ds.T @ q[rows].float(), "dq": ds @ k[rows].float()}
    return SimpleNamespace(q=q, k=k, v=v, do=do, dk=dk, dv=dv, dq=dq_, lse=lse, delta=delta, expected=expected)


def _launch(name: str, dim: int, x: SimpleNamespace, delays: tuple[int, ...]) -> tuple[Any, Any, tuple, dict[str, Any]]:
    def described(tensor: Any, rows: int) -> Any:
        return mimw.TensorDescriptor.from_tensor(tensor, [rows, dim])
    few, many, more = 64, 128, (x.lse, x.delta, dim ** -0.5 * LOG2E, LENGTH)
    if name == "dkdv":
        args = (described(x.q, few), *(described(one, many) for one in (x.k, x.v)), described(x.do, few), described(x.dk, many),
                described(x.dv, many), *more)
        meta = dict(zip(("DV", "DK"), delays))
        return dkdv, (LENGTH // many, HEADS), args, dict(BM=few, BN=many, D=dim, num_warps=8, **meta)
    args = (described(x.q, many), described(x.k, few), described(x.v, few), described(x.do, many), described(x.dq, many), *more)
    return dq, (LENGTH // many, HEADS), args, dict(BM=many, BN=few, D=dim, num_warps=8, DQ=delays[0])


def _written(case: str, x: SimpleNamespace, predict: bool) -> dict[str, tuple[Candidate, tuple]]:
    """By the delays: the orchestrated kernel, compiled, and its launch."""
    name, dim = CASES[case]
    found = {}
    for delays in product((0, 1), repeat=2 if name == "dkdv" else 1):
        launch = _launch(name, dim, x, delays)
        one = written(plain_of(*launch), PLAN)
        assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
        found["".join(map(str, delays))] = finished(Candidate(one, about=0.0 if predict else None), Spent()), launch
    return found


def predicted(case: str) -> None:
    for delays, (one, _) in _written(case, _inputs(CASES[case][1], False), True).items():
        print(f"{case} delays {delays}: {one.predicted or 0:.1f} us predicted, {one.stack} bytes of stack {one.out}", flush=True)


def measure(case: str) -> Row:
    """A row: all choices in turn."""
    name, dim = CASES[case]
    x = _inputs(dim, True)
    found, errors = _written(case, x, False), {}
    runs = {delays: one.written.runs(*launch[1:]) for delays, (one, launch) in found.items() if not one.out}
    for delays, run in runs.items():
        outputs = ("dk", "dv") if name == "dkdv" else ("dq", )
        for output in outputs:
            getattr(x, output).fill_(float("nan"))
        run()
        errors[delays] = max(((getattr(x, output)[:LENGTH].float() - x.expected[output]).norm() / x.expected[output].norm()).item()
                             for output in outputs)
        assert errors[delays] < 1e-2, f"{case} {delays}: wrong by {errors[delays]}"
    times = alternate(runs, 100.0)
    chosen = {"times": times, "stack": {delays: one.stack for delays, (one, _) in found.items()}}
    none = "00" if name == "dkdv" else "0"
    best = min(times, key=times.get)
    return row_of(f"delays-{case}", dict(heads=HEADS, length=LENGTH, dim=dim), chosen | {"best": best},
                  {"mimw": times[best], "none": times[none]}, max(errors.values()), "standard normal")


def line(row: Row) -> str:
    chosen = row.configuration
    every = ", ".join(f"{delays} {time:.1f} ({chosen['stack'][delays]} bytes of stack)" for delays, time in chosen["times"].items())
    return f"{row.name:<20} us by delays: {every}; best {chosen['best']}   error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "cases", CASES)
    parser.add_argument("--predict", action="store_true", help="predictions, registers and stack alone; takes no GPU")
    options = parser.parse_args()
    if options.predict:
        for case in options.cases or CASES:
            predicted(case)
        return
    options = parsed(parser)
    rows = (measure(case) for case in each(options.cases or CASES))
    table(rows, options.results / "plans/orchestrate_delays.jsonl", line, lambda row: "none", "no delay")


if __name__ == "__main__":
    main()
