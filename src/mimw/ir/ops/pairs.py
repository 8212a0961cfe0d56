"""Joint ops of a pair of CTAs: products of the tensor cores of both, their commits, and the loads of their operands.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example, on the CTA with rank 0 of a pair:

    tcgen05_mma_pair %a %b %acc %peer=1      rows of both CTAs' %a times columns of both CTAs' %b, into both CTAs' %acc

The CTAs with ranks 2 i and 2 i + 1 of a cluster are a pair. Both run the ops; `predicate` is false on the odd one.
Sources: PTX ISA, "tcgen05.mma", "tcgen05.commit" and "cp.async.bulk.tensor", each with .cta_group::2; "CTA Pair".
"""

from .table import define

define("tcgen05_mma_pair", "a:Buffer b:Buffer acc:Buffer use_acc:i1|#bool predicate:i1 peer:i32 leader:i32? called:i1?", None,
       "none", "read write async", ours=True, attrs="fences:#bool? waits:#bool? exact:const? finished:#bool?",
       touches="a=async-read b=async-read acc=async-write", peers="peer", traits="dot pairs", time="dot",
       needs="tensor_memory", word="async_dot(two_ctas=True)", cost="sync", lies="a=left b=right acc=columns",
       doc="The rows of a here and of a in CTA `peer` x the columns of b here and there; each CTA's acc gets its rows, added or, "
       "where `use_acc` is false, in its place. In the order of issue with all tcgen05 ops of the task. attrs: fences, if the task "
       "may have written operands itself (`passes.fence_pairs`); waits, if the word is over when the product is, in each CTA that "
       "calls it with `called` (`passes.wait_pairs`); exact, the author's types, if an extent is no power of two; finished, as of "
       "tcgen05_mma.")
define("tcgen05_mma_pair_scaled", "a:Buffer b:Buffer acc:Buffer a_scale:Buffer b_scale:Buffer a_format:#str b_format:#str "
       "use_acc:i1|#bool predicate:i1 peer:i32 leader:i32? called:i1?", None, "none", "read write async", ours=True,
       attrs="fences:#bool? waits:#bool? finished:#bool?",
       touches="a=async-read b=async-read acc=async-write a_scale=async-read b_scale=async-read", peers="peer",
       traits="dot pairs scaled", time="dot", needs="tensor_memory", word="async_dot_scaled(two_ctas=True)", cost="sync",
       lies="a=left b=right acc=columns a_scale=packed b_scale=packed",
       doc="As tcgen05_mma_pair, with scales as tcgen05_mma_scaled has them: each CTA's a_scale has those of its rows, each CTA's "
       "b_scale those of all columns, here and there, of which that CTA's tensor core reads its own.")
define("tmem_copy_pair", "source:Buffer buffer:Buffer predicate:i1 peer:i32", None, "none", "read write async", ours=True,
       attrs="fences:#bool? of_dot:#bool? finished:#bool? in_order:#bool?", touches="source=async-read buffer=async-write",
       peers="peer", traits="pairs fenced", time="copy", needs="tensor_memory", cost="sync", word="tmem_copy",
       lies="source=packed buffer=columns",
       doc="As tmem_copy, in this CTA and in CTA `peer`: of each the buffer of shared memory into its own tensor memory.")
define("tcgen05_commit_pair", "barrier:Barrier targets:i32* predicate:i1?", None, "none", "async", ours=True, barrier="commit",
       peers="targets", traits="pairs", time="work", needs="tensor_memory", cost="sync", word="tcgen05_commit(two_ctas=True)",
       doc="One arrival on the same barrier of each CTA of `targets`, when all tcgen05 ops that the task issued before are done.")
define("tma_load_pair",
       "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer leader:i32 predicate:i1? cache_policy:const?", None,
       "none", "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete",
       brings="descriptor", peers="leader", copy="in", traits="pair_load", time="copy", needs="tensor_memory",
       word="async_descriptor_load(two_ctas=True)", cost="sync", lies="buffer=block",
       doc="TMA tile load into this CTA; completes block_bytes on the barrier of CTA `leader` of its pair.")
define("tma_load_pair_multicast",
       "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer leader:i32 targets:i32* predicate:i1? cache_policy:const?",
       None, "none", "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete",
       brings="descriptor", peers="targets", copy="in", traits="pair_load", time="copy", needs="tensor_memory",
       word="async_descriptor_load(two_ctas=True)", cost="sync", lies="buffer=block",
       doc="TMA tile load into the same place of each CTA of `targets`; completes block_bytes for each on the barrier of the even "
       "CTA of its pair. `leader` is the even CTA of this CTA's pair.")
