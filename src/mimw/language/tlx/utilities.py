"""Questions about types, threads and time.

Input: the arguments of a kernel's call. Output: a constexpr or a dtype without an op, or ops of `ir/ops/threads.py`.
For example:

    tlx.size_of(tl.float16)                        constexpr 2
    tlx.thread_id(0)                               thread_id axis=0 : i32
    tlx.vote_ballot_sync(0xFFFFFFFF, yes)          vote_ballot mask=4294967295, %yes : i32[256]
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ...ir.types import I64
from ...target import NVIDIA_WARP
from ..core import capability, target_of, word
from ..refuse import refuse
from .arguments import is_int, needs_tensor_memory

__all__ = ["clock64", "dtype_of", "get_fp8_format_name", "size_of", "thread_id", "vote_ballot_sync", "warp_redux"]


@word
def dtype_of(v, _semantic=None) -> tl.dtype:
    """The element dtype of a tensor or tensor descriptor, or what a pointer (tensor) points at; usable as a constexpr.

    args:      v - tensor, pointer, tensor of pointers or tensor descriptor; others: ValueError
    example:   tile = tlx.local_alloc((64, 64), tlx.dtype_of(desc), 2)
    """
    if isinstance(v, tl.tensor):
        return v.dtype.element_ty if v.dtype.is_ptr() else v.dtype
    if isinstance(v, tl.tensor_descriptor_base):
        return v.dtype
    refuse(ValueError, f"dtype_of takes a tensor, a pointer or a tensor descriptor, got {v}")


@word
def size_of(dtype: tl.constexpr, _semantic=None) -> tl.constexpr:
    """Bytes of one element in memory, as a constexpr.

    errors:    AssertionError for anything but a dtype
    example:   tlx.barrier_expect_bytes(full[0], 64 * 64 * tlx.size_of(tl.float16))
    """
    if not isinstance(dtype, tl.dtype) or dtype.is_block():
        refuse(AssertionError, f"size_of takes a dtype such as tl.float16, got {dtype}")
    return tl.constexpr(8 if dtype.is_ptr() else max(1, dtype.primitive_bitwidth // 8))


@word
def get_fp8_format_name(dtype: tl.constexpr, _semantic=None) -> tl.constexpr:
    """ "e5m2" for tl.float8e5 and "e4m3" for tl.float8e4nv, as a constexpr.

    errors:    AssertionError for another type
    example:   name: tl.constexpr = tlx.get_fp8_format_name(tl.float8e5)
    """
    names = {"fp8e5": "e5m2", "fp8e4nv": "e4m3"}
    if not isinstance(dtype, tl.dtype) or dtype.name not in names:
        refuse(AssertionError, f"get_fp8_format_name only supports tl.float8e5 and tl.float8e4nv, got {dtype}")
    return tl.constexpr(names[dtype.name])


@word
def thread_id(axis: tl.constexpr, _semantic=None) -> tl.tensor:
    """The hardware thread index in the CTA along `axis`, an i32 scalar that differs in every lane.

    args:      axis - 0, 1 or 2, else ValueError
    not:       relative to the task. No collective call may stand under a condition on it.
    lowers to: PTX mov.u32 %tid
    example:   if tlx.thread_id(0) == 0: ...
    """
    if isinstance(axis, bool) or axis not in (0, 1, 2):
        refuse(ValueError, f"thread_id axis must be 0, 1, or 2, got {axis}")
    return tl.tensor(_semantic.builder.record("thread_id", axis).results[0], tl.int32)


@word
def clock64(_semantic=None) -> tl.tensor:
    """The timer register, an i64 scalar.

    orders:    stays where it is written among other side effects; never merged with another read
    lowers to: PTX mov.u64 %clock64 (volatile)
    example:   begun = tlx.clock64()
    """
    return tl.tensor(_semantic.builder.record("clock64", type=I64).results[0], tl.int64)


@word
def vote_ballot_sync(mask: tl.constexpr, pred, _semantic=None) -> tl.tensor:
    """Ballot of a warp: bit i of the result is set if `pred` is true in lane i.

    args:      mask - 32-bit constexpr, the lanes that take part
               pred - scalar or tile; what is not boolean is compared with 0. A thread says yes for a tile if any of the
                      elements that it owns is true
    returns:   i32, of the shape of `pred`; every element gets the ballot of its owner's warp
    errors:    ValueError for another mask; KernelError for a `pred` that is no number; NotImplementedError on gfx942 and
               gfx950, whose warps have 64 lanes
    lowers to: PTX vote.sync.ballot.b32; on gfx1250 v_cmp_ne_u32, whose result has a bit for each lane
    example:   lanes = tlx.vote_ballot_sync(0xFFFFFFFF, x > 0)
    """
    chip = target_of(_semantic)
    if capability(_semantic) is None and (chip is None or chip.warp_size != NVIDIA_WARP):
        refuse(NotImplementedError, f"tlx.vote_ballot_sync is not available on {_semantic.builder.options.arch}: a ballot has a "
                                    f"bit for {NVIDIA_WARP} lanes, and its warps have more")
    if not is_int(mask) or not -(1 << 31) <= mask < 1 << 32:
        refuse(ValueError, f"vote_ballot_sync: mask must be a 32-bit constexpr int, got {mask!r}")
    pred = _semantic.to_tensor(pred)
    if pred.dtype.is_ptr():
        refuse(KernelError, f"vote_ballot_sync: `pred` must be a number or a tile of them, got {pred}")
    pred = pred if pred.dtype == tl.int1 else _semantic.not_equal(pred, 0)
    handle = _semantic.builder.record("vote_ballot", mask & 0xFFFFFFFF, pred.handle).results[0]
    return tl.tensor(handle, tl.block_type(tl.int32, pred.shape) if pred.type.is_block() else tl.int32)


@word
def warp_redux(x, op: tl.constexpr, _semantic=None) -> tl.tensor:
    """The largest or smallest of what the 32 lanes of a warp hold, register by register.

    args:      x   - fp32 scalar or tile
               op  - "max", "min", or "abs_max", "abs_min" of the magnitudes; NaN only if all lanes hold NaN, and +0 > -0
    returns:   of the type of `x`; every element becomes the reduction over the 32 lanes that hold its register. Which elements
               those are is the layout's affair: in a tile loaded from tensor memory 32 rows of one column
    not:       under a condition on `thread_id`
    errors:    AssertionError below compute capability 10.0 and for other types and operations
    lowers to: PTX ISA, "redux.sync": redux.sync.{max, min}{.abs}.f32
    example:   largest = tlx.warp_redux(x, "max")
    """
    needs_tensor_memory("warp_redux", _semantic)
    if op not in ("max", "min", "abs_max", "abs_min"):
        refuse(AssertionError, f"warp_redux: op must be max, min, abs_max or abs_min, got {op!r}")
    x = _semantic.to_tensor(x)
    if x.dtype != tl.float32:
        refuse(AssertionError, f"warp_redux only supports fp32, got {x.dtype}")
    return tl.tensor(_semantic.builder.record("warp_redux", x.handle, op).results[0], x.type)
