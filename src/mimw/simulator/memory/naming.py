"""Who names the threads of an access that leaves an array: a program that says which thread holds which element.

Input: a function of a task and its op. Output: its sentence, behind the message of the error. For example:

    token = naming.set(lambda task, op: "warp 3, lane 17, register 2: element (5, 64)")

Programs without layouts have no threads to name; those that were read from TTGIR do (`runtime/ttgir_threads.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

naming: ContextVar[Callable[[Any, Any], str] | None] = ContextVar("naming", default=None)


def named(task: Any, op: Any) -> str:
    """The sentence about the threads of an access, "" where nobody names any."""
    names = naming.get()
    found = names(task, op) if names is not None else ""
    return f"\n{found}" if found else ""
