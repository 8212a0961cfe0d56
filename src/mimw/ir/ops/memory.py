"""Global memory through pointers: loads, stores, atomics, prefetches.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %tile = masked_load %pointers %mask %other      touches="pointer=read"
"""

from ..type_rules import as_operand, bool_like, pointee
from .table import define

define("load", "pointer:ptr~ cache_policy:const? is_volatile:const", pointee(0), "memory", "read",
       touches="pointer=read", time="work", cost="global", traits="lanes")
define("masked_load", "pointer:ptr~ mask:i1~? other:num~? cache_policy:const? is_volatile:const", pointee(0), "memory",
       "read", touches="pointer=read", time="work", cost="global", traits="lanes")
define("store", "pointer:ptr~ value:num~ cache_policy:const?", None, "memory", "write", touches="pointer=write", time="store",
       traits="lanes")
define("masked_store", "pointer:ptr~ value:num~ mask:i1~ cache_policy:const?", None, "memory", "write",
       touches="pointer=write", time="store", traits="lanes")
define("atomic_rmw", "kind:@ATOMIC_OP pointer:ptr~ value:num~ mask:i1~? order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?",
       as_operand(2), "memory", "read write", touches="pointer=write", releases=True, traits="atomic", cost="global")
define("atomic_cas", "pointer:ptr~ compare:num~ value:num~ order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?",
       as_operand(2), "memory", "read write", touches="pointer=write", releases=True, traits="atomic", cost="global")
define("atomic_load", "pointer:ptr~ mask:i1~? order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?", pointee(0), "memory", "read",
       touches="pointer=read", traits="atomic", cost="global")
define("atomic_store", "pointer:ptr~ value:num~ mask:i1~? order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?", None, "memory", "write",
       touches="pointer=write", releases=True, traits="atomic")
define("atomic_poll", "pointer:ptr~ expected:num~ timeout:int|const? order:@MEM_SEMANTIC? scope:@MEM_SYNC_SCOPE?",
       bool_like, "memory", "read", touches="pointer=read", blocks="poll", traits="atomic", time="wait")
define("buffer_load", "pointer:ptr[] mask:i1[]? other:num[]? base:ptr at:int[] cache:#str contiguity:#int is_volatile:#bool",
       pointee(0), "memory", "read", ours=True, touches="pointer=read", time="work", cost="global", rule="buffered",
       needs="buffer_words", instead="tl.load(ptr + offsets, mask=mask, other=other)",
       doc="Elements at the offsets `at` from `base`, which is where `pointer` points; `contiguity` neighbours lie together.")
define("buffer_store", "pointer:ptr[] value:num[] mask:i1[]? base:ptr at:int[] cache:#str", None, "memory", "write",
       ours=True, touches="pointer=write", time="store", rule="buffered", needs="buffer_words",
       instead="tl.store(ptr + offsets, value, mask=mask)",
       doc="Elements to the offsets `at` from `base`, which is where `pointer` points.")
define("buffer_atomic_add",
       "pointer:ptr[] value:num[] mask:i1[]? order:@MEM_SEMANTIC scope:@MEM_SYNC_SCOPE base:ptr at:int[] contiguity:#int",
       as_operand(1), "memory", "read write", ours=True, touches="pointer=write", releases=True, traits="atomic", cost="global",
       rule="buffered", needs="buffer_atomics", instead="tl.atomic_add(ptr + offsets, value, mask=mask)",
       doc="Adds at the offsets `at` from `base`, which is where `pointer` points, and gives what was there.")
define("prefetch", "pointer:ptr~ mask:i1~? level:#str", None, "same", "read", ours=True,
       doc="A hint: these lines will be read from L1 or L2.")
