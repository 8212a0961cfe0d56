"""A grid of a program a tile becomes one of a few programs that take tiles in turn: plain program to plain program.

Input: a plain program. Output: `Persistent`: the program with a loop over tiles around its body and parameters for their number, or
the program itself and why. For example:

    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN;  ..        becomes

    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m, n = tile % tiles_x * BM, tile // tiles_x % tiles_y * BN;  ..

A tile is what a program of the plain grid does; the grid's programs are counted with x fastest, as they are started, or in another
order (tile_orders.py). Descriptors, and numbers that are the same for all programs, are made in front of the loop.

Programs of a grid run in any order and at the same time, and no word that orders them is let through here. So nothing that one tile
writes is awaited by another: what a task does for a tile may overtake what another task does for the tile before, and
`own_elements` compares accesses within a tile alone, as in the plain kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...ir import I32, Block, Builder, Op, Param, Program, Scalar, Value
from ..analysis.remarks import Remark
from .tile_orders import XFIRST, Bands, Order, bands, place_in_bands, row_of_tiles, there_and_back

_ALONE = frozenset(("pure", "read", "write", "control", "debug"))      # effects that order no programs


@dataclass(frozen=True)
class Persistent:
    """`program` with its loop over tiles, and a remark. `params` are the names of its new parameters of 32 bits: the number of
    tiles, and the grid's extents along x and y if other axes than x are asked for; () if the program is the one that went in.
    `order` is that of its tiles: the one asked for, but without bands if the kernel has no rows of tiles, or y comes first;
    `columns` the tiles of a row, where they are the kernel's own."""

    program: Program
    remarks: tuple[Remark, ...]
    params: tuple[str, ...] = ()
    order: Order = XFIRST
    columns: Value | None = None


def persistent(program: Program, order: Order = XFIRST) -> Persistent:
    """The program, as recorded or with boxes, in a loop over tiles in this order; itself if a remark says why not."""
    asked = {op.axis for op in program.named("get_program_id")}
    found = _why_not(program, asked)
    if found is None:
        first, inside = _parted(program)
        found = next((Remark("each program keeps its one tile: this descriptor is made of what differs from tile to tile, or under "
                             "a condition, so it cannot be made once in front of all tiles", op.site)
                      for top in inside for op in top.walk() if op.name == "make_tensor_descriptor"), None)
    if found is not None:
        return Persistent(program, (found, ))
    params = _params(program, ("tiles", "tiles_x", "tiles_y") if asked != {0} else ("tiles", ))
    names = tuple(param.name for param in params)
    remark = Remark(f"programs take the grid's tiles in turn; {', '.join(names)}: how many there are", program.site)
    columns = row_of_tiles(program) if order.band else None
    if columns not in {param.value for param in program.params} | {value for op in first for value in op.results}:
        columns = None
    if order.band and (order.across or columns is None and len(params) == 1):
        order, columns = replace(order, band=0), None
    body = _loop(program, first, inside, tuple(param.value for param in params), order, columns)
    return Persistent(replace(program, params=(*program.params, *params), body=body), (remark, ), names, order, columns)


def tile_loop(program: Program) -> Op:
    """The loop over tiles of a program that `persistent` made, also if passes have rewritten what is in it."""
    return program.body.ops[-1]


# ---- what stays a program a tile -----------------------------------------------------------------------------------------------


def _why_not(program: Program, asked: set[int]) -> Remark | None:
    """The first reason for which programs stay one a tile; None if there is none."""
    if not asked:
        return Remark("no program asks for its number, so there are no tiles to take in turn", program.site)
    for op in program.walk():
        if why := word_in_the_way(op):
            return Remark(f"each program keeps its one tile: {why}", op.site)
    return None


def word_in_the_way(op: Op) -> str:
    """The relation of an op to other programs, or to the grid; "" if it has none."""
    word, traits, effects = op.row.word or op.name, op.row.traits, op.row.effects
    if op.name == "get_num_programs":
        return "`tl.num_programs` asks how many programs there are"
    if "atomic" in traits:
        return f"`{word}` is an atomic access, by which programs may wait for each other"
    if "is_volatile" in op.row.places and bool(getattr(op.is_volatile, "value", op.is_volatile)):
        return f"`{word}` is volatile, as where a program waits for another one"
    if "assembly" in traits and not op.is_pure:
        return f"`{word}` may do anything, also wait for another program"
    if op.row.ours and "observer" not in traits:
        return f"`{word}` is a function of mimw"
    if "assembly" not in traits and not effects <= _ALONE and not op.row.hands_on and op.name != "make_tensor_descriptor":
        return f"`{word}` may order programs or their threads"
    return ""


