"""Copies by AMD's tensor data mover (TDM), and the descriptors that say where they begin.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %there = tdm_place %descriptor [%row, %column] clamp=True      a descriptor that begins there
    tdm_load %there %tile                                          is done when a `tdm_wait` says so

A copy begins where its descriptor does: it has no offsets of its own. Copies are counted in the order in which a task starts them.
"""

from ..type_rules import scalar
from ..types import TOKEN
from .table import define

define("tdm_place", "descriptor:Descriptor add:int* bounds:int* predicate:i1?", lambda args, attrs: (args[0].type, ), "none",
       "pure", ours=True, attrs="clamp:#bool?", view_of="descriptor", view="moved", needs="tdm", word="update_tensor_descriptor",
       doc="The descriptor `add` elements further, with `bounds` as extents from there on, and copying if `predicate`; what is "
       "empty or left out stays. attrs: clamp, if the extents get less by `add`: 0 at least, and where `add` is negative.")
define("tdm_load", "descriptor:Descriptor buffer:Buffer", scalar(TOKEN), "none", "read write async", ours=True,
       attrs="cache:#str? warps:#int? more:#bool?", touches="descriptor=read buffer=write", copy="in", time="copy", needs="tdm",
       word="async_amd_descriptor_load", cost="sync", traits="mover", lies="buffer=moved",
       doc="The block at the descriptor's place into the buffer, zeros outside of the tensor. attrs: cache modifier; warps, a mask "
       "of those that copy; more, if the next load belongs to the same copy, by other warps.")
define("tdm_load_arrive", "descriptor:Descriptor buffer:Buffer barrier:Barrier count:#int", None, "none", "read write async",
       ours=True, touches="descriptor=read buffer=write", barrier="arrive", copy="in", time="copy", needs="tdm", cost="sync",
       traits="mover ttgir", lies="buffer=moved",
       doc="As `tdm_load`, a copy of its own; once it has landed, `count` arrivals on the barrier, one of each warp that copies. "
       "No word records it: the reader of TTGIR does.")
define("tdm_store", "descriptor:Descriptor buffer:Buffer", None, "none", "read write async", ours=True,
       touches="descriptor=write buffer=read", copy="out", time="store", needs="tdm", word="async_amd_descriptor_store",
       cost="sync", traits="mover", lies="buffer=moved",
       doc="The buffer to the block at the descriptor's place, less what is outside of the tensor.")
define("tdm_wait", "pending:#int tokens:Token*", scalar(TOKEN), "none", "sync wait", ours=True, time="wait", needs="tdm",
       word="async_amd_descriptor_wait", cost="sync",
       doc="Until at most `pending` newest copies of this task by the data mover are unfinished.")
define("tdm_prefetch", "descriptor:Descriptor offsets:i32* predicate:i1?", None, "none", "read", ours=True,
       attrs="speculative:#bool?", needs="tdm", word="amd_descriptor_prefetch_tensor", cost="sync", traits="mover",
       doc="A hint: the block will be read from L2 soon.")
