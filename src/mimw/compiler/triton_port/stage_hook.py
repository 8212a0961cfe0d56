"""Stages of Triton's compilation that are ours, for as long as a `with` lasts.

Input: a function that puts stages of ours in the place of Triton's. Output: a context in which Triton's `compile` asks it:

    def change(backend, stages, options, language):
        stages["llir"] = lambda module, metadata: ...

    with changed_stages(change):
        stock_compile(src, target=target, options=options)

`add_stages_inspection_hook` is the way by which Triton lets a stage be another one; a hook that is there already sees our stages as
it would Triton's. The hook is the process's, and threads may compile at once: it is there as long as one of them is inside, and
changes the stages of those that are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton import knobs

Change = Callable[[Any, dict, Any, Any], None]
_inside = threading.local()     # .change: that of the innermost `with` of a thread
_lock = threading.Lock()


class _Installed:
    """The number of users in all threads, and the hook that was there before the first of them."""

    users, other = 0, None


@contextmanager
def changed_stages(change: Change) -> Iterator[None]:
    """Inside, `change(backend, stages, options, language)` has the stages of each compilation of this thread before they run."""
    outer, _inside.change = getattr(_inside, "change", None), change
    with _lock:
        if _Installed.users == 0:
            _Installed.other, knobs.runtime.add_stages_inspection_hook = knobs.runtime.add_stages_inspection_hook, _hook
        _Installed.users += 1
    try:
        yield
    finally:
        _inside.change = outer
        with _lock:
            _Installed.users -= 1
            if _Installed.users == 0 and knobs.runtime.add_stages_inspection_hook is _hook:
                knobs.runtime.add_stages_inspection_hook, _Installed.other = _Installed.other, None


def _hook(backend=None, stages=None, options=None, language=None, capability=None):
    """Triton calls it with nothing for a part of the cache's key, and with the stages to change."""
    other = _Installed.other
    if stages is None:
        return other() if other else ("", "")
    if (change := getattr(_inside, "change", None)) is not None:
        change(backend, stages, options, language)
    return other(backend, stages, options, language, capability) if other else None