# ---- the loop --------------------------------------------------------------------------------------------------------------------


def _parted(program: Program) -> tuple[list[Op], list[Op]]:
    """(ops that are the same for all tiles: descriptors, and numbers without effects; all others), in their order."""
    same = {param.value for param in program.params}
    first, inside = [], []
    for op in program.body.ops:
        number = "pure" in op.row.effects and not op.blocks and not {"by_cta", "assembly"} & op.row.traits and \
            all(isinstance(value.type, Scalar) for value in op.results)
        if (number or op.name == "make_tensor_descriptor") and same.issuperset(op.operands):
            same.update(op.results)
            first.append(op)
        else:
            inside.append(op)
    return first, inside


def _params(program: Program, wanted: tuple[str, ...]) -> tuple[Param, ...]:
    """New parameters behind all others, named as wanted or nearly so."""
    taken, found = {param.name for param in program.params}, []
    place = 1 + max((param.path[0] for param in program.params), default=-1)
    for at, base in enumerate(wanted):
        name, number = base, 1
        while name in taken:
            name = f"{base}_{(number := number + 1)}"
        taken.add(name)
        found.append(Param(Value(I32, name), name, (place + at, )))
    return tuple(found)


def _loop(program: Program, first: list[Op], inside: list[Op], params: tuple[Value, ...], order: Order,
          columns: Value | None) -> Block:
    """The new body: what is the same for all tiles, and the loop over them."""
    b, tile = Builder(program.site), Value(I32, "tile")
    b.ops += first
    start, step = b.emit("get_program_id", (0, )), b.emit("get_num_programs", (0, ))
    asked = {op.axis for op in program.named("get_program_id")}
    # In front of the loop: a divisor that changes in a loop may be 0, and what takes it is not done a trip ahead.
    layer = b.emit("mul", params[1:], label="tiles_xy") if 2 in asked else None
    by_bands = None
    if order.band:
        by_bands = bands(b, order.band, *((columns, b.emit("sdiv", (params[0], columns))) if columns is not None else params[1:]))
    outside = b.open()
    taken = there_and_back(b, tile, start, step, params[0]) if order.last_first else tile
    if len(params) == 1:
        places = {0: taken if by_bands is None else _number_in_rows(b, taken, by_bands)}
    else:
        places = _places(b, taken, params[1:], asked, layer, order, by_bands)
    env = {op.result: places[op.axis] for op in program.named("get_program_id")}
    b.ops += _replaced(Block((), tuple(inside)), env).ops
    body = Block((tile, ), b.close(outside))
    b.ops.append(Op("for", (start, params[0], step, ()), (), (body, ), site=program.site))
    return Block((), tuple(b.ops))


def _number_in_rows(b: Builder, tile: Value, by_bands: Bands) -> Value:
    """The plain kernel's number along x, which it takes apart into rows."""
    column, row = place_in_bands(b, tile, by_bands)
    return b.emit("add", (b.emit("mul", (row, by_bands.columns)), column), label="tile_in_rows")


def _places(b: Builder, tile: Value, extents: tuple[Value, ...], asked: set[int], layer: Value | None, order: Order,
            by_bands: Bands | None) -> dict[int, Value]:
    """A tile's number along each axis that is asked for; `layer` are the tiles of one number along z."""
    if by_bands is not None:
        found = dict(enumerate(place_in_bands(b, tile if layer is None else b.emit("srem", (tile, layer)), by_bands)))
    else:
        inner, outer = (1, 0) if order.across else (0, 1)
        names, found = ("tile_x", "tile_y"), {}
        if inner in asked:
            found[inner] = b.emit("srem", (tile, extents[inner]), label=names[inner])
        if outer in asked:
            found[outer] = b.emit("srem", (b.emit("sdiv", (tile, extents[inner])), extents[outer]), label=names[outer])
    if 2 in asked:
        found[2] = b.emit("sdiv", (tile, layer), label="tile_z")
    return found


def _replaced(block: Block, env: Mapping[Value, Value]) -> Block:
    """The block without program ids, which are values of `env`."""
    def now(arg):
        if isinstance(arg, tuple):
            return tuple(map(now, arg))
        return env.get(arg, arg) if isinstance(arg, Value) else arg

    ops = (Op(op.name, now(op.args), op.results, tuple(_replaced(inner, env) for inner in op.blocks), op.attrs, op.site)
           for op in block.ops if op.name != "get_program_id")
    return block.with_ops(ops)
