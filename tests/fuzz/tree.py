"""The program tree: what happens, in order, each step written as kernel lines and as numpy lines.

The tree is sequential. Which task runs a step, and what passes between tasks, is not in it: `orchestrate` adds that to the
kernel's side alone, so the numpy side stays the meaning of the program.

    Step(1, ("v1 = v0 + v0",), ("v1 = v0 + v0",), makes=Value("v1", ...), uses=frozenset({"v0"}))
    Loop("i0", "for i0 in range(n0):", "for i0 in range(n0):", trips=3, body=(...,))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .elements import ELEMENTS

ROUNDED = float("inf")  # the bound of values that are no exact integers; they are compared with a tolerance


@dataclass(frozen=True)
class Value:
    """A tile, or an expression that gives one: its text in both languages, its type, the largest magnitude it can have, and the
    tile variables and mutable states that the text reads."""

    kernel: str
    reading: str
    element: str
    shape: tuple[int, ...]
    bound: float
    uses: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.size * ELEMENTS[self.element].bytes


@dataclass(frozen=True)
class Mark:
    """What a synchronising line is for, for the mutator. `role` picks the row of `mutants.ROLES`; `channel` names the transfers
    that are counted while the numpy side runs; `slots` and other facts of the construction are in `facts`."""

    role: str
    channel: str = ""
    facts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of the kernel, with a mark if it synchronises."""

    text: str
    mark: Mark | None = None


@dataclass(frozen=True)
class Load:
    """A step that only loads one whole tile of an array: a channel may fill its slot from there by itself. `index` is the tile's
    number."""

    array: str
    index: str
    valid: str = ""


@dataclass(frozen=True)
class Dot:
    """A step that adds a product to an accumulator, so that `orchestrate` may read the operands from slots."""

    a: str
    b: str
    accumulator: str


@dataclass(frozen=True)
class Step:
    """One action. `states`: the mutable things that it touches, which belong to one task; `private`: more than one task must not
    do it, and no replica."""

    number: int
    kernel: tuple[Line, ...]
    reading: tuple[str, ...]
    makes: Value | None = None
    uses: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    load: Load | None = None
    dot: Dot | None = None
    private: bool = False
    warps: tuple[int, ...] = (1, 2, 4, 8)


@dataclass(frozen=True)
class Loop:
    """`kernel` and `reading` are the heads; `before` and `step` are what a while loop needs, the same text in both. `count`
    is the text of the number of rounds: an argument's name, where it is one, so that the kernel is right for others, too."""

    variable: str
    kernel: str
    reading: str
    trips: int
    body: tuple[Any, ...]
    plain: bool = True  # counts 0, 1, 2, ..: a channel's count may be its variable
    before: str = ""
    step: str = ""
    count: str = "1"


@dataclass(frozen=True)
class Branch:
    """`else_` may be empty. The conditions are about scalars that every task knows."""

    kernel: str
    reading: str
    then: tuple[Any, ...]
    else_: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Argument:
    """One parameter of the kernel. `kind`: array, number, constant (a constexpr), descriptor (of array `of`, in blocks `block`).
    An array's `fill` is what prelude.filled takes; `copies`: how often replicas write it."""

    name: str
    kind: str
    element: str = ""
    shape: tuple[int, ...] = ()
    fill: tuple[Any, ...] = ()
    value: Any = None
    of: str = ""
    block: tuple[int, ...] = ()
    output: bool = False
    tolerance: float = 0.0
    copies: int = 1


@dataclass(frozen=True)
class Break:
    """One text of the kernel, which stands there once, replaced by another one, which makes the program wrong; and why."""

    old: str
    new: str
    why: str


@dataclass(frozen=True)
class Program:
    """All that a run needs: the kernel's source, the numpy source of its meaning, arguments, grid, launch keywords. `skips` names
    the stages that cannot be and why, "gfx" all of AMD's chips; `words` are the tags that its generator gave it."""

    family: str
    seed: int
    kernel: str
    reading: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    cluster: int = 1
    meshed: bool = False  # a mesh of the kernel's makes the clusters: the launch counts these, not CTAs
    whole_grid: bool = False  # all CTAs meet; there is no cluster
    skips: dict[str, str] = field(default_factory=dict)
    marks: tuple[tuple[int, Mark], ...] = ()  # line of the kernel source -> its mark
    chip: str = "sm_90a"  # whose rules the simulator and the checker hold it against
    breaks: tuple[Break, ...] = ()  # changes that make it wrong, besides those of its marks
    foreign: bool = False  # the chip is not one that its generator asked: it may lack words

    @property
    def launched(self) -> tuple[int, ...]:
        """The grid that a launch names."""
        return (self.grid[0] // self.cluster, *self.grid[1:]) if self.meshed else self.grid
