"""The time limit of launches: what `MIMW_WATCHDOG` says.

Input: the environment. Output: seconds, or None where nothing is watched.

    MIMW_WATCHDOG=10            seconds() == 10.0
    MIMW_WATCHDOG_STAMPS=0      wants_stamps() is False: the kernel stays as it is, and the report has no places of the hung launch
"""

from __future__ import annotations

import os
from typing import NoReturn

from ...errors import LaunchError

VARIABLE, STAMPS = "MIMW_WATCHDOG", "MIMW_WATCHDOG_STAMPS"
STATUS = 124        # as `timeout` of coreutils

_report_to = 2      # the file descriptor of reports
# Asked on every launch: `os.environ.get` takes a microsecond where the variable is not set, the mapping below it a twentieth.
_ENVIRONMENT, _NAME = os.environ._data, os.environ.encodevalue(VARIABLE)


def seconds() -> float | None:
    """The limit in seconds; None without one. LaunchError for what is no positive number."""
    text = _ENVIRONMENT.get(_NAME)
    if text is None:
        return None
    text = os.environ.decodevalue(text)
    if text in ("", "0"):
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < 1e9:
        raise LaunchError(f"{VARIABLE}={text} should be a positive number of seconds", hint=f"{VARIABLE}=10, or leave it out")
    return limit


def wants_stamps() -> bool:
    return os.environ.get(STAMPS) != "0"


def keep_stderr() -> None:
    """Reports go to what is stderr now, also if the script (pytest, say) redirects it later."""
    global _report_to
    if _report_to == 2:
        _report_to = os.dup(2)


def tell(text: str) -> None:
    """Write to stderr past Python's buffers and locks, which a thread that hangs may hold."""
    data = (text + "\n").encode(errors="replace")
    while data:
        data = data[os.write(_report_to, data):]


def end_process() -> NoReturn:
    """The only way to stop a hung kernel. Nothing runs any more: no atexit function, no `finally`."""
    os._exit(STATUS)
