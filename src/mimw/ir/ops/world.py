"""Other GPUs: pointers into a peer's memory, waits for signals, and barriers among ranks (docs/DISTRIBUTED.md).

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %there = peer_pointer %x %world %rank      the same element of the symmetric array at `rank`
    %mine, %stride = world_scratch %world 4096     workspace of the first program, and how far apart programs have theirs

Signals are sent by `atomic_rmw` and `atomic_store` through such pointers, and data by any op that stores: loads, stores, atomics
and TMA take a peer's address as their own. `world` points to the table of a rank: its rank, the number of ranks, how many programs
the signal pads are for, then the base of each rank's symmetric heap; behind these what multimem instructions take for a base, and
the bytes of workspace.
"""

from ..type_rules import as_operand, listed_types
from ..types import I32, Pointer, Scalar
from .table import define

define("peer_pointer", "pointer:ptr~ world:ptr gpu:i32", as_operand(0), "same", "pure", ours=True, needs="peers",
       pointer_of="pointer",
       doc="Pointers to the same elements of the symmetric array at rank `gpu`.")
define("signal_wait", "pointer:ptr value:int compare:#str sem:#str scope:#str", None, "none", "sync wait", ours=True, needs="peers",
       blocks="poll", time="wait", cost="sync",
       doc="Until the word at `pointer` compares so with `value`: eq, ne, ge, gt, le or lt, with u "
       "before it of words without a sign. sem: acquire or relaxed; scope: gpu or sys.")
define("world_barrier", "world:ptr gpus:#shape?", None, "none", "sync", ours=True, needs="peers", releases=True,
       blocks="rendezvous", time="wait",
       cost="sync",
       doc="Among the programs with this program id at the ranks given (None: all), through the signal pads at the start of the "
       "symmetric heaps; nothing happens at the other ranks.")
define("world_scratch", "world:ptr bytes:#int", listed_types(Pointer(Scalar("i8")), I32), "none", "pure", ours=True, needs="peers",
       cost="int",
       doc="Where the workspace of this rank begins, of which program number n has `bytes` from n times the second result on. Who "
       "writes there meets the readers, and again before the next who writes.")
