"""A function in another language, as a kernel names it: the base of what every dialect declares.

Input: the decorated Python function and the decorator's options. Output: an object that kernels may name as a global or take as a
`tl.constexpr`, and that only `tle.raw.call` runs. For example:

    scale(x, 2.0)                   RuntimeError: scale is native code (cuda): it cannot be called on the host
    tle.raw.call(scale, [x, 2.0])   in a kernel

A dialect subclasses `RawFunction`, which records a call, and gives each function a key.
"""

from __future__ import annotations

import inspect
from typing import Any

import triton.language.core as tl

from .annotations import Declaration, Declared, parameters_of, result_of


class RawFunction:
    """Native code of one dialect. Attributes: `name`, `dialect`, `fn` (the decorated one), `parameters`, `result`."""

    def __init__(self, fn, dialect: str):
        self.fn, self.dialect = fn, dialect
        self.name = self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.hardware = getattr(fn, "__hardware__", None)   # what `hardware_constraint` has noted on the function

    @property
    def parameters(self) -> dict[str, Declared | None]:
        """The declared parameters in order."""
        return parameters_of(self.fn)

    @property
    def takes_any(self) -> bool:
        """True of a stub `def f(*args): ...`, which declares nothing: whatever the call gives is handed over as it comes."""
        return any(one.kind is one.VAR_POSITIONAL for one in inspect.signature(self.fn).parameters.values())

    @property
    def result(self) -> Declaration | None:
        return result_of(self.fn)

    @property
    def cache_key(self) -> str:
        """All content that a compiled kernel depends on, read now: kernels are compiled anew when it changes."""
        raise NotImplementedError

    def record_call(self, args: list, output_indices: tuple[int, ...] | None, hint: str, in_place: bool, semantic: Any,
                    generator: Any) -> Any:
        """Record a call: what `tle.raw.call` returns for it.

        args:      args           - values of the kernel; numbers as Python has them
                   output_indices - the arguments whose new values come back, None for those that are declared InOut or Output
                   in_place       - `call_smem`: no tile is among the arguments
        errors:    ValueError, at the author's line
        """
        raise NotImplementedError

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{self.name} is native code ({self.dialect}): it cannot be called on the host. Call it in a kernel, by "
                           f"tle.raw.call({self.name}, [..])")

    def __repr__(self) -> str:
        return f"<native code {self.name} ({self.dialect})>"


setattr(RawFunction, tl.TRITON_BUILTIN, True)    # a kernel may name such an object
