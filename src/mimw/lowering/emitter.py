"""The walk: one emission per op, values mapped, layouts converted where an op wants its operand in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..constraints.solution import Layouts
from ..errors import LayoutConflict
from ..ir import UNKNOWN, Block, Op, Place, Program, Tensor, Token, Value
from ..ir.layouts import RegisterLayout, SharedLayout
from ..target import Target
from ..triton_port.builder import GluonOpBuilder, new_module
from ..triton_port.order import numbered
from .types import Types

Emission = Callable[["Emitter", Op], object]
EMISSIONS: dict[str, Emission] = {}


def emits(*names: str):
    """Register how ops are emitted. A function gets the emitter and the op and returns the results' MLIR values."""

    def register(function: Emission) -> Emission:
        EMISSIONS.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(frozen=True)
class Placement:
    """How a buffer's MLIR value lies in memory: its layout, and the shape of the tile that it is a view of.

    An array whose buffers do not simply follow each other has its `place` in shared storage; with `storage_bytes` its MLIR
    value is that storage itself.
    """

    layout: SharedLayout
    allocated: tuple[int, ...]
    place: Place | None = None
    storage_bytes: int = 0


@dataclass
class Home:
    """Where the memory of a kernel or a worker task is taken: its MLIR block, how deep it nests, and what was taken."""

    block: Any
    level: int
    memory: list = field(default_factory=list)


class Emitter:
    """Builds one module. `values` holds the MLIR value of each IR value; tokens have none. `by_registers` are the
    `async_load`s that cp.async cannot do. The module of a `trial` is looked at and thrown away: masked stores are plain ones
    in it."""

    def __init__(self, builder: GluonOpBuilder, layouts: Layouts, target: Target, program: Program,
                 by_registers: frozenset[Op] = frozenset(), trial: bool = False):
        self.builder, self.layouts, self.target = builder, layouts, target
        self.site = UNKNOWN
        self.program, self.by_registers, self.trial = program, by_registers, trial
        self.numbers = {op: number for number, op in enumerate(program.walk())}  # what an op's location names it by
        self.num_warps = program.num_warps  # of the task being emitted
        self.types = Types(builder, layouts)
        self.values: dict[Value, object] = {}
        self.constants: dict[Value, Op] = {}
        self.placed: dict[Value, Placement] = {}
        self.addresses: dict[Value, object] = {}  # of descriptors made in the kernel, where an instruction needs them
        self.storage_bytes: dict[Value, int] = {}
        self.fetching: object = None  # the barrier of a run of TMA loads
        self.flat: dict[Value, Value] = {}  # a flat buffer: the one that it shows
        self.yield_to: list[Callable[[list], object]] = []
        self.homes: list[Home] = []
        self.level = 0

    def mlir_type(self, value: Value):
        """The MLIR type of an IR value in its solved layout."""
        return self.types.of(value)

    def operand(self, op: Op, value: Value):
        """The MLIR value of one operand, converted to the layout in which `op` wants it."""
        if isinstance(value.type, Tensor):
            wanted = self.layouts.wanted(op, op.operands.index(value))
            return self.converted(self.values[value], value.type, self.layouts.registers[value], wanted)
        return self.values[value]

    def operands(self, op: Op) -> list:
        """All operands in order, each in its wanted layout; tokens left out."""
        result = []
        for index, value in enumerate(op.operands):
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
        return self.builder.create_convert_layout(self.types.tensor(type_, want), mlir_value)

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
        """Shared memory that is nobody else's until the kernel, or the worker task that allocates it, has ended.

        Triton's allocator lays buffers over each other by the last use that it sees; an asynchronous copy, another task or
        another CTA may use one longer. So all memory is taken at the start, also for an `if` or a loop, and given back at the
        end.
        """
        home, point = self.homes[-1], self.builder.get_insertion_point()
        if self.level > home.level:
            self.builder.set_insertion_point_to_start(home.block)
        memory = self.builder.create_local_alloc(type_)
        self.builder.restore_insertion_point(point)
        home.memory.append(memory)
        return memory

    def home(self, mlir_block, block: Block) -> None:
        """Emit the body of the kernel or of a worker task at the end of `mlir_block`, then give its memory back."""
        self.homes.append(Home(mlir_block, self.level + 1))
        self.block(block)
        for memory in self.homes.pop().memory:
            self.builder.create_local_dealloc(memory)

    def block(self, block: Block) -> None:
        """Emit a block's ops where the builder stands."""
        self.level += 1
        for op in block.ops:
            self.op(op)
        self.level -= 1

    def op(self, op: Op) -> None:
        self.site = op.site
        self.locate(op)
        results = EMISSIONS[op.name](self, op)
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


def lower(program: Program, layouts: Layouts, context, target_name: str, options, target: Target,
          by_registers: frozenset[Op] = frozenset(), trial: bool = False):
    """A TTGIR module for `program`.

    args:      layouts      what `constraints` chose
               target_name  "cuda:90", "hip:gfx942"
               target       for what differs from chip to chip
               by_registers the `async_load`s that go through registers, because cp.async cannot do them
               trial        a module to be looked at and thrown away (`Emitter`)
    """
    from . import (  # noqa: F401
        aliases,
        barriers,
        bulk,
        cluster,
        control,
        copies,
        descriptors,
        local_mem,
        meetings,
        mma,
        multicast,
        pins,
        pointers,
        prefetch,
        remote,
        remote_elements,
        tasks,
        tiles,
        time_stamps,
        utilities,
        views,
        wait_stamps,
    )
    builder, module = new_module(context, target_name, options)
    builder.set_loc(program.site.file, program.site.line, program.site.column + 1)
    emitter = Emitter(builder, layouts, target, program, by_registers, trial)
    types = [emitter.mlir_type(param.value) for param in program.params]
    function = builder.get_or_insert_function(module, program.name, builder.get_function_ty(types, []), "public", False)
    module.push_back(function)
    entry = function.add_entry_block()
    for index, param in enumerate(program.params):
        emitter.values[param.value] = function.args(index)
        for name, value in param.attrs:
            function.set_arg_attr(index, name, value)
    builder.set_insertion_point_to_start(entry)
    emitter.home(entry, program.body)
    builder.ret([])
    module.context = context
    return module

