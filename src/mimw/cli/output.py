"""Output of commands: a file that cannot be written is an error of one line, and so is a terminal, pipe or disk that takes no
more.

Input: a path, or nothing for standard output. Output: a `CommandError` of one line, or the error of standard output:

    check_output(path)                      before the work: CommandError if the folder of the path does not exist
    with writing(path): path.write_text()   CommandError with the system's reason
    stdout_error()                          the error with which standard output takes no more, None if all was written
    stdout_is_closed()                      True for a pipe whose reader has gone (`mimw ... | head`)
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

from .errors import CommandError


def check_output(path: str | Path) -> Path:
    """`path`, or CommandError where no file can be written: its folder is missing, or it is a folder."""
    path = Path(path)
    if not path.parent.is_dir():
        raise CommandError(f"cannot write {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise CommandError(f"cannot write {path}: it is a folder.")
    return path


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """An OSError inside becomes a CommandError that says that `path` could not be written."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}.") from error


def stdout_error() -> OSError | None:
    """The error that standard output ends in, for a closed pipe or a full disk; Python then has nothing left to complain of at
    its exit."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def stdout_is_closed() -> bool:
    """True if standard output is a pipe whose reader has gone: another pipe or socket of a script may break, too."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)       # errors are always reported
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False
