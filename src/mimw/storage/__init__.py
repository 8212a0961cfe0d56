"""Offsets in on-chip memory: from the author's alias specs, and as Triton's allocator decided."""

from .alias_map import alias_map
from .aliases import AliasPlan, Group, Leaf, place_group, place_peers
from .compiled_map import Row, compiled_rows, written

__all__ = ["AliasPlan", "Group", "Leaf", "Row", "alias_map", "compiled_rows", "place_group", "place_peers", "written"]
