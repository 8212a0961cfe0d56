"""Stages of a warp pipeline: a loop body in parts, which the two halves of a work-group's waves run one part apart.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    stage_start; local_load ..; stage_end 'read' 0; async_wait 0; stage_start; dot ..; stage_end 'multiply' 1

`halves_part` and `halves_meet` stand around the loop once `passes/settle_stages.py` has run.
"""

from .table import define

define("stage_start", "", None, "none", "sync", ours=True, attrs="bare:#bool?", needs="stages", word="warp_pipeline_stage",
       cost="free", doc="A stage begins. attrs: bare, if at the barrier before it nobody waits for his own accesses to LDS, as the "
       "reader of TTGIR may find it.")
define("stage_end", "label:#str? priority:#int?", None, "none", "sync", ours=True, needs="stages", word="warp_pipeline_stage",
       cost="sync", doc="The stage ends: a half goes on when the other half has ended the stage before it. priority: of the waves "
       "in this stage, 0 to 3.")
define("halves_part", "", None, "none", "sync", ours=True, needs="stages", word="warp_pipeline_stage", cost="sync",
       doc="All waves meet; from here on the second half is a stage behind the first one.")
define("halves_meet", "", None, "none", "sync", ours=True, needs="stages", word="warp_pipeline_stage", cost="sync",
       doc="The halves are together again: each has ended all of its stages.")
