"""Offsets in on-chip memory from the author's alias specs."""

from .alias_map import alias_map
from .aliases import AliasPlan, Group, Leaf, place_group, place_peers

__all__ = ["AliasPlan", "Group", "Leaf", "alias_map", "place_group", "place_peers"]
