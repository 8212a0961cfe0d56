"""Local memories that software manages: boxes between them and global memory, their values, arithmetic on them, views of them.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %a = local_alloc buffer<fp32[50] in ub>                     an array of any extents, in the space of its type
    dsa_load %pointers %a (%n)                                  a[0:n] = *pointers[0:n]; the other elements stay as they are
    dsa_binary 'add' %a %b %a                                   a[...] = a + b

A chip that has these memories (`Target.spaces`) runs the ops as they are. For a GPU the pass `expand_dsa` makes registers and
shared memory of them, and no later pass meets one.
"""

from ..type_rules import as_operand, scalar
from ..types import TOKEN, Buffer, Tensor
from .table import define

_EXTENTS = "extents:int|#int*"
_BOX = "offsets:int|#int* sizes:#shape strides:#shape"


def _boxed(args, attrs):
    return (Tensor(args[0].type.element, tuple(args[2])), )


define("dsa_load", f"pointer:ptr~ buffer:Buffer {_EXTENTS}", None, "none", "read write", ours=True, traits="dsa collective",
       touches="pointer=read buffer=write", copy="in", time="copy", cost="global", attrs="inter_no_alias:#bool?",
       lies="buffer=tile",
       word="tle.dsa.copy",
       doc="The leading box of the pointers' elements into the leading box of the buffer, there when the op is over. "
       "attrs: inter_no_alias, the author's promise that iterations of the loop around do not alias.")
define("dsa_fetch", f"pointer:ptr~ buffer:Buffer {_EXTENTS} predicate:i1?", scalar(TOKEN), "none", "read write async", ours=True,
       traits="dsa", touches="pointer=read buffer=write", copy="in", time="copy", cost="sync", lies="buffer=tile",
       word="tle.dsa.copy",
       doc="As `dsa_load`, where the predicate is true; the box is there when the `async_commit` behind it has been waited for "
       "(`async_wait`). The other elements of the buffer are undefined then.")
define("dsa_store", f"pointer:ptr~ buffer:Buffer {_EXTENTS}", None, "none", "read write", ours=True, traits="dsa collective",
       touches="pointer=write buffer=read", copy="out", time="store", cost="global", attrs="inter_no_alias:#bool?",
       lies="buffer=tile", word="tle.dsa.copy",
       doc="The leading box of the buffer to where the leading box of the pointers points.")
define("dsa_move", f"source:Buffer buffer:Buffer {_EXTENTS}", None, "none", "read write", ours=True, traits="dsa collective",
       touches="source=read buffer=write", time="work", cost="shared", lies="source=tile buffer=tile", word="tle.dsa.copy",
       doc="The leading box of one buffer into that of another of its shape: what was fetched ahead comes to its place.")
define("dsa_to_tensor", "buffer:Buffer", lambda args, attrs: (Tensor(args[0].type.element, args[0].type.shape), ), "none", "read",
       ours=True, traits="dsa collective", touches="buffer=read", time="work", cost="shared", attrs="writable:#bool?",
       lies="buffer=tile", word="tle.dsa.to_tensor",
       doc="The value of a buffer. Elements that nobody has written have any. attrs: writable, whether the tensor may be updated "
       "where it lies, which changes no value.")
define("dsa_to_buffer", "buffer:Buffer value:num[]", None, "none", "write", ours=True, traits="dsa collective",
       touches="buffer=write", time="work", cost="shared", lies="buffer=tile", word="tle.dsa.to_buffer",
       doc="A tensor's value into a buffer of its shape.")
define("dsa_binary", "kind:#str lhs:Buffer rhs:Buffer out:Buffer", None, "none", "read write", ours=True, traits="dsa collective",
       touches="lhs=read rhs=read out=write", time="work", cost="shared", attrs="unsigned:#bool?",
       lies="lhs=tile rhs=tile out=tile", word="tle.dsa.add",
       doc="out[...] = kind(lhs, rhs), element by element; kind is add, sub, mul, div, max or min. `out` may be an operand. "
       "Integers are divided towards zero. attrs: unsigned, if the integers are.")
define("dsa_subview", f"buffer:Buffer {_BOX}",
       lambda args, attrs: (Buffer(args[0].type.element, tuple(args[2]), 0, args[0].type.space), ), "none", "pure", ours=True,
       traits="dsa", view_of="buffer", view="box", cost="free", lies="buffer=view", word="tle.dsa.subview",
       doc="The elements offsets + j * strides of a buffer, for each j in the box of `sizes`, as a buffer.")
define("dsa_extract_slice", f"value:num[] {_BOX}", _boxed, "none", "pure", ours=True, traits="dsa", elements_of="value",
       word="tle.dsa.extract_slice", doc="The elements offsets + j * strides of a tensor, for each j in the box of `sizes`.")
define("dsa_insert_slice", f"value:num[] part:num[] {_BOX}", as_operand(0), "none", "pure", ours=True, traits="dsa",
       elements_of="value part", word="tle.dsa.insert_slice", doc="A tensor with these elements replaced by those of `part`.")
define("dsa_extract_element", "value:num[] indices:int|#int*", lambda args, attrs: (args[0].type.element, ), "none", "pure",
       ours=True, traits="dsa", elements_of="value", word="tle.dsa.extract_element", doc="One element of a tensor.")
