"""Complaints of Python, of Triton and of words about a kernel's line, in the terms of who wrote the line.

Input: the generator that was walking the line, and the error. Output: the message and the mend. For example, of the line
`tl.store(x, math.sqrt(y))` and `TypeError: must be real number, not tensor`:

    ("`math.sqrt` is a function of Python and takes numbers; `y` is a fp32 of run time", "write `tl.sqrt(y)`")

Each reader knows one family of complaints, by the error's class and words and by the node of the syntax tree where it
arose; a complaint that none knows stays as it is, without addresses and classes of Triton's own.
"""

from __future__ import annotations

from contextlib import suppress

from ....ir.plainly import plainly
from ...triton_port.codegen import CompilationError
from .attributes import attribute
from .calls import call
from .loops import loop
from .names import name
from .operators import operator
from .origin import complaint, origin

Told = tuple[str, str]

READERS = (name, attribute, operator, loop, call)


def explain(generator, error: CompilationError) -> Told:
    """(message, mend) of an error that arose in the function that `generator` walks; the mend may be empty."""
    root = origin(error)
    message, hint = complaint(error, root)
    if not hint:
        for reader in READERS:
            found = None
            with suppress(Exception):       # a reader that stumbles must not hide the mistake
                found = reader(generator, error.node, root, message)
            if found is not None:
                message, hint = found
                break
    return plainly(message), plainly(hint)


__all__ = ["Told", "complaint", "explain", "origin"]
