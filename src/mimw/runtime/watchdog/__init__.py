"""`MIMW_WATCHDOG=SECONDS`: a launch that does not come back ends the process, with a report of which task waits where.

Input: launches, on a GPU (`watched`) or on the simulator (`watched_simulation`). Output: nothing, or the report on
stderr and exit status 124. For example:

    MIMW_WATCHDOG=10 python gemm.py
    ... BytesNeverSent: no task of CTA (0, 0, 0) and 131 others in the same state can go on. ...

docs/DEBUGGING.md, "A hang on a GPU", shows a report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .launch import Launch, trying
from .limit import keep_stderr, seconds, tell
from .notes import file, has_hung

if TYPE_CHECKING:
    from .guard import watched
    from .simulated import watched_simulation

_HOMES = {"watched": "guard", "watched_simulation": "simulated"}    # both need the simulator, most launches neither

__all__ = ["Launch", "file", "has_hung", "keep_stderr", "seconds", "tell", "trying", "watched", "watched_simulation"]


def __getattr__(name: str) -> Any:
    """Load a name of the watchdog's at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
