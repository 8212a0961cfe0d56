"""Registers of matrix cores: in which ones a tile is kept, how far instructions move, and slices of what a lane holds.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %kept = keep_in_registers %tile kind="agpr"      the same tile, in accumulation registers on CDNA
"""

from ..type_rules import as_operand
from ..types import Tensor
from .table import define

define("keep_in_registers", "value:num[] kind:#str group:#int", as_operand(0), "same", "pure", ours=True, attrs="fixed:#bool?",
       elements_of="value", cost="move",
       doc="The tile in registers of that kind (\"agpr\", \"vgpr\"), `group` of them at a time. attrs: fixed, if it is not to be "
       "moved past what else is fixed.")
define("commit_products", "value:num[] boundary:const", as_operand(0), "same", "write", ours=True, elements_of="value",
       cost="move",
       doc="The tile, finished here: with `boundary`, the compiler schedules no instruction across.")
define("extract_slice", "value:num[] shape:#shape offsets:#shape",
       lambda args, attrs: (Tensor(args[0].type.element, tuple(args[1])), ), "same", "pure", ours=True, elements_of="value",
       cost="move", rule="sliced", needs="register_slices", word="extract_slice, within lanes",
       doc="A box of the tile, each element in the lane that has it.")
