"""Checks and rewrites of programs, one a file; `pipeline` has those that every kernel goes through, in order.

Input: a recorded `Program`. Output: the program that is simulated and lowered, or a refusal with the user's lines:

    program = run_passes(program, target("sm_90a"))
"""

from __future__ import annotations

from ..analysis import Remark
from .accumulate_dots import accumulate_dots
from .check_arrivals import check_arrivals
from .check_async_dot import check_async_dot
from .check_bytes import check_bytes
from .check_cluster import check_cluster
from .check_descriptors import check_descriptors
from .check_exchanges import check_exchanges, no_pipeline
from .check_exclusive import check_exclusive
from .check_group_barriers import check_group_barriers
from .check_instruction_registers import too_few_registers
from .check_named_barriers import check_named_barriers
from .check_padding import check_padding
from .check_pairs import check_pairs
from .check_peers import check_peers
from .check_pipes import check_pipes
from .check_registers import check_registers
from .check_scratch import check_scratch, may_not_fit
from .check_shared import check_shared
from .check_target import check_target
from .check_tasks import check_tasks
from .check_waits import check_waits
from .check_warpgroups import check_warpgroups
from .count_moves import count_moves
from .cut_copies import cut_copies
from .double_operands import double_operands
from .drop_unused import drop_unused
from .expand_dsa import expand_dsa
from .expand_pipes import expand_pipes
from .fence_barriers import fence_barriers
from .fence_deliveries import fence_deliveries
from .fence_globals import fence_globals
from .fence_handovers import fence_handovers
from .fence_pairs import fence_pairs
from .grant_registers import grant_registers
from .join_copies import join_copies
from .keep_loops import keep_loops
from .narrow_releases import narrow_releases
from .pad_tiles import pad_tiles
from .pipeline import OPTIONAL, PASS, PASSES, Context, Pass, check_copies, declared_effects, remarks, run_passes, warn
from .pipeline_dsa import pipeline_dsa
from .place_aliases import check_aliases, place_aliases
from .place_group_barriers import place_group_barriers
from .share_captures import share_captures
from .shared_operands import shared_operands
from .shared_pointers import shared_pointers
from .slot_arrays import slot_arrays
from .space_slots import space_slots
from .stamp_time import stamp_time
from .stamp_waits import stamp_waits
from .sync_clusters import sync_clusters
from .trail_dots import trail_dots
from .wait_pairs import wait_pairs

__all__ = [
    "Context", "OPTIONAL", "PASS", "PASSES", "Pass", "Remark", "accumulate_dots", "check_aliases", "check_arrivals",
    "check_async_dot",
    "check_bytes", "check_cluster", "check_copies", "check_descriptors", "check_exchanges", "check_exclusive",
    "check_group_barriers",
    "check_named_barriers", "check_padding",
    "check_pairs", "check_peers", "check_pipes",
    "check_registers", "check_scratch", "check_shared", "check_target", "check_tasks", "check_waits",
    "check_warpgroups",
    "count_moves", "cut_copies",
    "double_operands", "drop_unused", "expand_dsa", "expand_pipes", "fence_barriers", "fence_deliveries", "fence_globals",
    "fence_handovers", "fence_pairs", "grant_registers",
    "join_copies", "keep_loops", "may_not_fit", "narrow_releases", "no_pipeline",
    "pad_tiles",
    "pipeline_dsa", "place_aliases", "place_group_barriers",
    "declared_effects", "remarks", "run_passes",
    "share_captures", "shared_operands", "shared_pointers", "slot_arrays", "space_slots", "stamp_time", "stamp_waits",
    "sync_clusters", "too_few_registers", "trail_dots", "wait_pairs", "warn",
]
