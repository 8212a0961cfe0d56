"""An ordinary program on a GPU: by stock Triton, and orchestrated under some plans, on the same numbers as on the simulator.

    judged_there(7)         Judged([("gpu", "ok", ""), ("gpu", "stays plain", "no loop .."), ("gpu", "ok", "")], plans=2, ..)

Input: a seed, or a record of draws. Output: plain data, as of `judge`. Most programs are `whole`: their numbers are integers, so
that all sums are exact (`exact.py` looks at each), and the GPU's plain kernel, the orchestrated ones and the simulator are
compared to the last bit; zeros of either sign are one. Each `SMOOTH`th program, and each that rounds, has its exponents and random
fractions, and is compared by the norm of what differs. Arrays lie between bytes of 255, which are NaN to whoever reads them, and
which nobody may write. Without a GPU, under MIMW_SIMULATE=1, the same launches are simulated.

A kernel that never ends is ended by the worker's limit, with its process (`tests.fuzz.workers`).
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mimw.compiler.triton_port.codegen import CompilationError
from mimw.compiler.triton_port.runtime import gpu_is_active
from mimw.errors import LaunchError, MimwError
from mimw.simulator import Hooks, run
from mimw.tools.orchestrate.choose import plans
from mimw.tools.orchestrate.plain import Plain, plain_of
from mimw.tools.orchestrate.several import several
from mimw.tools.orchestrate.written import Written, written

from ..launch import differs
from .draw import Ordinary, drawn
from .exact import Watch
from .judge import CHIP, DEPTHS, MANY, Judged, _refused, _said, kernel_of, loops_with_products

SMOOTH = 5              # of so many programs one has fractions
PLANS, TRIED = 2, 5     # plans that are launched, each compiled once; plans that are written for that
LAUNCHES = 2            # of each plan
PAD = 4096              # bytes on both sides of an array
CLOSE = 0.02            # what may differ of a program that rounds, against what there is
FLOOR = 1e-3            # root of the mean square that counts as nothing


@dataclass(frozen=True)
class Case:
    """A program whose plain results are known: with the sizes drawn, and with one trip fewer. `wanted` has (sizes, arrays)."""

    program: Ordinary
    plain: Plain
    wanted: list[tuple[dict[str, int], list[np.ndarray]]]
    exact: bool

    @property
    def meta(self) -> dict[str, int]:
        return {**self.program.constants, "num_warps": self.program.warps}

    def far(self, got: list[np.ndarray], want: list[np.ndarray]) -> str:
        """What differs, in a few words; "" if nothing does."""
        for at, (one, other) in enumerate(zip(got, want, strict=True)):
            if what := differs(one, other, 0) if self.exact else apart(one, other):
                return f"{self.program.arrays[at].name if at < len(self.program.arrays) else f'array {at}'}: {what}"
        return ""


def judged_there(seed: int, record=None) -> Judged:
    """The outcomes of a seed's program on the GPU."""
    found = Judged()
    try:
        case = case_of(seed, record)
    except LaunchError as error:        # a tensor of no elements has no descriptor
        found.outcomes.append(("gpu", "skipped", str(error)))
        return found
    except Exception:
        found.outcomes.append(("generate", "broken", traceback.format_exc()[-1500:]))
        return found
    lines = loops_with_products(case.plain.program)
    done: set[int] = set()
    ours = _written(case, random.Random(seed), found)
    for name, launches in [("plain", _plain_launches(case)), *((one, _launches(case, one, seed)) for one in ours)]:
        about = case.program.source if name == "plain" else f"{name.plan.text()}\n{name.text}\n{case.program.source}"
        kind, detail = _outcome(case, launches, None if name == "plain" else name)
        found.outcomes.append(("gpu", kind, detail and f"{detail}\n{about}"))
        if name != "plain":
            found.plans += 1
            done |= {load.site.line for load in name.made.rings.loads}
        elif kind == "no plain":
            break
        if kind.startswith("internal"):     # the device may be lost, and all that follows with it
            break
    found.loops, found.orchestrated = len(lines), sum(not inside.isdisjoint(done) for inside in lines.values())
    return found


# ---- the program, and what it computes ---------------------------------------------------------------------------------------


def case_of(seed: int, record=None) -> Case:
    """The program of a seed with the simulator's results: with whole numbers, if no sum of it rounds then."""
    if seed % SMOOTH:
        case = _case(drawn(seed, record, whole=True)[0])
        if case.exact:
            return case
    return replace(_case(drawn(seed, record)[0]), exact=False)


def _case(program: Ordinary) -> Case:
    kernel, meta = kernel_of(program.source, f"on_gpu_{program.seed}"), {**program.constants, "num_warps": program.warps}
    fewer = program.sizes["K"] - program.constants["C"]
    first, wanted, exact = None, [], True
    for sizes in [{}, {"K": fewer}] if fewer >= 0 else [{}]:
        args = program.arguments(**sizes)
        plain = plain_of(kernel, program.grid, tuple(args), meta, CHIP)
        watch = Watch(fp8=any(array.element == "fp8e4nv" for array in program.arrays))
        hooks = Hooks(observer=watch) if program.whole else None
        run(plain.launch.program, plain.launch.grid, plain.launch.values, hooks=hooks)
        first, exact = first or plain_of(kernel, program.grid, tuple(program.arguments()), meta, CHIP), exact and not watch.rounds
        wanted.append((sizes, list(bases(args).values())))
        if not exact:
            break
    return Case(program, first, wanted, exact)


