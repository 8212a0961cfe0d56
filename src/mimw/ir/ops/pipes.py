"""Pipes: typed edges from a writer to its readers within one CTA, chunk by chunk through a ring of slots.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %kv = pipe_make [%k, %v] capacity=2 names=['k', 'v'] readers=['p', 'q']
    %slot.k, %slot.v = pipe_acquire %kv, chunk=%i            what a copy then brings to %slot.k is complete at the reader's wait
    pipe_commit %kv, chunk=%i

Chunk number i lies in slot i % capacity. The pass `expand_pipes` makes barriers, waits and arrivals of these ops, so no later
pass, no layout rule, no emission and no simulator sees them; the attributes `pipe` and `method` of the new ops name the pipe.
"""

from ..types import I1, Pipe
from .table import define


def _made(args, attrs):
    return (Pipe(args[1], tuple(field.type.slot() for field in args[0])), )


def _slots(args, attrs):
    return args[0].type.slots


define("pipe_make", "fields:Buffers* capacity:#int over:Pipe?", _made, "none", "sync write", ours=True, mentions="fields",
       traits="pipe", attrs="names:const readers:const? one_shot:#bool?", needs="barriers", word="tle.pipe",
       doc="A pipe of `capacity` slots; each chunk of a pipe `over` another is written over that one's chunk, which its release "
       "gives back. attrs: names of the fields, one a buffer, whose leading dimension counts the slots; names of the readers, each "
       "of which reads every chunk (a tuple of names: one of these reads it; none: one reader without a name); one_shot, if it "
       "carries one chunk.")
define("pipe_acquire", "pipe:Pipe chunk:int|#int", _slots, "none", "sync wait", ours=True, traits="pipe", end="writer",
       attrs="unsigned:#bool?",
       doc="Until every reader has released the chunk that was in the slot before: the slot's buffers, one a field. attrs, here "
       "and below: unsigned, if the number of the chunk is.")
define("pipe_commit", "pipe:Pipe chunk:int|#int", None, "none", "sync", ours=True, traits="pipe", end="writer", releases=True,
       attrs="unsigned:#bool?",
       doc="Publishes the chunk: all that the task has written, and the copies into the slot that are under way.")
define("pipe_close", "pipe:Pipe chunk:int|#int", None, "none", "sync", ours=True, traits="pipe", end="writer", releases=True,
       attrs="unsigned:#bool?", doc="Publishes an end marker as the chunk; waits for the slot as `pipe_acquire` does.")
define("pipe_wait", "pipe:Pipe chunk:int|#int", lambda args, attrs: (*_slots(args, attrs), I1), "none", "sync wait", ours=True,
       traits="pipe", end="reader", attrs="unsigned:#bool? reader:#str?",
       doc="Until the chunk is committed or closed: the slot's buffers, one a field, and whether it is an end marker. attrs: "
       "reader, its name if it has one.")
define("pipe_held", "pipe:Pipe chunk:int|#int", _slots, "none", "pure", ours=True, traits="pipe", end="reader",
       attrs="unsigned:#bool? reader:#str?", doc="The slot's buffers of a chunk that the reader has waited for and not released.")
define("pipe_release", "pipe:Pipe chunk:int|#int predicate:i1?", None, "none", "sync", ours=True, traits="pipe", end="reader",
       releases=True, attrs="unsigned:#bool? reader:#str?",
       doc="Gives the chunk's slot back: this reader's reads of it are over. With a predicate the chunk may be -1.")
