"""Cluster launch control: a running cluster asks for the launch of one that has not started, and runs its work itself.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    clc_issue %response %full      16 bytes land in the response, and are completed on `barrier`
"""

from ..type_rules import listed_types
from ..types import I32
from .table import define

define("clc_issue", "response:Buffer barrier:Barrier", None, "none", "write async", ours=True,
       touches="response=async-write", barrier="complete", brings="response", traits="steals", needs="launch_control",
       word="_clc_issue", cost="sync", lies="response=bytes",
       doc="Asks for a cluster of the grid that has not started: then it never will, and this CTA has its work. The answer lands "
       "in the response, 16 bytes, and completes them on the barrier.")
define("clc_issue_all", "response:Buffer barrier:Barrier ranks:#shape predicate:i1?", None, "none", "write async", ours=True,
       touches="response=async-write", barrier="complete", brings="response", peers="ranks", traits="steals",
       needs="launch_control", word="clc_producer", cost="sync", lies="response=bytes",
       doc="The same for a cluster: one request, whose answer lands in the same place of every CTA, `ranks`, and completes its "
       "bytes on the same barrier of each.")
define("clc_query", "response:Buffer", listed_types(I32, I32, I32), "none", "read", ours=True, touches="response=read",
       needs="launch_control", word="_clc_query", time="work", cost="shared", traits="collective", lies="response=bytes",
       doc="The program id (x, y, z) of the first CTA of the cluster that was taken; three times -1 if none was.")