def bases(args: list[Any]) -> dict[int, np.ndarray]:
    """The arrays among arguments, each once, by address."""
    arrays = (value.base.array if hasattr(value, "block_shape") else value for value in args)
    return {array.ctypes.data: array for array in arrays if isinstance(array, np.ndarray)}


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


@dataclass
class Guarded:
    """An array between two pads."""

    raw: Any
    like: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> Guarded:
        torch, data = _torch(), np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        room = np.full(len(data) + 2 * PAD, 255, np.uint8)
        room[PAD:-PAD] = data
        return cls(torch.from_numpy(room).to("cuda" if gpu_is_active() else "cpu"), array)

    @property
    def tensor(self) -> Any:
        name = self.like.dtype.name
        return self.raw[PAD:-PAD].view(getattr(_torch(), name)).view(self.like.shape)

    def read(self) -> tuple[np.ndarray, bool]:
        """(the array now, whether its pads are as they were)."""
        room = self.raw.cpu().numpy()
        whole = bool((room[:PAD] == 255).all() and (room[-PAD:] == 255).all())
        return room[PAD:-PAD].view(self.like.dtype).reshape(self.like.shape), whole


def _torch() -> Any:
    import torch
    return torch


def given(args: list[Any], describe: Any) -> tuple[list[Any], list[Guarded]]:
    """Arguments on the device, in arrays of their own with pads, and these arrays in the order of `bases`."""
    made = {address: Guarded.of(array) for address, array in bases(args).items()}
    there = []
    for value in args:
        if hasattr(value, "block_shape"):
            base = made[value.base.array.ctypes.data].tensor
            there.append(describe(base, list(value.shape), list(value.strides), list(value.block_shape)))
        else:
            there.append(made[value.ctypes.data].tensor if isinstance(value, np.ndarray) else value)
    return there, list(made.values())


def _plain_launches(case: Case) -> Iterator[tuple[str, list[np.ndarray], list[np.ndarray], bool]]:
    """The plain kernel by stock Triton, once for each of the sizes: (label, results, expected, pads)."""
    from triton.tools.tensor_descriptor import TensorDescriptor as Described

    import mimw
    source, describe = case.program.source, mimw.TensorDescriptor
    if gpu_is_active():
        torch, triton = _torch(), __import__("triton")
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        source, describe = source.replace("@mimw.jit", "@triton.jit").replace("import mimw", "import triton"), Described
    kernel = kernel_of(source, f"by_triton_{case.program.seed}")
    for sizes, want in case.wanted:
        args, arrays = given(case.program.arguments(**sizes), describe)
        kernel[case.program.grid](*args, **case.meta)
        yield (f"plain against the simulator, {sizes or 'as drawn'}", *_read(arrays), want)


def _launches(case: Case, one: Written, seed: int) -> Iterator[tuple[str, list[np.ndarray], bool, list[np.ndarray]]]:
    """The orchestrated kernel, some times with the sizes drawn, once with a trip fewer. Programs that take tiles in turn are few,
    so that they have several."""
    import mimw
    most = random.Random(seed).choice([1, 2, None])
    grid = case.program.grid
    for sizes, want in case.wanted[:1] * LAUNCHES + case.wanted[1:]:
        args, arrays = given(case.program.arguments(**sizes), mimw.TensorDescriptor)
        if one.why_plain(grid, tuple(args), case.meta):
            continue
        kernel = one.kernel[one.programs(grid, most)]
        kernel(*one.module.arguments(grid, *one.given(tuple(args), case.meta)), num_warps=one.num_warps)
        yield (f"{sizes or 'as drawn'}", *_read(arrays), want)


def _read(arrays: list[Guarded]) -> tuple[list[np.ndarray], bool]:
    found = [one.read() for one in arrays]
    return [array for array, _ in found], all(whole for _, whole in found)


# ---- what came of it ---------------------------------------------------------------------------------------------------------


def _written(case: Case, turn: random.Random, found: Judged) -> list[Written]:
    """Some plans that hand something over, drawn; of the others `found` has what was said."""
    every = [*plans(case.plain.program), *several(case.plain.program, case.plain.chip, MANY)]
    made: dict[str, Written] = {}
    for plan in turn.sample(every, min(TRIED, len(every))):
        if len(made) == PLANS:
            break
        one = written(case.plain, replace(plan, stages=turn.choices(DEPTHS, (2, 4, 3, 0.5))[0]))
        kind, detail = _said(one)
        if kind == "ok":
            made.setdefault(one.text, one)
        else:
            found.outcomes.append(("gpu", kind, f"{detail}\n{plan.text()}\n{case.program.source}"))
    return list(made.values())


def _outcome(case: Case, launches: Iterator, one: Written | None) -> tuple[str, str]:
    """(kind, detail) of some launches of the plain kernel, or of an orchestrated one."""
    ran = 0
    try:
        for label, got, pads, want in launches:
            ran += 1
            if not pads:
                return "out of its arrays", label
            if what := case.far(got, want):
                return ("plain differs" if one is None else "mismatch"), f"{label}: {what}"
            if one is None:
                case.wanted[ran - 1] = case.wanted[ran - 1][0], got      # from now on the GPU's own
    except (MimwError, CompilationError) as error:
        return (_refused(one, str(error)) if one is not None else "no plain"), str(error)
    except Exception as error:
        if one is None and type(error).__name__ == "OutOfResources":
            return "no plain", str(error)
        return f"internal {type(error).__name__}", f"{error}\n{traceback.format_exc()[-900:]}"
    return ("ok" if ran else "guarded"), ""
