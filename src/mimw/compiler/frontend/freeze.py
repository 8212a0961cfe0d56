"""The end of a recording: drafts become the immutable ops and values of `mimw.ir`.

    %sum (Handle)  ->  %sum.3 (Value)       values are numbered as they are printed
    DraftOp        ->  Op                   a handle that was replaced stands for its replacement

Input: the entry block of a recorder and the facts of the launch. Output: a `Program`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from ...ir import Block, LaunchFacts, Names, Op, Param, Program, Site, Value
from .drafts import DraftBlock, DraftOp, Handle

_CONSTANTS = (bool, int, float, str)        # whose names are kept: all others are objects of the author's, or of Triton


class Freezer:
    """Turns drafts into frozen ops, following replaced handles and numbering values in program order."""

    def __init__(self):
        self.values: dict[Handle, Value] = {}

    def define(self, handle: Handle) -> Value:
        value = Value(handle.type, handle.name, len(self.values))
        self.values[handle] = value
        return value

    def argument(self, arg):
        if isinstance(arg, Handle):
            return self.values[arg.final()]
        if isinstance(arg, tuple):
            return tuple(self.argument(item) for item in arg)
        return arg

    def block(self, draft: DraftBlock) -> Block:
        args = tuple(self.define(arg) for arg in draft.args)
        return Block(args, tuple(self.op(op) for op in draft.ops))

    def op(self, draft: DraftOp) -> Op:
        args = self.argument(draft.args)
        results = tuple(self.define(result) for result in draft.results)
        blocks = tuple(self.block(region.blocks[0]) for region in draft.regions if region.blocks)
        return Op(draft.name, args, results, blocks, MappingProxyType(draft.attrs), draft.site)

    def program(self, entry: DraftBlock, name: str, params: list, num_warps: int, site: Site, uses_words: bool,
                launch_facts: LaunchFacts, bound: Sequence[tuple[tuple[str, Site | None], str, Any]] = ()) -> Program:
        """The program with this body; `params` are (handle, name, path, attributes) of the arguments, `bound` what names mean."""
        frozen = tuple(Param(self.define(handle), param, path, tuple(attrs)) for handle, param, path, attrs in params)
        body = self.block(entry)
        return Program(name, frozen, body, num_warps, site, uses_words, launch_facts, self.names(bound))

    def names(self, bound: Sequence[tuple[tuple[str, Site | None], str, Any]]) -> Names:
        """The values that names meant, by function's call and name, in the order of the assignments."""
        found: dict[Any, dict[str, list]] = {}
        for call, name, given in bound:
            value = self.values.get(given.final()) if isinstance(given, Handle) else given
            if isinstance(value, (Value, *_CONSTANTS)):
                meant = found.setdefault(call, {}).setdefault(name, [])
                if not any(value is one for one in meant):
                    meant.append(value)
        return {call: {name: tuple(values) for name, values in names.items()} for call, names in found.items()}
