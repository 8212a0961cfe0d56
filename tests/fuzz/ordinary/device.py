"""An ordinary program on a GPU: by stock Triton, and orchestrated under some plans, on the same numbers as on the simulator.

    judged_there(7)         Judged([("gpu", "stays plain", "no loop .."), ("gpu", "ok", ""), ("gpu", "ok", "")], plans=1, ..)

Input: a seed, or a record of draws. Output: plain data, as of `judge`. Most programs are `whole`: their numbers are integers, so
that all sums are exact (`exact.py` looks at each), and the GPU's plain kernel, the orchestrated ones and the simulator are
compared to the last bit; zeros of either sign are one. Each `SMOOTH`th program, and each that rounds, has its exponents and random
fractions, and is compared by the norm of what differs. Arrays lie between bytes that nobody may write (`room.py`). Without a GPU,
under MIMW_SIMULATE=1, the same launches are simulated.

What costs is to compile: a program of which no plan hands anything over is drawn anew before anything is compiled, and where all
sums are exact, stock Triton compiles each `STOCK`th program alone, since the simulator's numbers are its numbers. A kernel that
never ends is ended by the worker's limit, with its process (`tests.fuzz.workers`).
"""

from __future__ import annotations

import random
import re
import traceback
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from mimw.compiler.triton_port.codegen import CompilationError
from mimw.compiler.triton_port.runtime import gpu_is_active
from mimw.errors import IllegalCopy, LaunchError, MimwError
from mimw.simulator import Hooks, run
from mimw.tools.orchestrate.choose import every_plan
from mimw.tools.orchestrate.plain import Plain, plain_of
from mimw.tools.orchestrate.several import several
from mimw.tools.orchestrate.written import Written, written

from ..launch import differs
from .draw import Ordinary, drawn
from .exact import Watch
from .judge import CHIP, DEPTHS, MANY, Judged, _refused, _said, kernel_of, loops_with_products
from .room import Room, bases

SMOOTH = 5              # of so many programs one has fractions
STOCK = 2               # of so many programs whose sums are exact one is compiled by Triton, too, and each where something differs
PLANS, TRIED = (1, 2, 1), 5     # plans that are launched, each compiled once, by turns; plans that are written for that
DRAWN, APART = 8, 1_000_003     # programs that are drawn until one has such a plan; between their seeds
LAUNCHES = 2            # of each plan
CLOSE = 0.02            # what may differ of a program that rounds, against what there is
FLOOR = 1e-3            # root of the mean square that counts as nothing


@dataclass
class Case:
    """A program, some plans of it, and the plain results for the sizes drawn and for one trip fewer: (sizes, arrays)."""

    program: Ordinary
    plain: Plain
    plans: list[Written]
    wanted: list[tuple[dict[str, int], list[np.ndarray]]]
    exact: bool

    @property
    def meta(self) -> dict[str, int]:
        return {**self.program.constants, "num_warps": self.program.warps}

    def far(self, got: list[np.ndarray], want: list[np.ndarray]) -> str:
        """What differs, in a few words; "" if nothing does."""
        for at, (one, other) in enumerate(zip(got, want, strict=True)):
            if what := differs(one, other, 0) if self.exact else apart(one, other):
                return f"array {at}: {what}"
        return ""


def judged_there(seed: int, record=None) -> Judged:
    """The outcomes of a seed's program on the GPU."""
    found, began = Judged(), perf_counter()
    try:
        case = case_of(seed, record, found)
    except Exception:
        found.outcomes.append(("generate", "broken", traceback.format_exc()[-1500:]))
        return found
    if case is None:
        return found
    found.seconds["until compiled"] = perf_counter() - began
    lines, done = loops_with_products(case.plain.program), set()
    ours: list[Written | None] = [*case.plans]
    for one in ours if case.exact and seed % STOCK else [None, *ours]:
        about = case.program.source if one is None else f"{one.plan.text()}\n{one.text}\n{case.program.source}"
        kind, detail = _outcome(case, one, random.Random(seed), found.seconds)
        found.outcomes.append(("gpu", kind, detail and f"{detail}\n{about}"))
        if kind == "mismatch" and case.exact and seed % STOCK:
            found.outcomes.append(("gpu", *_outcome(case, None, random.Random(seed), found.seconds)))
        if kind == "no plain" or kind.startswith("internal"):       # the device may be lost, and all that follows with it
            break
        if one is not None:
            found.plans += 1
            done |= {load.site.line for load in one.made.rings.loads}
    found.loops, found.orchestrated = len(lines), sum(not inside.isdisjoint(done) for inside in lines.values())
    return found


# ---- the program, and what it computes ---------------------------------------------------------------------------------------


def case_of(seed: int, record=None, found: Judged | None = None) -> Case | None:
    """The first program from that of a seed on of which some plan hands something over, with the simulator's results: with whole
    numbers, if no sum of it rounds then. None if there is none; `found` has what was said of plans and programs."""
    found = found or Judged()
    for at in range(1 if record is not None else DRAWN):
        one, whole = seed + at * APART, bool(seed % SMOOTH)
        try:
            case = _planned(drawn(one, record, whole)[0], found)
            if case.plans and whole and not _simulated(case):
                case = _planned(drawn(one, record)[0], Judged())
            if case.plans:
                if not case.wanted:
                    _simulated(case)
                return case
        except (LaunchError, IllegalCopy) as error:
            if isinstance(error, IllegalCopy) and "has extent 0" not in str(error):
                raise
            found.outcomes.append(("gpu", "skipped", str(error)))       # a tensor of no elements has no descriptor
    return None


