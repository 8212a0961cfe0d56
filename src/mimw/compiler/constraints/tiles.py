"""Register layouts of all tiles: the state that the rules work on, and the sweeps to a fixpoint.

Input: a program and the rule of each op. Output: a layout for each tile, and the layout in which each op wants each operand:

    %y = fadd %x %acc        %acc is in an mma layout, %x in a blocked one: %y gets the mma layout, and fadd wants %x in it, too

A sweep visits the ops in program order. Each op's rule reads the layouts of its operands, gives layouts to its
results and notes in which layout it wants each operand. Only values that cross the border of a region remember
anything from sweep to sweep, and what they remember only grows stronger, so the sweeps end; where a rule's choice is
not the best, a noted want (a conversion) still makes it valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from ...ir.core import Block, Op, Program, Value
from ...ir.layouts import Mma, RegisterLayout, Slice, TensorMemoryTile
from ...ir.types import Tensor
from ...target import Target
from .defaults import default_blocked


class Strength(IntEnum):
    """The priority of a layout: of two layouts for one tile, the one of the higher strength wins."""

    DEFAULT = 0
    VECTOR = 1
    SLICE = 2
    SLICE_OF_MMA = 3
    PINNED = 4
    MMA = 5


def strength_of(layout: RegisterLayout) -> Strength:
    """The strength of a layout by its kind."""
    if isinstance(layout, (Mma, TensorMemoryTile)):
        return Strength.MMA
    if isinstance(layout, Slice):
        return Strength.SLICE_OF_MMA if strength_of(layout.parent) >= Strength.SLICE_OF_MMA else Strength.SLICE
    return Strength.DEFAULT


@dataclass(frozen=True)
class Choice:
    """A layout with the op it comes from (None: the default of a shape) and the reason in words."""

    layout: RegisterLayout
    strength: Strength
    origin: Op | None = None
    reason: str = ""

    def becomes(self, layout: RegisterLayout) -> Choice:
        """The same choice for a tile of another shape; what the author pinned stays pinned."""
        strength = self.strength if self.strength is Strength.PINNED else strength_of(layout)
        return replace(self, layout=layout, strength=strength)


class Tiles:
    """The layouts chosen so far.

    args:    rule_of    the rule of an op: a function that reads and gives layouts of tiles (`rules`)
             stored     the layouts in which Triton's passes store tiles, where that is known
             accessed   those in which they access global memory where ops of ours do, likewise
    fields:  num_warps  of the task being visited
             compared   the layouts that assertions name
    """

    def __init__(self, program: Program, target: Target, rule_of: Callable[[Op], Callable[[Op, Tiles], None]],
                 stored: dict[Op, RegisterLayout] | None = None, accessed: dict[Op, RegisterLayout] | None = None):
        self.program, self.target, self.rule_of = program, target, rule_of
        self.stored, self.accessed = stored or {}, accessed or {}
        self.warp_size = target.warp_size
        self.num_warps = program.num_warps
        self.choices: dict[Value, Choice] = {}
        self.wants: dict[tuple[Op, int], RegisterLayout] = {}
        self.compared: dict[Op, RegisterLayout] = {}
        self._carried: dict[Value, Choice] = {}
        self._grew = False

    def __getitem__(self, value: Value) -> Choice:
        return self.choices[value]

    def operands(self, op: Op) -> Iterator[tuple[int, Value]]:
        """The tiles among the operands, with their index."""
        return ((index, value) for index, value in enumerate(op.operands) if isinstance(value.type, Tensor))

    def results(self, op: Op) -> Iterator[Value]:
        """The tiles among the results."""
        return (value for value in op.results if isinstance(value.type, Tensor))

    def default(self, shape: tuple[int, ...]) -> Choice:
        """The default of a shape on the warps of the task being visited."""
        return Choice(default_blocked(shape, self.num_warps, self.warp_size), Strength.DEFAULT)

    def strongest(self, values: list[Value]) -> Choice:
        """The strongest choice among tiles of one shape; among equals the shape's default, else the first."""
        default = self.default(values[0].type.shape)
        choices = [self[value] for value in values]
        best = max(choice.strength for choice in choices)
        equals = [choice for choice in choices if choice.strength is best]
        return next((choice for choice in equals if choice.layout == default.layout), equals[0])

    def give(self, value: Value, choice: Choice) -> None:
        """`value` has this layout in this sweep."""
        self.choices[value] = choice

    def want(self, op: Op, index: int, layout: RegisterLayout) -> None:
        """`op` takes its operand `index` in this layout."""
        self.wants[op, index] = layout

    def want_named(self, op: Op, operand: str, layout: RegisterLayout) -> None:
        """`op` takes its operand of that name in this layout."""
        self.wants[op, op.index_of(operand)] = layout

    def carry(self, source: Value, target: Value) -> None:
        """`source` becomes `target` over the border of a region; the strongest source ever seen decides."""
        choice, held = self[source], self._carried.get(target)
        if held is None or choice.strength > held.strength:
            self._carried[target] = choice
            self._grew = True
        self.choices[target] = self._carried[target]

    def visit(self, block: Block, num_warps: int | None = None) -> None:
        """Apply the rule of each op of a block, on `num_warps` warps if it is a task's."""
        outside, self.num_warps = self.num_warps, num_warps or self.num_warps
        for op in block.ops:
            self.rule_of(op)(op, self)
        self.num_warps = outside

    def solve(self) -> None:
        """Sweep until nothing that is carried grows stronger."""
        self._grew = True
        while self._grew:
            self._grew = False
            self.wants.clear()
            self.visit(self.program.body)
