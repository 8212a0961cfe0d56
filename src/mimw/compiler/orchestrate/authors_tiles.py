"""The loop of a kernel whose author lets programs take tiles in turn: what `persist.py` makes of others.

Input: a plain program. Output: its loop over tiles, or None. For example:

    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)): ..      this loop

Which tiles a program has follows from the number of programs, which the body does not know. So of tiles that would depend on each
other's order some would be in programs side by side. Taken as such a loop is one that carries nothing, asks for its program nowhere
else, loads no array that the kernel writes, and has no word that orders programs; nothing is written outside of it.
"""

from __future__ import annotations

from ...ir import Op, Program, Value
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, written
from .persist import word_in_the_way
from .rings import is_read_only


def authors_tiles(program: Program) -> Op | None:
    """The author's loop over tiles; None if there is none of which it is known that tiles may be done in any order."""
    uses, writes = uses_of(program), written(program)
    asked = [op for op in program.walk() if op.name in ("get_program_id", "get_num_programs")]
    if writes is None or [(op.name, op.axis) for op in asked] != [("get_program_id", 0), ("get_num_programs", 0)]:
        return None
    found = next((op for op in program.body.ops if op.name == "for" and not op.inits and
                  [_behind(uses, op.start), _behind(uses, op.step)] == asked), None)
    if found is None:
        return None
    inside = set(found.walk())
    for op in program.walk():
        if op not in asked and (word_in_the_way(op) or any(accessed(op, "read")) and not is_read_only(program, op, writes) or
                                any(accessed(op, "write")) and op not in inside):
            return None
    return found


def _behind(uses: Uses, value: Value) -> Op | None:
    """The op that gives a number which is cast to another width at most, and used nowhere else."""
    op = uses.definition.get(value)
    if op is None or len(uses.of(value)) != 1:
        return None
    return _behind(uses, op.value) if op.name == "int_cast" else op
