"""AMD's tensor data mover (gfx1250). Not offered yet: each word checks its target and arguments, then raises `NotYet`.

Input: the arguments of a kernel's call. Output: an error with the author's line, so that published kernels import and
fail clearly. For example:

    tlx.async_amd_descriptor_load(desc, tile)      sm_90: AssertionError, only available on TDM-capable targets
                                                   gfx1250: NotYet: tlx.async_amd_descriptor_load is not offered ..
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word
from ..refuse import refuse
from .arguments import is_int
from .types import async_token

__all__ = [
    "amd_descriptor_prefetch_tensor", "async_amd_descriptor_load", "async_amd_descriptor_load_fused",
    "async_amd_descriptor_store", "async_amd_descriptor_wait", "update_tensor_descriptor",
]


def _needs_tdm(name: str, semantic) -> None:
    arch = str(semantic.builder.options.arch)
    if arch != "gfx1250":
        refuse(AssertionError, f"{name} is only available on TDM-capable targets, not on {arch}")


def _check_offsets(desc, offsets) -> None:
    if offsets is not None:
        rank = len(desc.block_shape)
        if len(offsets) != rank:
            refuse(AssertionError, f"expected {rank} offsets, but got {len(offsets)}")


@word
def async_amd_descriptor_load(desc, result, offsets=None, pred=None, clamp_bounds: tl.constexpr = True,
                              _semantic=None) -> async_token:
    """Start copying one block of `desc` into `result`; not offered yet.

    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; else NotYet
    example:   token = tlx.async_amd_descriptor_load(desc, tile[0], [m, k])
    """
    _needs_tdm("async_amd_descriptor_load", _semantic)
    _check_offsets(desc, offsets)
    raise not_yet(_semantic, "async_amd_descriptor_load")


@word
def async_amd_descriptor_load_fused(members, cache_modifier: tl.constexpr = "", _semantic=None) -> async_token:
    """Start 2 to 4 copies, (descriptor, buffer, warp bit mask) each, as one; not offered yet.

    errors:    AssertionError on chips other than gfx1250; ValueError for another number of members, masks that overlap or
               ranks that differ; TypeError for another member; else NotYet
    example:   token = tlx.async_amd_descriptor_load_fused([(a, A[0], 3), (b, B[0], 12)])
    """
    _needs_tdm("async_amd_descriptor_load_fused", _semantic)
    if not 2 <= len(members) <= 4:
        refuse(ValueError, f"async_amd_descriptor_load_fused takes 2 to 4 members, got {len(members)}")
    taken = 0
    for member in members:
        if not isinstance(member, tuple) or len(member) != 3 or not is_int(member[2]):
            refuse(TypeError, "async_amd_descriptor_load_fused: a member is (descriptor, buffer, warp bit mask)")
        if taken & member[2]:
            refuse(ValueError, "async_amd_descriptor_load_fused: the warp masks must be disjoint")
        taken |= member[2]
    if len({len(member[0].block_shape) for member in members}) != 1:
        refuse(ValueError, "async_amd_descriptor_load_fused: all descriptors must have one rank")
    raise not_yet(_semantic, "async_amd_descriptor_load_fused")


@word
def async_amd_descriptor_store(desc, source, offsets=None, clamp_bounds: tl.constexpr = True, _semantic=None) -> None:
    """Start copying `source` to one block of `desc`; not offered yet.

    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; else NotYet
    example:   tlx.async_amd_descriptor_store(desc, tile[0], [m, n])
    """
    _needs_tdm("async_amd_descriptor_store", _semantic)
    _check_offsets(desc, offsets)
    raise not_yet(_semantic, "async_amd_descriptor_store")


@word
def async_amd_descriptor_wait(pendings: tl.constexpr = 0, tokens=None, _semantic=None) -> async_token:
    """Wait until at most `pendings` copies are unfinished, or for `tokens`, not both; not offered yet.

    errors:    AssertionError on chips other than gfx1250; ValueError for both; else NotYet
    example:   tlx.async_amd_descriptor_wait(0)
    """
    _needs_tdm("async_amd_descriptor_wait", _semantic)
    if tokens is not None and pendings != 0:
        refuse(ValueError, "async_amd_descriptor_wait takes pendings or tokens, not both")
    raise not_yet(_semantic, "async_amd_descriptor_wait")


@word
def amd_descriptor_prefetch_tensor(desc, offsets, pred=None, speculative: tl.constexpr = False, _semantic=None) -> None:
    """Prefetch one block of `desc`; not offered yet.

    errors:    AssertionError on chips other than gfx1250 and for another number of offsets; else NotYet
    example:   tlx.amd_descriptor_prefetch_tensor(desc, [m, k])
    """
    _needs_tdm("amd_descriptor_prefetch_tensor", _semantic)
    _check_offsets(desc, offsets)
    raise not_yet(_semantic, "amd_descriptor_prefetch_tensor")


@word
def update_tensor_descriptor(desc, add_offsets=None, set_bounds=None, pred=None, clamp_bounds: tl.constexpr = False,
                             _semantic=None):
    """`desc` moved by `add_offsets` or with other bounds; not offered yet.

    errors:    AssertionError on chips other than gfx1250; ValueError for no change at all, lists of another length, and
               bounds that are both clamped and set; else NotYet
    example:   desc = tlx.update_tensor_descriptor(desc, add_offsets=[0, BK])
    """
    _needs_tdm("update_tensor_descriptor", _semantic)
    if add_offsets is None and set_bounds is None and pred is None:
        refuse(ValueError, "update_tensor_descriptor needs at least one of add_offsets, set_bounds and pred")
    for name, values in (("add_offsets", add_offsets), ("set_bounds", set_bounds)):
        if values is not None and len(values) != len(desc.block_shape):
            refuse(ValueError, f"update_tensor_descriptor: {name} needs {len(desc.block_shape)} entries, got {len(values)}")
    if clamp_bounds and (add_offsets is None or set_bounds is not None):
        refuse(ValueError, "update_tensor_descriptor: clamp_bounds needs add_offsets and excludes set_bounds")
    raise not_yet(_semantic, "update_tensor_descriptor")
