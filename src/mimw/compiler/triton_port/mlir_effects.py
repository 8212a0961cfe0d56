"""Effects of an author's MLIR function on the memory of its parameters, read from its ops.

Input: an `MlirSource`. Output: "read" and "write" for each parameter, and whether the function only computes; or `MlirProblem`:

    tt.func @f(%p: !tt.ptr<f32>, %x: f32) { tt.store %p, %x : !tt.ptr<f32>  tt.return }
    facts(source)                                   ((frozenset({"write"}), frozenset()), False)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from .mlir_complaints import ops_of
from .mlir_functions import MlirSource, body, new_context

# What an op does to the memory of each of its operands, by their places.
_ACCESSES = {"tt.load": {0: "read"}, "tt.store": {0: "write"}, "tt.atomic_rmw": {0: "read write"},
             "tt.atomic_cas": {0: "read write"}, "ttg.local_load": {0: "read"}, "ttg.local_gather": {0: "read"},
             "ttg.local_store": {1: "write"}, "ttg.local_scatter": {0: "write"},
             "ttng.warp_group_dot": {0: "read", 1: "read"}}
_SEEN = ("tt.assert", "tt.print")     # what is seen outside of the kernel


@lru_cache(maxsize=256)
def facts(source: MlirSource) -> tuple[tuple[frozenset[str], ...], bool]:
    """The effects of the function that is called on the memory of each of its parameters: "read", "write", both or nothing;
    and True if it does nothing but compute."""
    found = body(source, new_context())
    function, ops = found.function, ops_of(found.module)
    roots: dict[int, frozenset[int]] = {}
    for index in range(function.get_num_args()):
        if _in_memory(function.args(index)):
            roots[function.args(index).id()] = frozenset((index, ))
    while _spread(ops, roots):
        pass
    uses: list[set[str]] = [set() for _ in range(function.get_num_args())]
    for op in ops:
        for place, how in _ACCESSES.get(op.get_name(), {}).items():
            for index in roots.get(op.get_operand(place).id(), ()):
                uses[index].update(how.split())
    return tuple(map(frozenset, uses)), all(map(_only_computes, ops))


def _only_computes(op) -> bool:
    name = op.get_name()
    if name == "tt.elementwise_inline_asm":
        return bool(op.get_bool_attr("pure"))
    return name not in _ACCESSES and name not in _SEEN and not name.startswith("ttg.local_")


def _spread(ops: list, roots: dict[int, frozenset[int]]) -> bool:
    """Hand on which parameters' memory each value may be in; return True if anything was new. A
    value that goes into a loop, or comes out of a block, may be in the memory of all values that go there."""
    changed, around = False, _around(ops)

    def note(values: Iterable, new: frozenset[int]) -> None:
        nonlocal changed
        for value in values:
            if _in_memory(value) and new - roots.get(value.id(), frozenset()):
                roots[value.id()] = roots.get(value.id(), frozenset()) | new
                changed = True

    for op in ops:
        known = frozenset().union(*(roots.get(op.get_operand(place).id(), ()) for place in range(op.get_num_operands())))
        if not known:
            continue
        note((op.get_result(place) for place in range(op.get_num_results())), known)
        over = around.get(op.get_block().get_parent().id()) if op.get_name() in ("scf.yield", "scf.condition") else None
        for structure in (op, over):
            if structure is not None and structure.get_num_regions():
                note((structure.get_result(place) for place in range(structure.get_num_results())), known)
                note(_arguments(structure, ops), known)
    return changed


def _around(ops: list) -> dict[int, Any]:
    """The op of each region."""
    return {op.get_region(index).id(): op for op in ops for index in range(op.get_num_regions())}


def _arguments(structure, ops: list) -> Iterator:
    """The arguments of the blocks of an op."""
    regions = {structure.get_region(index).id() for index in range(structure.get_num_regions())}
    for op in ops:
        block = op.get_block()
        if block is not None and block.get_parent().id() in regions:
            yield from map(block.get_argument, range(block.get_num_arguments()))


def _in_memory(value) -> bool:
    return "!tt.ptr" in (text := str(value.get_type())) or "!ttg.memdesc" in text
