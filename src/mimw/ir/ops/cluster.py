"""Other CTAs: ranks, cluster and grid barriers, remote mbarriers and buffers, multicast.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    remote_arrive %free 1 %rank      one arrival on the same barrier of CTA `rank`
"""

from ..type_rules import scalar
from ..types import I32, Barrier, Pointer, Tensor, element_of, like
from .table import define


def _spread(factor: int):
    """The types of tiles of which `bits` are put together, or picked."""

    def types(args, attrs):
        found = []
        for value in args[0]:
            shape = list(getattr(value.type, "shape", ()))
            for axis, _ in filter(None, attrs["bits"]):
                shape[axis] = shape[axis] * 2 if factor > 1 else shape[axis] // 2
            found.append(Tensor(value.type.element, tuple(shape)) if shape else value.type)
        return tuple(found)

    return types


define("cluster_cta_rank cluster_size_1d", "", scalar(I32), "none", "pure", ours=True, traits={"cluster_cta_rank": "by_cta"},
       doc="This CTA's linear rank in its cluster, x fastest, and the number of CTAs there; 0 and 1 without a cluster.")
define("cluster_barrier", "", None, "none", "sync", ours=True, attrs="all_warps:#bool? task:#int?", releases=True,
       blocks="cluster",
       time="wait", needs="clusters", cost="sync",
       doc="Arrive (release) and wait (acquire) with all threads of all CTAs of the cluster. attrs: all_warps, if the compiler "
       "lets the warps of other tasks come, too, where they wait for work; task, the number of the task's code, if it makes a "
       "barrier of its own for the tasks that run it in all CTAs.")
define("distributed_barrier", "", None, "none", "sync", ours=True, attrs="grid:#bool ranks:#shape?", releases=True,
       needs="grid_barrier", needed_if="grid",
       doc="Among CTAs; gone once `place_group_barriers` has run. attrs: grid, all CTAs of the launch; ranks, those of the "
       "cluster (None: all).")
define("group_barrier", "barrier:Barrier", None, "none", "sync", ours=True, attrs="ranks:#shape", releases=True,
       barrier="meet", peers="ranks", blocks="rendezvous",
       doc="Among the CTAs with the ranks in attrs, through the same mbarrier in each; nothing happens in the others.")
define("grid_barrier", "", None, "none", "sync", ours=True, releases=True, blocks="rendezvous",
       doc="Among all CTAs of a cooperative launch.")
define("cluster_tile", "values:value*", _spread(2), "none", "sync", ours=True, attrs="bits:const task:#int?", releases=True,
       blocks="cluster", time="wait", needs="clusters", cost="sync", traits="ttgir",
       doc="Tiles of which the CTAs of the cluster have parts, put together in each: all meet as at a `cluster_barrier`. No word "
       "records it: the reader of TTGIR does, of `num_ctas` above 1. attrs: bits, an entry for each bit of a rank: (axis, bit), "
       "that of a coordinate in which the CTAs differ; None, the part of those with this CTA's bit; (), of those without it; "
       "task, as of cluster_barrier.")
define("cluster_part", "values:value*", _spread(1), "none", "pure", ours=True, attrs="bits:const", cost="move",
       traits="ttgir by_cta",
       doc="The elements of tiles whose coordinates have the bits of this CTA's rank. attrs: bits, as above.")
define("fence_mbarrier_init", "", None, "none", "sync", ours=True, time="work",
       needs="clusters", word="fence_mbarrier_init_cluster",
       doc="Barriers made before are made for the whole cluster after a cluster_barrier.")
define("remote_view", "barrier:Barrier rank:i32", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ), "none",
       "pure", ours=True, view_of="barrier", peers="rank", view="peer",
       doc="The same barrier of another CTA; nothing reads through it.")
define("remote_arrive", "barrier:Barrier count:#int rank:i32 predicate:i1?", None, "none", "sync", ours=True,
       attrs="scope:#str?", releases=True, barrier="arrive", peers="rank", cost="sync",
       doc="`count` arrivals on the same barrier of CTA `rank`; releases to the cluster. attrs: scope, 'cta' where "
       "that is enough.")
define("remote_expect", "barrier:Barrier bytes:#int rank:i32 predicate:i1?", None, "none", "sync", ours=True, releases=True,
       barrier="expect", peers="rank", cost="sync", traits="ttgir",
       doc="One arrival on the same barrier of CTA `rank`, whose current phase then waits for `bytes` more. No word records it: "
       "the reader of TTGIR does.")
