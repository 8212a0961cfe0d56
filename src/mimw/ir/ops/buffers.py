"""Shared memory: allocations and what overlays them, views, and accesses through the generic proxy.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    local_store %tile[0] %values      touches="buffer=write"
"""

from math import prod

from ..type_rules import as_operand, given, loaded, pointed
from ..types import Buffer, Storage, Tensor
from .table import define

define("alias_storage", "space:#str limit:#int?", lambda args, attrs: (Storage(*args), ), "none", "write", ours=True,
       attrs="bytes:#int? alignment:#int?", allocates="storage", cost="free",
       doc="Memory for buffer arrays to share. attrs: bytes (of tensor memory: columns) and alignment, once `place_aliases` has "
       "run.")
define("alias_overlap", "storage:Storage buffers:Buffers*", None, "none", "write", ours=True, attrs="tree:const",
       mentions="storage buffers",
       doc="Which buffers overlay. attrs: tree, (kind, group size, children) with indices into `buffers` as leaves.")
define("local_alloc", "type:#type reuse:Buffers|Storage?", given(0), "none", "write", ours=True,
       attrs="layout:const? place:const? plain:#bool? doubled:#bool? pieces:#int? again:#bool?", view_of="reuse", view="placed",
       allocates="buffer",
       time="work", cost="free",
       doc="A buffer array, uninitialised, in memory of its own or in `reuse`, a storage or another buffer. attrs: "
       "layout (pinned by the author, or None); place (where in the storage), once `place_aliases` has run; plain, if "
       "no tensor core is to read it where it lies; doubled, if its 64 rows lie twice in tensor memory, as operand A of pairs of "
       "CTAs (`passes.double_operands`); pieces, as many of which are one buffer of the author's (`passes.pad_buffers`); again, if "
       "each execution of the op takes the same memory (its own, not `reuse`), with nothing in it, as Triton's allocations do: all "
       "that used it is over then.")
define("local_free", "buffer:Buffers", None, "none", "write", ours=True, mentions="buffer", cost="free",
       doc="The array's memory is nobody's from here on: all that used it is over. Without this op it is kept until the end.")
define("buffer_index", "buffer:Buffers index:int|#int",
       lambda args, attrs: (args[0].type.slot(), ), "none", "pure", ours=True, attrs="around:#shape? lazy:#bool?", view_of="buffer",
       view="slot", cost="free", lies="buffer=view",
       doc="One buffer of an array, or one slice along the leading dimension of a single buffer. attrs: around, of the first of "
       "several buffers that are one of the author's (`passes.pad_views`) the extents of the tile that they are a part of; lazy, "
       "if an index of none is a mistake only where the buffer is used (the reader of TTGIR's, which has addresses).")
define("buffer_slice", "buffer:Buffer offsets:int|#int* shape:#shape",
       lambda args, attrs: (Buffer(args[0].type.element, tuple(args[2]), 0, args[0].type.space), ), "none", "pure",
       ours=True, view_of="buffer", view="part", cost="free", lies="buffer=tile",
       doc="A box of a single buffer; offsets are ints or i32 values.")
define("buffer_trans", "buffer:Buffer order:#shape",
       lambda args, attrs:
           (Buffer(args[0].type.element, tuple(args[0].type.shape[i] for i in args[1]), 0, args[0].type.space), ),
       "none", "pure", ours=True, view_of="buffer", view="transposed", cost="free", lies="buffer=view",
       doc="A permuted view of a single buffer.")
define("buffer_reinterpret", "buffer:Buffers type:#type", given(1), "none", "pure", ours=True, attrs="layout:const?",
       view_of="buffer", view="retyped", cost="free", lies="buffer=tile",
       doc="The same bytes as another type. An array keeps its number of buffers, or becomes one buffer. attrs: "
       "layout (pinned by the author, or None).")
define("buffer_flat", "buffer:Buffers",
       lambda args, attrs:
           (Buffer(args[0].type.element, (prod(args[0].type.shape) * max(1, args[0].type.count), ), 0,
           args[0].type.space), ), "none", "pure", ours=True, view_of="buffer", view="flat", cost="free",
       lies="buffer=picked",
       doc="All elements of a buffer or array in row-major order, wherever they lie; for picked elements only.")
define("local_ptr", "buffer:Buffers indices:int~*? shape:#shape pointee:#type", pointed, "same", "pure", ours=True,
       view_of="buffer", view="pointer", time="work",
       doc="Pointers to elements of a buffer of the logical `shape`, as `indices` say, one per dimension (None: to "
       "all of them). Gone once `shared_pointers` has run.")
define("local_load", "buffer:Buffer token:Token? mask:i1[]?", loaded, "free", "read", ours=True,
       attrs="layout:const? pieces:#shape?", touches="buffer=read", time="work", cost="shared", traits="collective",
       lies="buffer=free", rule="vectors",
       doc="A buffer into registers; with a mask, the elements where it is true: the others are not read. attrs: pieces, of a tile "
       "that lies in them (see local_store).")
define("local_gather", "buffer:Buffer indices:int[] axis:#int token:Token? mask:i1[]?",
       lambda args, attrs: (Tensor(args[0].type.element, args[1].type.shape), ), "same", "read", ours=True,
       touches="buffer=read", time="work", cost="shared", traits="collective", lies="buffer=tile",
       doc="result[i0, ..] = buffer[i0, .., indices[i0, ..] along axis, ..]; mask: as for local_load.")
define("local_scatter", "buffer:Buffer value:num[] indices:int[] axis:#int token:Token?", None, "same", "write",
       ours=True, touches="buffer=write", time="work", cost="shared", traits="collective", lies="buffer=tile",
       doc="buffer[i0, .., indices[i0, ..] along axis, ..] = value[i0, ..], through the generic proxy.")
define("local_masked_scatter", "buffer:Buffer value:num[] indices:int[] mask:i1[]", None, "once", "write", ours=True,
       touches="buffer=write", time="work", cost="shared", traits="collective", lies="buffer=flat",
       doc="buffer[indices[i]] = value[i] where mask[i]; the buffer is flat, so are the tiles.")
define("local_atomic_rmw", "kind:@ATOMIC_OP buffer:Buffer value:num[] indices:int[] mask:i1[]?", as_operand(2), "same",
       "read write", ours=True, touches="buffer=write", traits="atomic collective", time="work", cost="shared",
       lies="buffer=flat",
       doc="buffer[indices[i]] becomes kind(buffer[indices[i]], value[i]) where mask[i], each i once; gives what was "
       "there.")
define("local_atomic_cas", "buffer:Buffer compare:num[] value:num[] indices:int[]", as_operand(2), "once",
       "read write", ours=True, touches="buffer=write", traits="atomic collective", time="work", cost="shared",
       lies="buffer=flat",
       doc="buffer[indices[i]] becomes value[i] if it is compare[i], each i once; gives what was there.")
define("local_store", "buffer:Buffer value:num[] mask:i1[]?", None, "none", "write", ours=True, attrs="run:#int? pieces:#shape?",
       touches="buffer=write", traits="whole collective", time="store", cost="shared",
       lies="buffer=free", rule="stored",
       doc="Registers into a buffer, through the generic proxy; with a mask, only where it is true. attrs: run, if there is a "
       "mask, as many neighbours along the last dimension are surely masked together; pieces, of a tile that goes into "
       "several buffers from this one on: its rows and columns, and how many buffers a stripe of columns has.")