def _planned(program: Ordinary, found: Judged) -> Case:
    """A program with some plans that hand something over, drawn by its seed; of the others `found` has what was said."""
    kernel, meta = kernel_of(program.source, f"on_gpu_{program.seed}"), {**program.constants, "num_warps": program.warps}
    plain, turn = plain_of(kernel, program.grid, tuple(program.arguments()), meta, CHIP), random.Random(program.seed)
    every, made = [*every_plan(plain), *several(plain.program, plain.chip, MANY)], {}
    for plan in turn.sample(every, min(TRIED, len(every))):
        one = written(plain, replace(plan, stages=turn.choices(DEPTHS, (2, 4, 3, 0.5))[0]))
        kind, detail = _said(one)
        if kind == "ok":
            made.setdefault(one.text, one)
        else:
            found.outcomes.append(("gpu", kind, f"{detail}\n{plan.text()}\n{program.source}"))
        if len(made) == PLANS[program.seed % len(PLANS)]:
            break
    return Case(program, plain, list(made.values()), [], False)


def _simulated(case: Case) -> bool:
    """Simulate the plain kernel, for what is wanted; gives whether no sum rounds. Of a program with whole numbers that rounds, not
    all of it."""
    program, exact = case.program, case.program.whole
    fewer = program.sizes["K"] - program.constants["C"]
    for sizes in [{}, {"K": fewer}] if fewer >= 0 else [{}]:
        args = program.arguments(**sizes)
        launch = plain_of(case.plain.kernel, program.grid, tuple(args), case.meta, CHIP).launch
        watch = Watch(fp8=any(array.element == "fp8e4nv" for array in program.arrays))
        run(launch.program, launch.grid, launch.values, hooks=Hooks(observer=watch) if program.whole else None)
        exact = exact and not watch.rounds
        case.wanted.append((sizes, list(bases(args).values())))
        if program.whole and not exact:
            break
    case.exact = exact
    return exact


def apart(got: np.ndarray, want: np.ndarray) -> str:
    """What differs between results of sums in different orders; "" if no more than rounding does."""
    if got.dtype.kind in "iub":
        return differs(got, want, 0)
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if what := differs(np.where(finite, 0, got), np.where(finite, 0, want), 0):
        return what
    far = np.linalg.norm((got - want)[finite])
    near = max(np.linalg.norm(want[finite]), FLOOR * want.size ** 0.5)
    return "" if far <= CLOSE * near else f"differs by {far / near:.3g} of its norm"


# ---- launches ----------------------------------------------------------------------------------------------------------------


def _outcome(case: Case, one: Written | None, turn: random.Random, seconds: dict[str, float]) -> tuple[str, str]:
    """(kind, detail) of the launches of the plain kernel, or of an orchestrated one: some with the sizes drawn, one with a trip
    fewer. `seconds` are added to."""
    room, began = Room(), perf_counter()
    launches = [(sizes, room.place(case.program.arguments(**sizes)), want)
                for sizes, want in (case.wanted if one is None else case.wanted[:1] * LAUNCHES + case.wanted[1:])]
    room.send()
    try:
        ran = []
        launch = _by_triton(case) if one is None else _by_mimw(case, one, turn)
        for sizes, placed, want in launches:
            if launch(room, placed):
                ran.append((sizes, placed, want))
        _add(seconds, "compile and launch", began)
        began = perf_counter()
        room.fetch()
        _add(seconds, "wait", began)
        if not room.is_whole():
            return "out of its arrays", ""
        for at, (sizes, placed, want) in enumerate(ran):
            got = room.read(placed)
            if what := case.far(got, want):
                return ("plain differs" if one is None else "mismatch"), f"{sizes or 'as drawn'}: {what}"
            if one is None:
                case.wanted[at] = sizes, got        # from now on the GPU's own
    except (MimwError, CompilationError) as error:
        return (_refused(one, str(error)) if one is not None else "no plain"), str(error)
    except Exception as error:
        if one is None and type(error).__name__ == "OutOfResources":
            return "no plain", str(error)
        return f"internal {type(error).__name__}", f"{error}\n{traceback.format_exc()[-900:]}"
    return ("ok" if ran else "guarded"), ""


def _add(seconds: dict[str, float], name: str, began: float) -> None:
    seconds[name] = seconds.get(name, 0.0) + perf_counter() - began


def _by_triton(case: Case) -> Any:
    """A function that launches the plain kernel; on a GPU as stock Triton compiles it, without stages that a loop asks for: with
    these it loads what a trip updates before the trip in front has stored it."""
    from triton.tools.tensor_descriptor import TensorDescriptor as Described

    import mimw
    source, describe = case.program.source, mimw.TensorDescriptor
    if gpu_is_active():
        _give_scratch()
        source, describe = source.replace("@mimw.jit", "@triton.jit").replace("import mimw", "import triton"), Described
        source = re.sub(r", num_stages=\d+\):", "):", source)
    kernel = kernel_of(source, f"by_triton_{case.program.seed}")[case.program.grid]

    def launch(room: Room, placed: Any) -> bool:
        kernel(*room.given(placed, describe), **case.meta)
        return True
    return launch


def _give_scratch() -> None:
    """Memory for descriptors that kernels make, which Triton asks of its user."""
    import torch
    import triton
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))


def _by_mimw(case: Case, one: Written, turn: random.Random) -> Any:
    """A function that launches an orchestrated kernel, if it may; programs that take tiles in turn are few, so that they have
    several."""
    import mimw
    grid = case.program.grid
    if gpu_is_active():
        _give_scratch()
    kernel = one.kernel[one.programs(grid, turn.choice([1, 2, None]))]

    def launch(room: Room, placed: Any) -> bool:
        args = tuple(room.given(placed, mimw.TensorDescriptor))
        if one.why_plain(grid, args, case.meta):
            return False
        kernel(*one.module.arguments(grid, *one.given(args, case.meta)), **one.options)
        return True
    return launch
