"""The walk over a program: one emission for each op, which finds the MLIR values and layouts of its operands here.

Input: an op of a solved program. Output: MLIR ops at the insertion point of Triton's builder, and the MLIR value of each result.
An emission is a function that is registered by the op's name, and reads operands by the names that the op's row gives them:

    @emits("buffer_index")
    def buffer_index(emitter, op):
        return emitter.builder.create_memdesc_index(view, emitter.of(op.buffer), emitter.of(op.index))
"""""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ...errors import LayoutConflict, NotYet
from ...ir import I64, UNKNOWN, Block, Op, Place, Pointer, Program, Tensor, Token, Value
from ...ir.layouts import DotOperand, RegisterLayout, SharedLayout
from ...target import Target
from ..constraints.solution import Layouts
from ..triton_port.builder import GluonOpBuilder
from ..triton_port.differences import NotInTriton
from ..triton_port.numbers import numbered
from .types import Types

Emission = Callable[["Emitter", Op], object]
EMISSIONS: dict[tuple[str, str], Emission] = {}


def emits(*names: str, assembly: str = ""):
    """Register how the ops of these names are emitted: a function of the emitter and the op that returns the MLIR values of the
    op's results. With `assembly` it is for the chips of that assembly language only (`Target.assembly`)."""

    def register(function: Emission) -> Emission:
        EMISSIONS.update(dict.fromkeys(((name, assembly) for name in names), function))
        return function

    return register


def emission_of(name: str, assembly: str) -> Emission:
    """The emission of ops of that name for chips of that assembly language."""
    return EMISSIONS.get((name, assembly)) or EMISSIONS[name, ""]


@dataclass(frozen=True)
class Placement:
    """The position of a buffer's MLIR value in memory: its layout, and the shape of the tile that it is a view of.

    An array whose buffers do not simply follow each other has its `place` in shared storage; with `storage_bytes` its MLIR
    value is that storage itself.
    """

    layout: SharedLayout
    allocated: tuple[int, ...]
    place: Place | None = None
    storage_bytes: int = 0
    half: int | None = None     # of a part of a buffer of tensor memory whose rows have halves in lanes of their own: which of them
    doubled: bool = False       # of a buffer of tensor memory whose 64 rows lie in both halves of the lanes


@dataclass
class Frame:
    """The body of the kernel or of a worker task, which takes its memory at the start and gives it back at the end: its MLIR
    block, how deep that nests, and the allocations."""

    block: Any
    level: int
    memory: list = field(default_factory=list)


