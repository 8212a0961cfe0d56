"""`mimw.auto`: in place of `triton.jit`, a kernel that is orchestrated at its first launch, where that is proved and quicker.

Input: a Python function in `tl`. Output: a kernel, launched as one of `triton.jit`. For example:

    @mimw.auto
    def gemm(a, b, c, M, N, K, BM: tl.constexpr, ...): ...
    gemm[grid](a, b, c, M, N, K, BM=128, ...)
    gemm.why(grid, a, b, c, M, N, K, BM=128, ...)       what runs, and why

What plain Triton compiles runs: a refusal is never an error, and the plain kernel is launched. Each specialisation is looked at
once for grids that fill the GPU, and once for smaller ones. What was found is kept beside Triton's compiled kernels, so that
another process writes the kernel again and proves nothing. Launches that come again, with other addresses maybe, are frozen
(`repeated.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ...compiler.launch import extents_of
from ...compiler.orchestrate.plan import Plan
from ...compiler.pipeline import seen_by
from ...compiler.triton_port.runtime import compute_cache_key, driver, gpu_is_active, keep_text, kept_text
from ...errors import MimwError
from ...runtime.before_launch import checking
from ...runtime.jit import MimwFunction
from ...runtime.simulate import specialised
from ...runtime.simulating import simulating
from ...target import wanted
from .guards import key
from .orchestrating import orchestrate
from .plain import has_defaults, plain_of, with_defaults
from .repeated import Frozen, Repeated
from .written import Written, device_programs, written

NAME = "orchestrated.json"


@dataclass(frozen=True)
class Decision:
    """The kernel that runs for a specialisation, None for the plain one; and the reason."""

    written: Written | None
    because: str


class AutoFunction(MimwFunction):
    """A kernel that decides at its first launch. It is as its plain kernel in all else, so that autotuners take it."""

    def __init__(self, fn: Callable[..., Any], reassociate: bool = False, **options: Any):
        super().__init__(fn, **options)
        self.reassociate = reassociate
        self.plain = MimwFunction(fn, **options)        # with the same options: they say what a specialisation may take for granted
        self.decisions: dict[Any, Decision] = {}
        self.repeated: Repeated | None = None
        self.seen = seen_by(self)
        self.has_defaults = has_defaults(self)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **meta: Any) -> Any:
            return self.launched(grid, args, meta)
        return launch

    def run(self, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        if warmup:
            return super().run(*args, grid=grid, warmup=True, **meta)
        return self.launched(grid, args, meta)

    def launched(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Any:
        """A launch, by the kernel that is decided for it."""
        still = self.seen.still
        if still is not None and not still():
            self._look_again()
        whole = with_defaults(self, args, meta) if self.has_defaults else meta
        extents = self._extents(grid, args, whole) if callable(grid) else grid
        found = None
        if not simulating() and not checking():
            if self.repeated is None:
                self.repeated = Repeated(self)
            found = self.repeated.find(extents, args, whole) if extents.__class__ is tuple else None
            if found is not None and found.kept.__class__ is Frozen:
                for hook in self.pre_run_hooks:
                    hook(*args, **meta)
                return self.repeated.go(found)
        if found is None or not found.is_plain:
            decision = self.decision(extents, args, whole)
            one = decision.written
            why = one.why_plain(extents, args, whole) if one is not None else ""
            if found is not None:
                self.repeated.note(found, one, extents, args, whole, why)
            if one is not None and not why:
                for hook in self.pre_run_hooks:
                    hook(*args, **meta)
                return one.runs(extents, args, whole)()
        return MimwFunction.__getitem__(self, extents)(*args, **meta) if not simulating() else \
            super().run(*args, grid=extents, warmup=False, **meta)

    def why(self, grid: Any, /, *args: Any, **meta: Any) -> str:
        """A sentence on what a launch runs, and why."""
        whole = with_defaults(self, args, meta)
        extents = self._extents(grid, args, whole)
        decision = self.decision(extents, args, whole)
        if decision.written is None:
            return f"plain: {decision.because}"
        found = decision.written.why_plain(extents, args, whole)
        return f"plain: {found}" if found else f"orchestrated: {decision.because}"

    def decision(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Decision:
        """The decision for launches like this one, made now if there was none: of its specialisation, and of grids that fill the
        GPU or do not."""
        try:
            about = self._about(args, meta), self._fills(self._extents(grid, args, meta))
        except Exception as error:      # arguments of which there is no specialisation: the plain kernel says what is wrong
            return Decision(None, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        if about not in self.decisions:
            self.decisions[about] = self._decided(grid, args, meta)
        return self.decisions[about]

    # ---- deciding ------------------------------------------------------------------------------------------------------------

    def _extents(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Any:
        return extents_of(grid, dict(zip(self.arg_names, args)) | meta)

    def _fills(self, extents: Any) -> bool:
        """True if there are more programs than multiprocessors: such a launch may want another plan than a small one, or none."""
        return prod(map(int, extents)) > device_programs(wanted(None))

    def _look_again(self) -> None:
        """Something that the kernel names is another thing now. If it says something else, nothing that was decided holds."""
        before, self.seen = self.seen, seen_by(self)
        if (before.digest, before.native_key()) != (self.seen.digest, self.seen.native_key()) or self.seen.unknown:
            self.decisions.clear()
            if self.repeated is not None:
                self.repeated.forget()

    def _about(self, args: tuple, meta: dict[str, Any]) -> Any:
        """The key of a specialisation in this process."""
        if gpu_is_active():
            device = driver.active.get_current_device()
            _, keys, _, _, binder = self.device_caches[device]
            _, specialization, options = binder(*args, **meta)
            return device, compute_cache_key(keys, specialization, options)
        return self.seen.digest, key(specialised(self, args, dict(meta), wanted(None))[0])

    def _decided(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Decision:
        try:
            plain = plain_of(self.plain, grid, args, meta, reassociate=self.reassociate)
            kept = self._kept_under(plain, self._fills(plain.launch.grid))
            text = kept_text(kept, NAME)
            if text is not None:
                found = json.loads(text)
                one = written(plain, Plan(**found["plan"])) if found["plan"] else None
                return Decision(one if one is None or one.kernel is not None else None, found["because"])
            found = orchestrate(self.plain, grid, *args, reassociate=self.reassociate, **meta)
        except Exception as error:      # what plain Triton compiles runs: it says itself what is wrong with the kernel
            return Decision(None, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        plan = vars(found.plan) if found.is_used else None
        keep_text(kept, NAME, json.dumps({"plan": plan, "because": found.because}))
        return Decision(found.chosen.written if found.is_used else None, found.because)

    def _kept_under(self, plain: Any, fills: bool) -> str:
        import mimw
        about = (mimw.__version__, self.cache_key, key(plain.launch.specialisation), plain.chip.name, gpu_is_active(), fills,
                 self.reassociate)
        return hashlib.sha256(repr(about).encode()).hexdigest()


def auto(fn: Callable[..., Any] | None = None, *, reassociate: bool = False, **options: Any) -> Any:
    """Decorate a kernel so that it is orchestrated at its first launch, where that is proved and quicker.

    args:      fn        a kernel in `tl`, as for `triton.jit`
               reassociate   allow other bits than the plain kernel's, as for `mimw.orchestrate`
               options   those of `triton.jit`
    returns:   AutoFunction, launched as a kernel of `triton.jit`; under `triton.autotune` each configuration decides for itself
    errors:    MimwError for a function that is no kernel's
    """
    if fn is None:
        return lambda function: auto(function, reassociate=reassociate, **options)
    if not callable(fn):
        raise MimwError(f"mimw.auto decorates a function, not {fn!r}")
    return AutoFunction(getattr(fn, "fn", fn), reassociate, **options)
