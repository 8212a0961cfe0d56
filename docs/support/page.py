"""A page of docs/ that says what works where: its rows made from probes, written or compared.

    answer(lambda: compile_kernel(kernel, ...), "local_load", "sm_90a")        "yes", "-" or "NotYet"
    write_or_check(HERE / "tlx.md", table, sys.argv[1:])                        `--check`: 1 if the page is stale

Input: what compiles or simulates a probe; a function that gives the page's text. Output: a cell of a table; the page, or an exit
status. tlx.py and tle.py know the words of their page and nothing else.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import triton

import mimw
from mimw.errors import NotYet, TargetError
from mimw.runtime.compile_kernel import compile_kernel
from mimw.target import target as chip

PAGES = Path(__file__).parent.parent
SIMULATED = ("sm_90a", "sm_100a", "gfx950", "gfx1250")
YES, NO, LATER = "yes", "-", "NotYet"
_OF_FOUR = ("async_task", "warp_specialize", "alloc_warp_barrier")
_OTHER_CHIP = ("only available on", "is not available on", "needs sm_", "TDM-capable", "on Blackwell `acc` is a buffer")


def works(name: str, kernel, signature: dict[str, str], target: str, **options) -> str:
    """What compiling the probe for a chip says, with as many warps as 128 threads are, the 4 that a probe of tasks or of their
    barriers has, or as it asks for; where there is no compiler, what simulating it by the chip's rules says."""
    if not chip(target).binary:
        return answer(lambda: mimw.simulate(kernel, (1, ), *_arguments(kernel), target=target, **options), name, target)
    options.setdefault("num_warps", 4 if any(word in kernel.src for word in _OF_FOUR) else 128 // chip(target).warp_size)
    return answer(lambda: compile_kernel(kernel, signature, target=target, options=options), name, target)


def simulates(name: str, kernel, grid: tuple, **options) -> str:
    """What a simulated launch of the probe says, as a Hopper or, where that has no such word, as a Blackwell or an AMD chip; its
    parameters say by their names which arguments they take."""
    found = (answer(lambda: mimw.simulate(kernel, grid, *_arguments(kernel), target=target, **options), name, "the simulator")
             for target in SIMULATED)
    return next((cell for cell in found if cell != NO), NO)


def _arguments(kernel) -> list:
    """What the probe is launched with, by the names of its parameters."""
    made = {"x": np.zeros(4096, np.float32), "y": np.zeros(4096, np.float32), "h": np.zeros(4096, np.float16), "n": 64,
            "i": np.zeros(4096, np.int32), "d": mimw.TensorDescriptor.from_tensor(np.zeros((64, 64), np.float16), [64, 64]),
            "w": mimw.World(1, multicast=True)}
    return [made[parameter] for parameter in kernel.arg_names if parameter in made]


def answer(attempt: Callable, name: str, where: str) -> str:
    """What an attempt says; an error that is no refusal is a mistake of the probe, and goes up."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # dump_layout
            attempt()
    except Exception as error:
        causes = list(_causes(error))
        if any(isinstance(cause, NotYet) for cause in causes):
            return LATER
        if any(isinstance(cause, (TargetError, NotImplementedError)) or any(text in str(cause) for text in _OTHER_CHIP)
               for cause in causes):
            return NO
        raise RuntimeError(f"the probe {name} failed on {where}, and not because the chip lacks the word") from error
    return YES


def _causes(error: BaseException | None):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def write_or_check(page: Path, table: Callable[[], str], program: str, arguments: list[str]) -> int:
    """Write the page, or say whether it is stale; the exit status."""
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        os.environ["MIMW_SIMULATE"] = "1"
        text = table()
    if arguments == ["--check"]:
        stale = not page.exists() or page.read_text() != text
        print(f"docs/{page.name} is stale: run python docs/support/{program}" if stale else f"docs/{page.name} is up to date")
        return int(stale)
    page.write_text(text)
    return 0
