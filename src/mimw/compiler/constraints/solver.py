"""Layouts for one program: buffers, descriptors, tiles, and the checks on the answer.

Input: a program after all passes and a chip; from an earlier lowering of the same program, what Triton's passes made of it. Output:
`Layouts`, or `LayoutConflict` with the lines that disagree. For a kernel that loads a tile by TMA and multiplies it:

    %a = local_alloc bf16[128, 64] x 4        nvmma(swizzle 128): tma_load wants its descriptor's block
    %acc = async_dot %a %b                    mma(warps [4, 1], m16 n128): async_dot accumulates in it
    %x = fadd %acc %bias                      %acc as it is; %bias is converted to the layout of %acc
"""

from __future__ import annotations

from ...ir.core import Block, Op, Program, Value
from ...ir.layouts import RegisterLayout
from ...ir.ops import is_pure
from ...ir.types import Descriptor, Tensor
from ...target import TARGETS, Target
from .bank_conflicts import BankChoice
from .buffers import solve_buffers, wanted_alignments
from .descriptors import descriptor_layouts, mover_layouts
from .in_flight import check_in_flight
from .pinned import check_pinned
from .rules import rule_of
from .solution import Layouts
from .tiles import Strength, Tiles


def solve_layouts(program: Program, target: Target = TARGETS["sm_90a"], *, bank_choices: dict[Value, BankChoice] | None = None,
                  stored: dict[Op, RegisterLayout] | None = None,
                  accessed: dict[Op, RegisterLayout] | None = None) -> Layouts:
    """A layout for every tile, buffer and descriptor of the program, and the conversions where an op wants another.

    args:      target        the chip; without TMA no op needs an NV-MMA layout, and buffers are plain by default
               bank_choices  layouts with few bank conflicts for buffers that no op demands a layout of (`fewer_conflicts`)
               stored        for each masked store the layout in which Triton's passes would store its tile
               accessed      for each buffer word the layout in which they would access the same through pointers
    errors:    LayoutConflict where no layout suits all uses; TargetError for an `async_dot` on a chip without wgmma
    """
    layouts = Layouts()
    layouts.shared, layouts.reasons = solve_buffers(program, nvmma=target.has("tma"))
    for alloc, choice in (bank_choices or {}).items():
        layouts.shared[alloc], layouts.wavefronts[alloc] = choice.layout, (choice.wavefronts, choice.before)
        layouts.reasons[alloc] = (f"its reads and writes take {choice.wavefronts} wavefronts a warp in it, and {choice.before} in "
                                  f"{layouts.reasons[alloc]}")
    layouts.alignments = wanted_alignments(program)
    described = [value for value in _values(program) if isinstance(value.type, Descriptor)]
    layouts.descriptors = (mover_layouts(program, described, layouts.shared) if target.has("tdm")
                           else descriptor_layouts(program, described))
    tiles = Tiles(program, target, rule_of, stored, accessed)
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
    """A tile that is made from nothing, such as the zeros of an accumulator, is made in the layout that all its users want."""
    wanted: dict[Value, set[RegisterLayout]] = {}
    for (op, index), layout in tiles.wants.items():
        wanted.setdefault(op.operands[index], set()).add(layout)
    for op in program.walk():
        from_nothing = op.row.layout == "free" and is_pure(op.name) and op.attrs.get("layout") is None
        if from_nothing and isinstance(op.result.type, Tensor) and len(wanted.get(op.result, ())) == 1:
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
