"""One program as it is compiled: its TTGIR behind all passes, read back, simulated and checked beside the recorded program.

Input: a `Program`, its kernel, the arrays that it leaves by numpy. Output: an `Outcome` of the stage "ttgir":

    judged(program, kernel, want)       Outcome("ttgir", "mismatch", "compiled, seed 1: y0: 3 of 128 elements ...")

No binary is made. Arrays are held against numpy, and to the last bit against the recorded program's. A program with an op
that the reader refuses is `unread OP`: it is counted by that op, and neither right nor wrong.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from mimw.ir import Scalar

from .launch import Outcome, arrays_of, bound, compared, launch_meta
from .tree import Program

_SIMULATED_SEEDS, _CHECKED_SEEDS = 2, 3
STAGE = "ttgir"


def judged(program: Program, kernel, want: dict) -> Outcome:
    """What came of the program as it is compiled."""
    import mimw
    from mimw.simulator import run
    from mimw.target import asking, wanted

    descriptor = mimw.TensorDescriptor.from_tensor
    recorded = arrays_of(program)
    mimw.simulate(kernel, program.launched, *bound(program, recorded, descriptor), seed=0, target=program.chip,
                  **launch_meta(program))
    arrays = arrays_of(program)
    launch, refused = _launch(program, kernel, arrays)
    if refused is not None:
        return refused
    blank = {name: array.copy() for name, array in arrays.items()}
    for seed in range(_SIMULATED_SEEDS):
        for name, array in arrays.items():
            array[...] = blank[name]
        with asking(wanted(program.chip)):
            run(launch.program, launch.grid, launch.values, seed=seed)
        wrong = compared(program, arrays, want, STAGE, f"compiled, seed {seed}")
        # Triton makes of x / 3.0 a product with the number 1 / 3.0: another last bit.
        if not any(isinstance(op.lhs.type, Scalar) for op in launch.program.named("approx_divf")):
            wrong = wrong or _other_bits(program, arrays, recorded, seed)
        if wrong:
            return wrong
    for name, array in arrays.items():
        array[...] = blank[name]
    return _checked(program, launch)


def _launch(program: Program, kernel, arrays: dict):
    """The launch of what was compiled, and None; or None, and the outcome of a program that is not read."""
    import mimw
    from mimw.compiler.ttgir.reading import Unreadable
    from mimw.errors import NotYet
    from mimw.runtime.ttgir import compiled_launch

    values = bound(program, arrays, mimw.TensorDescriptor.from_tensor)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            launch, _ = compiled_launch(kernel, program.launched, values, launch_meta(program), program.chip)
    except NotYet as error:
        if not isinstance(error.__context__, Unreadable):
            raise
        return None, Outcome(STAGE, f"unread {error.__context__.node.name}", str(error)[-900:])
    return launch, None


def _other_bits(program: Program, arrays: dict, recorded: dict, seed: int) -> Outcome | None:
    """A mismatch where an output is not the recorded program's to the last bit, but that a NaN is a NaN."""
    for one in program.arguments:
        if not one.output:
            continue
        got, had = arrays[one.name], recorded[one.name]
        both = (got != got) & (had != had)
        bits = f"u{got.dtype.itemsize}"
        if got.dtype == bool:
            bits = "u1"
        differ = (got.view(bits) != had.view(bits)) & ~both
        if np.any(differ):
            place = tuple(int(index) for index in np.argwhere(differ)[0])
            return Outcome(STAGE, "mismatch", f"compiled, seed {seed}: {one.name}: {int(differ.sum())} of {differ.size} elements, "
                           f"first at {place}: {got[place]} for the recorded program's {had[place]}")
    return None


def _checked(program: Program, launch) -> Outcome:
    """What `mimw.check_compiled` says of it."""
    from mimw.target import asking, wanted
    from mimw.tools.check import LIMIT
    from mimw.tools.search import Search
    from mimw.tools.search.sample import chosen

    with asking(wanted(program.chip)):
        search = Search(launch, None, 1, None, time.monotonic(), chosen("all", launch), False, ())
        report = search.all(_CHECKED_SEEDS, "random", LIMIT, False, True)
    if report.ok:
        return Outcome(STAGE, "ok")
    return Outcome(STAGE, f"alarm {report.findings[0].kind}", str(report.findings[0])[:900])
