"""The descriptors through which each consumer accesses its own rows, with a block of so many rows.

Input: a plain program, the loads that a producer does, which axis of each tile is shared out, and the number of consumers.
Output: the new
type of each such descriptor, or a `Remark` where one would need two blocks. For example, of two consumers:

    c_desc.store([m, n], acc)       128 x 128 rows of `acc` along axis 0: c_desc gets blocks of 64 x 128
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ...ir import Descriptor, Op, Program, Value
from ..analysis.remarks import Remark
from ..analysis.uses import uses_of


def smaller_blocks(program: Program, loads: Collection[Op], axes: Mapping[Value, int], parts: int) -> dict[Value,
    Descriptor] | Remark:
    """The smaller types by descriptor. Loads of a producer have whole tiles."""
    found: dict[Value, Descriptor] = {}
    whole: dict[Value, Op] = {}
    uses = uses_of(program)
    for op in program.where(lambda row: "descriptor" in row.places and "offsets" in row.places):
        tile = op.value if "value" in op.row.places else op.result
        axis = None if op in loads else axes.get(tile)
        if axis is None:
            whole[op.descriptor] = op
            continue
        block = list(op.descriptor.type.shape)
        block[axis] //= parts
        type_ = replace(op.descriptor.type, shape=tuple(block))
        if found.setdefault(op.descriptor, type_) != type_:
            return Remark("rows cannot be shared out among tasks: its descriptor's tiles are shared out along both axes", op.site)
        made = uses.definition.get(op.descriptor)
        if made is not None and uses.place[made].parent is not None or made is None and op.descriptor in uses.argument and \
                uses.argument[op.descriptor].parent is not None:
            return Remark("rows cannot be shared out among tasks: its descriptor is made or chosen inside a loop or branch",
                op.site)
    for descriptor, op in whole.items():
        if descriptor in found:
            return Remark("rows cannot be shared out among tasks: its descriptor is used for whole tiles and for shares of rows",
                          op.site)
    return found
