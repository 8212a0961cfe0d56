"""Tensor descriptors: made in a kernel or kept in slots, and Triton's own accesses by them.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %tile = descriptor_load %descriptor (%row, %column)      touches="descriptor=async-read"

Of Triton's own, by_pointers says that they are masked accesses by pointers, as on chips without such engines, and by_mover that
AMD's tensor data mover does them (passes/descriptors_by_pointers.py).
"""

from ..type_rules import described, scalar
from ..types import Descriptor, DescriptorSlots
from .table import define

define("make_tensor_descriptor", "base:ptr shape:int* strides:int* block:#shape signed:const padding:@PADDING_OPTION",
       lambda args, attrs: (Descriptor(args[0].type.pointee, tuple(args[3]), args[4]), ), "none", "write",
       attrs="by_pointers:#bool? by_mover:#bool?", needs="descriptors", word="tl.make_tensor_descriptor",
       becomes="a pointer, extents and strides")
define("descriptor_load", "descriptor:Descriptor offsets:int* cache_policy:const?", described, "free", "read",
       attrs="by_pointers:#bool? by_mover:#bool?",
       touches="descriptor=async-read", copy="in", time="copy", needs="descriptors", word="desc.load", cost="global",
       becomes="loads by pointers",
       traits="collective")
define("descriptor_store", "descriptor:Descriptor value:num[] offsets:int*", None, "none", "write",
       attrs="by_pointers:#bool? by_mover:#bool?",
       touches="descriptor=async-write", copy="out", time="store", needs="descriptors", word="desc.store", traits="collective",
       becomes="stores by pointers")
define("descriptor_reduce", "kind:@DESCRIPTOR_REDUCE_KIND descriptor:Descriptor value:num[] offsets:int*", None, "none", "write",
       attrs="by_pointers:#bool?", touches="descriptor=async-write", copy="out", traits="reduces collective",
       needs="tma", word="desc.atomic_*", becomes="atomics by pointers")
define("prefetch_descriptor", "descriptor:Descriptor", None, "none", "read", ours=True,
       needs="tma", word="prefetch(tensormap=True)", cost="sync", becomes="nothing: a hint",
       doc="A hint: the descriptor will be used soon.")
define("descriptor_slots", "count:#int", lambda args, attrs: (DescriptorSlots(args[0]), ), "none", "write", ours=True,
       needs="descriptors", word="allocate_tensor_descriptor",
       doc="Room for `count` descriptors in global memory, private to the CTA.")
define("descriptor_slot", "slots:Slots index:int|#int", scalar(DescriptorSlots(0)), "none", "pure", ours=True,
       view_of="slots", view="slot")
define("fill_descriptor_slot", "slot:Slot? base:ptr shape:int* strides:int* padding:@PADDING_OPTION",
       lambda args, attrs: (attrs["type"], ), "none", "read write", ours=True, attrs="type:#type by_mover:#bool?",
       needs="descriptors", word="make_tensor_descriptor", becomes="a pointer, extents and strides",
       doc="Makes a descriptor in a slot; `base` to `padding` as make_tensor_descriptor. attrs: type.")
define("view_descriptor_slot", "slot:Slot?", lambda args, attrs: (attrs["type"], ), "none", "read", ours=True,
       attrs="type:#type", needs="descriptors", word="reinterpret_tensor_descriptor",
       doc="The descriptor that was made in a slot. attrs: type.")
