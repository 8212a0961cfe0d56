"""The shapes of an exported kernel's arguments by name, as the kernel's contract has them: what a header says besides types.

Input: a kernel, its arguments, and those of the launch that was exported. Output: a text for each argument that the contract names,
and the rules that such arguments obey:

    said = said_by_contract(gemm, arguments, {"a_desc": a, "b_desc": b, "c_desc": c, "M": 512, ...})
    said.of["a_desc"], said.of["M"]     "(M, K)", "the M of a_desc and c_desc"
    said.rules                          ("kv_heads > 0 and heads % kv_heads == 0 -- the heads of k must divide those of q", )

A contract (mimw.kernels.contract) is a name of the kernel's module, or of a package around it: of several the one that names most
of the kernel's arrays. Array `a` is the kernel's `a`, `a_desc` or `a_ptr`. A matrix of any strides may lie the other way around in
its descriptor: the shapes of the launch tell.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import Argument, Described, Number

_SUFFIXES = ("", "_desc", "_ptr")
_LIES = {"contiguous": ", contiguous", "rows": ", its rows contiguous"}


@dataclass(frozen=True)
class Said:
    """Argument -> what the contract says of it; and the rules of extents that have been named."""

    of: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


def said_by_contract(kernel: Any, arguments: Sequence[Argument], launched: Mapping[str, Any]) -> Said:
    """The words of the kernel's contract, if there is one. `launched` are arguments of a launch by name, those that are known."""
    found = max(_contracts(kernel), key=lambda one: len(_lines(one, arguments)), default=None)
    if found is None:
        return Said()
    known: dict[str, int] = {}
    said, owners = {}, {}
    for one, line in _lines(found, arguments):      # an array whose shape tells makes others tell theirs
        _shapes(line, one, tuple(getattr(launched.get(one.name), "shape", ())), known)
    for one, line in _lines(found, arguments):
        shapes = _shapes(line, one, tuple(getattr(launched.get(one.name), "shape", ())), known)
        lies = "" if isinstance(one, Described) else _LIES.get(line.memory, "")
        if shapes:
            said[one.name] = " or ".join(f"({', '.join(shape)})" for shape in shapes) + lies
        for extent in dict.fromkeys(extent for shape in shapes for extent in shape if extent.isidentifier()):
            owners.setdefault(extent, []).append(one.name)
    for one in arguments:
        if isinstance(one, Number) and one.name in owners and launched.get(one.name, known.get(one.name)) == known.get(one.name):
            said[one.name] = f"the {one.name} of {_and(owners[one.name])}"
    rules = (rule for rule in found.rules if rule.names and set(rule.names) <= set(owners))
    return Said(said, tuple(f"{rule.text} -- {rule.mend}" if rule.mend else rule.text for rule in rules))


def _contracts(kernel: Any) -> Iterator[Any]:
    """The contracts of the kernel's module and of the packages around it, the nearest first."""
    parts = kernel.__module__.split(".")
    modules = (sys.modules.get(".".join(parts[:count])) for count in range(len(parts), 0, -1))
    for module in filter(None, modules):
        yield from (one for one in vars(module).values()
                    if not isinstance(one, type) and hasattr(one, "tensors") and hasattr(one, "rules"))


def _lines(contract: Any, arguments: Sequence[Argument]) -> list[tuple[Argument, Any]]:
    """The arrays that the contract has a line of, with it."""
    lines = {line.name: line for line in contract.tensors}
    found = ((one, next((lines[name] for suffix in _SUFFIXES if (name := one.name.removesuffix(suffix)) in lines), None))
             for one in arguments if not isinstance(one, Number))
    return [(one, line) for one, line in found if line is not None]


def _shapes(line: Any, argument: Argument, shape: tuple[int, ...], known: dict[str, int]) -> list[tuple[str, ...]]:
    """The shapes that an array may have, the one of its launch if that tells; its extents then become known."""
    rank = argument.rank if isinstance(argument, Described) else len(shape)
    ways = [tuple(extent.text for extent in one.extents) for one in line.shapes if not any(extent.group for extent in one.extents)]
    ways = [way for way in ways if len(way) == rank or not rank]
    if isinstance(argument, Described) and not line.memory:
        ways += [(*way[:-2], *reversed(way[-2:])) for way in ways]
    if shape:
        ways = [way for way in ways if all(known.get(extent, size) == size for extent, size in zip(way, shape))]
    if shape and len(ways) == 1:
        known |= {extent: size for extent, size in zip(ways[0], shape) if extent.isidentifier()}
    return ways


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
