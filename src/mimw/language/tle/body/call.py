"""`tle.call`, the seed's form of a call: the raw function runs once for each thread of an index space, and what it writes is
written.

Input: a raw function, a list of arguments, extents and places. Output: the ops of its body, and new values for the names in the
list. For
example, in a kernel:

    tle.call(add, args=[x, y, output], hardware={"threads": (1024, )}, layout={output: {"space": "shared", "order": [0]}})
    tl.store(pointers, output)          what the body has written
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

from ...core import unwrap, word
from ...displays import Display
from ...numbers import is_int
from ...refuse import refuse
from ..raw.function import RawFunction
from .function import BodyCall, BodyFunction, check_extents

_SPACES = ("shared", "shared_memory", "smem")


@dataclass(frozen=True)
class InPlace:
    """The result of `tle.call` for the code generator: the positions of the arguments that were written, with their new
    values."""

    written: dict[int, Any]

    def names(self, node: ast.Call) -> dict[str, Any]:
        """The new values by the names that the call's list has for them."""
        by_place, by_name = dict(enumerate(node.args)), {one.arg: one.value for one in node.keywords}
        given = by_place.get(1, by_name.get("args"))
        names = {}
        for position, value in self.written.items():
            one = given.elts[position] if isinstance(given, (ast.List, ast.Tuple)) else None
            if not isinstance(one, ast.Name):
                refuse(ValueError, f"tle.call: argument {position} is written by the function, and is no name in the call's list: "
                                   "its new value would be lost", mend="write args=[x, y, output], names of variables")
            names[one.id] = value
        return names


@word
def call(fn, args, hardware=None, layout=None, _semantic=None, _generator=None):
    """Run a raw function once for each thread of an index space.

    args:      fn       - what `tle.raw.language` or `tle.raw.dialect` has declared with a Python body
               args     - a list, one for each parameter: tiles, buffers in shared memory, pointers, numbers
               hardware - {"threads": (x, y, z)}, the extents of the index space, 1 to 3 of them; by default the threads of the
                          calling task or CTA. More than there are: each does the work of several
               layout   - {argument: {"space": "shared", "order": [axes, fastest first]}}; by default shared memory, row-major
    returns:   None. Tiles that the function has written are rebound: the names in the list have the new values
    orders:    all threads have come before the body begins, and are done with it before the kernel goes on
    errors:    ValueError: arity, annotations that the arguments do not fit, extents, places; RawCodeError in the body
    lowers to: the ops of the body
    """
    if not isinstance(fn, RawFunction):
        refuse(ValueError, f"tle.call: `fn` must be declared by tle.raw.language(..), got {fn!r}")
    if not isinstance(args, (list, tuple)):
        refuse(ValueError, f"tle.call: `args` must be a list of the arguments, got {args!r}",
               mend=f"tle.call({fn.name}, args=[x, y])")
    if not isinstance(fn, BodyFunction):
        if hardware is not None or layout is not None:
            refuse(ValueError, f"tle.call: {fn.name} is native code ({fn.dialect}), which the threads of the CTA run as they are: "
                               "`hardware` and `layout` are for functions with a Python body")
        return fn.record_call(list(args), None, "", False, _semantic, _generator)
    extents, args = _extents(fn, hardware), list(args)
    made = BodyCall(fn, args, False, _semantic, _orders(args, layout))
    made.record(extents, lambda index: False)
    return InPlace({index: made.value_after(index) for index, memory in made.memories.items()
                    if memory.written and isinstance(args[index], tl.tensor)})


def _extents(fn: BodyFunction, hardware: Any) -> tuple[int, ...] | None:
    """The extents of the index space, or None."""
    found = None
    if hardware is not None:
        entries = _entries("hardware", hardware)
        unknown = [key for key, _ in entries if key != "threads"]
        if unknown or not entries:
            refuse(ValueError, f"tle.call: hardware must be {{\"threads\": (x, ..)}}, got {hardware!r}")
        found = unwrap(entries[0][1])
        found = (found, ) if is_int(found) else tuple(found) if isinstance(found, (list, tuple)) else ()
        if not 1 <= len(found) <= 3 or not all(is_int(one) and one > 0 for one in found):
            refuse(ValueError, f"tle.call: hardware[\"threads\"] must be 1 to 3 positive compile-time ints, got {entries[0][1]!r}")
        check_extents(found)
    wanted = fn.hardware.threads_dim if fn.hardware is not None else None
    have = len(found) if found else 1
    if wanted is not None and have != wanted:
        refuse(ValueError, f"tle.call: {fn.name} uses {wanted} dimensions of threads (hardware_constraint), the call gives {have}",
               mend=f"hardware={{\"threads\": ({', '.join(['n'] * wanted)}, )}}")
    return found


def _orders(args: list, layout: Any) -> dict[int, tuple[int, ...]]:
    """The axes of each tile in memory, slowest first, where that is not their own order."""
    orders = {}
    for key, place in _entries("layout", layout) if layout is not None else ():
        position = next((index for index, arg in enumerate(args) if arg is key), None)
        if position is None:
            refuse(ValueError, f"tle.call: a key of `layout` is not among the arguments: {key!r}")
        shape = tuple(getattr(args[position].type, "shape", ()))
        for name, given in _entries("layout", place):
            if name == "space":
                if given not in _SPACES:
                    refuse(ValueError, f"tle.call: layout space {given!r} is unknown; arguments of a body lie in \"shared\"")
            elif name == "order":
                axes = tuple(unwrap(given)) if isinstance(given, (list, tuple)) else (given, )
                if sorted(axes) != list(range(len(shape))):
                    refuse(ValueError, f"tle.call: layout order must name each of the {len(shape)} axes once, fastest first, got "
                                       f"{given!r}")
                if axes[::-1] != tuple(range(len(shape))):
                    if not isinstance(args[position], tl.tensor):
                        refuse(ValueError, "tle.call: a buffer lies as it lies; layout order is for tiles")
                    orders[position] = axes[::-1]
            else:
                refuse(ValueError, f"tle.call: layout has no entry {name!r}; there are \"space\" and \"order\"")
    return orders


def _entries(what: str, given: Any) -> list[tuple[Any, Any]]:
    if not isinstance(given, Display):
        refuse(ValueError, f"tle.call: `{what}` must be written as {{..: ..}} in the call, got {given!r}")
    return [(unwrap(key), unwrap(value)) for key, value in given.pairs]
