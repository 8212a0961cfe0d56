"""Progress of a command that takes long: on stderr, after two seconds, its present work and the time so far.

Input: a name of the work, and the work as the body of a `with`. Output: lines on stderr, none for work that is soon done:

    with working("compiling gemm.py:case"): ...         mimw: compiling gemm.py:case, 2 s

On a terminal it is one line, written anew each second and gone at the end; elsewhere there is a line after 2, 4, 8, ...
seconds. Commands that can measure their progress (`check`, `tune`) report it themselves. MIMW_PROGRESS=0 silences this
report.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST = 2.0     # seconds of which nothing is said


@contextmanager
def working(what: str, stream=None) -> Iterator[None]:
    """Say `what` takes long, if it does."""
    if os.environ.get("MIMW_PROGRESS") == "0":
        yield
        return
    teller = _Teller(what, sys.stderr if stream is None else stream)
    teller.start()
    try:
        yield
    finally:
        teller.end()


def _prompting() -> bool:
    """True while the debugger's prompt is open, which a kernel's `breakpoint()` opens."""
    from ..runtime.breakpoints import prompting
    return prompting.is_set()


class _Teller(threading.Thread):
    """Waits beside the work, which may hold the interpreter's lock for as long as it likes."""

    def __init__(self, what: str, stream):
        super().__init__(daemon=True, name="mimw: progress")
        self.what, self.stream, self.over = what, stream, threading.Event()
        self.alone = stream.isatty()        # one line, which is written over
        self.shown = False

    def run(self) -> None:
        begun, wanted = time.monotonic(), FIRST
        while not self.over.wait(max(0.0, begun + wanted - time.monotonic())):
            if _prompting():
                wanted = time.monotonic() - begun + FIRST
                continue
            seconds = f"{time.monotonic() - begun:.0f} s"
            self.shown = True
            print(f"\r\x1b[Kmimw: {self.what}, {seconds}" if self.alone else f"mimw: {self.what}, {seconds}", file=self.stream,
                  end="" if self.alone else "\n", flush=True)
            wanted = wanted + 1 if self.alone else 2 * wanted

    def end(self) -> None:
        self.over.set()
        self.join()
        if self.shown and self.alone:
            print("\r\x1b[K", file=self.stream, end="", flush=True)
