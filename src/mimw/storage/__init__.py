"""On-chip memory: how long each allocation is needed, where arrays lie that share it, and its maps.

Input: a program, and what Triton's allocator decided. Output: lifetimes, places and text. For example:

    shared_plan(program).peak                         the bytes that are needed at one time at least
    plan_storages(program, alignments)                where the arrays of each storage alias spec lie
    compiled_rows(program, plan, pieces)              what Triton's allocator made of it
"""

from .aliases import AliasPlan, Group, Leaf, place_group, place_peers
from .compiled_map import Row, compiled_rows, written
from .lifetimes import BARRIER_BYTES, SharedEntry, SharedPlan, shared_plan
from .maps import StorageEntry, alias_map, storage_map
from .planner import StoragePlan, plan_storages, storage_lines

__all__ = [
    "AliasPlan", "BARRIER_BYTES", "Group", "Leaf", "Row", "SharedEntry", "SharedPlan", "StorageEntry", "StoragePlan", "alias_map",
    "compiled_rows", "place_group", "place_peers", "plan_storages", "shared_plan", "storage_lines", "storage_map", "written",
]
