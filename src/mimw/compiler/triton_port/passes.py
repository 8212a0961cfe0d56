"""Triton's own passes over our TTGIR, in order, each with the reason it is there and why it cannot reorder our effects.

Input: a TTGIR module. Output: the same module after the passes of a list; an observer may see it after each of them:

    optimise(module, nvidia_passes(90, 3, True, True, False))

The module arrives with a valid but naive layout on every tile. The first group makes layouts good, the second turns the
remaining `tl` ops into what the hardware has, the third cleans up. Left out on purpose: Triton's automatic warp
specialisation (the tasks are explicit), `fuse_nested_loops` and `prefetch` (they move work across our barriers).

Our effects are buffer accesses, barriers, copies, cluster barriers and assembly; MLIR sees each as an op that writes, or whose
effects it does not know. Below, "by effects" means that a pass asks MLIR about effects before it moves, joins or drops an op, and
that every op we emit answers truly (`tests/lowering/test_order.py` puts each between two reads and finds both reads again). For
the passes that ask nothing, or not enough, the reason stands beside them. None is believed on its word: the guard compares the
order of all effects after the passes with that before, in every kernel that is compiled.
"""

from __future__ import annotations

import re

from triton._C.libtriton import amd, nvidia, passes
from triton._C.libtriton import ir as mlir

from .buffer_loads import place_buffer_loads
from .numbers import number_of
from .operand_reads import read_operands
from .order import mark_reads
from .pending_products import Pipeline
from .release import OLDER
from .tile_types import fastest


def nvidia_passes(capability: int, num_stages: int, pipeline: bool, sink_reads: bool, tensor_memory: bool,
                  operands: bool = False):
    """(name, how to add it) of each pass for an NVIDIA target.

    args:      capability  90, 100, ...
               num_stages  depth of Triton's own load pipelining
               pipeline    let Triton pipeline the loops that are not marked (`analysis.order.may_pipeline`)
               sink_reads  let Triton move reads of shared memory to their use (`analysis.order.may_sink_reads`)
               tensor_memory  whether the chip has some
               operands    whether what is read may be cast or turned into operands (`analysis.operand_reads`)
    """
    ttgpu, ttir, common, ttng = passes.ttgpuir, passes.ttir, passes.common, nvidia.passes.ttnvgpuir
    yield from _tidied()
    yield "coalesce", ttgpu.add_coalesce  # global accesses: neighbouring lanes, wide vectors; each in its place
    yield "f32_dot_tc", lambda pm: ttgpu.add_f32_dot_tc(pm, True)  # tf32x3 and friends become several tf32 dots
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions  # the naive layouts meet: drop what is not needed.
    #   It computes values again elsewhere, and of accesses only a `tl.load` where nothing between may write (by effects).
    yield "optimize_thread_locality", ttgpu.add_optimize_thread_locality  # reductions inside threads before across them
    #   The next makes operands of tiles by copies of its own, where the dot stands; the guard finds a dot that reads a buffer.
    yield "accelerate_matmul", ttgpu.add_accelerate_matmul  # tl.dot to wgmma / tcgen05 / mma.sync
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions  # around the new dots
    if operands:
        yield "read_operands", read_operands  # ours: each read in its place, as one read of the same bytes, in another layout
    yield "optimize_dot_operands", lambda pm: ttgpu.add_optimize_dot_operands(pm, True)  # transposes into the operand's view
    yield "tma_lowering", ttng.add_tma_lowering  # device-made descriptors
    yield from _joined("loop_aware_cse", ttir.add_loop_aware_cse)
    yield "licm", ttir.add_triton_licm  # by effects: pure ops, and `tl.load`s out of loops in which nothing writes
    yield "canonicalizer", passes.gluon.add_canonicalizer  # by effects; a read joined with a conversion stays where the read was
    yield "combine_tensor_select_and_if", ttgpu.add_combine_tensor_select_and_if  # selects, which have no effects, into `if`s
    #   The pipeliner asks nothing and moves any `if` and any load: loops that hold a fixed op have no stages (passes.keep_loops),
    #   with which its three passes skip them, and its waits for cp.async are kept from kernels that have some of their own.
    if pipeline:
        yield "assign_latencies", lambda pm: ttgpu.add_assign_latencies(pm, num_stages)
        yield "schedule_loops", ttgpu.add_schedule_loops
        yield "pipeline", Pipeline(num_stages)  # Triton's, and behind it waits for products whose operands it copies over
        yield "canonicalizer", passes.gluon.add_canonicalizer
        yield from _joined("loop_aware_cse", ttir.add_loop_aware_cse)
    if tensor_memory:
        yield "remove_tmem_tokens", remove_tokens if OLDER else ttng.add_remove_tmem_tokens  # accelerate_matmul's; no later stage
        #   knows them
    yield "coalesce_async_copy", ttgpu.add_coalesce_async_copy  # cp.async in the widest pieces its buffer allows
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "reduce_data_duplication", ttgpu.add_reduce_data_duplication
    #   The next asks nothing and moves a read of shared memory into a loop, past writes: only where the author reads none.
    if sink_reads:
        yield "reorder_instructions", ttgpu.add_reorder_instructions  # loads of operands next to their use
    yield from _joined("loop_aware_cse", ttir.add_loop_aware_cse)
    yield "symbol_dce", common.add_symbol_dce
    yield "fence_insertion", lambda pm: ttng.add_fence_insertion(pm, capability)  # generic writes before wgmma reads; adds fences
    yield "lower_mma", ttng.add_lower_mma  # each product in its place
    yield "sccp", common.add_sccp  # constants only
    yield from _joined("cse", common.add_cse)
    yield "canonicalizer", passes.gluon.add_canonicalizer


