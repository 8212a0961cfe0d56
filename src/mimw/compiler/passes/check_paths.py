"""Data may go only where an engine of the chip moves it, and units compute only on what they reach.

Input: a program and its target. Output: nothing, or `IllegalPath` with the line, the two spaces, the paths there are and the mend:

    IllegalPath at k.py:12: a tensor cannot go from the unified buffer (UB) to the L1 buffer on ascend_910b: no engine does that.
    Out of ub go MTE3 to global; into l1 go MTE2 from global, FixPipe from l0c.
    Mend: take it ub -MTE3-> global -MTE2-> l1: tle.dsa.copy goes to and from global memory, ..

The author's own placements are held to the paths: a buffer, and a tensor that is the value of one. What a kernel computes has no
place of the author's, so that the chip's compiler moves it, through global memory if there is no other way (`mimw.predict` counts
that). On GPUs all of these spaces are shared memory, and nothing is refused.
"""

from __future__ import annotations

from ...errors import IllegalPath
from ...ir import Buffer, Op, Program, Tensor, Value
from ...target import GLOBAL, TITLES, Target
from ..analysis.tile_spaces import TileSpaces

_VECTOR, _CUBE = "Vector", "Cube"
_MOVES = ("free", "move", "convert")
_OPERANDS = {"a": "l0a", "b": "l0b"}


def check_paths(program: Program, target: Target) -> None:
    """Raise `IllegalPath` for the first op of a chip with own spaces that moves data, or computes, where no engine can."""
    if not target.binary:
        found = _Paths(program, target)
        for op in program.walk():
            found.check(op)


class _Paths:
    """The paths of one chip, and the tiles of one program."""

    def __init__(self, program: Program, target: Target):
        self.target, self.spaces = target, target.spaces
        self.tiles = program.kept(TileSpaces)

    def check(self, op: Op) -> None:
        row, dsa = op.row, "dsa" in op.row.traits
        if row.copy in ("in", "out") and dsa:
            ends = (GLOBAL, op.buffer.type.space) if row.copy == "in" else (op.buffer.type.space, GLOBAL)
            self.path(op, *ends, "a copy")
        elif dsa and row.writes and "value" in row.places:
            placed = self.placed(op.value)
            if placed is not None:
                self.path(op, placed, op.buffer.type.space, "a tensor")
        elif row.stores:
            placed = self.placed(op.value)
            if placed is not None:
                self.path(op, placed, GLOBAL, "a tensor")
        elif "dot" in row.traits:
            for name, wanted in _OPERANDS.items():
                placed = self.placed(getattr(op, name)) if name in row.places else None
                if placed is not None:
                    self.path(op, placed, wanted, f"operand {name} of a product")
        elif dsa and "kind" in row.places or not dsa and (row.reads or row.writes):
            for name in dict.fromkeys((*row.reads, *row.writes)):
                value = getattr(op, name)
                if isinstance(value.type, Buffer):
                    self.computes(op, value.type.space, f"the buffer {value.name!r}" if value.name else "a buffer")
        elif row.results and "pure" in row.effects and row.cost not in _MOVES and not row.view_of:
            for value in op.operands:
                placed = self.placed(value) if isinstance(value.type, Tensor) else None
                if placed is not None:
                    self.computes(op, placed, "a tensor")

    def placed(self, value: Value) -> str | None:
        """The space of the buffer whose value a tile is, reshaped or converted perhaps; None for anything computed."""
        op = self.tiles.maker(value)
        while op is not None and "dsa" not in op.row.traits and op.row.cost in _MOVES and "pure" in op.row.effects:
            tiles = [operand for operand in op.operands if isinstance(operand.type, Tensor)]
            op = self.tiles.maker(tiles[0]) if len(tiles) == 1 else None
        return op.buffer.type.space if op is not None and "dsa" in op.row.traits and op.row.reads else None

    def path(self, op: Op, here: str, there: str, what: str) -> None:
        """Refuse data that no engine moves."""
        if here == there or self.spaces[here].engine(there):
            return
        if way := self.way(here, there):
            mend = (f"take it {here}{_text(way)}: tle.dsa.copy goes to and from global memory, and from space to space "
                    "tle.dsa.to_buffer(tle.dsa.to_tensor(x), space)")
        else:
            mend = f"keep the value that it was made of: no engine copies from {here} to {there}"
        raise IllegalPath(f"{what} cannot go from {TITLES[here]} to {TITLES[there]} on {self.target}: no engine does that. "
                          f"{self.out_of(here)}; {self.into(there)}.", op.site, hint=f"{mend}.")

    def computes(self, op: Op, space: str, what: str) -> None:
        """Refuse vector arithmetic where the vector unit does not reach."""
        if _VECTOR in self.spaces[space].computes:
            return
        where = next(name for name, one in self.spaces.items() if _VECTOR in one.computes)
        cube = f"; {_CUBE} units take it for tl.dot" if _CUBE in self.spaces[space].computes else ""
        way = self.way(space, where)
        raise IllegalPath(
            f"{what} in {TITLES[space]} cannot be computed with by {_word(op)!r} on {self.target}: vector units compute in "
            f"{TITLES[where]} only{cube}. {self.out_of(space)}; {self.into(where)}.", op.site,
            hint=f"take it there first, {space}{_text(way)}." if way else f"copy to {where} what is to be computed with.")

    def way(self, here: str, there: str) -> list[tuple[str, str]]:
        """The shortest way, as (space, engine) of each step; [] if there is none."""
        ways: dict[str, list[tuple[str, str]]] = {here: []}
        todo = [here]
        while todo:
            at = todo.pop(0)
            for path in self.spaces[at].copies:
                if path.to not in ways:
                    ways[path.to] = [*ways[at], (path.to, path.engine)]
                    todo.append(path.to)
        return ways.get(there, [])

    def out_of(self, name: str) -> str:
        paths = ", ".join(f"{path.engine} to {path.to}" for path in self.spaces[name].copies)
        return f"Out of {name} go {paths}" if paths else f"Nothing goes out of {name}"

    def into(self, name: str) -> str:
        found = [(path.engine, space) for space in self.spaces.values() for path in space.copies if path.to == name]
        paths = ", ".join(f"{engine} from {space}" for engine, space in found)
        return f"into {name} go {paths}" if paths else f"into {name} goes nothing"


def _word(op: Op) -> str:
    family = op.row.word.rpartition(".")[0]
    return f"{family}.{op.kind}" if "dsa" in op.row.traits and "kind" in op.row.places else op.row.word


def _text(way: list[tuple[str, str]]) -> str:
    return "".join(f" -{engine}-> {space}" for space, engine in way)
