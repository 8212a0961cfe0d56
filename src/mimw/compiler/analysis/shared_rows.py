"""Rows that tasks can share out: the axis of each tile of a consumer that is cut into parts, so that no task needs another's
elements.

Input: a plain program, the ops of its consumer, the number of tasks, and the least rows of a product's part. Output: the axis of
each tile that is shared out, by value (all other tiles, and all numbers, are everybody's), or a `Remark` that says why that cannot
be:

    acc = tl.dot(q, k.T); m = tl.max(acc, 1); tl.store(out + rows, m)       {q: 0, acc: 0, m: 0, out + rows: 0, rows: 0}
    tl.store(total, tl.sum(m, 0))                                           Remark: line .., `reduce` goes along the rows ..

A task that runs the same ops on its parts computes its part of each tile that is shared out, and all of every other value. So
what has an effect (a store, an atomic) has to be of a tile that is shared out: all tasks would do any other. Tasks run at their own
pace: none touches what another one writes (`own_elements`). Arrays of different parameters are taken to be apart: who uses the
answer asks that of each launch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir import Op, Program, Site, Tensor, Type, Value
from .own_elements import foreign_element
from .remarks import Remark
from .row_links import Axis, links, shape_of
from .uses import Uses, uses_of

_HARMLESS = frozenset(("pure", "read", "control", "debug"))     # effects that all tasks may have
WGMMA_ROWS = 64     # that a warpgroup of four warps multiplies at a time: PTX ISA, "wgmma.mma_async", shape m64nNk


class _Refused(Exception):
    """Rows cannot be shared out; `remark` says why."""

    def __init__(self, site: Site, why: str):
        super().__init__(why)
        self.remark = Remark(f"rows cannot be shared out among tasks: {why}", site)


def shared_rows(program: Program, ops: Iterable[Op], parts: int = 2, least: int = WGMMA_ROWS,
                independent: Collection[Op] = (), handed: Collection[Op] = (),
                hands_on: Collection[Value] | None = None) -> dict[Value, int] | Remark:
    """The axis of each tile of `ops` that is shared out among `parts` tasks, or why that cannot be.

    program:    a plain one, without words of ours
    ops:        all that a consumer does, ops with regions and what it does in them, each once. Of what it takes from outside, only
                what loads give is shared out: it is read in parts. A consumer may leave out what is hinted of tiles: a hint is of
                the whole tile, so one of a tile that is shared out is refused
    parts:      tasks that share out the rows, 1 or more
    least:      a product's part has a multiple of so many rows; wgmma takes 64 for four warps
    handed:     ops of another task, whose tiles are handed over in parts as well
    hands_on:   what loops and branches hand on in these tasks, as arguments and results; None: all of it
    independent:    loops whose trips are programs of a grid (`orchestrate/persist.py`): they may run in any order
    """
    if parts < 1:
        raise ValueError(f"{parts} tasks cannot share out rows")
    ops = sorted(set(ops), key=uses_of(program).position.__getitem__)
    try:
        axes = _shared_axes(program, ops, parts, least, handed, hands_on)
        for op in ops:
            _check_effect(op, axes)
        if (found := foreign_element(program, ops, axes, independent)) is not None:
            raise _Refused(found[0].site, found[1])
    except _Refused as refused:
        return refused.remark
    return axes


def shared(type_: Type, axis: int | None, parts: int) -> Type:
    """The type of a part of a tile that is shared out along `axis`: `fp32[128, 64]` along 0 in 2 parts is `fp32[64, 64]`. Without
    an axis, the type itself. ValueError if the extent does not divide."""
    if axis is None or not isinstance(type_, Tensor):
        return type_
    if type_.shape[axis] % parts:
        raise ValueError(f"axis {axis} of {type_} has no {parts} equal parts")
    return Tensor(type_.element, (*type_.shape[:axis], type_.shape[axis] // parts, *type_.shape[axis + 1:]))


def _shared_axes(program: Program, ops: list[Op], parts: int, least: int, handed: Collection[Op],
                 hands_on: Collection[Value] | None) -> dict[Value, int]:
    """All that goes together with the rows of the products; refused where any of it has to stay whole."""
    uses, neighbours, whole = uses_of(program), {}, {}
    for op in ops:
        found = links(op, parts)
        if found is None:
            raise _Refused(op.site, f"`{op.row.word}` is not followed")
        for one, other in found.together:
            if op.row.hands_on and hands_on is not None and other[0] not in hands_on:
                continue
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
        for axis, why in found.whole:
            whole.setdefault(axis, (op, why))
    products = [op for op in ops if "dot" in op.row.traits]
    if not products:
        raise _Refused(program.site, "there is no product")
    inside, axes = frozenset(ops), {}
    todo: list[Axis] = [(op.result, 0) for op in products]
    while todo:
        value, axis = todo.pop()
        if axes.setdefault(value, axis) == axis and (value, axis) not in whole:
            todo += [one for one in neighbours.get((value, axis), ()) if axes.get(one[0]) != one[1]]
            continue
        if (value, axis) in whole:
            op, why = whole[value, axis]
            raise _Refused(op.site, f"`{op.row.word}` {why}")
        raise _Refused(uses.site(value), f"a tile of {value.type} would be shared out along axes {axes[value]} and {axis} both")
    for value, axis in axes.items():
        _check_origin(uses, inside, value, handed)
        extent = shape_of(value)[axis]
        if extent % parts:
            raise _Refused(uses.site(value), f"{extent} rows have no {parts} equal parts")
    for op in products:
        rows = shape_of(op.result)[0] // parts
        if rows % least:
            raise _Refused(op.site, f"of {rows * parts} rows each of {parts} tasks has {rows}, "
                           f"and a product takes {least} at a time")
    return axes


def _check_origin(uses: Uses, inside: frozenset[Op], value: Value, handed: Collection[Op]) -> None:
    """A tile that is shared out is made by the tasks, or loaded or computed for them."""
    op, place = uses.definition[value], uses.argument.get(value)
    maker = op if op is not None else place.parent if place is not None else None
    if maker in inside or op in handed or op is not None and (op.row.loads or op.row.brings_tile):
        return
    raise _Refused(uses.site(value), "a tile that would be shared out is made outside of the tasks")


def _check_effect(op: Op, axes: dict[Value, int]) -> None:
    """Refuse an effect that all tasks would have."""
    if any(how.endswith("write") for _, how in op.row.touches):
        if op.value not in axes:
            what = "a whole tile" if shape_of(op.value) else "a number"
            raise _Refused(op.site, f"each task would do `{op.row.word}` of {what}")
    elif op.name == "hint":
        if op.value in axes:
            raise _Refused(op.site, f"`{op.row.word}` {op.attribute} is said of the whole tile")
    elif "read" in op.row.effects:
        volatile = "is_volatile" in op.row.places and getattr(op.is_volatile, "value", op.is_volatile)
        if volatile and op.result not in axes:
            raise _Refused(op.site, f"tasks would do `{op.row.word}` of volatile memory at different times")
    elif not op.row.effects <= _HARMLESS and "assembly" not in op.row.traits and op.name != "make_tensor_descriptor":
        raise _Refused(op.site, f"each task would do `{op.row.word}`")
