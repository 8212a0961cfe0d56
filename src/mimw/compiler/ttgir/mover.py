"""Readers of AMD's tensor data mover (TDM) and of the barriers that gfx1250 has in LDS.

Input: ops of `amdg`, and the descriptors that a kernel makes. Output: ours. For example:

    %2 = amdg.update_tensor_descriptor %d add_offsets = [%i, %j] {clamp_bounds}      tdm_place %d (%i, %j) clamp
    %3 = amdg.async_tdm_copy_global_to_local %2 into %tile, barrier = %full          tdm_load_arrive %2 %tile %full 4
    amdg.arrive_barrier %free, 1                                                     barrier_arrive %free 128

Each warp of a task copies its part of a block, and tells the barrier once when it has landed; each thread arrives for itself
(Triton's lowering: an instruction a warp, whose descriptor names the barrier; `ds_atomic_barrier_arrive_rtn_b64` by all lanes).
"""

from __future__ import annotations

import re

from ...ir import I1, Barrier, Buffer, Descriptor, like
from ...ir.types import TOKEN
from .reading import Here, reads

_PARTS = {"add_offsets": "add", "set_bounds": "bounds"}


@reads("tt.make_tensor_descriptor", one_cta=True)
def described(here: Here):
    """A descriptor in registers; on other chips a pass makes tensor maps, or pointers, of it."""
    if not here.reader.notes["amd"]:
        raise here.unreadable("a descriptor in front of the pass that makes a tensor map of it is not read")
    base, *numbers = here.operands
    (type_, ) = here.types
    rank = len(type_.shape)
    padding = "PAD_NAN" if here.integer("padding", 1) == 2 else "PAD_ZERO"
    return here.op("make_tensor_descriptor", base, tuple(numbers[:rank]), tuple(numbers[rank:]), type_.shape, type_.signed, padding,
                   by_mover=True)


@reads("amdg.update_tensor_descriptor", one_cta=True)
def placed(here: Here):
    descriptor, *rest = here.operands
    parts = {}
    for word, name in _PARTS.items():
        found = re.search(rf"\b{word} = \[([^\]]*)\]", here.text)
        count = len(found[1].split(",")) if found else 0
        parts[name], rest = tuple(rest[:count]), rest[count:]
    ops, predicate = _nonzero(here, rest[0]) if rest else ([], None)
    return [*ops, here.op("tdm_place", descriptor, parts["add"], parts["bounds"], predicate, clamp=here.flag("clamp_bounds"))]


def _nonzero(here: Here, number):
    """The ops that compare a number with zero, and whether it differs."""
    made, zero = here.number(0, number.type)
    truth = here.value(like(number.type, I1))
    return [made, here.op("icmpNE", number, zero, results=(truth, ))], truth


def _parts(here: Here) -> tuple[list, list, list]:
    """The descriptors, buffers and barriers among the operands."""
    return tuple([value for value in here.operands if isinstance(value.type, kind)] for kind in (Descriptor, Buffer, Barrier))


@reads("amdg.async_tdm_copy_global_to_local", one_cta=True)
def loaded(here: Here):
    (descriptor, ), (buffer, ), barrier = _parts(here)
    mask = here.integer("warp_used_hint", 0)
    if not barrier:
        return here.op("tdm_load", descriptor, buffer, results=(here.value(TOKEN), ), **({"warps": mask} if mask else {}))
    if mask:
        raise here.unreadable("a copy by some of the warps that tells a barrier is not read: who arrives no manual says")
    return here.op("tdm_load_arrive", descriptor, buffer, barrier[0], here.reader.task_warps, results=())


@reads("amdg.async_tdm_fused_copy_global_to_local", one_cta=True)
def loaded_together(here: Here):
    """One copy for the wait, by other warps each."""
    descriptors, buffers, _ = _parts(here)
    masks = here.integers("warp_used_hints")
    ops = [here.op("tdm_load", one, buffer, results=(here.value(TOKEN), ), warps=mask, more=True)
           for one, buffer, mask in zip(descriptors, buffers, masks, strict=True)]
    last = here.op("tdm_load", descriptors[-1], buffers[-1], results=(here.value(TOKEN), ), warps=masks[-1])
    return [*ops[:-1], last]


@reads("amdg.async_tdm_copy_local_to_global", one_cta=True)
def stored(here: Here):
    (descriptor, ), (buffer, ), barrier = _parts(here)
    if barrier:
        raise here.unreadable("a store by the data mover that tells a barrier is not read")
    return here.op("tdm_store", descriptor, buffer, results=())


@reads("amdg.async_tdm_wait", one_cta=True)
def awaited(here: Here):
    return here.op("tdm_wait", here.integer("num"), (), results=(here.value(TOKEN), ))


@reads("amdg.tdm_prefetch", one_cta=True)
def prefetched(here: Here):
    """A hint."""
    if here.node.results:
        raise here.unreadable("the offsets that a prefetch gives are not read")


@reads("amdg.init_barrier", one_cta=True)
def made(here: Here):
    return here.op("barrier_init", here.operands[0], _number(here))


@reads("amdg.wait_barrier", one_cta=True)
def waited(here: Here):
    return here.op("barrier_wait", *here.operands)


@reads("amdg.arrive_barrier", one_cta=True)
def arrived(here: Here):
    """It gives the parity of the phase in which it arrives: while this arrival is missing no other phase begins."""
    threads = here.reader.warp_size * here.reader.task_warps
    arrival = here.op("barrier_arrive", here.operands[0], _number(here) * threads, results=())
    if not here.reader.notes["uses"][here.node.results[0][0]]:
        return arrival
    return [here.op("barrier_phase", here.operands[0], results=(here.results[0], )), arrival]


def _number(here: Here) -> int:
    """The count behind the barrier: `amdg.init_barrier %b, 4`."""
    return int(re.search(r"_barrier %[\w#]+, (\d+)", here.text)[1])
