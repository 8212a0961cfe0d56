"""Resolution of pipe values to their `pipe_make`: helpers, loops and branches hand on values that all are one pipe.

Input: a program before the pass `expand_pipes`. Output: for each value of type `Pipe` the op that made the pipe. For example:

    %kv = pipe_make [%k] capacity=2 names=['k']
    %end = if %early { yield %kv } else { yield %kv }
    pipes_of(program)        {%kv: pipe_make, %end: pipe_make}
"""

from __future__ import annotations

from ...ir import Op, Pipe, Program, Value
from ...ir.flow import all_carries


def pipes_of(program: Program) -> dict[Value, Op]:
    """The `pipe_make` of every value that is a pipe. A type of the language has one pipe, so have values that flow together."""
    return program.kept(_pipes_of)


def pipe_label(make: Op) -> str:
    """The pipe of a `pipe_make` in messages: by the name that its author gave it, or the variable that holds it."""
    return label_of(make.result.name, make.site)


def label_of(name: str, site) -> str:
    """A pipe in messages, by its name or, if it has none, by where it was made."""
    return f"pipe {name!r}" if name else f"the pipe of line {site.line}"


def _pipes_of(program: Program) -> dict[Value, Op]:
    found = {op.result: op for op in program.named("pipe_make")}
    handed = [carry for carry in all_carries(program) if isinstance(carry.target.type, Pipe)] if found else []
    known = -1
    while known != len(found):
        known = len(found)
        for carry in handed:
            if carry.source in found:
                found.setdefault(carry.target, found[carry.source])
    return found
