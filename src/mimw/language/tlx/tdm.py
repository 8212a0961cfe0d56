"""AMD's tensor data mover (TDM, gfx1250): copies of blocks between tensors and shared memory, counted by each task in order.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/mover.py`. For example:

    tlx.async_amd_descriptor_load(desc, tile, [i, j])       %there = tdm_place %desc, [%i, %j], clamp=True;  tdm_load %there, %tile
    tlx.async_amd_descriptor_wait(0)                        tdm_wait pending=0
    tlx.update_tensor_descriptor(desc, add_offsets=[0, 64]) tdm_place %desc, [0, 64], []

A descriptor has a place: where its blocks begin, and how far the tensor reaches from there. A copy goes from there; its `offsets`
are those of `update_tensor_descriptor` before it. How far the tensor reaches is looked at behind the block's first element only: a
block that begins in front of the tensor is wholly outside of it.
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ...errors import KernelError, KernelWarning
from ...ir import warn_at
from ...ir.data_mover import layout_problem, warps_problem
from ...target import TARGETS, Target
from ..core import target_of, word
from ..descriptor_methods import needs_descriptor
from ..refuse import refuse
from .arguments import index_handle, is_int, predicate_handle, single_buffer
from .types import async_token

__all__ = [
    "amd_descriptor_prefetch_tensor", "async_amd_descriptor_load", "async_amd_descriptor_load_fused",
    "async_amd_descriptor_store", "async_amd_descriptor_wait", "update_tensor_descriptor",
]

_LOAD_MODIFIERS = ("", ".ca", ".cg", ".cs", ".cv")
_MEMBERS = (2, 4)


@word
def async_amd_descriptor_load(desc, result, offsets=None, pred=None, clamp_bounds: tl.constexpr = True,
                              _semantic=None) -> async_token:
    """Start copying one block of `desc` into `result`; each warp of the task copies a part.

    args:      desc    - tensor descriptor, made on the host or by tl.make_tensor_descriptor, maybe placed by
                         update_tensor_descriptor
               result  - one buffer of the block's shape and dtype, in plain rows, with one padding or none
               offsets - (opt) the block's first element from where `desc` is, one i32 a dimension
               pred    - (opt) scalar; false copies nothing, and `result` stays as it is; it counts as a copy all the same
               clamp_bounds - True: what is outside of the tensor reads as 0, a block that begins in front of it is 0
                         altogether. False: the tensor reaches as far from `offsets` as it does from where `desc` is
    returns:   a token of the copy, for async_amd_descriptor_wait
    orders:    nothing until this task has waited; then its threads see the data. Another task sees them after that wait and
               a barrier. What this task did to `result` before -> the copy
    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; KernelError for anything but a
               descriptor or one buffer, and for a buffer of another shape or dtype
    warns:     KernelWarning (a UserWarning) if `result` is pinned to a layout that the engine does not write; it then lies in
               plain rows
    lowers to: amdg.update_tensor_descriptor, amdg.async_tdm_copy_global_to_local (tensor_load_to_lds)
    example:   token = tlx.async_amd_descriptor_load(desc, tile[0], [m, k])
    """
    _needs_mover("async_amd_descriptor_load", _semantic)
    _check_copy("async_amd_descriptor_load", desc, offsets)
    result = _moved("async_amd_descriptor_load", "result", desc, result, False, _semantic)
    place = _placed("async_amd_descriptor_load", desc.handle, offsets, pred, clamp_bounds, _semantic)
    return async_token(_semantic.builder.record("tdm_load", place, result.handle).results[0])


@word
def async_amd_descriptor_load_fused(members, cache_modifier: tl.constexpr = "", _semantic=None) -> async_token:
    """Start 2 to 4 copies at once, each by other warps of the task; they count as one.

    args:      members - (descriptor, buffer, mask) each: of a copy as async_amd_descriptor_load has them, of a descriptor that
                         is placed; bit n of the mask stands for warp n. The warps of a mask are 1, 2, 4, .. and differ in as
                         many bits of their numbers as that needs (3, 12, 5, 0xF0)
               cache_modifier - "", ".ca", ".cg", ".cs" or ".cv", of all members
    returns:   a token of all of them
    orders:    as async_amd_descriptor_load
    errors:    AssertionError on chips other than gfx1250; ValueError for another number of members, masks that overlap or
               that no copy can have, ranks that differ, and another modifier; TypeError for another member; KernelError for
               what is not one buffer, for one of another shape or dtype, and for warps that the task does not have
    lowers to: amdg.async_tdm_fused_copy_global_to_local (one tensor_load_to_lds)
    example:   token = tlx.async_amd_descriptor_load_fused([(a, A[0], 3), (b, B[0], 12)])
    """
    name = "async_amd_descriptor_load_fused"
    _needs_mover(name, _semantic)
    if not _MEMBERS[0] <= len(members) <= _MEMBERS[1]:
        refuse(ValueError, f"{name} takes 2 to 4 members, got {len(members)}")
    if cache_modifier not in _LOAD_MODIFIERS:
        refuse(ValueError, f"{name}: cache_modifier must be one of {_LOAD_MODIFIERS}, got {cache_modifier!r}")
    task = _semantic.builder.task
    _check_members(name, members, task.num_warps if task else _semantic.builder.options.num_warps)
    loads = [(desc.handle, _moved(name, "buffer", desc, buffer, False, _semantic).handle, mask) for desc, buffer, mask in members]
    for desc, buffer, mask in loads:
        load = _semantic.builder.record("tdm_load", desc, buffer, cache=cache_modifier, warps=mask, more=mask != loads[-1][2])
    return async_token(load.results[0])


@word
def async_amd_descriptor_store(desc, source, offsets=None, clamp_bounds: tl.constexpr = True, _semantic=None) -> None:
    """Start copying `source` to one block of `desc`; each warp of the task copies a part.

    args:      desc, offsets, clamp_bounds - as of async_amd_descriptor_load; what is outside of the tensor is not written
               source - one buffer of the block's shape and dtype, in plain rows, maybe with padding behind each
    orders:    what this task wrote to `source` before -> the copy; the copy -> what this task does after waiting. Do not
               overwrite `source` before that
    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; KernelError for anything but a
               descriptor or one buffer, and for a buffer of another shape or dtype
    warns:     KernelWarning as async_amd_descriptor_load
    lowers to: amdg.update_tensor_descriptor, amdg.async_tdm_copy_local_to_global (tensor_store_from_lds)
    example:   tlx.async_amd_descriptor_store(desc, tile[0], [m, n])
    """
    _needs_mover("async_amd_descriptor_store", _semantic)
    _check_copy("async_amd_descriptor_store", desc, offsets)
    source = _moved("async_amd_descriptor_store", "source", desc, source, True, _semantic)
    place = _placed("async_amd_descriptor_store", desc.handle, offsets, None, clamp_bounds, _semantic)
    _semantic.builder.record("tdm_store", place, source.handle)


@word
def async_amd_descriptor_wait(pendings: tl.constexpr = 0, tokens=None, _semantic=None) -> async_token:
    """Hold this task until at most `pendings` of its newest copies are unfinished, loads and stores alike.

    args:      pendings - how many may still run, >= 0; a fused load counts as one
               tokens   - (opt) instead: those copies, with all that were started before them. How many were started since
                          is counted where that is known, in a straight line of code; else all are waited for
    returns:   a token of the wait, for the reads that come after it
    orders:    finished loads' data -> this task's reads after the wait; finished stores' reads of shared memory, and their
               writes to global memory -> what this task does after it
    errors:    AssertionError on chips other than gfx1250; ValueError for both, and for `pendings` that is no int >= 0;
               KernelError for anything but tokens
    lowers to: amdg.async_tdm_wait (s_wait_tensorcnt)
    example:   tlx.async_amd_descriptor_wait(1)     # all but the newest copy are there
    """
    _needs_mover("async_amd_descriptor_wait", _semantic)
    if tokens is not None and pendings != 0:
        refuse(ValueError, "async_amd_descriptor_wait takes pendings or tokens, not both")
    if not is_int(pendings) or pendings < 0:
        refuse(ValueError, f"async_amd_descriptor_wait: pendings must be a constexpr int >= 0, got {pendings!r}")
    tokens = (tokens, ) if isinstance(tokens, async_token) else tuple(tokens or ())
    for token in tokens:
        if not isinstance(token, async_token):
            refuse(KernelError, f"async_amd_descriptor_wait: `tokens` must hold async_tokens, got {token}")
    handles = tuple(token.handle for token in tokens)
    return async_token(_semantic.builder.record("tdm_wait", pendings, handles).results[0])


@word
def amd_descriptor_prefetch_tensor(desc, offsets, pred=None, speculative: tl.constexpr = False, _semantic=None) -> None:
    """Prefetch one block of `desc` into L2: a hint, without a wait.

    args:      desc, offsets - as of async_amd_descriptor_load
               pred          - (opt) scalar; false prefetches nothing
               speculative   - True: without a look at the tensor's bounds; the hardware drops it where it does not know the page
    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; KernelError for anything but a
               descriptor
    lowers to: amdg.tdm_prefetch (global_prefetch_b8)
    example:   tlx.amd_descriptor_prefetch_tensor(desc, [m, k])
    """
    name = "amd_descriptor_prefetch_tensor"
    _needs_mover(name, _semantic)
    if offsets is None:
        refuse(AssertionError, f"{name}: expected {len(desc.block_shape)} offsets, but got none")
    _check_copy(name, desc, offsets)
    on = predicate_handle(name, pred, _semantic)
    _semantic.builder.record("tdm_prefetch", desc.handle, _numbers(name, offsets, _semantic), on, speculative=bool(speculative))


@word
def update_tensor_descriptor(desc, add_offsets=None, set_bounds=None, pred=None, clamp_bounds: tl.constexpr = False,
                             _semantic=None):
    """`desc` at another place, with other bounds, or copying or not; `desc` itself stays as it is.

    args:      desc        - tensor descriptor
               add_offsets - (opt) how much further blocks begin, elements, one i32 a dimension
               set_bounds  - (opt) how far the tensor reaches from there, elements, one i32 a dimension
               pred        - (opt) scalar; with false, loads by the result copy nothing
               clamp_bounds - True: the tensor reaches less far by `add_offsets`, 0 where that is negative. Without, bounds
                             stay as they are, though they count from the new place
    returns:   the descriptor, with the shape and strides of `desc`
    errors:    AssertionError on chips other than gfx1250; ValueError for no change at all, lists of another length, and
               bounds that are both clamped and set; KernelError for anything but a descriptor
    lowers to: amdg.update_tensor_descriptor
    example:   desc = tlx.update_tensor_descriptor(desc, add_offsets=[0, BK], clamp_bounds=True)
    """
    name = "update_tensor_descriptor"
    _needs_mover(name, _semantic)
    if add_offsets is None and set_bounds is None and pred is None:
        refuse(ValueError, f"{name} needs at least one of add_offsets, set_bounds and pred")
    needs_descriptor(KernelError, name, desc)
    for what, values in (("add_offsets", add_offsets), ("set_bounds", set_bounds)):
        if values is not None and len(values) != len(desc.block_shape):
            refuse(ValueError, f"{name}: {what} needs {len(desc.block_shape)} entries, got {len(values)}")
    if clamp_bounds and (add_offsets is None or set_bounds is not None):
        refuse(ValueError, f"{name}: clamp_bounds needs add_offsets and excludes set_bounds")
    copies = None if pred is None else _predicate(name, pred, _semantic)
    handle = _semantic.builder.record("tdm_place", desc.handle, _numbers(name, add_offsets, _semantic),
                                      _numbers(name, set_bounds, _semantic), copies, clamp=bool(clamp_bounds)).results[0]
    if isinstance(desc, tl.tensor_descriptor):
        return tl.tensor_descriptor(handle, list(desc.shape), list(desc.strides), desc.block_type)
    return tl.tensor_descriptor_base(handle, desc.block_type)


def mover_chip(semantic) -> Target | None:
    """The chip that the kernel is recorded for, if it has a tensor data mover."""
    chip = target_of(semantic)
    return chip if chip is not None and chip.has("tdm") else None


def _needs_mover(name: str, semantic) -> None:
    if mover_chip(semantic) is None:
        have = ", ".join(chip.name for chip in TARGETS.values() if chip.has("tdm"))
        here = target_of(semantic) or semantic.builder.options.arch
        refuse(AssertionError, f"{name} is only available on TDM-capable targets, not on {here}",
               mend=f"compile for {have}, or copy by tlx.async_load, which every chip has")


def _check_copy(name: str, desc, offsets) -> None:
    needs_descriptor(KernelError, name, desc)
    if offsets is not None and len(offsets) != len(desc.block_shape):
        refuse(AssertionError, f"{name}: expected {len(desc.block_shape)} offsets, but got {len(offsets)}")


def _check_members(name: str, members, num_warps: int) -> None:
    taken = 0
    for member in members:
        if not isinstance(member, tuple) or len(member) != 3 or not is_int(member[2]):
            refuse(TypeError, f"{name}: a member is (descriptor, buffer, warp bit mask)")
        desc, _, mask = member
        needs_descriptor(TypeError, name, desc)
        if problem := warps_problem(mask):
            refuse(ValueError, f"{name}: the warp mask {mask:#x} is invalid: {problem}")
        if problem := warps_problem(mask, num_warps):
            refuse(KernelError, f"{name}: the warp mask {mask:#x} is invalid: {problem}")
        if taken & mask:
            refuse(ValueError, f"{name}: the warp masks must be disjoint")
        taken |= mask
    if len({len(desc.block_shape) for desc, _, _ in members}) != 1:
        refuse(ValueError, f"{name}: all descriptors must have one rank")


def _moved(name: str, parameter: str, desc, buffer, stores: bool, semantic):
    """`buffer`, if it is one for blocks of `desc`; with a warning if its author wants another layout than the engine knows."""
    buffer = single_buffer(name, parameter, buffer, semantic)
    block = tuple(desc.block_shape)
    if buffer.shape != block or buffer.dtype != desc.dtype:
        refuse(KernelError, f"{name}: `{parameter}` is {buffer}, and the descriptor's blocks are {desc.dtype}{list(block)}",
               mend="allocate the buffer with the block's shape and dtype")
    pinned = buffer.type.layout
    shape = getattr(pinned, "shape", block)      # of the whole buffer, where a layout is for one shape and this is a part
    layout = None if pinned is None else pinned.to_ir(shape, desc.dtype.primitive_bitwidth)
    if layout is not None and (problem := layout_problem(layout, desc.dtype.primitive_bitwidth, block, stores)):
        warn_at(KernelWarning, f"{name}: `{parameter}` is pinned to {layout}, which the data mover does not know: {problem}. The "
                "buffer lies in plain rows instead", semantic.builder.site)
    return buffer


def _placed(name: str, descriptor: Any, offsets, pred, clamp: bool, semantic) -> Any:
    """The descriptor where a copy begins."""
    if offsets is None and pred is None:
        return descriptor
    copies = None if pred is None else _predicate(name, pred, semantic)
    return semantic.builder.record("tdm_place", descriptor, _numbers(name, offsets, semantic), (), copies,
                                   clamp=bool(clamp) and offsets is not None).results[0]


def _predicate(name: str, pred, semantic) -> Any:
    """An i1, also for what is always true: it undoes what the descriptor said before."""
    found = predicate_handle(name, pred, semantic)
    return semantic.builder.get_int1(True) if found is None else found


def _numbers(name: str, values, semantic) -> tuple:
    return tuple(index_handle(f"{name}: an offset or bound", value, semantic) for value in values or ())
