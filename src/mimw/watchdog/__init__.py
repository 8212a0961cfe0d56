"""`MIMW_WATCHDOG=SECONDS`: a launch that does not come back ends the process, with a report of who waits where.

docs/DEBUGGING.md, "A hang on a GPU", shows one.
"""

from .guard import watched
from .launch import Launch, trying
from .limit import keep_stderr, seconds, tell
from .notes import file, has_hung
from .simulated import watched_simulation

__all__ = ["Launch", "file", "has_hung", "keep_stderr", "seconds", "tell", "trying", "watched", "watched_simulation"]
