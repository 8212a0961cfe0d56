"""Host time of a call of an operator: those of `mimw.ops` beside torch's own, at sizes at which the GPU has next to nothing to do.

    python -m benchmarks.ops_overhead [--rounds 40] [--results DIR]

Needs torch. On a GPU each round times one block of calls of every candidate in turn, without waiting for the device inside a block;
results are checked. The lowest of the rounds is told: whatever else the host does only adds. Without a GPU the tensors are the
CPU's and our launches are left out: what is left is dispatch, plans and results to allocate, beside all of torch's CPU operator.
Candidates:

    torch           torch's operator
    mimw            the function of `mimw.ops`
    mimw, operator  `torch.ops.mimw`, which is what a compiled graph calls
    mimw, gradient  the function, with an operand that requires a gradient
    mimw, logged    the function, while MIMW_LOG's logger is on and writes to nowhere; its line came with the first call

The goal on a GPU is "mimw" at most 5 us above "torch". The cost of the log and of `ops.explain` while they are off is counted, so
it is the same on any machine: "questions" are a call's calls of log.py, notes.py and explain.py ("log"), and of `asked`, by which
a call knows that it is to be explained ("explain"). Of a GPU's tensors both are 0; each tensor of the CPU asks once, in the plan's
key.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .driver import command, in_turn, keep_row, some_of
from .gpu import torch
from .progress import each

CALLS = 300
CASES = ("matmul", "attention", "topk")


def candidates(case: str, device: str) -> dict[str, Callable]:
    """Name -> a call without arguments."""
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    from mimw import ops
    if case == "matmul":
        a, b = (torch.randn(16, 16, device=device, dtype=torch.bfloat16) for _ in range(2))
        args, theirs, ours = (a, b), torch.mm, ops.matmul
    elif case == "attention":
        args = tuple(torch.randn(1, 1, 16, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
        theirs, ours = sdpa, ops.attention
    else:
        args, theirs, ours = (torch.randn(8, 64, device=device), 8), torch.topk, ops.topk
    operator, graded = getattr(torch.ops.mimw, case).default, args[0].clone().requires_grad_()
    return {"torch": partial(theirs, *args), "mimw": partial(ours, *args), "mimw, operator": partial(operator, *args),
            "mimw, gradient": partial(ours, graded, *args[1:]), "mimw, logged": partial(ours, *args)}


def check(calls: dict[str, Callable]) -> None:
    """Ours give what torch gives."""
    first = [call()[0] if isinstance(call(), tuple) else call() for call in calls.values()]
    for one in first[1:]:
        torch.testing.assert_close(one.float(), first[0].float(), rtol=2e-2, atol=2e-2)


def questions(call: Callable) -> dict[str, int]:
    """How often a call whose plan is there asks whether it is to be logged, and whether to be explained."""
    from mimw.ops import chips, log
    counted, room = {"log": 0, "explain": 0}, Path(log.__file__).parent
    asking = {str(room / name) for name in ("log.py", "notes.py", "explain.py")}

    def note(frame, event, what):
        if event == "call" and frame.f_code.co_filename in asking:
            counted["log"] += 1
        elif event == "c_call" and what == chips.asked:
            counted["explain"] += 1

    call()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return counted


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Inside, the logger is on, and writes to nowhere."""
    from mimw.ops.log import LOGGER
    before, handler = (LOGGER.level, LOGGER.propagate), logging.NullHandler()
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before[0])
        LOGGER.propagate = before[1]


def block_of(name: str, call: Callable, device: str) -> float:
    """`block` of a candidate, logged if that is its name."""
    with logged() if name.endswith("logged") else contextlib.nullcontext():
        return block(call, device)


def block(call: Callable, device: str) -> float:
    """Microseconds a call on the host."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    seconds = time.perf_counter() - start
    wait()
    return 1e6 * seconds / CALLS


def without_launches() -> None:
    """From now on in this process our launches are left out."""
    from mimw.ops.launching import Launch
    Launch.__call__ = lambda self, *tensors: None


def main() -> None:
    parser = command(__doc__, rounds=40)
    some_of(parser, "cases", CASES)
    options = parser.parse_args()
    if torch is None:
        parser.error("needs torch")
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        without_launches()
    for case in each(options.cases or CASES):
        calls = candidates(case, device)
        if device == "cuda":
            check(calls)
        times = in_turn({name: partial(block_of, name, call, device) for name, call in calls.items()}, options.rounds)
        lowest = {name: round(min(found), 2) for name, found in times.items()}
        keep_row(dict(name="ops_overhead", case=case, calls=CALLS, rounds=options.rounds, microseconds=lowest,
                      above_torch=round(lowest["mimw"] - lowest["torch"], 2), questions=questions(calls["mimw"]),
                      torch=torch.__version__,
                      chip=torch.cuda.get_device_name() if device == "cuda" else "none: launches left out"),
                 options.results / "ops_overhead.jsonl")


if __name__ == "__main__":
    main()
