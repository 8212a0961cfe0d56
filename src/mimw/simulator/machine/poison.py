"""Elements that nobody has written: they may be read and computed with, and may not be used.

Input: a tile of which some elements lie in memory that nobody has written. Output: a `Poisoned` in its place, which travels through
arithmetic, loops and local memory; an `UnwrittenRead` with the lines of the read and of the use where an element of it is used. For
example, in the first trip of a loop, where the product overwrites what it is given:

    scaled = tlx.local_load(acc) * alpha      poison, which is no mistake
    tlx.local_store(acc, scaled)              the accumulator holds poison
    tlx.async_dot(p, v, acc, use_acc=i > 0)   nothing of it survives; with `use_acc=True` an UnwrittenRead

A use is whatever makes the element last or decide something: a store to global memory, an address, a mask, a branch, a bound, the
operand of a product of the tensor cores, and any other effect. `Task.read`, through which ops take their operands, refuses a
`Poisoned`: to ops without effects, which hand it on (`spreading`), by `PoisonMet`, to all others by the error. Memory and ops that
know better ask for it by `Task.take`, or by `Task.used` for the elements that a mask lets through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler.analysis.likely import likely_mend
from ...errors import SimulationError, UnwrittenRead, fail
from ...ir import Op, Site, Value
from .protocols import Reader

_HINT = "store or load into it, and order that before this read; or keep what was read out of all that is used: mask it out"


class PoisonMet(Exception):
    """An op without effects has met a `Poisoned`: the interpreter runs it by `spreading.spread`."""


class DataNeeded(Exception):
    """A run without tile data (`Machine.computes_all`) reads what nobody has written: only all data say what becomes of it."""


@dataclass(frozen=True)
class Origin:
    """The read of elements that nobody has written, for messages."""

    task: Reader
    op: Op
    read: str                       # "local_load reads 'tiles'[1], element (0, 0), which nobody has written"
    sites: tuple[Site, ...] = ()    # of who overwrote them, if someone did
    hint: str = _HINT

    def __post_init__(self):
        if not self.task.machine.computes_all:
            raise DataNeeded

    def refusal(self, task: Reader, op: Op, use: str) -> SimulationError:
        """The error of a read whose elements are used by `op` of `task`: `use` says how."""
        hint = likely_mend(task.machine.program) or self.hint
        if op is self.op:
            return fail(UnwrittenRead, self.task, op, self.read, *self.sites, hint=hint)
        by = "" if task is self.task else f" of {task.where}"
        return fail(UnwrittenRead, self.task, self.op, f"{self.read}, and {op.name} at {op.site}{by} {use}", op.site, *self.sites,
                    hint=hint)


@dataclass(eq=False, slots=True)
class Poisoned:
    """A tile or a number in the environment of a task. `mask` is true, in the shape of `data`, at elements that nobody has written:
    `data` has garbage there."""

    data: Any
    mask: np.ndarray
    origin: Origin

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def __array__(self, *args, **kwargs):
        raise AssertionError("a Poisoned is no array: take it by Task.read, Task.take or Task.used")

    def tobytes(self) -> bytes:
        return self.data.tobytes()

    def reshape(self, shape) -> Poisoned:
        return Poisoned(self.data.reshape(shape), self.mask.reshape(shape), self.origin)

    def __getitem__(self, where) -> Any:
        """The elements at a numpy index."""
        return poisoned(self.data[where], self.mask[where], self.origin)

    def refuse(self, task: Reader, op: Op) -> None:
        """Raise on behalf of `Task.read`: PoisonMet in an op that spreads poison, else the error of its use."""
        if spreads(op):
            raise PoisonMet
        raise self.origin.refusal(task, op, _use(task, op, self))

    def used(self, task: Reader, op: Op, mask) -> Any:
        """The data, where only the elements that `mask` lets through are used."""
        if np.any(self.mask & mask):
            raise self.origin.refusal(task, op, _use(task, op, self))
        return self.data


def poisoned(data, mask: np.ndarray, origin: Origin | None) -> Any:
    """The data, poisoned where the mask is true; as it is if that is nowhere."""
    return Poisoned(data, mask, origin) if np.any(mask) else data


def elementwise(function: Callable, *tiles) -> Any:
    """`function` of tiles of one shape, any of them poisoned: an element is poison if one that it is made of is."""
    first = next((tile for tile in tiles if tile.__class__ is Poisoned), None)
    if first is None:
        return function(*tiles)
    found = function(*(data_of(tile) for tile in tiles))
    return Poisoned(found, np.broadcast_to(mask_of(tiles), np.shape(found)), first.origin)


def spaced(elements, on: np.ndarray) -> Any:
    """A tile of these elements where `on` is true, in row-major order, and of zeros elsewhere."""
    if elements.__class__ is Poisoned:
        return Poisoned(spaced(elements.data, on), spaced(elements.mask, on), elements.origin)
    tile = np.zeros(on.shape, elements.dtype)
    tile[on] = elements
    return tile


def data_of(tile) -> Any:
    return tile.data if tile.__class__ is Poisoned else tile


def mask_of(tiles):
    """True where an element of any of the tiles is poison; shapes broadcast."""
    mask: Any = np.False_
    for tile in tiles:
        if tile.__class__ is Poisoned:
            mask = mask | tile.mask
    return mask


def spreads(op: Op) -> bool:
    """True if the op does nothing but give results, which may be poison."""
    return "pure" in op.row.effects or "assembly" in op.row.traits and bool(getattr(op, "is_pure", False)) and bool(op.results)


def _use(task: Reader, op: Op, tile: Poisoned) -> str:
    """The use that an op makes of an operand that it may not have, in words."""
    if "branch" in op.row.traits or "loop" in op.row.traits or "control" in op.row.effects:
        return "branches on it"
    operand = next((name for name in op.row.params if _is(task, getattr(op, name), tile)), "")
    if operand in ("pointer", "position", "index", "indices", "offsets"):
        return "takes it as an address"
    if operand in ("mask", "predicate"):
        return "takes it as a mask"
    if "dot" in op.row.traits:
        return "multiplies with it" if operand != "acc" else "adds to it"
    if operand == "value" and ("write" in op.row.effects or "atomic" in op.row.traits):
        return "puts it into global memory" if "pointer" in op.row.places or "descriptor" in op.row.places else "stores it"
    return f"uses it as `{operand}`" if operand else "uses it"


def _is(task: Reader, argument, tile: Poisoned) -> bool:
    values = argument if isinstance(argument, tuple) else (argument, )
    return any(isinstance(value, Value) and task.env.get(value) is tile for value in values)
