"""What stands still while launches are only noted: methods that launch by ways which `mimw.jit` does not see.

Input: a class, a method's name, and what stands in its place. Output: the method is that one while `still()` lasts:

    mimw.jit.meanwhile(Launch, "__call__", Launch.note)         where the class is defined; at once, where launches are being noted
    with still(): ...                                           `mimw.compile_ahead`
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

_KNOWN: list[tuple[type, str, Callable]] = []
_LASTING: list[contextlib.ExitStack] = []       # of `still`, while it lasts


def meanwhile(owner: type, method: str, value: Callable) -> None:
    """Make `value` the method of `owner` while launches are only noted."""
    _KNOWN.append((owner, method, value))
    if _LASTING:        # its module was imported by what is being noted
        _LASTING[0].enter_context(mock.patch.object(owner, method, value))


@contextlib.contextmanager
def still() -> Iterator[None]:
    """All of these methods stand still, those too that become known meanwhile."""
    with contextlib.ExitStack() as changed:
        for one in _KNOWN:
            changed.enter_context(mock.patch.object(*one))
        _LASTING.insert(0, changed)
        try:
            yield
        finally:
            _LASTING.remove(changed)


def lasts() -> bool:
    """True while launches are left out: what they would have written is not there."""
    return bool(_LASTING)
