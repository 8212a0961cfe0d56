"""Paths for a reader at the terminal: files below the current folder are named without that folder.

Input: a text of ours, whose paths are absolute. Output: the same text, in which paths begin where the terminal stands:

    nearer("/home/me/gemm.py:20 in kernel")         "gemm.py:20 in kernel", for a command that was started in /home/me

JSON, and what a script prints itself, keep whole paths.
"""

from __future__ import annotations

import os

_STARTED: list[str] = []


def begin() -> None:
    """Remember the folder of the command line; a script may leave it."""
    _STARTED[:] = [os.path.join(os.getcwd(), "")]


def nearer(text: object) -> str:
    """`str(text)`, with paths from the folder on where the command was started."""
    folder = _STARTED[0] if _STARTED else ""
    return str(text) if folder in ("", os.sep) else str(text).replace(folder, "")


def started() -> str:
    """The folder where the command was started."""
    return _STARTED[0] if _STARTED else os.getcwd()
