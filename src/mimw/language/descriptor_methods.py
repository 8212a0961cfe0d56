"""Methods of tensor descriptors besides Triton's own: a store that combines the tile with the memory's content.

Input: a descriptor, and the arguments of a kernel's call of its method. Output: an op of `ir/ops/descriptors.py`. For example:

    desc.store([i, j], tile)                            descriptor_store
    desc.store([i, j], tile, store_reduce="add")        descriptor_reduce ADD
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton.language.core as tl

from ..errors import KernelError
from .core import check_in_kernel, compile_time, unwrap, word
from .refuse import refuse

# What cp.reduce.async.bulk.tensor combines, by element type; sums of 64 bits are those of unsigned numbers.
_INTEGERS = ("int32", "uint32", "int64", "uint64")
REDUCTIONS = {
    "": None, "add": ("int32", "uint32", "uint64", "fp16", "bf16", "fp32"), "min": (*_INTEGERS, "fp16", "bf16"),
    "max": (*_INTEGERS, "fp16", "bf16"), "and": _INTEGERS, "or": _INTEGERS, "xor": _INTEGERS
}


def check_reduction(name: str, store_reduce: str, dtype: tl.dtype) -> None:
    """An error unless `store_reduce` is "" or a combination that the hardware has for elements of that type."""
    if store_reduce not in REDUCTIONS:
        refuse(AssertionError, f"store_reduce must be one of {tuple(REDUCTIONS)}, got {store_reduce!r}")
    if store_reduce and dtype.name not in REDUCTIONS[store_reduce]:
        refuse(KernelError, f"{name}: the hardware cannot {store_reduce} {dtype}; it can {', '.join(REDUCTIONS[store_reduce])}")


def needs_descriptor(kind: type[Exception], name: str, desc: Any, block: Sequence[Any] = ()) -> None:
    """An error of that kind unless `desc` is a tensor descriptor. `block`: the shape of its blocks, if that is known."""
    if isinstance(desc, tl.tensor_descriptor_base):
        return
    mend = "make one by tl.make_tensor_descriptor, or pass one to the kernel"
    if isinstance(desc, tl.tensor) and desc.type.is_ptr():
        shape = list(map(int, block)) or "block_shape"
        mend += f": mimw.TensorDescriptor.from_tensor({desc.handle.name or 'array'}, {shape}) for the plain array"
    refuse(kind, f"{name}: expected a tensor descriptor, got {desc}", mend=mend)


def descriptor_store(desc, offsets, value, store_reduce: Any = None, _semantic=None):
    """`desc.store(offsets, value)`; with `store_reduce` "add", "min", "max", "and", "or" or "xor" each element is combined
    atomically with what is there."""
    if store_reduce is not None:
        check_in_kernel("desc.store(store_reduce=)", _semantic)     # Triton's own path does not know the argument, whatever it is
    if not unwrap(store_reduce):
        return _semantic.descriptor_store(desc, value, offsets)
    return store_reduced(desc, offsets, value, compile_time("desc.store", "store_reduce", store_reduce), _semantic=_semantic)


@word
def store_reduced(desc, offsets, value, store_reduce: tl.constexpr, _semantic=None):
    """`desc.store` that combines: complete when the call returns.

    errors:    AssertionError for an unknown reduction; KernelError for a type that the hardware cannot reduce; IllegalCopy for a
               negative offset, and a last one that is no multiple of 16 bytes: when compiling if it is known then, else from
               the simulator
    lowers to: ttng.async_tma_reduce (PTX cp.reduce.async.bulk.tensor), and the wait for it
    """
    check_reduction("desc.store", store_reduce, desc.dtype)
    return getattr(_semantic, f"descriptor_atomic_{store_reduce}")(desc, value, offsets)


setattr(descriptor_store, tl.TRITON_BUILTIN, True)
