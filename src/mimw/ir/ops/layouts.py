"""Ops by which an author fixes the register layout of a tile.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %pinned = require_layout %tile layout      the tile in that register layout
"""

from ..type_rules import as_operand
from .table import define

define("require_layout", "value:num[] layout:const pin:const", as_operand(0), "pin", "pure", ours=True, cost="move",
       rule="require",
       doc="The tile in that register layout; with `pin`, no later pass moves it.")
define("release_layout", "value:num[]", as_operand(0), "pin", "pure", ours=True, cost="move", rule="release",
       doc="The tile, free of what the author pinned.")
define("assert_same_layout", "lhs:num[] rhs:num[]|const", None, "pin", "debug", ours=True, traits="observer",
       rule="compare",
       doc="Both in one layout; `rhs` a tile or a layout.")
define("dump_layout", "value:num[]|Buffers", None, "pin", "debug", ours=True, mentions="value", traits="observer",
       doc="Prints how a tile or buffer lies, while compiling.")
