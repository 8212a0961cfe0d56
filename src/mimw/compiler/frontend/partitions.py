"""`tle.gpu.warp_specialize` becomes the same `warp_specialize` op as TLX's task regions: one function call a region.

Input: the functions of the partitions with their arguments, the default partition first, and a `Task` for each. Output:
the op, and the value of the default partition. For example:

    tle.gpu.warp_specialize([(compute, (pipe, )), (load, (pipe, ))], [4], [40])

        warp_specialize with two regions: `compute` in the default task, `load` in a task of 4 warps
"""

from __future__ import annotations

from ...ir import Pointer, Scalar, Task, Tensor
from ..triton_port.codegen import flatten_values_to_ir, unflatten_ir_values

_LEAVES = (Tensor, Scalar, Pointer)


def _is_made_in(block, handle) -> bool:
    """True if the value is made in the block. ValueError if it is, and is no tile, number or pointer."""
    if not _makes(block, handle):
        return False
    if not isinstance(handle.get_type(), _LEAVES):
        raise ValueError(f"tle.gpu.warp_specialize: the default partition returns {handle.get_type()}, which was made inside it; "
                         "make buffers, views and barriers before the region")
    return True


def _makes(block, handle) -> bool:
    return handle in block.args or any(
        handle in op.results or any(_makes(inner, handle) for region in op.regions for inner in region.blocks) for op in block.ops)


class PartitionRegions:
    """Mixin over Triton's `CodeGenerator`, beside `TaskRegions`."""

    def record_partitions(self, calls: list[tuple], tasks: list[Task]):
        """Record each (function, arguments) as the body of a task, the default one's first; its value is the result."""
        if self.task is not None:
            raise ValueError("tle.gpu.warp_specialize: regions do not nest, and this is called inside a partition")
        (function, arguments), *workers = calls
        if not workers:
            return self._partition(function, arguments, tasks[0])
        point, location = self._get_insertion_point_and_loc()
        blocks, results = [], []
        for (function, arguments), task in zip(calls, tasks, strict=True):
            block = self.builder.create_block()
            self.builder.set_insertion_point_to_start(block)
            results.append(self._partition(function, arguments, task))
            if task.is_default:
                handles = flatten_values_to_ir([results[0]])
                yielded = [handle for handle in handles if _is_made_in(block, handle)]
                if yielded:
                    self.builder.create_yield_op(yielded)
            blocks.append(block)
        self._set_insertion_point_and_loc(point, location)
        op = self.builder.record_tasks(tasks, blocks, [handle.get_type() for handle in yielded])
        op.set_attr("shares_captures", True)
        given = dict(zip(yielded, op.results))
        return next(unflatten_ir_values([given.get(handle, handle) for handle in handles], [results[0].type]))

    def _partition(self, function, arguments, task: Task):
        self.builder.task = task
        try:
            return self.call_JitFunction(function, list(arguments), {})
        finally:
            self.builder.task = None
