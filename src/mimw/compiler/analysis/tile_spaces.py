"""Placement of tiles in memory spaces, for a chip with cores of its own, which has no registers that hold tiles.

Input: a program. Output: a `TileSpaces`. For example, of `z = dot(load(x), to_tensor(b)) * 2`, with b in L0B:

    found = program.kept(TileSpaces)
    found.of(x)             "global": loaded, and laid where it is used
    found.of(b)             "l0b", the space of its buffer
    found.of(dot)           "l0c", where products are; the product times two is in "ub", where vectors are computed
    found.is_data(offsets)  False: they only say where to load from, which copies do by themselves

A tile that only changes shape stays where it is, and so does a product that is rounded: the engine that moves products converts
them on the way. A constant lies nowhere.
"""

from __future__ import annotations

from ...ir import Op, Program, Tensor, Value
from ...ir.flow import carries
from ...target import GLOBAL
from .flows import Flows

VECTOR, PRODUCT = "ub", "l0c"
_WHERE = ("pointer", "mask")        # operands that say where, and how far
_ROUNDS = 4                         # of loops in loops, through which a space is carried


class TileSpaces:
    """The spaces of the tiles of one program."""

    def __init__(self, program: Program):
        self._flows = program.kept(Flows)
        self._spaces: dict[Value, str] = {}
        ops = list(program.walk())
        self._data = self._reach(ops)
        for _ in range(_ROUNDS):
            before = dict(self._spaces)
            for op in ops:
                for carry in carries(op):
                    self._join(carry.target, self._spaces.get(carry.source))
                for result in op.results:
                    if isinstance(result.type, Tensor) and not op.row.hands_on:
                        self._join(result, self._made(op))
            if self._spaces == before:
                break

    def of(self, value: Value) -> str | None:
        """The name of the space in which a tile lies; None for a constant, a number or a tile of addresses."""
        return self._spaces.get(value)

    def is_data(self, value: Value) -> bool:
        """True if an op computes with the value, stores it or copies it, and does not only find data by it."""
        return value in self._data

    def maker(self, value: Value) -> Op | None:
        """The op that makes a value; None for an argument."""
        return self._flows.maker.get(value)

    def _join(self, value: Value, space: str | None) -> None:
        """A value that comes from several spaces lies where vectors are computed, and a loaded one with the others."""
        known = self._spaces.get(value)
        if space is None or space == known or known is not None and space == GLOBAL:
            return
        self._spaces[value] = space if known in (None, GLOBAL) else VECTOR

    def _made(self, op: Op) -> str | None:
        row = op.row
        if "dsa" in row.traits and row.reads:
            return op.buffer.type.space
        if row.loads or row.copy == "in":
            return GLOBAL
        tiles = [self._spaces.get(value) for value in op.operands if isinstance(value.type, Tensor)]
        if "dot" in row.traits:
            return VECTOR if "acc" in row.places and self._spaces.get(op.acc) == VECTOR else PRODUCT
        if not self.is_data(op.results[0]) or not any(tiles):      # nothing is known of them, yet or ever
            return None
        if row.cost in ("free", "move") or row.cost == "convert" and tiles == [PRODUCT]:
            return next((space for space in tiles if space), None)
        return VECTOR

    def _reach(self, ops: list[Op]) -> set[Value]:
        """All values that others are computed of which end in memory, in a product or in control flow."""
        found: set[Value] = set()
        todo: list[Value] = []
        for op in ops:
            row = op.row
            if "pure" in row.effects and "dot" not in row.traits or row.hands_on or "terminator" in row.traits:
                continue
            where = {getattr(op, name) for name in _WHERE if name in row.places}
            todo += [value for value in op.operands if value not in where]
        while todo:
            value = todo.pop()
            if value in found or not isinstance(value, Value):
                continue
            found.add(value)
            todo += self._flows.sources.get(value, ())
            op = self._flows.maker.get(value)
            if op is not None and not op.row.hands_on and "pure" in op.row.effects:
                todo += op.operands
                todo += [yielded for block in op.blocks for yielded in block.yielded]
        return found
