"""The origins of a value that an instruction reads, along every way through the code.

Input: the code, the index of an instruction, a register. Output: the instructions that may have written the value. For example:

    0  LDG.E R4, ..
    1  MOV R5, R4
    2  FADD R6, R5, R5          sources(code, 2, 5)     {0}: the load; a move only hands on

Of a vector the first register stands for all, as in `Code`.
"""

from __future__ import annotations

import re
from collections import defaultdict

from .code import Code, written

_MOVE = re.compile(r"^(?:MOV|IMAD\.MOV(?:\.U32)?)\s+R\d+,\s+(?:RZ,\s+RZ,\s+)?R(\d+)(?:\s|;|$|,)")


def sources(code: Code, index: int, register: int) -> set[int]:
    """The indices of the instructions whose result the instruction `index` may find in `register`: the last ones on any way to it
    that write the register, and behind a move those of what was moved. One under a predicate may leave what was there."""
    before = defaultdict(list)
    for at in range(len(code.texts)):
        for following in code.following(at):
            before[following].append(at)
    found: set[int] = set()
    todo = [(at, register) for at in before[index]]
    seen = set(todo)
    while todo:
        at, wanted = todo.pop()
        text, onward = code.texts[at], wanted
        if written(text) >> wanted & 1:
            moved = _MOVE.match(text)
            if moved:
                onward = int(moved[1])
            else:
                found.add(at)
                if not text.startswith("@"):
                    continue
        for earlier in before[at]:
            if (earlier, onward) not in seen:
                seen.add((earlier, onward))
                todo.append((earlier, onward))
    return found
