"""Products of Hopper's tensor cores that Triton's pipeline leaves pending while it copies over their operands: a wait for them.

Input: a module behind Triton's pass `pipeline`. Output: the same module, changed in place. An example, with two slots and copies
two trips ahead, of a tile that is an operand of the product and is also read to registers:

    before    warp_group_dot %x, %slots[i % 2]    warp_group_dot_wait {pendings = 1}    copy to %slots[(i + 2) % 2]
    after     warp_group_dot %x, %slots[i % 2]    warp_group_dot_wait {pendings = 0}    copy to %slots[(i + 2) % 2]

Triton 3.9 counts the slots of a loaded tile by its uses. An operand of a product that goes on behind its place in the trip has one
slot more, but not if the tile has another use as well (docs/BUGS.md, "Bugs of Triton 3.9 found here"); the wait leaves the
product pending either way. Memory of an operand must not be written before its product has been waited for (PTX ISA,
wgmma.mma_async).

Trip j copies what trip j + ahead reads, to a slot that the product of trip j + ahead - slots has read before. If no wait between
that product and the copy is strong enough, the last one is made so; if there is none, one is put behind the product. Nothing moves,
so no order changes. Loops over memory that the author allocates are left as they are: `Pipeline` notes it before Triton's pass.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import passes

from .differences import GluonOpBuilder

_PRODUCT, _WAIT, _ALLOCATION = "ttng.warp_group_dot", "ttng.warp_group_dot_wait", "ttg.local_alloc"
_COPIES = ("ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather")
_INDEX, _VIEWS = "ttg.memdesc_index", "ttg.memdesc_"


@dataclass(frozen=True)
class Pipeline:
    """Triton's pass `pipeline`, run over a module, and products settled behind it."""

    num_stages: int

    def __call__(self, module) -> None:
        authors = _allocated(module)
        manager = mlir.pass_manager(module.context)
        passes.ttgpuir.add_pipeline(manager, self.num_stages, False)
        manager.run(module, "pipeline")
        settle_products(module, authors)


def settle_products(module, authors: Collection[str] = ()) -> None:
    """Wait for each product of a pipelined loop before a copy to the memory of its operands; `authors` are the locations of the
    memory that Triton's pipeline has not made."""
    seen = _Seen(module, authors)
    for ops in seen.blocks.values():
        for product, copy, trips in seen.overtaken(ops):
            _settle(ops, product, copy, trips, seen.builder)


def _allocated(module) -> frozenset[str]:
    """The location of each buffer that begins without a tile in it. Triton makes none such before its pipeline."""
    found = set()

    def look(op) -> None:
        if op.get_name() == _ALLOCATION and op.get_num_operands() == 0:
            found.add(str(op.get_result(0).get_loc()))

    module.walk(look)
    return frozenset(found)


class _Seen:
    """The ops of a module by the values that they make; products, waits and copies by their blocks, in order."""

    def __init__(self, module, authors: Collection[str]):
        self.authors = authors
        self.builder = GluonOpBuilder(module.context)
        self.makes, self.blocks, self.copied = {}, {}, {}
        module.walk(self._look)

    def _look(self, op) -> None:
        for index in range(op.get_num_results()):
            self.makes[op.get_result(index).id()] = op
        if (name := op.get_name()) in (_PRODUCT, _WAIT, *_COPIES):
            self.blocks.setdefault(op.get_block().id(), []).append(op)
        if name in _COPIES:
            for memory, _ in self._memory(op):
                self.copied[memory] = self.copied.get(memory, 0) + 1

    def overtaken(self, ops: list) -> Iterator[tuple[int, int, int]]:
        """(place of a product, place of a copy to the memory of one of its operands, trips from that product to the copy)."""
        copies = [(place, memory) for place, op in enumerate(ops) if op.get_name() in _COPIES for memory, _ in self._memory(op)]
        for product, op in enumerate(ops):
            if op.get_name() != _PRODUCT or not op.get_bool_attr("isAsync"):
                continue
            for memory, slots in self._memory(op):
                places = [place for place, copied in copies if copied == memory]
                ahead = self.copied.get(memory, 0) - len(places)
                for copy in places:
                    yield product, copy, max(slots - ahead, int(copy < product))

    def _memory(self, op) -> Iterator[tuple[int, int]]:
        """(the buffer, its slots) of each operand that lies in shared memory of Triton's."""
        for index in range(op.get_num_operands()):
            maker, slotted = self.makes.get(op.get_operand(index).id()), False
            while maker is not None and maker.get_name().startswith(_VIEWS):
                slotted = slotted or maker.get_name() == _INDEX
                maker = self.makes.get(maker.get_operand(0).id())
            if maker is not None and maker.get_name() == _ALLOCATION:
                buffer = maker.get_result(0)
                if str(buffer.get_loc()) not in self.authors:
                    yield buffer.id(), int(re.search(r"<(\d+)x", str(buffer.get_type()))[1]) if slotted else 1


def _settle(ops: list, product: int, copy: int, trips: int, builder) -> None:
    """Wait for the product of `trips` trips ago before this copy, if no wait does."""
    between = ops[product + 1:copy] if trips == 0 else ops[product + 1:] + (trips - 1) * ops + ops[:copy]
    later, last = 0, None       # products begun behind this one; the last wait, and how many were begun before it
    for op in between:
        if op.get_name() == _PRODUCT:
            if not op.get_bool_attr("isAsync"):
                return      # it waits for all products, at once
            later += 1
        elif op.get_name() == _WAIT:
            if op.get_int_attr("pendings") <= later:
                return
            last = op, later
    if last is None:
        _wait_behind(ops[product], builder)
    else:
        wait, later = last
        wait.get_result(0).set_attr("pendings", builder.get_int32_attr(later))


def _wait_behind(product, builder) -> None:
    """Put a wait for all products behind this one: what took its result takes the wait's. A conversion to the same layout, which is
    no instruction, stands for the result until the wait has taken it."""
    result = product.get_result(0)
    builder.set_insertion_point_after(product)
    builder.set_loc(result.get_loc())
    held = builder.create_convert_layout(result.get_type(), result)
    result.replace_all_uses_with(held)
    builder.set_insertion_point_after(product)
    held.replace_all_uses_with(builder.create_warpgroup_mma_wait([result], 0)[0])
