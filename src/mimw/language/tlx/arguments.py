"""Checks and conversions that several words share: predicates, single buffers and barriers, chips, cache policies.

Input: an argument of a word, and the word's name for messages. Output: the checked argument or its handle, or an error
at the author's line. For example:

    single_buffer("local_load", "src", tiles, semantic)   KernelError: `src` must be one buffer, but it is an array of 4
    predicate_handle("barrier_arrive", True, semantic)    None: the op is unconditional
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ...errors import KernelError, TargetError
from ...target import TARGETS
from ..core import capability, maps, tensor_memory_columns
from ..numbers import index_handle as index_handle
from ..numbers import is_int
from ..refuse import refuse
from .types import buffered_tensor, buffered_tensor_type, mbarrier, storage_kind

ONE_GROUP = "a program there is one work-group, without a cluster: pass data for others through global memory"
EVICTION_POLICIES = ("", "evict_first", "evict_last")


def handle_of(value: Any) -> Any:
    """The handle of an optional value."""
    return None if value is None else value.handle


def positive_int(name: str, value: Any) -> int:
    """`value`, or ValueError unless it is an int > 0."""
    if not is_int(value) or value <= 0:
        refuse(ValueError, f"{name} must be a positive constexpr int, got {value!r}")
    return value


def predicate_handle(name: str, pred: Any, semantic) -> Any:
    """An i1 handle, or None if the operation is unconditional."""
    if pred is None or (isinstance(pred, (bool, int)) and pred):
        return None
    if isinstance(pred, (bool, int)):
        return semantic.builder.get_int1(False)
    if not isinstance(pred, tl.tensor) or pred.type.is_block():
        refuse(KernelError, f"{name}: `pred` must be a scalar, got {pred}")
    return (pred if pred.dtype == tl.int1 else semantic.not_equal(pred, 0)).handle


def single_buffer(name: str, parameter: str, buffer: Any, semantic) -> buffered_tensor:
    """`buffer`, or an error unless it is one buffer in this CTA's shared memory."""
    buffer = one_buffer(name, parameter, buffer)
    if buffer.type.storage is not storage_kind.smem:
        refuse(AssertionError, f"{name}: `{parameter}` must lie in shared memory, got {buffer}",
               mend="tlx.local_load brings tensor memory into registers, tlx.local_store takes these to shared memory")
    return buffer


def row_as_it_is(buffer: Any, semantic) -> Any:
    """A row of tle.gpu.alloc without its padding, which lies behind it; anything else as it is."""
    stored = getattr(buffer.type, "stored", None) if isinstance(buffer, buffered_tensor) else None
    if stored is None or len(buffer.shape) != 1 or tuple(stored) == tuple(buffer.shape):
        return buffer
    shape = tuple(buffer.shape)
    type_ = buffered_tensor_type(buffer.dtype, shape, 0, storage_kind.smem)
    return type_.value(semantic.builder.record("buffer_slice", buffer.handle, (0, ), shape).results[0])


def one_buffer(name: str, parameter: str, buffer: Any) -> buffered_tensor:
    """`buffer`, or an error unless it is one buffer, in whatever memory."""
    if not isinstance(buffer, buffered_tensor):
        refuse(KernelError, f"{name}: `{parameter}` must be a buffered_tensor, got {buffer}",
               mend=f"`{parameter}` is what tlx.local_alloc returned, indexed: `buffers[i]`")
    if buffer.num:
        refuse(KernelError, f"{name}: `{parameter}` must be one buffer, but it is an array of {buffer.num}",
                            mend=f"index it: `{parameter}[{'0' if buffer.num == 1 else 'i'}]`")
    stored = getattr(buffer.type, "stored", buffer.shape)
    if buffer.shape and tuple(stored) != tuple(buffer.shape):
        refuse(KernelError, f"{name}: `{parameter}` is {buffer} of tle.gpu.alloc, in memory of the extents {list(stored)}",
               mend="use tle.gpu.local_ptr, or allocate it by tlx.local_alloc")
    return buffer


def single_barrier(name: str, bar: Any, semantic) -> Any:
    """The handle of one barrier; an array of one is indexed."""
    if not isinstance(bar, mbarrier):
        refuse(KernelError, f"{name}: `bar` must be an mbarrier, got {bar}",
               mend="`bar` is what tlx.alloc_barriers returned, indexed: `barriers[i]`")
    if bar.num > 1:
        refuse(KernelError, f"{name}: `bar` must be one barrier, but it is an array of {bar.num}", mend="index it: `bar[i]`")
    if bar.num == 1:
        return semantic.builder.record("barrier_index", bar.handle, semantic.builder.get_int32(0)).results[0]
    return bar.handle


def needs_hopper(name: str, semantic, amd: str = "", older: str = "", instead: str = "", mapped: str = "") -> None:
    """An error below sm_90, with the word for older chips, `older`, and on AMD, naming the word `amd` or what to do `instead`; but
    not on a chip where words of the feature `mapped` become others (docs/AMD.md)."""
    chip = capability(semantic)
    if chip is None:
        if mapped and maps(mapped, semantic):
            return
        advice = f"; {f'use tlx.{amd} there' if amd else instead}" if (amd or instead) and is_amd(semantic) else ""
        refuse(NotImplementedError, f"tlx.{name} is not available on {semantic.builder.options.arch}{advice}")
    if chip < 90:
        instead = f"on sm_{chip} {older}; or " if older else ""
        refuse(TargetError, f"tlx.{name} needs sm_90 or newer, but this kernel is compiled for sm_{chip}",
               mend=f"{instead}compile for a chip that has it, such as sm_90a: `--target sm_90a` of a command, MIMW_TARGET=sm_90a, "
               "or `target=`")


def is_amd(semantic) -> bool:
    """True if the kernel is recorded for one of AMD's chips."""
    return str(semantic.builder.options.arch).startswith("gfx")


def needs_gpu(name: str, semantic) -> None:
    """An error on a chip that is no GPU."""
    if capability(semantic) is None and not is_amd(semantic):
        refuse(NotImplementedError, f"tlx.{name} is not available on {semantic.builder.options.arch}")


def needs_tensor_memory(what: str, semantic) -> None:
    """AssertionError on chips without tensor memory: below sm_100, and on sm_120, which is Blackwell, too."""
    have = ", ".join(name for name, chip in TARGETS.items() if chip.tensor_memory_columns)
    if not tensor_memory_columns(semantic):
        refuse(AssertionError, f"{what} is only available on Blackwell chips with tensor memory ({have}), but this kernel is "
               f"compiled for {semantic.builder.options.arch}, where it is not supported",
               mend="without such a GPU, name the chip: MIMW_TARGET=sm_100a, `--target sm_100a` of a command, or "
               "`target=`")


def cache_policy(name: str, modifier: str, eviction: str, modifiers: tuple[str, ...], semantic) -> tuple:
    """The recorded cache hint, in the words of Triton's own: ('cache', 'none' | 'ca' | ..., 'evict_normal' | ...)."""
    if modifier not in modifiers:
        refuse(ValueError, f"{name}: cache_modifier must be one of {modifiers}, got {modifier!r}")
    return semantic.builder.get_cache_policy(modifier.removeprefix(".") or "none", eviction or "evict_normal")


def bulk_policy(name: str, modifier: str, eviction: str, semantic) -> tuple:
    """The same of a copy by TMA, which has eviction policies of L2 only."""
    if eviction not in EVICTION_POLICIES:
        refuse(ValueError, f"{name}: eviction_policy must be one of {EVICTION_POLICIES}, got {eviction!r}")
    return cache_policy(name, modifier, eviction, ("", ), semantic)
