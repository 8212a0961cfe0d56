"""On-chip memory: how long each allocation is needed, where arrays lie that share it, and its maps.

Input: a program, and what Triton's allocator decided. Output: lifetimes, places and text. For example:

    shared_plan(program).peak                         the bytes that are needed at one time at least
    plan_storages(program, alignments)                where the arrays of each storage alias spec lie
    compiled_rows(program, plan, pieces)              what Triton's allocator made of it
    use_of(program, space).peak                       the bytes of any other space that are needed at one time
    tensor_arrays(program)                            which columns of tensor memory hold what
"""

from .aliases import AliasPlan, Group, Leaf, place_group, place_peers
from .compiled_map import Row, compiled_rows, written
from .lifetimes import BARRIER_BYTES, SharedEntry, SharedPlan, shared_plan
from .maps import StorageEntry, alias_map, storage_map
from .planner import StoragePlan, plan_storages, storage_lines
from .spaces import SpaceUse, use_of
from .tensor_columns import TensorArray, allocated_columns, columns, tensor_arrays

__all__ = [
    "AliasPlan", "BARRIER_BYTES", "Group", "Leaf", "Row", "SharedEntry", "SharedPlan", "SpaceUse", "StorageEntry", "StoragePlan",
    "TensorArray",
    "alias_map", "allocated_columns", "columns", "compiled_rows", "place_group", "place_peers", "plan_storages", "shared_plan",
    "storage_lines", "storage_map", "tensor_arrays", "use_of", "written",
]
