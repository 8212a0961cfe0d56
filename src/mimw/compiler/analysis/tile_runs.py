"""Runs in tiles: how many neighbours along each axis count up by one, or are equal, and what divides the first of them.

Input: a program. Output: `Runs` of each integer, pointer and mask of it; and of a load the piece that one instruction may copy. For
example, of `a + rows[:, None] * K + tl.arange(0, 64)[None, :]` to fp16, with any rows, `a` and K divisible by 16:

    runs_of(program)[pointer].axes      along axis 0 nothing; along axis 1 runs of 64 elements, which begin at multiples of 32 bytes
    piece_of(program, load)             (1, 16): 16 bytes along axis 1

The facts are those of Triton's own axis analysis, or fewer, so a piece that this file promises is one that Triton finds as well.
Groups are aligned: a run of 8 begins at each index that 8 divides. What loops and branches hand on is met from all sides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import gcd

from ...ir import Op, Program, Value
from ...ir.flow import all_carries
from .tile_run_rules import MANY, Axis, Runs, extents, fact, made, nothing, power

MOST_BYTES = 16     # of a piece: PTX ISA, "cp.async", cp-size


def runs_of(program: Program) -> Mapping[Value, Runs]:
    """The facts of all integers, pointers and masks of a program."""
    return program.kept(_found)


def piece_of(program: Program, load: Op) -> tuple[int, int]:
    """(axis, bytes) of the largest piece that a load through a tile of pointers surely has in one, all or nothing of it masked."""
    runs, mask = runs_of(program), load.mask if "mask" in load.row.places else None
    size = load.pointer.type.element.pointee.bytes
    pieces = []
    for at, axis in enumerate(runs[load.pointer].axes):
        same = MANY if mask is None else runs[mask].axes[at].same
        pieces.append((min(axis.run * size, axis.start, same * size, MOST_BYTES), at))
    piece, at = max(pieces)
    return at, piece


# ---- the way through a program ---------------------------------------------------------------------------------------------


def _found(program: Program) -> dict[Value, Runs]:
    """At first what a loop hands on is what it begins with; then all ops again, until nothing is taken back."""
    sources: dict[Value, list[Value]] = {}
    for carry in all_carries(program):
        sources.setdefault(carry.target, []).append(carry.source)
    facts: dict[Value, Runs] = {param.value: _argument(param) for param in program.params}
    hints = [op for op in program.walk() if op.name == "hint"]
    while True:
        before = dict(facts)
        for op in program.walk():
            for block in op.blocks:
                for value in block.args:
                    facts[value] = _handed(facts, sources.get(value, ()), value)
            if op.name == "for":
                counter = op.blocks[0].args[0]
                facts[counter] = Runs(gcd(fact(facts, op.start).every, fact(facts, op.step).every))
            for value in op.results:
                facts[value] = _handed(facts, sources[value], value) if value in sources else made(facts, op, value)
            for hint in hints:
                if hint.value in op.results:
                    facts[hint.value] = _hinted(facts[hint.value], hint)
        if facts == before:
            return facts


def _handed(facts: Mapping[Value, Runs], sources: Collection[Value], value: Value) -> Runs:
    known = [facts[source] for source in sources if source in facts]
    if not known:
        return nothing(value)
    first, *others = known
    for other in others:
        first = first.met(other)
    return first


def _argument(param) -> Runs:
    return Runs(dict(param.attrs).get("tt.divisibility", 1) if not extents(param.value) else 1,
                tuple(Axis() for _ in extents(param.value)))


def _hinted(runs: Runs, hint: Op) -> Runs:
    """The facts, with those that `tl.multiple_of` and `tl.max_contiguous` promise."""
    numbers = [power(number) for number in hint.numbers]
    if not runs.axes:
        return Runs(max(runs.every, numbers[0])) if hint.attribute == "tt.divisibility" else runs
    name = {"tt.divisibility": "start", "tt.contiguity": "run", "tt.constancy": "same"}[hint.attribute]
    return replace(runs, axes=tuple(replace(axis, **{name: max(getattr(axis, name), number)})
                                    for axis, number in zip(runs.axes, numbers)))
