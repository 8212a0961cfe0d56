"""The one way in which a word refuses a call: an error of the kind that its contract names, with the user's line and the mend.

    refuse(ValueError, "thread_id axis must be 0, 1, or 2, got 3", mend="number the axes from 0")
    refuse(KernelError, "async_dot: B must be a buffer in shared memory", mend="store it with tlx.local_store first")

Input: the class of the error, the complaint, and what to write instead if the complaint does not say that by itself. Output: none,
the error is raised. Its `sites` hold the line of the word that is being called in a kernel; outside of kernels there is none.
`inside` says which recording a word belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from ..errors import KernelError
from ..ir import Recording

_RECORDING: ContextVar[Recording | None] = ContextVar("mimw_recording", default=None)


@contextmanager
def inside(recording: Recording) -> Iterator[None]:
    """A word is called while `recording` records its kernel."""
    before = _RECORDING.set(recording)
    try:
        yield
    finally:
        _RECORDING.reset(before)


def current() -> Recording | None:
    """The recording in which a word is being called; None outside of kernels."""
    return _RECORDING.get()


def refuse(kind: type[Exception], message: str, mend: str = "") -> NoReturn:
    """Raise an error of `kind` at the user's line."""
    recording = _RECORDING.get()
    site = None if recording is None else recording.site
    if issubclass(kind, KernelError):
        raise kind(message, site, hint=mend)
    error = kind(f"{message}\nMend: {mend}" if mend else message)
    error.sites, error.hint = () if site is None else (site, ), mend
    raise error
