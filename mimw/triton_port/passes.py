"""Triton's own passes over our TTGIR, in order, each with the reason it is there.

The module arrives with a valid but naive layout on every tile. The first group makes layouts good, the second turns the
remaining `tl` ops into what the hardware has, the third cleans up. Left out on purpose: Triton's automatic warp
specialisation (the tasks are explicit), `fuse_nested_loops` and `prefetch` (they move work across our barriers).
"""

from __future__ import annotations

import re

from triton._C.libtriton import amd, nvidia, passes
from triton._C.libtriton import ir as mlir


def nvidia_passes(capability: int, num_stages: int, pipeline: bool):
    """(name, how to add it) of each pass for an NVIDIA target.

    args:      capability  90, 100, ...
               num_stages  depth of Triton's own load pipelining
               pipeline    let Triton pipeline `tl.load` and `tl.dot` loops. Off for kernels that wait for their own
                           asynchronous dots: the pass would put its own waits between theirs.
    """
    ttgpu, ttir, common, ttng = passes.ttgpuir, passes.ttir, passes.common, nvidia.passes.ttnvgpuir
    yield from _tidied()
    yield "coalesce", ttgpu.add_coalesce  # global accesses: neighbouring lanes, wide vectors
    yield "f32_dot_tc", lambda pm: ttgpu.add_f32_dot_tc(pm, True)  # tf32x3 and friends become several tf32 dots
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions  # the naive layouts meet: drop what is not needed
    yield "optimize_thread_locality", ttgpu.add_optimize_thread_locality  # reductions inside threads before across them
    yield "accelerate_matmul", ttgpu.add_accelerate_matmul  # tl.dot to wgmma / tcgen05 / mma.sync
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions  # around the new dots
    yield "optimize_dot_operands", lambda pm: ttgpu.add_optimize_dot_operands(pm, True)  # transposes into the operand's view
    yield "tma_lowering", ttng.add_tma_lowering  # device-made descriptors
    yield "loop_aware_cse", ttir.add_loop_aware_cse
    yield "licm", ttir.add_triton_licm
    yield "canonicalizer", passes.gluon.add_canonicalizer
    yield "combine_tensor_select_and_if", ttgpu.add_combine_tensor_select_and_if
    if pipeline:
        yield "assign_latencies", lambda pm: ttgpu.add_assign_latencies(pm, num_stages)
        yield "schedule_loops", ttgpu.add_schedule_loops
        yield "pipeline", lambda pm: ttgpu.add_pipeline(pm, num_stages, False)
        yield "canonicalizer", passes.gluon.add_canonicalizer
        yield "loop_aware_cse", ttir.add_loop_aware_cse
    if capability >= 100:
        yield "remove_tmem_tokens", ttng.add_remove_tmem_tokens  # accelerate_matmul's; no later stage knows them
    yield "coalesce_async_copy", ttgpu.add_coalesce_async_copy  # cp.async in the widest pieces its buffer allows
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "reduce_data_duplication", ttgpu.add_reduce_data_duplication
    yield "reorder_instructions", ttgpu.add_reorder_instructions  # loads of operands next to their use
    yield "loop_aware_cse", ttir.add_loop_aware_cse
    yield "symbol_dce", common.add_symbol_dce
    yield "fence_insertion", lambda pm: ttng.add_fence_insertion(pm, capability)  # generic writes before wgmma reads
    yield "lower_mma", ttng.add_lower_mma
    yield "sccp", common.add_sccp
    yield "cse", common.add_cse
    yield "canonicalizer", passes.gluon.add_canonicalizer


def _tidied():
    """What stock Triton has done before layouts come in, and coalesce counts on: bounds and steps as plain constants."""
    yield "canonicalizer", passes.gluon.add_canonicalizer
    yield "loop_aware_cse", passes.ttir.add_loop_aware_cse
    yield "loop_unroll", passes.ttir.add_loop_unroll  # tl.range(loop_unroll_factor=)


def amd_passes(arch: str, num_stages: int, pipeline: bool):
    """(name, how to add it) of each pass for an AMD target; arguments as `nvidia_passes`."""
    ttgpu, ttir, common = passes.ttgpuir, passes.ttir, passes.common
    yield from _tidied()
    yield "coalesce", ttgpu.add_coalesce
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "optimize_thread_locality", ttgpu.add_optimize_thread_locality
    yield "accelerate_matmul", lambda pm: amd.passes.ttgpuir.add_accelerate_matmul(pm, arch, 0, 1)  # tl.dot to MFMA
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "loop_aware_cse", ttir.add_loop_aware_cse
    yield "licm", ttir.add_triton_licm
    yield "canonicalizer", passes.gluon.add_canonicalizer
    yield "coalesce_async_copy", lambda pm: amd.passes.ttgpuir.add_coalesce_async_copy(pm, arch)  # widths that LDS takes
    yield "remove_layout_conversions", ttgpu.add_remove_layout_conversions
    yield "reduce_data_duplication", ttgpu.add_reduce_data_duplication
    yield "loop_aware_cse", ttir.add_loop_aware_cse
    yield "symbol_dce", common.add_symbol_dce
    yield "canonicalizer", passes.gluon.add_canonicalizer


# Bits of one thread's piece (LLVM AMDGPU: global_load_lds_dword, dwordx3 and dwordx4; gfx1250's asynchronous loads to LDS).
_LDS_PIECES = {"gfx942": (32, ), "gfx950": (32, 96, 128), "gfx1250": (32, 64, 128)}
_LOCATION = re.compile(r'"(.*)":(\d+):(\d+)\)$')
_POINTERS = re.compile(r"x!tt\.ptr<[a-z]+(\d+)\w*>.*?sizePerThread = \[([\d, ]+)\].*?order = \[(\d+)")


def unfit_copies(module, arch: int | str) -> frozenset[tuple[str, int, int]]:
    """(file, line, column from 1) of each asynchronous copy that the chip cannot do in a thread's pieces.

    PTX, cp.async: 4 bytes at least. AMD, global loads into LDS: pieces of certain sizes. A piece of several elements lies
    along the buffer's rows.
    """
    found = set()

    def look(op) -> None:
        if op.get_name() != "ttg.async_copy_global_to_local":
            return
        bits, sizes, fastest = _POINTERS.search(str(op.get_operand(0).get_type())).groups()
        piece = int(sizes.split(",")[int(fastest)]) * int(bits)
        along = int(fastest) == _fastest(str(op.get_operand(1).get_type()), len(sizes.split(",")))
        if isinstance(arch, int):
            fits = int(bits) >= 32 or (piece >= 32 and along)
        else:
            fits = piece in _LDS_PIECES[arch] and along
        place = _LOCATION.search(str(op.get_result(0).get_loc()))
        if place and not fits:
            found.add((place[1], int(place[2]), int(place[3])))

    module.walk(look)
    return frozenset(found)


def _fastest(buffer: str, rank: int) -> int:
    """The dimension along which the elements of a buffer of this type lie together."""
    if order := re.search(r"order = \[(\d+)", buffer):
        return int(order[1])
    return 0 if "transposed = true" in buffer else rank - 1


def optimise(module, listed, observer=None):
    """Run the listed passes over a module in place.

    With an observer, each runs alone and `observer(name, module)` sees the module after it; without, all run at once.
    """
    if observer is None:
        manager = mlir.pass_manager(module.context)
        manager.enable_debug()
        for _, add in listed:
            add(manager)
        manager.run(module, "mimw")
        return module
    for name, add in listed:
        manager = mlir.pass_manager(module.context)
        add(manager)
        manager.run(module, name)
        observer(name, module)
    return module
