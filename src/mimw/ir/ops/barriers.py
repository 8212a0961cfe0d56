"""Barriers within a CTA, and fences.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    barrier_wait %full %phase      until the phase of that parity has completed
"""

from ..type_rules import scalar
from ..types import I1, I32, Barrier
from .table import define

_BY_PIPE = "method:#str? reader:#str?"  # of a pipe that the op comes from, and the name of the reader that called it

define("barrier", "", None, "none", "sync", cost="sync")
define("grid_dependency_wait grid_dependency_launch_dependents", "", None, "none", "sync", needs="dependent_launch",
       word="gdc_wait or gdc_launch_dependents", blocks={"grid_dependency_wait": "before"}, time={"grid_dependency_wait": "wait"})

define("alloc_barriers", "count:#int arrive_count:#int",
       lambda args, attrs: (Barrier(args[0], attrs.get("per_thread", False)), ), "none", "sync write", ours=True,
       attrs="per_thread:#bool? pipe:#str? side:#str? readers:const? fields:const? chunk_bytes:#int? over:#str? clc:#str?",
       allocates="barriers", needs="barriers",
       doc="`count` mbarriers, each completing a phase after `arrive_count` arrivals and its expected bytes. attrs: "
       "per_thread; of a pipe's barriers, one a slot, also the name of the pipe (\"\": it has none), the side, `full` or `free`, "
       "and the names of the pipe's readers; on the side `full` the names of its fields, the bytes of a chunk, and the name of the "
       "pipe that it lies over; of those that clc_create_context makes, clc, `empty` or `full`.")
define("barrier_memory", "count:#int", lambda args, attrs: (Barrier(args[0]), ), "none", "write", ours=True, allocates="barriers",
       needs="barriers", traits="ttgir", cost="free",
       doc="Memory for `count` mbarriers, none of them initialised; the same memory each time. No word of any language records it, "
       "nor the two below: only the reader of TTGIR does.")
define("barrier_init", "barrier:Barrier count:#int", None, "none", "sync", ours=True, barrier="init", needs="barriers",
       traits="ttgir", cost="sync",
       doc="An mbarrier begins, in phase 0, with `count` arrivals a phase (PTX ISA, mbarrier.init). There must be none yet: on "
       "fresh memory, or behind `barrier_invalidate`.")
define("barrier_invalidate", "barrier:Barrier", None, "none", "sync", ours=True, barrier="invalidate", needs="barriers",
       traits="ttgir", cost="sync",
       doc="The mbarrier ends (PTX ISA, mbarrier.inval): only `barrier_init` may follow.")
define("barrier_index", "barrier:Barriers index:int|#int", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ),
       "none", "pure", ours=True, attrs="lazy:#bool?", view_of="barrier", view="slot", cost="free")
define("barrier_slice", "barrier:Barriers start:#int count:#int", lambda args, attrs: (Barrier(args[2]), ), "none", "pure",
       ours=True, view_of="barrier", view="part", traits="ttgir", cost="free",
       doc="`count` neighbours of an array of barriers. No word records it: the reader of TTGIR does.")
define("barrier_expect", "barrier:Barrier bytes:#int predicate:i1? chunk:int|#int?", None, "none", "sync", ours=True, releases=True,
       attrs=_BY_PIPE, barrier="expect", needs="mbarrier", word="barrier_expect_bytes", cost="sync",
       becomes="one arrival, behind the copies that bring the bytes",
       doc="One arrival that also adds `bytes` to what the current phase waits for. `chunk` is for reports, here and below: the "
       "number of the chunk, if a pipe made the op.")
define("barrier_bytes", "barrier:Barrier bytes:#int", None, "none", "sync", ours=True, barrier="announce", cost="sync",
       doc="No arrival: the current phase, which some arrival must still be missing in, waits for `bytes` more.")
define("barrier_wait", "barrier:Barrier phase:i32 predicate:i1? chunk:int|#int?", None, "none", "sync wait", ours=True,
       attrs=_BY_PIPE, barrier="wait", blocks="barrier", time="wait", needs="barriers", cost="sync",
       doc="Until the phase of that parity has completed.")
define("barrier_test", "barrier:Barrier phase:i32", scalar(I1), "none", "sync wait", ours=True, barrier="test", time="work",
       needs="barriers", word="barrier_try_wait", cost="sync",
       doc="True if the phase of that parity has completed; then it acquires as `barrier_wait` does. It never waits.")
define("barrier_phase", "barrier:Barrier", scalar(I32), "none", "sync", ours=True, mentions="barrier", needs="mbarrier",
       cost="sync", time="work", doc="The parity of the phase that the barrier is in; for who still has to arrive in it.")
define("barrier_arrive", "barrier:Barrier count:#int predicate:i1? chunk:int|#int?", None, "none", "sync", ours=True, releases=True,
       attrs=f"{_BY_PIPE} in_flight:#bool?", barrier="arrive", time="work", needs="barriers", cost="sync",
       doc="`count` arrivals of the task, or of each of its threads on a per-thread barrier; releases. attrs: in_flight, if the "
       "task has waited for all that it releases but what it did in shared memory: copies that it began since may be under way.")
define("copies_arrive", "barrier:Barrier count:#int", None, "none", "sync", ours=True, attrs="raises:#bool?", barrier="commit",
       time="work", needs="barriers", cost="sync", traits="ttgir",
       doc="`count` arrivals once all cp.async that the task has started have landed; they release these alone. No word records "
       "it: the reader of TTGIR does. attrs: raises, if the phase first waits for as many arrivals more.")
define("named_barrier_wait named_barrier_arrive", "barrier:#int threads:#int", None, "none", "sync", ours=True,
       releases=True, blocks={"named_barrier_wait": "named barrier"}, traits="named", time={"named_barrier_wait": "wait"},
       cost="sync",
       doc="Hardware barrier number `barrier`: it opens when `threads` threads have come; a wait stays until then.")
define("fence", "scope:#str", None, "none", "sync", ours=True, attrs="cluster:#bool? proxy:#bool?", time="work",
       cost="sync", traits="alone", needs="proxies", needed_if="scope=async_shared", word="fence('async_shared')",
       becomes="nothing: there is one way to memory",
       doc="'async_shared' | 'gpu' | 'sys', as an author says; 'handover' and 'delivery', by the compiler: async_shared, so "
       "that copies may overwrite, or read. attrs: cluster, if other CTAs' shared memory is meant, too; proxy, if a gpu or sys "
       "fence is one between proxies, too.")
