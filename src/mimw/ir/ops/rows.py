"""Copies of rows that a tile of row numbers picks, by TMA: gather into a tile of shared memory, scatter out of one.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    tma_gather %descriptor %rows %column %full %tile      row i of the tile is row `rows[i]` of the tensor, from `column` on
"""

from ..type_rules import gathered_rows
from .table import define

define("tma_gather", "descriptor:Descriptor rows:i32[] column:i32 barrier:Barrier buffer:Buffer predicate:i1?", None, "rows",
       "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete", brings="buffer",
       copy="in", time="copy", needs="tma", word="async_descriptor_gather", cost="sync",
       becomes="copies by pointers, by the task's threads; an arrival when they have landed, in a loop behind later copies",
       lies="buffer=gathered",
       doc="TMA copies of rows that a tile picks; completes the bytes of the buffer on the barrier.")
define("tma_gather_multicast", "descriptor:Descriptor rows:i32[] column:i32 barrier:Barrier buffer:Buffer targets:i32* "
       "predicate:i1?", None, "none", "read write async", ours=True, attrs="pairs:#bool?",
       touches="descriptor=async-read buffer=async-write", barrier="complete", brings="buffer", peers="targets", copy="in",
       time="copy", needs="tma", cost="sync", traits="ttgir", lies="buffer=gathered",
       doc="As tma_gather, into the same place of each CTA of `targets`; completes the bytes on the same barrier in each. No word "
       "records it: the reader of TTGIR does. attrs: pairs, if it is that of the even CTA of each one's pair.")
define("tma_fetch_rows", "descriptor:Descriptor rows:i32[] column:i32 buffer:Buffer", None, "rows", "read write", ours=True,
       attrs="bytes:#int? more:#bool?", touches="descriptor=async-read buffer=async-write", copy="in", needs="tma",
       traits="collective fetch", word="tle.gpu.copy of rows from a tensor descriptor", cost="global",
       becomes="copies by pointers, by the task's threads", lies="buffer=gathered",
       doc="As tma_gather; the rows are there when the op is over.")
define("tma_scatter", "descriptor:Descriptor rows:i32[] column:i32 buffer:Buffer", None, "rows", "read write async", ours=True,
       touches="descriptor=async-write buffer=async-read", copy="out", time="store", needs="tma",
       word="async_descriptor_scatter", cost="sync",
       becomes="a read of the buffer, and stores by pointers", lies="buffer=gathered",
       doc="TMA copies of a buffer's rows to rows that a tile picks, one bulk group.")
define("descriptor_gather", "descriptor:Descriptor rows:int[] column:int type:#type", gathered_rows, "rows", "read",
       attrs="by_pointers:#bool?",
       touches="descriptor=async-read", copy="in", cost="global", traits="collective", needs="tma", word="desc.gather",
       becomes="loads by pointers")
define("descriptor_scatter", "descriptor:Descriptor value:num[] rows:int[] column:int", None, "rows", "write",
       attrs="by_pointers:#bool?",
       touches="descriptor=async-write", copy="out", traits="collective", needs="tma", word="desc.scatter",
       becomes="stores by pointers")
