"""`mimw.auto`: in place of `triton.jit`, a kernel that is orchestrated at its first launch, where that is proved and quicker.

Input: a Python function in `tl`. Output: a kernel, launched as one of `triton.jit`. For example:

    @mimw.auto
    def gemm(a, b, c, M, N, K, BM: tl.constexpr, ...): ...
    gemm[grid](a, b, c, M, N, K, BM=128, ...)
    gemm.why(grid, a, b, c, M, N, K, BM=128, ...)       what runs, and why

What plain Triton compiles runs: a refusal is never an error, and the plain kernel is launched. Each specialisation is looked at
once, and what was found is kept beside Triton's compiled kernels, so that another process writes the kernel again and proves
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...compiler.launch import extents_of
from ...compiler.orchestrate.plan import Plan
from ...compiler.triton_port.runtime import driver, gpu_is_active, keep_text, kept_text
from ...errors import MimwError
from ...runtime.jit import MimwFunction
from ...runtime.simulate import specialised
from ...target import wanted
from .guards import key
from .orchestrating import orchestrate
from .plain import plain_of
from .written import Written, written

NAME = "orchestrated.json"


@dataclass(frozen=True)
class Decision:
    """The kernel that runs for a specialisation, None for the plain one; and the reason."""

    written: Written | None
    because: str


class AutoFunction(MimwFunction):
    """A kernel that decides at its first launch. It is as its plain kernel in all else, so that autotuners take it."""

    def __init__(self, fn: Callable[..., Any], **options: Any):
        super().__init__(fn, **options)
        self.plain = MimwFunction(fn, **options)        # with the same options: they say what a specialisation may take for granted
        self.decisions: dict[Any, Decision] = {}

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **meta: Any) -> Any:
            return self.run(*args, grid=grid, warmup=False, **meta)
        return launch

    def run(self, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        if not warmup:
            decision = self.decision(grid, args, meta)
            extents = extents_of(grid, dict(zip(self.arg_names, args)) | meta)
            if decision.written is not None and not decision.written.why_plain(extents, args, meta):
                return decision.written.runs(extents, args, meta)()
        return super().run(*args, grid=grid, warmup=warmup, **meta)

    def why(self, grid: Any, /, *args: Any, **meta: Any) -> str:
        """A sentence on what a launch runs, and why."""
        decision = self.decision(grid, args, meta)
        if decision.written is None:
            return f"plain: {decision.because}"
        found = decision.written.why_plain(extents_of(grid, dict(zip(self.arg_names, args)) | meta), args, meta)
        return f"plain: {found}" if found else f"orchestrated: {decision.because}"

    def decision(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Decision:
        """The decision for launches like this one, made now if there was none."""
        try:
            about = self._about(args, meta)
        except Exception as error:      # arguments of which there is no specialisation: the plain kernel says what is wrong
            return Decision(None, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        if about not in self.decisions:
            self.decisions[about] = self._decided(grid, args, meta)
        return self.decisions[about]

    # ---- deciding ------------------------------------------------------------------------------------------------------------

    def _about(self, args: tuple, meta: dict[str, Any]) -> Any:
        """The key of a specialisation in this process."""
        if gpu_is_active():
            device = driver.active.get_current_device()
            _, specialization, options = self.device_caches[device][-1](*args, **meta)
            return device, str(specialization), str(options)
        return key(specialised(self, args, dict(meta), wanted(None))[0])

    def _decided(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Decision:
        try:
            plain = plain_of(self.plain, grid, args, meta)
            kept = self._kept_under(plain)
            text = kept_text(kept, NAME)
            if text is not None:
                found = json.loads(text)
                one = written(plain, Plan(**found["plan"])) if found["plan"] else None
                return Decision(one if one is None or one.kernel is not None else None, found["because"])
            found = orchestrate(self.plain, grid, *args, **meta)
        except Exception as error:      # what plain Triton compiles runs: it says itself what is wrong with the kernel
            return Decision(None, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        plan = vars(found.plan) if found.is_used else None
        keep_text(kept, NAME, json.dumps({"plan": plan, "because": found.because}))
        return Decision(found.chosen.written if found.is_used else None, found.because)

    def _kept_under(self, plain: Any) -> str:
        import mimw
        about = (mimw.__version__, self.cache_key, key(plain.launch.specialisation), plain.chip.name, gpu_is_active())
        return hashlib.sha256(repr(about).encode()).hexdigest()


def auto(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a kernel so that it is orchestrated at its first launch, where that is proved and quicker.

    args:      fn        a kernel in `tl`, as for `triton.jit`
               options   those of `triton.jit`
    returns:   AutoFunction, launched as a kernel of `triton.jit`; under `triton.autotune` each configuration decides for itself
    errors:    MimwError for a function that is no kernel's
    """
    if fn is None:
        return lambda function: auto(function, **options)
    if not callable(fn):
        raise MimwError(f"mimw.auto decorates a function, not {fn!r}")
    return AutoFunction(getattr(fn, "fn", fn), **options)
