"""The whole solver on a page: buffers, descriptors, tiles, and the checks on the answer."""

from __future__ import annotations

from ..ir.core import Block, Op, Program, Value
from ..ir.layouts import RegisterLayout
from ..ir.types import Descriptor, Tensor
from .bank_conflicts import Choice as Quiet
from .buffers import solve_buffers, wanted_alignments
from .defaults import nvmma_shared
from .in_flight import check_in_flight
from .pinned import check_pinned
from .solution import Layouts
from .tiles import Strength, Tiles

_FILLS = ("constant", "splat", "make_range")


def solve_layouts(program: Program, *, warp_size: int = 32, wgmma: bool = True, nvmma: bool = True,
                  quiet: dict[Value, Quiet] | None = None, told: dict[Op, RegisterLayout] | None = None) -> Layouts:
    """A layout for every tile, buffer and descriptor of the program, and the conversions where an op wants another.

    `warp_size` lanes a warp; `wgmma` says whether the target has Hopper's wgmma (without it `async_dot` raises
    `TargetError`); without `nvmma` buffers without wishes are plain; `quiet` are layouts for buffers that nobody has a wish for
    (`quiet_layouts`); `told` are the layouts in which Triton's passes would store the tiles of masked stores. Raises
    `LayoutConflict` where no layout suits all uses.
    """
    layouts = Layouts()
    layouts.shared, layouts.reasons = solve_buffers(program, tensor_cores=nvmma)
    for alloc, choice in (quiet or {}).items():
        layouts.shared[alloc], layouts.quiet[alloc] = choice.layout, (choice.wavefronts, choice.before)
        layouts.reasons[alloc] = (f"its reads and writes take {choice.wavefronts} wavefronts a warp in it, and {choice.before} in "
                                  f"{layouts.reasons[alloc]}")
    layouts.alignments = wanted_alignments(program)
    layouts.descriptors = {value: nvmma_shared(value.type.shape, value.type.element)
                           for value in _values(program) if isinstance(value.type, Descriptor)}
    tiles = Tiles(program, warp_size, wgmma, told)
    tiles.solve()
    check_in_flight(program, tiles)
    check_pinned(program, tiles)
    layouts.registers = {value: choice.layout for value, choice in tiles.choices.items()}
    layouts.reasons |= {value: choice.reason for value, choice in tiles.choices.items()
                        if choice.strength > Strength.DEFAULT}
    _fill_where_used(program, tiles, layouts)
    layouts.operands = {(op, index): wanted for (op, index), wanted in tiles.wants.items()
                        if wanted != layouts.registers[op.operands[index]]}
    return layouts


def _fill_where_used(program: Program, tiles: Tiles, layouts: Layouts) -> None:
    """A constant tile is made at once in the layout that all its users want, as the zeros of an accumulator."""
    wanted: dict[Value, set[RegisterLayout]] = {}
    for (op, index), layout in tiles.wants.items():
        wanted.setdefault(op.operands[index], set()).add(layout)
    for op in program.walk():
        pinned = op.attrs.get("layout") is not None
        if op.name in _FILLS and not pinned and isinstance(op.result.type, Tensor) and len(wanted.get(op.result, ())) == 1:
            (layout, ) = wanted[op.result]
            if layout != layouts.registers[op.result]:
                layouts.registers[op.result] = layout
                layouts.reasons[op.result] = "all its users want it"


def _values(program: Program):
    """Every value of the program: parameters, block arguments, results."""
    yield from (param.value for param in program.params)
    yield from _defined(program.body)


def _defined(block: Block):
    yield from block.args
    for op in block.ops:
        yield from op.results
        for inner in op.blocks:
            yield from _defined(inner)