define("remote_store", "buffer:Buffer value:num[] rank:i32", None, "linear", "write", ours=True,
       touches="buffer=peer-write", peers="rank", copy="peer", time="store", lies="buffer=rows",
       doc="A flat tile into the same place of CTA `rank`, through the generic proxy; seen there after a release and "
       "an acquire.")
define("remote_ptr", "pointer:ptr~ rank:i32~",
       lambda args, attrs: (like(args[0].type, Pointer(element_of(args[0].type).pointee, "cluster")), ), "same",
       "pure", ours=True, attrs="run:#int?", pointer_of="pointer",
       doc="Pointers to the same elements of CTA `rank`'s buffer; `rank` is i32, or a tile with one for each. Gone "
       "once `shared_pointers` has run. attrs: run, if so many neighbours are known to lie one after the other.")
define("remote_load", "buffer:Buffers position:int[] rank:int[] mask:i1[]? other:num[]?",
       lambda args, attrs: (Tensor(args[0].type.element, args[1].type.shape), ), "run", "read", ours=True,
       attrs="run:#int", touches="buffer=peer-read", peers="rank", lies="buffer=elements",
       doc="result[i] = buffer[position[i]] of CTA rank[i] where mask[i], else other[i] or 0; row-major positions, "
       "flat tiles. attrs: run, as many neighbours lie in one aligned stretch and are masked together.")
define("remote_scatter", "buffer:Buffers position:int[] rank:int[] value:num[] mask:i1[]?", None, "run", "write",
       ours=True, attrs="run:#int", touches="buffer=peer-write", peers="rank", lies="buffer=elements",
       doc="buffer[position[i]] of CTA rank[i] = value[i] where mask[i]. attrs: run.")
define("remote_rmw",
       "kind:@ATOMIC_OP buffer:Buffers position:int[] rank:int[] value:num[] mask:i1[]? order:@MEM_SEMANTIC? "
       "scope:@MEM_SYNC_SCOPE?",
       lambda args, attrs: (args[4].type, ), "run", "read write", ours=True, attrs="run:#int used:#bool",
       touches="buffer=peer-write", peers="rank", traits="atomic", lies="buffer=elements",
       doc="buffer[position[i]] of CTA rank[i] becomes kind(it, value[i]) where mask[i], each i once; gives what was "
       "there. attrs: run (1); used, whether anybody wants to know.")
define("remote_cas",
       "buffer:Buffers position:int[] rank:int[] compare:num[] value:num[] order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?",
       lambda args, attrs: (args[4].type, ), "run", "read write", ours=True, attrs="run:#int used:#bool",
       touches="buffer=peer-write", peers="rank", traits="atomic", lies="buffer=elements",
       doc="buffer[position[i]] of CTA rank[i] becomes value[i] if it is compare[i]; gives what was there. attrs: as "
       "above.")
define("async_remote_store", "buffer:Buffer value:num[] rank:i32 barrier:Barrier", None, "linear", "write async",
       ours=True, touches="buffer=peer-write", releases=True, barrier="complete", brings="value", peers="rank",
       copy="peer", traits="clusters_only", time="copy", lies="buffer=rows",
       doc="A flat tile into the same place of CTA `rank`; completes its bytes on the same barrier there.")
define("async_remote_copy", "buffer:Buffer source:Buffer rank:i32 barrier:Barrier", None, "none", "read write async",
       ours=True, touches="buffer=async-write source=async-read", barrier="complete", brings="source", peers="rank",
       copy="peer", traits="clusters_only", time="copy", cost="sync", lies="buffer=alike source=alike",
       doc="A bulk copy from `source` into the place of `buffer` in CTA `rank`; completes its bytes on the same "
       "barrier there.")
define("tma_load_multicast",
       "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer targets:i32* predicate:i1? "
       "cache_policy:const?", None, "none", "read write async", ours=True,
       touches="descriptor=async-read buffer=async-write", barrier="complete", brings="descriptor", peers="targets",
       copy="in", time="copy", cost="sync", lies="buffer=block", needs="clusters",
       word="async_descriptor_load(multicast_targets=)",
       doc="TMA tile load into the same place of each CTA of `targets` (a tuple of ranks); completes block_bytes on "
       "the same barrier in each of them.")
