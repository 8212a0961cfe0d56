"""The order of effects in a TTGIR module, read from its text, and how the order after Triton's passes may differ from before.

Input: a module whose ops carry the numbers of the recorded ops (`numbers.numbered`), and the numbers of the ops with an effect.
Output: `Effects`, a tree of these numbers in the loops, `if`s and task regions that hold them. An example:

    scf.for ... {                                  loop 1
      scf.if %f { ttg.local_store %v, %b }             if 2
      %x = ttg.local_load %b                               op 3
    }                                                  op 5

What may become of the order is judged by `mimw.passes.same_order`, which knows nothing of MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from triton._C.libtriton import ir as mlir

from .text import ModuleText, located, module_of

_OP = re.compile(r'^(?:(%[^=]*) = )?"?([a-z_]\w*(?:\.[\w.]+)?)"?')
_VALUE = re.compile(r"%[\w.$#-]+")

_FREE_DIALECTS = ("arith.", "math.", "ub.", "cf.", "builtin.", "llvm.mlir.")
_FREE = frozenset((
    "tt.addptr", "tt.bitcast", "tt.broadcast", "tt.cat", "tt.clampf", "tt.dot", "tt.dot_scaled", "tt.expand_dims", "tt.fp_to_fp",
    "tt.gather", "tt.get_num_programs", "tt.get_program_id", "tt.histogram", "tt.int_to_ptr", "tt.join", "tt.make_range",
    "tt.map_elementwise", "tt.mulhiui", "tt.precise_divf", "tt.precise_sqrt", "tt.ptr_to_int",
    "tt.reduce", "tt.reshape", "tt.return", "tt.scan", "tt.splat", "tt.split", "tt.trans", "tt.unsplat", "ttg.convert_layout",
    "ttg.fp4_to_fp", "ttg.global_scratch_alloc", "ttg.local_alloc", "ttg.local_dealloc", "ttg.warp_return", "ttg.warp_yield",
    "ttng.reinterpret_tensor_descriptor", "ttng.tmem_alloc", "ttng.tmem_subslice", "scf.condition", "scf.yield",
))
_VIEWS = ("ttg.memdesc_", )
_STRUCTURES = {"scf.for": "loop", "scf.while": "loop", "scf.if": "if", "ttg.warp_specialize": "tasks"}
_ALLOCATIONS = ("ttg.local_alloc", "ttng.tmem_alloc")
_FENCE = "ttng.fence_async_shared"
_MARKED = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.local_load", "ttg.local_gather", "ttng.tmem_load")
_STRETCH = "mimw.stretch"
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
            op.get_result(0).set_attr(_STRETCH, builder.get_int32_attr(stretch))
        elif name not in _FREE and not name.startswith((*_FREE_DIALECTS, *_VIEWS, "scf.", "tt.func", "tt.call")):
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
        self.roots: dict[str, str] = {}            # view -> what it is a view of
        self.buffers: dict[str, int | None] = {}   # allocation -> its number, None for one that Triton made
        self.nodes: list[Node] = []
        self.text = ModuleText(module)
        self._read()

    def _read(self) -> None:
        blocks, opened = [self.nodes], []  # where nodes go; per open brace: the structure that it belongs to, or None
        for line in self.text.lines:
            text = line.strip()
            if not text or text[0] == "#" or text.startswith(("//", "^bb")):
                continue
            code, location = located(text)
            opens, closes = code.endswith("{"), code[0] == "}"
            name, results, rest = _parts(code)
            if closes:
                node = opened.pop()
                if node is not None:
                    blocks.pop()
                    if not opens and location:
                        node.number = self.text.number(location)
                if opens:  # `} else {`, `} do {`, `}, {`
                    self._open(node, blocks, opened)
            elif name == "default" or name.startswith("partition"):  # the regions of the tasks that were begun before
                self._open(blocks[-1][-1], blocks, opened)
            elif name in _STRUCTURES:
                node = Node(_STRUCTURES[name], self.text.number(location) if location else -1)
                blocks[-1].append(node)
                if opens:
                    self._open(node, blocks, opened)
            elif opens:
                opened.append(None)
            elif location and name:
                self._op(blocks[-1], results, name, rest, self.text.number(location))

    @staticmethod
    def _open(node: Node | None, blocks: list, opened: list) -> None:
        opened.append(node)
        if node is not None:
            node.blocks.append([])
            blocks.append(node.blocks[-1])

    def _op(self, block: list[Node], result: str, name: str, rest: str, number: int) -> None:
        if name.startswith(_VIEWS):
            self.roots[result] = _VALUE.search(rest)[0]
        elif name in _ALLOCATIONS:
            self.buffers[result] = number if number in self.memory else None
        elif name in _TENSOR_CORE and number not in self.effects:
            if any(self._buffer(value) is not None for value in _memory_operands(rest)):
                self.held.add(number)
        if name in _FREE or name.startswith((*_FREE_DIALECTS, *_VIEWS)) or "pure = true" in rest:
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
            buffer = self._buffer(_VALUE.search(rest)[0])
            if buffer is None:
                return  # of a copy of Triton's own
            if self.before is None:
                self.reads.add(number)
            elif number not in self.before.reads:
                others = frozenset(self.before.reads)
                number = min(others, default=number)
        if (number in self.effects or others) and not (block and block[-1].kind == "op" and block[-1].number == number):
            block.append(Node("op", number, others=others))

    def _buffer(self, value: str) -> int | None:
        """The number of the author's buffer that a value is or shows; -1 for one that came into a task, None for Triton's own."""
        while value in self.roots:
            value = self.roots[value]
        return self.buffers.get(value, -1)


def _parts(code: str) -> tuple[str, str, str]:
    """(name, first result, what follows the name) of one line of code."""
    found = _OP.match(code)
    return (found[2], re.split("[:,]", found[1] or "")[0].strip(), code[found.end():]) if found else ("", "", "")


def _memory_operands(rest: str) -> list[str]:
    """Those of a tensor-core op's operands A and B that are memory, not tiles: its types stand in the order of its operands."""
    values, _, types = rest.partition(" : ")
    kinds = re.findall(r"tensor<|!ttg\.memdesc<", types)
    return [value for value, kind in zip(_VALUE.findall(values)[:2], kinds) if kind != "tensor<"]
