"""Threads and time: program ids, hardware threads, votes of a warp, the clock.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %x = thread_id 0      differs in each lane
"""

from ..type_rules import scalar
from ..types import I32, like
from .table import define

define("get_program_id get_num_programs", "axis:#int", scalar(I32), "none", "pure",
       traits={"get_program_id": "number by_cta", "get_num_programs": "number"}, cost="move")

define("thread_id", "axis:#int", scalar(I32), "none", "read", ours=True,
       doc="Hardware thread index in the CTA; differs per lane.")
define("vote_ballot", "mask:#int predicate:i1~", lambda args, attrs: (like(args[1].type, I32), ), "same", "sync",
       ours=True, attrs="spread:const?", traits="lanes",
       doc="One bit a lane of the warp: does it own an element that is true? Every element gets its owner's ballot. attrs: spread, "
           "which elements a lane owns, where they are not given out one by one (passes/place_lanes.py).")
define("warp_redux", "value:fp32~ op:#str", lambda args, attrs: (args[0].type, ), "same", "pure", ours=True, attrs="lanes:const?",
       traits="collective lanes", needs="float_redux", cost="compare",
       doc="Every element becomes the largest or smallest of those that the 32 lanes of its warp hold in the same register. attrs: "
           "lanes, by how much the row-major position of an element grows with each bit of the lane (passes/place_lanes.py).")
define("clock64", "", lambda args, attrs: (attrs["type"], ), "none", "read sync", ours=True, attrs="type:#type",
       traits="alone", doc="attrs: type (i64).")
