"""Ops with regions: branches, loops, and the tasks of a CTA; how they hand values on is read by `ir.flow`.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %end = for %start %stop %step (%acc)      one block: the induction variable, then a value for each carried one
"""

from ..type_rules import listed, of_values
from .table import define

define("if", "condition:int types:#type*", listed(1), "same", "control", traits="branch lanes",
       attrs="in_tensor:#bool?", regions="then else", hands_on="then->results else->results", cost="free", rule="carried",
       doc="attrs: in_tensor, if it chooses between a copy of a block that lies in its tensor, and one of a block that may not "
       "(`copies_by_pointers`).")
# What Triton's generator says of a loop.
_LOOP = ("tt.num_stages:const? tt.loop_unroll_factor:const? tt.disallow_acc_multi_buffer:const? tt.flatten:const? "
        "tt.warp_specialize:const? llvm.loop_annotation:const?")
define("for", "start:int end:int step:int inits:value*", of_values(3), "same", "control",
       attrs=f"{_LOOP} dsa:#str? ahead:#int? alone:#str? later:#int? at_once:#str?",
       traits="loop", regions="body", hands_on="inits->body,results body->body,results", cost="free", rule="carried",
       doc="Block arguments: the induction variable, then one per carried value. attrs: dsa, `pipeline` or `parallel`, if the "
       "author asked for that; ahead, how many trips its copies run ahead; alone, why one of them "
       "does not (`pipeline_dsa`); later, how many arrivals are made behind copies that came after their own at most, at_once, why "
       "none is (`arrive_later`).")
define("while", "inits:value*", of_values(0), "same", "control", attrs=_LOOP, traits="loop",
       regions="before after", hands_on="inits->before before->after,results after->before", cost="free",
       rule="carried",
       doc="`before` ends in a `condition`, `after` in a `yield`.")
define("condition", "condition:int values:value*", None, "none", "control", traits="terminator", cost="free")
define("yield", "values:value*", None, "none", "control", traits="terminator", cost="free")

define("warp_specialize", "", lambda args, attrs: attrs.get("types", ()), "none", "control sync", ours=True,
       attrs="tasks:const types:#type*? exclusive:#bool? no_ending_sync:#bool? shares_captures:#bool? registers:const? "
       "internal:#bool?",
       releases=True, regions="default task", hands_on="default->results", needs="tasks", word="async_tasks", cost="free",
       rule="tasks",
       doc="attrs: tasks, one `Task` a block; block 0 is the default task, whose `yield` gives the results, of the "
       "`types`. All start together; the op ends when all have ended. shares_captures: tiles from outside may be used "
       "(`passes.share_captures`). exclusive: the author wants no other region. no_ending_sync: the author has it that no CTA "
       "touches another's tensor memory at the end. registers: what to ask of the hardware for each task "
       "(`passes.grant_registers`). internal: the compiler made it, and its tasks are not the author's.")
