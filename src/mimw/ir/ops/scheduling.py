"""Hints for the compiler behind Triton: what instructions may cross a place, what all lanes share, what is not to be merged.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    sched_barrier 8      only products of the matrix cores cross it
"""

from ..type_rules import as_operand, given
from .table import define

define("sched_barrier", "mask:#int", None, "none", "sync", ours=True, traits="alone", needs="scheduling",
       word="amd_sched_barrier", cost="free", doc="Only instructions of the kinds in `mask` are moved across this place.")
define("uniform", "value:num", as_operand(0), "none", "pure", ours=True, cost="move", elements_of="value", pointer_of="value",
       traits="number", word="assume_uniform", doc="The value, which is the same in all lanes: the first lane's.")
define("distinct_range", "type:#type start:#int end:#int identity:#str", given(0), "free", "pure", ours=True, cost="free",
       word="rematerialized_range", doc="As `make_range`, and never made one with a range of another identity.")
