"""Whether all that a kernel's recording looked at is as it was: a function written for it, asked at every launch.

Input: what was read, as (kind, holder, name, value). Output: a function of no arguments:

    still = asks([(ITEM, vars(consts), "C", 3.0), (CELL, cell, "", helper)])
    still()         True: two lookups and two comparisons by identity, some ten nanoseconds each

What can change in place (lists, dictionaries, objects) is told by its content each time, which takes longer; constants of kernels
are numbers and `tl.constexpr`s, which cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ITEM, ABSENT, CELL, OF, CONTENT = range(5)      # of a dictionary, or none there; of a closure; an attribute; what an object holds
_ASKS = {ITEM: "h{0}[{1!r}] is v{0}", ABSENT: "{1!r} not in h{0}", CELL: "h{0}.cell_contents is v{0}", OF: "h{0}.{1} is v{0}",
         CONTENT: "told(h{0}) == v{0}"}


def asks(reads: list[tuple[int, Any, str, Any]], told: Callable[[Any], str]) -> Callable[[], bool]:
    """A function that is True as long as every read gives the same object, or an object with the same content."""
    scope: dict[str, Any] = {"told": told}
    tests = []
    for index, (kind, holder, name, value) in enumerate(reads):
        scope[f"h{index}"], scope[f"v{index}"] = holder, told(holder) if kind == CONTENT else value
        tests.append(_ASKS[kind].format(index, name))
    text = f"def still():\n try:\n  return {' and '.join(tests)}\n except (AttributeError, KeyError, ValueError):\n  return False"
    exec(compile(text, "<still>", "exec"), scope)
    return scope["still"]
