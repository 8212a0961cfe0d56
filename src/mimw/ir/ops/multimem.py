"""The memory of all GPUs at once: multimem instructions (docs/DISTRIBUTED.md).

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %all = multicast_pointer %x %world; %sum = multimem_load_reduce %all None 'add' 'relaxed' 4

Tiles are flat. `vector` neighbours lie one after the other, are masked together, and go in one access by one thread.
"""

from ..type_rules import as_operand, pointee
from .table import define

define("multicast_pointer", "pointer:ptr~ world:ptr", as_operand(0), "same", "pure", ours=True, pointer_of="pointer",
       needs="multimem", doc="Pointers to the same elements of the symmetric array at all ranks, for multimem ops only.")
define("multimem_load_reduce", "pointer:ptr[] mask:i1[]? reduction:#str sem:#str vector:#int", pointee(0), "run", "read",
       ours=True, rule="groups", touches="pointer=read", traits="atomic", cost="global", time="work", needs="multimem",
       doc="The elements of all ranks, reduced over the ranks; 0 where the mask is false. sem: relaxed or acquire.")
define("multimem_store", "pointer:ptr[] value:num[] mask:i1[]? sem:#str vector:#int", None, "run", "write", ours=True,
       rule="groups", touches="pointer=write", releases=True, traits="atomic", time="store", cost="global", needs="multimem",
       doc="Writes the elements at all ranks. sem: relaxed or release.")
define("multimem_reduce", "pointer:ptr[] value:num[] mask:i1[]? reduction:#str sem:#str vector:#int", None, "run", "read write",
       ours=True, rule="groups", touches="pointer=write", releases=True, traits="atomic", time="store", cost="global",
       needs="multimem", doc="Changes the elements at all ranks, atomically at each. sem: relaxed or release.")
