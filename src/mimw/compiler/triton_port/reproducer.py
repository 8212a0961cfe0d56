"""The PTX that Triton prints where ptxas refuses it, kept back until it is known whose mistake it is.

    with reproducer() as said:
        stock_compile(src, target=target, options=options)
    print(*said)        the text that asks to be shared with Triton's developers, thousands of lines; [] if there was none

Input: a compilation by Triton. Output: what it would have printed. A kernel that needs more registers than there are gets our
error, with its line and the mend. Its PTX tells nobody more, and where plans are tried one after the other, it hides the rest.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.backends.nvidia import compiler as stock

_ASKS = "please share the reproducer above with Triton project"
_inside = threading.local()     # .said: the list of the innermost `with` of a thread


@contextmanager
def reproducer() -> Iterator[list[str]]:
    """Inside, this thread's compilations keep their reproducers in the list."""
    outer, _inside.said = getattr(_inside, "said", None), []
    try:
        yield _inside.said
    finally:
        _inside.said = outer


def _print(*values: Any, **how: Any) -> None:
    said = getattr(_inside, "said", None)
    if said is not None and len(values) == 1 and _ASKS in str(values[0]):
        said.append(values[0])
    else:
        builtins.print(*values, **how)


stock.print = _print    # a name of the module hides the builtin one; outside of `reproducer` it is that
