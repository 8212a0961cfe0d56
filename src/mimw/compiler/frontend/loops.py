"""Loops whose bodies are recorded once: the loop-carried values are read off the body that stays.

Input: a loop, and the values of the names before it. Output: the names that the loop carries, with their values, and the loop's
body, ready to be put in. For example:

    for i in range(n):
        acc += x[i]; last = acc        recorded with an argument for `acc` and one for `last`, the names that the body assigns;
                                       both have another value at the end, so both are carried, and the body is the loop's

Triton's generator visits a body once to find what it carries, drops all that, and visits the body again; of nested loops the
innermost is visited once for each loop around it, and once more. Here the arguments are guessed from what the body assigns. Where
the guess was wrong (an assignment in a branch that is not taken at compile time), the body is recorded again with what was found,
and the answer is kept, so that the loops around do not have the same loop guess wrong again: the cost grows as the program does.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ...language.core import HandleValue
from ...language.tle.struct import field_values, fields_of
from ..triton_port.codegen import base_value, constexpr, flatten_values_to_ir, tensor, triton_tuple, unflatten_ir_values
from .assigned import assigned
from .carries import SteadyTypes
from .drafts import DraftBlock, Handle


@dataclass(frozen=True)
class Body:
    """The body of a loop, recorded on its own: its block, the arguments of the block that stand for each carried name, and
    the values of the names at its end: of all names, and of those that the body itself has bound."""

    statements: list[ast.stmt]
    block: DraftBlock
    arguments: dict[str, list[Handle]]
    names: dict[str, Any]
    definitions: dict[str, Any]


class LoopsOnce(SteadyTypes):
    """Mixin over Triton's `CodeGenerator` that builds with our recorder. Triton asks for the carries, makes the loop and
    visits its body: the carries are found by recording the body, and the visit inserts the recorded body."""

    _recorded: Body | None = None       # until Triton visits the body

    def _find_carries(self, node, liveins, ignore=frozenset()):
        names = assigned([*node.body, *node.orelse]).intersection(liveins).difference(ignore)
        values = {name for name in names if _has_handles(liveins[name])}
        known = self.builder.carried.get((node, self._calls())) if self.builder.carried else None
        carried = _first_guess(values, liveins) if known is None else known & values
        left, first, fewer = dict(self._left), carried, False
        while True:
            self._left = dict(left)
            body = self._record_body(node, liveins, carried)
            changed = self._changed(body, liveins, ignore)
            # To carry a name that does not change is right, too, and is avoided once; after that carried names only become more.
            if changed == carried or fewer and changed < carried:
                break
            fewer |= changed < carried
            carried = changed if changed < carried else values | carried | changed
            body.block.erase()
        if carried is not first:
            self.builder.carried[node, self._calls()] = carried
        self.lscope, self.local_defs, self._recorded = liveins.copy(), {}, body
        ordered = [liveins[name] for name in body.arguments]
        return list(body.arguments), flatten_values_to_ir(ordered), [value.type for value in ordered]

    def _calls(self) -> tuple:
        """The calls that led here, with their types and constants: in another call of a helper the same loop may carry others."""
        return tuple((fn, *(type_.mangle() for type_ in types)) for fn, types in self.callers)

    def _record_body(self, node, liveins, carried: Collection[str]) -> Body:
        """The body with an argument for each handle of the carried names, which Triton binds again when it has made the loop."""
        self.lscope, self.local_defs = liveins.copy(), {}
        block, arguments = self.builder.create_block(), {}
        for name, value in liveins.items():
            if name not in carried:
                continue
            inits = flatten_values_to_ir([value])
            arguments[name] = [block.add_argument(init.get_type()) for init in inits]
            (argument, ) = unflatten_ir_values(arguments[name], [value.type])
            if isinstance(node, ast.While):
                for handle, init in zip(arguments[name], inits):
                    handle.set_loc(init.get_loc())
                self.lscope[name] = self.local_defs[name] = argument
                self._maybe_set_loc_to_name(argument, name)
            else:
                self._maybe_set_loc_to_name(argument, name)
                self.set_value(name, argument)
        self.builder.set_insertion_point_to_start(block)
        self.scf_stack.append(node)
        self.visit_compound_statement(node.body)
        self.scf_stack.pop()
        return Body(node.body, block, arguments, self.lscope, self.local_defs)

    def _changed(self, body: Body, liveins, ignore: Collection[str]) -> set[str]:
        """The names that have another value at the end of the body than at its beginning."""
        changed = set()
        for name, live in liveins.items():
            if name in ignore:
                continue
            if not isinstance(live, base_value):
                if name in body.definitions:  # of the kind and in the words of Triton's own complaint
                    raise AssertionError(f"Loop carried variable {name} is not a triton value")
            elif (now := body.names[name]) is not live:
                self._verify_loop_carried_variable(name, now, live)
                if flatten_values_to_ir([now]) != body.arguments.get(name, flatten_values_to_ir([live])):
                    changed.add(name)
        return changed

    def visit_compound_statement(self, stmts):
        """Visit statements, or insert the body that is recorded already into the loop that Triton has made for it."""
        body = self._recorded
        if body is None or stmts is not body.statements:
            return super().visit_compound_statement(stmts)
        self._recorded = None
        block = self.builder.get_insertion_block()
        carried = len(body.block.args)
        for argument, bound in zip(body.block.args, block.args[len(block.args) - carried:], strict=True):
            argument.replace_all_uses_with(bound)
        body.block.merge_block_before(block)
        self.lscope, self.local_defs = body.names, body.definitions


def _has_handles(value) -> bool:
    return isinstance(value, base_value) and bool(flatten_values_to_ir([value]))


def _first_guess(values: Collection[str], liveins: dict[str, Any]) -> set[str]:
    """The assigned names that get arguments at first. A value that does not come back whole gets one only once it is known to
    change, as the code may depend on what is lost; or if it shares a handle with another name, which would hide a change."""
    carried = {name for name in values if _comes_back_whole(liveins[name])}
    if len(carried) < len(values):
        seen: set[Handle] = set()
        for name, value in liveins.items():
            handles = flatten_values_to_ir([value]) if isinstance(value, base_value) else []
            if name in values and not seen.isdisjoint(handles):
                carried.add(name)
            seen.update(handles)
    return carried


def _comes_back_whole(value) -> bool:
    """True if a value that is made again from its handles and its type is all that it was: not of a pair with a constant that
    assignments keep."""
    if type(value) is triton_tuple:
        return all(_comes_back_whole(item) or type(item) is constexpr for item in value)
    if fields_of(value) is not None:
        return all(_comes_back_whole(item) or type(item) is constexpr for item in field_values(value).values())
    return type(value) is tensor or isinstance(value, HandleValue) and vars(value).keys() <= {"handle", "type"}
