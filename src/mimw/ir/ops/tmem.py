"""Tensor memory, and the products of the fifth generation of tensor cores, which add up there.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    tcgen05_mma %a %b %acc      reads %a and %b, and adds into %acc, later; a `tcgen05_commit` arrives on a barrier when

Buffers of tensor memory are made and viewed by the ops of `buffers`, as those of shared memory are: `Buffer.space` is "tmem".
Sources: PTX ISA, "Tensor Memory", "tcgen05.mma", "tcgen05.commit", "tcgen05.ld", "tcgen05.st", "tcgen05.cp".
"""

from ..types import Tensor
from .table import define

define("tmem_load", "buffer:Buffer", lambda args, attrs: (Tensor(args[0].type.element, args[0].type.shape), ), "tensor_memory",
       "read", ours=True, attrs="layout:const?", touches="buffer=read", time="work", cost="shared", traits="collective",
       needs="tensor_memory", word="local_load of tensor memory", lies="buffer=columns",
       doc="A buffer of tensor memory into registers, complete. attrs: layout, pinned by the author.")
define("tmem_store", "buffer:Buffer value:num[]", None, "tensor_memory", "write", ours=True, touches="buffer=write", time="store",
       cost="shared", traits="whole collective", needs="tensor_memory", word="local_store to tensor memory",
       lies="buffer=columns",
       doc="Registers into a buffer of tensor memory, complete.")
define("tcgen05_mma", "a:Buffer b:Buffer acc:Buffer use_acc:i1|#bool predicate:i1?", None, "none", "read write async", ours=True,
       attrs="waits:#bool? exact:const? fences:#bool? finished:#bool?", touches="a=async-read b=async-read acc=async-write",
       traits="dot", time="dot", needs="tensor_memory",
       word="async_dot", cost="sync", lies="a=left b=right acc=columns",
       doc="a (shared or tensor memory) x b (shared memory), added to acc (tensor memory), or in its place where `use_acc` is "
       "false. In the order of issue with all tcgen05 ops of the task. attrs: waits, if the task goes on when it is done; exact, "
       "the author's types of a, b and acc, if an extent is no power of two; fences, if the task has written a or b, and not fenced"
       " (`passes.fence_products`); finished, if another compiler has put in all fences there are (`compiler.ttgir`).")
define("tcgen05_commit", "barrier:Barrier predicate:i1?", None, "none", "async", ours=True, barrier="commit",
       time="work", needs="tensor_memory", cost="sync", attrs="of_dot:#bool?",
       doc="One arrival, when all tcgen05 ops that the task issued before are done; releases these, and nothing else of the task. "
       "attrs: of_dot, if it stands behind a product to whose barriers this one belongs.")
define("tmem_copy", "source:Buffer buffer:Buffer predicate:i1?", None, "none", "read write async", ours=True,
       attrs="of_dot:#bool? finished:#bool? in_order:#bool?", touches="source=async-read buffer=async-write", traits="fenced",
       time="copy", needs="tensor_memory", cost="sync", lies="source=packed buffer=columns",
       doc="A buffer of shared memory into tensor memory, later: a table of scales from its packed form, or a tile. In the order "
       "of issue with all tcgen05 ops of the task. attrs: of_dot, if it brings the scales of the product behind it; finished, as "
       "of tcgen05_mma; in_order, if the source's elements one after the other are the buffer's (`compiler.ttgir.reshaped`).")
define("tcgen05_mma_scaled", "a:Buffer b:Buffer acc:Buffer a_scale:Buffer b_scale:Buffer a_format:#str b_format:#str "
       "use_acc:i1|#bool predicate:i1?", None, "none", "read write async", ours=True, attrs="waits:#bool? finished:#bool?",
       touches="a=async-read b=async-read acc=async-write a_scale=async-read b_scale=async-read", traits="dot scaled", time="dot",
       needs="tensor_memory", word="async_dot_scaled", cost="sync",
       lies="a=left b=right acc=columns a_scale=packed b_scale=packed",
       doc="As tcgen05_mma, of operands whose blocks along K have a scale each: of 32 elements e8m0, of 16 e4m3. e2m1 is packed in "
       "pairs. Scales in shared memory are packed, until `stage_scales` has copied them to tensor memory. attrs: waits, finished.")
