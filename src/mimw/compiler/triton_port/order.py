"""The order of effects in a TTGIR module, read from its ops.

Input: a module whose ops carry the numbers of the recorded ops (`numbers.numbered`), and the numbers of the ops with an effect.
Output: `Effects`, a tree of these numbers in the loops, `if`s and task regions that hold them. An example:

    scf.for ... {                                  loop 1
      scf.if %f { ttg.local_store %v, %b }             if 2
      %x = ttg.local_load %b                               op 3
    }                                                  op 5

What may become of the order is judged by `mimw.compiler.passes.same_order`, which knows nothing of MLIR.

The ops are read by a walk through the module, not from its text, whose printing takes ten times as long. Nothing is lost by that:
the walk comes to every op of every region, where of a text lines have to be understood; and names, operands and locations (also of
ops without results) are MLIR's own answers, where a name in a text is the printer's, which may use it again in another task.
`tests/triton_port/test_numbers.py` holds the numbers of a walk against those of the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from triton._C.libtriton import ir as mlir

from .numbers import number_at
from .text import ModuleText, located, module_of

_FREE_DIALECTS = ("arith.", "math.", "ub.", "cf.", "builtin.", "llvm.mlir.")
_FREE = frozenset((
    "amdg.extract_slice",
    "tt.addptr", "tt.bitcast", "tt.broadcast", "tt.cat", "tt.clampf", "tt.dot", "tt.dot_scaled", "tt.expand_dims", "tt.fp_to_fp",
    "tt.gather", "tt.get_num_programs", "tt.get_program_id", "tt.histogram", "tt.int_to_ptr", "tt.join", "tt.make_range",
    "tt.map_elementwise", "tt.mulhiui", "tt.precise_divf", "tt.precise_sqrt", "tt.ptr_to_int",
    "tt.reduce", "tt.reshape", "tt.return", "tt.scan", "tt.splat", "tt.split", "tt.trans", "tt.unsplat", "ttg.convert_layout",
    "ttg.fp4_to_fp", "ttg.global_scratch_alloc", "ttg.local_alloc", "ttg.local_dealloc", "ttg.warp_return", "ttg.warp_yield",
    "ttng.reinterpret_tensor_descriptor", "ttng.tmem_alloc", "ttng.tmem_subslice", "scf.condition", "scf.yield",
))
_VIEWS = ("ttg.memdesc_", )
_PARTITIONS = "ttg.warp_specialize.partitions"  # the op in the second region of a `ttg.warp_specialize`, with all but the default
_STRUCTURES = {"scf.for": "loop", "scf.while": "loop", "scf.if": "if", "ttg.warp_specialize": "tasks", _PARTITIONS: "partitions"}
_ALLOCATIONS = ("ttg.local_alloc", "ttng.tmem_alloc")
_FENCE = "ttng.fence_async_shared"
_MARKED = ("tt.load", "amdg.buffer_load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.local_load", "ttg.local_gather",
           "ttng.tmem_load")
STRETCH = "mimw.stretch"
_LOAD = "tt.load"
_READS = ("ttg.local_load", "ttg.local_gather")
_TENSOR_CORE = ("ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")


@dataclass
class Node:
    """An op with an effect, or a loop, an `if` or a region of tasks with the nodes in its blocks.

    A pass that joins a read with the conversion behind it leaves a read with the conversion's number: such a node has in `others`
    the numbers of all reads of buffers, or of all `tl.load`s, one of which it is.
    """

    kind: str  # op, loop, if, tasks
    number: int
    blocks: list[list[Node]] = field(default_factory=list)
    others: frozenset[int] = frozenset()

    def walk(self) -> Iterator[Node]:
        """The node and every node inside it, in order."""
        yield self
        for block in self.blocks:
            for node in block:
                yield from node.walk()


def renumbered(module) -> tuple[Any, dict[int, int]]:
    """The module with a number of its own on every op that has one, and {new number: old number}.

    What a pass has repeated, such as the body of an unrolled loop, has one number several times.
    """
    text, old, made = ModuleText(module), {}, []
    lines = list(text.lines)
    for place, line in enumerate(lines):
        code, location = located(line)
        if text.numbers.get(location, -1) >= 0:
            number = len(old)
            old[number] = text.numbers[location]
            made.append(f'#loc_op{number} = loc("op.{number}"({location}))')
            lines[place] = f"{code} loc(#loc_op{number})"
    return module_of("\n".join([*lines, *made]), module.context), old


def mark_reads(module) -> None:
    """Number the stretches between effects, in program order, on every read: reads of different stretches are not the same.

    Triton's common subexpression elimination would make one of two reads of shared memory with a named barrier between them, or of
    two `tl.load`s with an mbarrier wait between; what another task has written meanwhile would then not be seen.
    """
    stretch = 0
    builder = mlir.builder(module.context)

    def look(op) -> None:
        nonlocal stretch
        name = op.get_name()
        if name in _MARKED:
            op.get_result(0).set_attr(STRETCH, builder.get_int32_attr(stretch))
        elif name not in _FREE and not name.startswith((*_FREE_DIALECTS, *_VIEWS, "scf.", "tt.func")):
            stretch += 1

    module.walk(look)


class Effects:
    """The order of effects of one module: `nodes`, a tree. `held` has the numbers of tensor-core ops that read one of the author's
    buffers in place, and `reads` those of the ops that read one into registers.

    args:      module    TTGIR
               effects   the numbers of the recorded ops that are accesses or have a fixed place
               memory    those of the recorded ops that make buffers
               before    the effects of the same kernel before the passes, for reads that lost their number
    """

    def __init__(self, module, effects: Collection[int], memory: Collection[int], before: Effects | None = None):
        self.effects, self.memory, self.before = effects, memory, before
        self.held: set[int] = set()
        self.fences: set[int] = set()
        self.loads: set[int] = set()
        self.reads: set[int] = set()
        self.roots: dict[int, int] = {}            # view -> what it is a view of
        self.buffers: dict[int, int | None] = {}   # allocation -> its number, None for one that Triton made
        self._inside: dict[int, list[Node]] = {}   # region -> its nodes, until the op around it is met
        self._builder = mlir.builder(module.context)
        module.walk(self._look)
        (self.nodes, ) = self._inside.values()

    def _look(self, op) -> None:
        """Note one op. The walk comes to an op after the ops in its regions, and to the module's own op at the end."""
        name = op.get_name()
        if regions := op.get_num_regions():
            self._structure(op, name, [op.get_region(index) for index in range(regions)])
        elif name in _ALLOCATIONS:
            number = self._number(op)
            self.buffers[op.get_result(0).id()] = number if number in self.memory else None
        elif name.startswith(_VIEWS):
            self.roots[op.get_result(0).id()] = op.get_operand(0).id()
        elif name not in _FREE and not name.startswith(_FREE_DIALECTS):
            self._op(op, name)

    def _number(self, op) -> int:
        """The number of the recorded op that an op comes from; -1 if there is none. Triton's builder takes the location of the op
        that it is set behind: so ops without results have one, too, although no value leads to it."""
        self._builder.set_insertion_point_after(op)
        return number_at(self._builder.get_loc())

    def _around(self, op) -> list[Node]:
        """The nodes of the region that an op stands in."""
        block = op.get_block()
        return self._inside.setdefault(block.get_parent().id() if block is not None else 0, [])

    def _structure(self, op, name: str, regions: list) -> None:
        """An op with regions. One that is no loop, `if` or region of tasks has its nodes in the place where it stands."""
        blocks = [self._inside.pop(region.id(), []) for region in regions if not region.empty()]
        around, kind = self._around(op), _STRUCTURES.get(name)
        if kind is None:
            around += [node for block in blocks for node in block]
        elif kind == "tasks":
            default, partitions = blocks
            around.append(Node(kind, self._number(op), [default, *(block for node in partitions for block in node.blocks)]))
        else:
            around.append(Node(kind, self._number(op), blocks))

    def _op(self, op, name: str) -> None:
        number = self._number(op)
        if name in _TENSOR_CORE and number not in self.effects:
            operands = (op.get_operand(0), op.get_operand(1))  # A and B
            if any(str(value.get_type()).startswith("!ttg.memdesc") and self._buffer(value) is not None for value in operands):
                self.held.add(number)
        if op.get_bool_attr("pure"):  # of assembly
            return
        if name == _FENCE:  # the pass fence_insertion puts in more, each as early as what the fence is for allows
            if self.before is None:
                self.fences.add(number)
            elif number not in self.before.fences:
                return
        others: frozenset[int] = frozenset()
        if name == _LOAD:
            if self.before is None:
                self.loads.add(number)
            elif number not in self.before.loads:
                others = frozenset(self.before.loads)
                number = min(others, default=number)
        elif name in _READS:
            if self._buffer(op.get_operand(0)) is None:
                return  # of a copy of Triton's own
            if self.before is None:
                self.reads.add(number)
            elif number not in self.before.reads:
                others = frozenset(self.before.reads)
                number = min(others, default=number)
        if number in self.effects or others:
            block = self._around(op)
            if not (block and block[-1].kind == "op" and block[-1].number == number):
                block.append(Node("op", number, others=others))

    def _buffer(self, value) -> int | None:
        """The number of the author's buffer that a value is or shows; -1 for one that came into a task, None for Triton's own."""
        key = value.id()
        while key in self.roots:
            key = self.roots[key]
        return self.buffers.get(key, -1)
