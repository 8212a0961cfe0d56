"""Native code of the author: a call, and what the author declares that it does to memory, each declaration an op of its own.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example, of a function that changes a buffer:

    raw_reads %tile                                 declared; nothing is emitted for it
    %at = raw_address %tile : i32                   where the buffer lies
    raw_call 'scale' [%at, %factor] code='6f..' forms=['inout memref fp32 128 1', '- value fp32 - -']
    raw_writes %tile

So every pass, check and report, and the memory model, know of the call what they know of a read and a write by the task.
"""

from ..type_rules import listed, scalar
from ..types import I32
from .table import define

define("raw_call", "function:#str values:num* types:#type*", listed(2), "none", "read write", ours=True,
       attrs="code:#str forms:const names:const fence:#str? sync_scope:#str?", needs="native", traits="collective declared",
       time="work",
       cost="sync",
       word="tle.raw.call",
       doc="All threads of the task run native code, between two barriers of the task. attrs: code, the key of the text "
       "(ir/raw_code.py); forms and names, how each value is handed over and what its "
       "parameter is called; fence, the fence that the code ends in by its declaration, of the "
       "scopes of `fence`; sync_scope, the widest synchronisation in it by `hardware_constraint`.")
define("raw_address", "buffer:Buffer", scalar(I32), "none", "read", ours=True, mentions="buffer", cost="free",
       doc="Where a buffer lies in shared memory, for a `raw_call` alone.")
define("raw_barrier", "barrier:Barrier", scalar(I32), "none", "read", ours=True, mentions="barrier", needs="mbarrier", cost="free",
       word="tle.raw.call of an mbarrier",
       doc="Where an mbarrier lies in shared memory, for a `raw_call` alone.")
define("raw_reads", "buffer:Buffer", None, "none", "read", ours=True, touches="buffer=read", time="work", cost="shared",
       traits="collective declared", lies="buffer=bytes",
       doc="The `raw_call` behind it reads the buffer, as its author declares.")
define("raw_writes", "buffer:Buffer", None, "none", "write", ours=True, touches="buffer=write", time="work", cost="shared",
       traits="collective declared", lies="buffer=bytes",
       doc="The `raw_call` before it has written the buffer, as its author declares: any part of it.")
define("raw_arrives", "barrier:Barrier count:#int predicate:i1? chunk:int|#int?", None, "none", "sync", ours=True, releases=True,
       barrier="arrive", needs="mbarrier", cost="sync", word="tle.raw.call of an mbarrier", time="work", traits="declared",
       doc="The `raw_call` before it has arrived so many times on the barrier, as its author declares.")
define("raw_loads", "pointer:ptr", None, "none", "read", ours=True, touches="pointer=read", time="work", cost="global",
       traits="declared",
       doc="The `raw_call` behind it reads global memory through the pointer, as its author declares.")
define("raw_stores", "pointer:ptr", None, "none", "write", ours=True, touches="pointer=write", time="store", cost="global",
       traits="declared",
       doc="The `raw_call` before it has written global memory through the pointer, as its author declares.")