def remove_tokens(module) -> None:
    """3.8's pass, which ends where a function has no body: left out for a module with calls of `thread_assembly`."""
    calls = []
    module.walk(lambda op: calls.append(op) if op.get_name() == "tt.call" else None)
    if not calls:
        manager = mlir.pass_manager(module.context)
        nvidia.passes.ttnvgpuir.add_remove_tmem_tokens(manager)
        manager.run(module, "remove_tmem_tokens")


def _joined(name: str, add):
    """A pass that makes equal ops one. It goes by effects, but takes a barrier to concern barriers only, and assembly nothing that
    Triton knows: so reads with an effect of whatever kind between them are made unequal before."""
    yield "mark_reads", mark_reads
    yield name, add


def _tidied():
    """Yield the passes that stock Triton has run before layouts come in, and on which coalesce relies: constant bounds and
    steps."""
    yield "canonicalizer", passes.gluon.add_canonicalizer
    yield from _joined("loop_aware_cse", passes.ttir.add_loop_aware_cse)
    yield "loop_unroll", passes.ttir.add_loop_unroll  # tl.range(loop_unroll_factor=): whole bodies, one after the other


def amd_passes(arch: str, operands: bool = False, nonkdim: int = 0, kpack: int = 1):
    """(name, how to add it) of each pass for an AMD target, "gfx942" and the like; `operands` as for NVIDIA. `nonkdim` and `kpack`
    are the launch options of `tl.dot`: rows and columns of the MFMA, 0 for Triton's choice, and how many of its steps along K an
    operand's read takes together.

    Each is one of NVIDIA's, with the same reason, but for AMD's accelerate_matmul (each product in its place) and
    coalesce_async_copy (each copy in its place). AMD's pipeliner, block ping-pong and instruction reordering are left out:
    they ask nothing.
    """
    ttgpu, ttir, common = passes.ttgpuir, passes.ttir, passes.common
    yield from _tidied()
    yield "coalesce", ttgpu.add_coalesce
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "optimize_thread_locality", ttgpu.add_optimize_thread_locality
    yield "accelerate_matmul", lambda pm: amd.passes.ttgpuir.add_accelerate_matmul(pm, arch, nonkdim, kpack)  # tl.dot to MFMA
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "optimize_epilogue", amd.passes.ttgpuir.add_optimize_epilogue  # a product is stored from the layout that it has: each
    #   store in its place, its pointers and mask in that layout, in which neighbouring elements of a row are in one lane
    if operands:
        yield "read_operands", read_operands
    yield from _joined("loop_aware_cse", ttir.add_loop_aware_cse)
    yield "licm", ttir.add_triton_licm
    yield "canonicalizer", passes.gluon.add_canonicalizer
    yield "coalesce_async_copy", lambda pm: amd.passes.ttgpuir.add_coalesce_async_copy(pm, arch)  # widths that LDS takes
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "reduce_data_duplication", ttgpu.add_reduce_data_duplication
    yield from _joined("loop_aware_cse", ttir.add_loop_aware_cse)
    yield "place_buffer_loads", place_buffer_loads  # ours: each load in its place, of the same elements
    yield "symbol_dce", common.add_symbol_dce
    yield "canonicalizer", passes.gluon.add_canonicalizer


_POINTERS = re.compile(r"x!tt\.ptr<[a-z]+(\d+)\w*>.*?sizePerThread = \[([\d, ]+)\].*?order = \[(\d+)")


def unfit_copies(module) -> frozenset[int]:
    """The number of each recorded asynchronous copy that cp.async cannot do in a thread's pieces: 4 bytes at least (PTX ISA). A
    piece of several elements lies along the buffer's rows."""
    found = set()

    def look(op) -> None:
        if op.get_name() != "ttg.async_copy_global_to_local":
            return
        bits, sizes, dim = _POINTERS.search(str(op.get_operand(0).get_type())).groups()
        piece = int(sizes.split(",")[int(dim)]) * int(bits)
        along = int(dim) == fastest(op.get_operand(1).get_type(), len(sizes.split(",")))
        fits = int(bits) >= 32 or (piece >= 32 and along)
        if not fits and (number := number_of(op.get_result(0))) is not None:
            found.add(number)

    module.walk(look)
    return frozenset(found)


_OURS = (mark_reads, read_operands, place_buffer_loads, remove_tokens)


def takes_module(add) -> bool:
    """True for a step that is a function of the module itself, and none that adds a pass to a manager."""
    return add in _OURS or isinstance(add, Pipeline)


def optimise(module, listed, observer=None):
    """Run the listed passes over a module in place.

    With an observer, each of Triton's runs alone and `observer(name, module)` sees the module after it; without, as many at once as
    can be.
    """
    manager = None
    for name, add in listed:
        if takes_module(add):
            _run(manager, module, "mimw")
            manager = None
            add(module)
            continue
        if manager is None:
            manager = mlir.pass_manager(module.context)
            manager.enable_debug()
        add(manager)
        if observer is not None:
            _run(manager, module, name)
            manager = None
            observer(name, module)
    _run(manager, module, "mimw")
    return module


def _run(manager, module, name: str) -> None:
    if manager is not None:
        manager.run(module, name)