class Emitter:
    """Builds one module. `values` holds the MLIR value of each IR value; tokens have none. `by_registers` are the
    `async_load`s that cp.async cannot do. The module of a `trial` is looked at and thrown away: masked stores are plain ones
    in it."""

    def __init__(self, builder: GluonOpBuilder, layouts: Layouts, target: Target, program: Program,
                 by_registers: frozenset[Op] = frozenset(), trial: bool = False, module: Any = None, target_name: str = ""):
        self.builder, self.layouts, self.target = builder, layouts, target
        self.module, self.target_name = module, target_name
        self.splices: dict[str, Any] = {}  # of each function that is called and only declared, what takes the place of its calls
        self.site = UNKNOWN
        self.program, self.by_registers, self.trial = program, by_registers, trial
        self.numbers = {op: number for number, op in enumerate(program.walk())}  # what an op's location names it by
        self.num_warps = program.num_warps  # of the task being emitted
        self.partition: int | None = None  # which of the worker tasks that is; None: the default one, or there are no tasks
        self.types = Types(builder, layouts)
        self.values: dict[Value, object] = {}
        self.constants: dict[Value, Op] = {}
        self.placed: dict[Value, Placement] = {}
        self.arrays: dict[Value, Any] = {}  # of a buffer that consists of pieces, the array of these (`words.pieces`)
        self.addresses: dict[Value, object] = {}  # of descriptors made in the kernel, where an instruction needs them
        self.storage_bytes: dict[Value, int] = {}
        self.tensor_columns = 0  # of tensor memory that the kernel takes
        self.fetching: object = None  # the barrier of a run of TMA loads
        self.flat: dict[Value, Value] = {}  # a flat buffer: the one that it shows
        self.behind: tuple[tuple[Op, ...], int] = (), 0  # the ops of the block, and where those behind the emitted one begin
        self.taken: set[Op] = set()  # ops that an earlier emission has done, too
        self.yield_to: list[Callable[[list], object]] = []
        self.frames: list[Frame] = []
        self.level = 0

    def mlir_type(self, value: Value):
        """The MLIR type of an IR value in its solved layout."""
        return self.types.of(value)

    @property
    def threads(self) -> int:
        """Threads of the task being emitted."""
        return self.target.warp_size * self.num_warps

    def of(self, value):
        """The MLIR value of an IR value, in the layout that it has; of a tuple of values, a list; of an operand left out, None."""
        if isinstance(value, tuple):
            return [self.values[one] for one in value]
        return None if value is None else self.values[value]

    def operand(self, op: Op, name: str):
        """The MLIR value of the operand of that name, in the layout in which `op` wants it; None if it was left out."""
        value = getattr(op, name)
        if value is None or not isinstance(value.type, Tensor):
            return self.of(value)
        return self.converted(self.values[value], value.type, self.layouts.registers[value], self.wanted(op, name))

    def wanted(self, op: Op, name: str) -> RegisterLayout:
        """The layout in which `op` takes the tile that is its operand of that name."""
        return self.layouts.wanted(op, op.index_of(name))

    def operands(self, op: Op, name: str = "") -> list:
        """The values of the operand of that name, a tuple, each in its wanted layout; tokens left out. Without a name all operands
        of the op in order, for ops that are handed on to Triton as they are."""
        values, first = (getattr(op, name), op.index_of(name)) if name else (op.operands, 0)
        result = []
        for index, value in enumerate(values, start=first):
            if isinstance(value.type, Token):
                continue
            mlir_value = self.values[value]
            if isinstance(value.type, Tensor):
                mlir_value = self.converted(mlir_value, value.type, self.layouts.registers[value],
                                            self.layouts.wanted(op, index))
            result.append(mlir_value)
        return result

    def converted(self, mlir_value, type_: Tensor, have: RegisterLayout, want: RegisterLayout):
        if have == want:
            return mlir_value
        if isinstance(type_.element, Pointer) and isinstance(want, DotOperand):
            return self._pointers_as_operand(mlir_value, type_, have, want)
        return self.builder.create_convert_layout(self.types.tensor(type_, want), mlir_value)

    def _pointers_as_operand(self, mlir_value, type_: Tensor, have: RegisterLayout, want: RegisterLayout):
        """Convert them as numbers: on its way to a dot operand a tile goes through shared memory, where Triton has no pointers."""
        numbers = Tensor(I64, type_.shape)
        apart = self.builder.create_ptr_to_int(mlir_value, self.types.tensor(numbers, have))
        moved = self.builder.create_convert_layout(self.types.tensor(numbers, want), apart)
        return self.builder.create_int_to_ptr(moved, self.types.tensor(type_, want))

    def carry(self, sources, targets) -> None:
        """Buffers that control flow hands on keep their placement, which must be the same on every path."""
        for source, target in zip(sources, targets):
            if source in self.placed:
                placement = self.placed.setdefault(target, self.placed[source])
                if placement != self.placed[source]:
                    raise LayoutConflict(f"{target.type} is one array on one path and another one, placed differently in shared "
                                         "storage, on another.", self.site,
                                         hint="index the arrays before the paths meet, or place them alike.")

    def is_token(self, value: Value) -> bool:
        return isinstance(value.type, Token)

    def allocate(self, type_):
        """Shared memory without another user until the kernel, or the worker task that allocates it, has ended.

        Triton's allocator lays buffers over each other by the last use that it sees; an asynchronous copy, another task or
        another CTA may use one longer. So all memory is taken at the start, also for an `if` or a loop, and given back at the
        end.
        """
        frame, point = self.frames[-1], self.builder.get_insertion_point()
        if self.level > frame.level:
            self.builder.set_insertion_point_to_start(frame.block)
        memory = self.builder.create_local_alloc(type_)
        self.builder.restore_insertion_point(point)
        frame.memory.append(memory)
        return memory

    def free(self, memory) -> None:
        """Give memory of `allocate` back here, for which all that uses it has been waited. In a branch or a loop, of which this may
        not be the last time, it is kept until the end."""
        frame = self.frames[-1]
        if self.level == frame.level and any(one is memory for one in frame.memory):
            frame.memory = [one for one in frame.memory if one is not memory]
            self.builder.create_local_dealloc(memory)

    def frame(self, mlir_block, block: Block) -> None:
        """Emit the body of the kernel or of a worker task at the end of `mlir_block`, then give its memory back."""
        self.frames.append(Frame(mlir_block, self.level + 1))
        self.block(block)
        for memory in self.frames.pop().memory:
            self.builder.create_local_dealloc(memory)

    def block(self, block: Block) -> None:
        """Emit a block's ops where the builder stands."""
        self.level += 1
        for place, op in enumerate(block.ops, start=1):
            self.behind = block.ops, place
            if op not in self.taken:
                self.op(op)
        self.level -= 1

    def take(self, fits: Callable[[Op], bool]) -> list[Op]:
        """The ops right behind the one being emitted that fit: the emission does these ops, too, so they have none of their own."""
        ops, first = self.behind
        found = list(takewhile(fits, map(ops.__getitem__, range(first, len(ops)))))
        self.taken.update(found)
        return found

    def op(self, op: Op) -> None:
        self.site = op.site
        self.locate(op)
        try:
            results = emission_of(op.name, self.target.assembly)(self, op)
        except NotInTriton as lacks:
            raise NotYet(str(lacks), self.site, hint=f"install triton 3.9, whose compiler can: it is what `{op.name}` becomes on "
                                                     f"{self.target.name}. The simulator runs the kernel as it is.") from lacks
        results = results if isinstance(results, (list, tuple)) else [results] if op.results else []
        kept = [value for value in op.results if not self.is_token(value)]
        for value, mlir_value in zip(kept, results, strict=True):
            self.values[value] = mlir_value

    def locate(self, op: Op) -> None:
        """Give what is built from now on the op's name, number and source position; after a region, those are the region's."""
        label = next((value.name for value in op.results if value.name), op.name)
        numbered(self.builder, label, self.numbers[op], op.site.file, op.site.line, op.site.column + 1)

    def into(self, mlir_block, block: Block, skip: int = 0) -> None:
        """Map a block's arguments to an MLIR block's, from argument `skip` on, and stand at its start."""
        kept = [arg for arg in block.args if not self.is_token(arg)]
        for index, arg in enumerate(kept):
            self.values[arg] = mlir_block.get_argument(index + skip)
        self.builder.set_insertion_point_to_start(mlir_block)

    def region(self, block: Block, yield_to: Callable[[list], object]) -> None:
        """Emit a block whose `yield` is spelled by `yield_to`."""
        self.yield_to.append(yield_to)
        try:
            self.block(block)
        finally:
            self.yield_to.pop()
