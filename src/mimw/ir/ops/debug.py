"""Ops that observe: prints, assertions, hints, and the stamps of profiles and of the watchdog.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    hint %offsets "tt.divisibility" (16,)      changes nothing for a reader that ignores it
"""

from ..type_rules import scalar
from ..types import I32, I64
from .table import define

define("print", "prefix:#str hex:const values:num~* signed:const", None, "none", "debug", traits="observer lanes")
define("print_lanes", "lane:i32[] format:#str values:num[]* mask:i1[]?", None, "once", "debug", ours=True, traits="observer",
       word="vprintf in a raw body", doc="C's printf for each element that the mask leaves, in the order of the lanes.")
define("assert", "condition:int~ message:const", None, "none", "debug", traits="observer")
define("assume", "condition:int~", None, "none", "debug", traits="observer", cost="free")
define("breakpoint", "", None, "none", "debug", ours=True, traits="observer", cost="free", word="breakpoint()",
       doc="Where a debugger of the simulator stops; it does nothing else, and no compiled kernel has it.")
define("hint", "value:num~ attribute:#str numbers:const", None, "none", "debug", traits="observer",
       doc="A fact about the value that Triton's axis analysis uses.")

define("time_base", "", scalar(I64), "none", "read", ours=True, attrs="lane:#int lanes:#int capacity:#int every:#int",
       time="work",
       doc="Where the task's time stamps go; 0 in threads and CTAs that leave none. attrs: lane, lanes, capacity, "
       "every.")
define("time_stamp", "base:i64 count:i32", scalar(I32), "none", "write", ours=True,
       attrs="event:#int kind:#str label:#str lane:#int capacity:#int", time="work",
       doc="Record number `count` at `base`: the clock and what the time since the record before was; gives count + "
       "1. attrs: event (0 begins a lane, 1 ends it), kind, label, capacity.")

_STAMPED = "stamp:#int state:#str lane:#int table:const first:#bool"
define("wait_stamp", "", None, "none", "write", ours=True, attrs=_STAMPED,
       doc="One lane of each warp notes what the warp does now. attrs: stamp, its number; table, an `ir.WaitTable`.")
define("wait_words", "barriers:Barriers", None, "none", "sync write", ours=True, attrs="first:#int table:const",
       mentions="barriers", doc="Notes where the barriers lie. attrs: first, the number of the first one; table.")
define("watched_wait", "barrier:Barrier phase:i32 predicate:i1? arrays:Barriers*", None, "none", "sync", ours=True,
       attrs=f"{_STAMPED} after:#int rows:#shape", mentions="barrier arrays",
       doc="Stands before a `barrier_wait` with the same arguments: one lane of each warp waits here first and, while "
       "that takes long, notes it and copies the words of the arrays of barriers. attrs: stamp; after, what the warp "
       "does then; rows, the number of each array's first barrier; table.")
