"""`MIMW_WATCHDOG=SECONDS`: a launch that does not come back ends the process, with a report of which task waits where.

Input: launches, on a GPU (`watched`) or on the simulator (`watched_simulation`). Output: nothing, or the report on
stderr and exit status 124. For example:

    MIMW_WATCHDOG=10 python gemm.py
    ... BytesNeverSent: no task of CTA (0, 0, 0) and 131 others, which stand alike, can go on. ...

docs/DEBUGGING.md, "A hang on a GPU", shows a report.
"""

from .guard import watched
from .launch import Launch, trying
from .limit import keep_stderr, seconds, tell
from .notes import file, has_hung
from .simulated import watched_simulation

__all__ = ["Launch", "file", "has_hung", "keep_stderr", "seconds", "tell", "trying", "watched", "watched_simulation"]
