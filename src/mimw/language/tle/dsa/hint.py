"""`with tle.dsa.hint(..):`: what an author promises of a block of a kernel.

Input: names and compile-time values. Output: a context manager for Triton's generator; the words inside ask `hinted`. For example:

    with tle.dsa.hint(inter_no_alias=True):
        tle.dsa.copy(x + at, a, [64])               dsa_load .. inter_no_alias=True
"""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

import triton.language.core as tl

from ...core import check_in_kernel, unwrap
from ...refuse import inside, refuse

_STACKS: WeakKeyDictionary[Any, list[dict[str, Any]]] = WeakKeyDictionary()     # of each recording under way


class _Hints:
    """The block of a `with`."""

    def __init__(self, recording, hints: dict[str, Any]):
        self.stack, self.hints = _STACKS.setdefault(recording, []), hints

    def __enter__(self) -> None:
        self.stack.append(self.hints)

    def __exit__(self, *error) -> None:
        self.stack.pop()


def hint(*, _semantic=None, **hints) -> _Hints:
    """Hints for a block of a kernel, used as `with tle.dsa.hint(inter_no_alias=True):`. Blocks nest, and the innermost wins.

    args:      inter_no_alias - (opt) what `tle.dsa.copy` takes by that name, for the copies of the block that do not say it
               any other name is accepted, and has no effect; all values are known at compile time
    errors:    RuntimeError for a call outside of `with`; ValueError for a run-time value
    lowers to: nothing
    """
    if _semantic is None:
        raise RuntimeError("tle.dsa.hint is used as `with tle.dsa.hint(..):` in a kernel; it cannot be called")
    check_in_kernel("tle.dsa.hint", _semantic)
    with inside(_semantic.builder):
        hints = {name: unwrap(value) for name, value in hints.items()}
        for name, value in hints.items():
            if isinstance(value, tl.base_value):
                refuse(ValueError, f"tle.dsa.hint: `{name}` must be known at compile time, got the run-time value {value}")
    return _Hints(_semantic.builder, hints)


setattr(hint, tl.TRITON_BUILTIN, True)      # so that kernels may name it; a call that is no `with` gets no `_semantic`
hint.signature = inspect.Signature([inspect.Parameter("hints", inspect.Parameter.VAR_KEYWORD)])


def hinted(semantic, name: str, default: Any) -> Any:
    """The value of the innermost hint of that name at the place that is being recorded, or `default`."""
    return next((hints[name] for hints in reversed(_STACKS.get(semantic.builder, ())) if name in hints), default)
