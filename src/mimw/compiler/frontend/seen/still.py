"""A test that everything that a kernel's recording has read is unchanged: a function generated for the kernel, called at
every launch.

Input: the reads, as (kind, holder, name, value). Output: a function of no arguments:

    still = asks([(ITEM, vars(consts), "C", 3.0), (CELL, cell, "", helper)], held_now)
    still()         True: two lookups and two comparisons by identity, some ten nanoseconds each

Lists, dictionaries and objects, which can change in place, are compared item by item by identity, in some thirty nanoseconds
each. Arrays and objects with slots, which keep their content elsewhere, are compared by their content, which takes longer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

# An item of a dictionary, or none there; of a closure; an attribute; the items of a container or object; what an object holds.
ITEM, ABSENT, CELL, OF, ITEMS, CONTENT = range(6)
_ASKS = {ITEM: "h{0}[{1!r}] is v{0}", ABSENT: "{1!r} not in h{0}", CELL: "h{0}.cell_contents is v{0}", OF: "h{0}.{1} is v{0}",
         ITEMS: "has(h{0}, v{0})", CONTENT: "told(h{0}) == v{0}"}


def asks(reads: list[tuple[int, Any, str, Any]], told: Callable[[Any], str]) -> Callable[[], bool]:
    """A function that returns True as long as every read gives the same object, and objects that can change in place have the
    same items; `told` gives the content of an object without items."""
    scope: dict[str, Any] = {"told": told, "has": _has}
    tests = []
    for index, (kind, holder, name, value) in enumerate(reads):
        scope[f"h{index}"], scope[f"v{index}"] = holder, value
        tests.append(_ASKS[kind].format(index, name))
    text = f"def still():\n try:\n  return {' and '.join(tests)}\n except (AttributeError, KeyError, ValueError):\n  return False"
    exec(compile(text, "<still>", "exec"), scope)
    return scope["still"]


def items_of(holder: Any) -> list | None:
    """The items of a container or an object, keys and names first; None for a kind that keeps its content elsewhere. The list
    has the objects themselves, not their ids, which a later object could have."""
    kind = type(holder)
    if kind is dict:
        return [*holder, *holder.values()]
    if kind is list or kind is set:
        return [*holder]
    if kind.__module__ != "numpy" and not issubclass(kind, (dict, list, set, tuple)) and hasattr(holder, "__dict__") \
            and not any(getattr(base, "__slots__", ()) for base in kind.__mro__):
        return [*vars(holder), *vars(holder).values()]
    return None


def _has(holder: Any, items: list) -> bool:
    now = items_of(holder)
    return now is not None and len(now) == len(items) and all(map(operator.is_, now, items))
