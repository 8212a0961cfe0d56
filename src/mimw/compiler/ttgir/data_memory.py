"""Which memory of single 64-bit numbers holds data: by its type alone it could be that of an mbarrier.

Input: the ops of a module. Output: the numbers of the values that are such memory, with all that name the same. For example, of

    %m = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, ..>;  %i = ttg.memdesc_index %m[%n];  %v = ttg.local_load %i

    numbers_of_data(nodes)          {%m, %i}: threads load from it, and an mbarrier is only arrived at and waited for
"""

from __future__ import annotations

from collections.abc import Iterable

from ..triton_port.mlir_tree import Node

_SAME = ("ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_trans", "ttg.memdesc_reshape", "ttg.memdesc_reinterpret")
_PARTITIONS = "ttg.warp_specialize.partitions"


def numbers_of_data(nodes: Iterable[Node]) -> frozenset[int]:
    """The numbers of values that are memory which threads load from and store into, in whatever view or partition."""
    same: dict[int, int] = {}
    data: list[int] = []

    def first(number: int) -> int:
        while number in same:
            number = same[number]
        return number

    def join(one: int, other: int) -> None:
        if (left := first(one)) != (right := first(other)):
            same[left] = right

    for node in nodes:
        if node.name in _SAME:
            join(node.operands[0], node.results[0][0])
        elif node.name == _PARTITIONS:
            for region in node.regions:
                for taken, (number, _) in zip(node.operands, region.arguments, strict=True):
                    join(taken, number)
        elif node.name == "ttg.local_load":
            data.append(node.operands[0])
        elif node.name == "ttg.local_store":
            data.append(node.operands[1])
    roots = {first(number) for number in data}
    return frozenset(number for number in (*same, *roots) if first(number) in roots)
