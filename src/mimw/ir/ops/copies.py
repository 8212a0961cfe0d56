"""Copies that finish later: cp.async groups, TMA and bulk copies.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    tma_load %descriptor (%row, %column) %full %tile      completes the bytes of the block on `barrier`
"""

from ..type_rules import scalar
from ..types import TOKEN
from .table import define

define("async_load", "pointer:ptr[] buffer:Buffer mask:i1[]? other:num[]? cache_policy:const? is_volatile:const",
       scalar(TOKEN), "memory", "read write async", ours=True, attrs="of_copy:#bool? pieces:#shape?",
       touches="pointer=read buffer=write", copy="in", traits="whole", time="copy", lies="buffer=tile",
       doc="cp.async: pointers' elements into the buffer, or `other` (None: 0); done when its group has been waited "
       "for. attrs: pieces, of a tile that goes into several buffers (see local_store).")
define("buffer_load_to_local",
       "pointer:ptr[] buffer:Buffer mask:i1[]? other:num[]? base:ptr at:int[] cache:#str is_volatile:#bool", scalar(TOKEN),
       "memory", "read write async", ours=True, touches="pointer=read buffer=write", copy="in", traits="whole", time="copy",
       lies="buffer=tile", rule="buffered", needs="buffer_words",
       instead="tlx.async_load(ptr + offsets, tile, mask=mask, other=other)",
       doc="As `async_load`, of the elements at the offsets `at` from `base`, which is where `pointer` points.")
define("bulk_load", "pointer:ptr~ barrier:Barrier buffer:Buffer bytes:int|#int cache_policy:const?", scalar(TOKEN), "same",
       "read write async", ours=True, touches="pointer=async-read buffer=async-write", barrier="complete",
       brings="bytes", copy="in", time="copy", needs="bulk", word="async_load(bulk=True)", cost="sync",
       lies="buffer=bytes",
       doc="Consecutive bytes (an int or i32) from the first of the pointers on into the buffer; completes them on "
       "the barrier.")
define("bulk_store", "pointer:ptr~ buffer:Buffer bytes:int|#int cache_policy:const?", None, "none", "read write async", ours=True,
       touches="pointer=async-write buffer=async-read", copy="out", time="store", needs="bulk", word="async_store",
       cost="sync", lies="buffer=bytes",
       doc="Consecutive bytes (an int or i32) from the buffer to global memory, one bulk group of its own.")
define("async_commit", "tokens:Token*", scalar(TOKEN), "none", "async", ours=True,
       attrs="of_copy:#bool? of_chunk:#bool? in_flight:#bool?", cost="sync", doc="Closes the task's current cp.async group.")
define("async_wait", "pending:#int tokens:Token*", scalar(TOKEN), "none", "sync wait", ours=True,
       attrs="of_copy:#bool? of_chunk:#bool? in_flight:#bool? stores:#bool?", time="wait", cost="sync",
       doc="Until at most `pending` newest cp.async groups are unfinished. attrs, here and above: of_copy, if a word puts it in "
       "that copies and waits, of_chunk, if the commit of a pipe does; in_flight, if later copies are meant to be under way "
       "(`arrive_later`), so that the instructions are counted along all ways that lead there; stores, if what the task has stored "
       "is to be there as well.")
define("tma_load",
       "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?", None,
       "none", "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete",
       brings="descriptor", copy="in", time="copy", needs="tma", word="async_descriptor_load", cost="sync",
       becomes="copies by pointers, by the task's threads; an arrival when they have landed, in a loop behind later copies",
       lies="buffer=block",
       doc="TMA tile load; completes block_bytes on the barrier.")
define("tma_load_pixels",
       "descriptor:Descriptor offsets:i32* moved:int* barrier:Barrier buffer:Buffer predicate:i1?", None, "none",
       "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete",
       brings="descriptor", copy="in", time="copy", needs="tma", cost="sync", lies="buffer=block", traits="ttgir",
       doc="TMA load in im2col mode: pixels from the one at `offsets` on, box and pixels moved by `moved` along the spatial "
       "dimensions; completes block_bytes on the barrier. No word records it: the reader of TTGIR does.")
define("tma_fetch", "descriptor:Descriptor offsets:i32* buffer:Buffer cache_policy:const?", None, "none", "read write",
       ours=True, attrs="bytes:#int? more:#bool?", touches="descriptor=async-read buffer=async-write", copy="in",
       traits="fetch", needs="tma", word="tle.gpu.copy from a tensor descriptor", cost="global",
       becomes="copies by pointers, by the task's threads", lies="buffer=block",
       doc="TMA tile load that is there when the op is over. attrs: bytes that the wait is told of here, those of the "
       "whole run of fetches or 0; more, if the next fetch waits for this one, too.")
define("tma_store", "descriptor:Descriptor offsets:i32* buffer:Buffer cache_policy:const? reduce:#str", None, "none",
       "read write async", ours=True, touches="descriptor=async-write buffer=async-read", copy="out",
       traits="reduces", time="store", needs="tma", word="async_descriptor_store", cost="sync",
       becomes="a read of the buffer, and stores by pointers", lies="buffer=block",
       doc="TMA tile store (reduce: '' or add, min, max, and, or, xor), one bulk group of its own.")
define("tma_prefetch", "descriptor:Descriptor offsets:i32* predicate:i1? cache_policy:const?", None, "none", "read",
       ours=True, needs="tma", word="async_descriptor_prefetch_tensor", cost="sync",
       becomes="nothing: a hint",
       doc="A hint: the block will be read from L2 soon.")
define("tma_store_wait", "pending:#int", None, "none", "sync wait", ours=True, time="wait",
       needs="tma", word="async_descriptor_store_wait", cost="sync",
       becomes="nothing: the buffer has been read",
       doc="Until at most `pending` newest TMA store groups of this task are incomplete.")
