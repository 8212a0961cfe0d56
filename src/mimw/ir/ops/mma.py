"""Products on the tensor cores: of tiles, and asynchronous ones out of shared memory.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %acc2 = async_dot %a %b %acc      reads its buffers through the asynchronous proxy, later
"""

from ..type_rules import accumulator, as_operand
from .table import define

define("dot", "a:num[] b:num[] acc:num[] precision:@INPUT_PRECISION? max_imprecise:const", accumulator, "dot", "pure",
       attrs="registers:#str?", traits="dot collective", time="dot", cost="dot",
       doc="a x b + acc. attrs: registers, in which the matrix cores of CDNA keep the sum, \"agpr\" or "
       "\"vgpr\".")
define("dot_scaled",
       "a:num[] a_scale:num[]? a_format:@ScaleDotElemTypeTY b:num[] b_scale:num[]? b_format:@ScaleDotElemTypeTY "
       "fast_math:const a_k_pack:const b_k_pack:const acc:num[]",
       lambda args, attrs: (args[9].type, ), "dot", "pure", attrs="tiles:const?", traits="dot collective", time="dot", cost="dot",
       rule="scaled",
       doc="A product of blocks with scales. attrs: tiles, instructions of a warp side by side along each dimension, on CDNA.")

define("async_dot", "a:Buffer|num[] b:Buffer|num[] acc:num[]? precision:@INPUT_PRECISION? max_imprecise:const",
       lambda args, attrs: (attrs["type"], ), "mma", "read async", ours=True,
       attrs="type:#type emulated:#bool? fresh:#bool? exact:const? written:#bool? finished:#bool?",
       touches="a=async-read b=async-read", traits="dot", time="dot", needs="wgmma", cost="sync",
       becomes="a product at once of what the buffers hold", lies="a=lhs b=rhs",
       doc="One wgmma group: a (buffer or tile) x b (buffer) + acc (tile or None). attrs: type; emulated, if it is "
       "more precise than the tensor core: then a and b are tiles, and it is done at once; fresh, if acc only lends "
       "its registers and is not added; exact, the author's types of a, b and the result, if an extent is no power of two "
       "(`passes.pad_tiles`); written, if the task has written a or b, and not fenced (`passes.fence_products`); finished, if "
       "another compiler has put in all fences there are (`compiler.ttgir`).")
define("async_dot_wait", "pending:#int value:num[]", as_operand(1), "mma_wait", "sync wait", ours=True, time="wait",
       needs="wgmma", cost="sync", becomes="nothing: the product is done", attrs="exact:const? meets:#bool?",
       doc="Until at most `pending` newest wgmma groups of this task are unfinished. attrs: exact, the author's type of "
       "the value, if an extent is no power of two; meets, if all threads then meet, before the task overwrites an operand.")
