"""Prints layouts as Triton spells them, and as linear maps; run by test_layouts in a process of its own, which complains of leaks.

Each line is JSON: [text, shape, bits, maps], the maps those of `to_linear_layout`: bases of registers, lanes, warps and CTAs of a
tile, of offsets and CTAs of a buffer.
"""

import json
from itertools import product

from triton._C.libtriton import amd, ir, nvidia
from triton.experimental.gluon.language import (
    BlockedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
)
from triton.experimental.gluon.language.amd import AMDMFMALayout, AMDWMMALayout

from mimw.compiler.triton_port.builder import GluonOpBuilder
from mimw.compiler.triton_port.codegen import mlir_context

CLUSTERS = [[], [[1, 0]], [[0, 1]], [[1, 0], [0, 1]], [[0, 0]]]
SHAPES = [(64, 64), (16, 128), (256, 16)]


def tiles():
    """(layout, shape) of tiles."""
    blocked = [BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], blocks) for blocks in CLUSTERS]
    blocked += [BlockedLayout([2, 1], [8, 4], [1, 4], [0, 1]), BlockedLayout([1, 8], [2, 16], [2, 2], [1, 0])]
    older = [NVMMADistributedLayout([2, 0], warps, [16, 8], blocks)
             for warps, blocks in product(([2, 2], [4, 1], [1, 8]), CLUSTERS)]
    newer = [NVMMADistributedLayout([3, 0], warps, [16, 64, 16], blocks) for warps, blocks in product(([4, 1], [8, 1]), CLUSTERS)]
    amds = [AMDMFMALayout(3, [32, 32, 8], True, [2, 2]), AMDMFMALayout(4, [16, 16, 32], False, [2, 4]),
            AMDMFMALayout(3, [16, 16, 4], True, [2, 2], 64, [2, 1]), AMDWMMALayout(3, True, [[0, 1], [1, 0]], [], [16, 16, 32]),
            AMDWMMALayout(3, False, [[0, 2], [2, 0]], [[0, 1], [1, 0]], [16, 16, 32])]
    linear = [DistributedLinearLayout([[0, 1], [0, 8]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[8, 0], [0, 0]], blocks, shape)
              for blocks, shape in (([], [16, 16]), ([[16, 0]], [32, 16]))]
    for layout in linear:
        yield layout, layout.shape
        yield SliceLayout(1, layout), layout.shape[:1]
    for layout, shape in product(blocked + older + newer + amds, SHAPES):
        yield layout, shape
        yield SliceLayout(0, layout), shape[1:]
        yield SliceLayout(1, layout), shape[:1]
        for index in (0, 1):
            if layout in blocked:
                yield DotOperandLayout(index, layout, 0), shape
            elif layout not in newer or index == 0:
                for wide in (1, 2, 4) if layout in older + newer else (4, 8):
                    yield DotOperandLayout(index, layout, wide), shape
    deep = NVMMADistributedLayout([2, 0], [2, 2, 1], [1, 16, 8])
    threads = BlockedLayout([1, 2, 2], [2, 4, 4], [2, 1, 2], [2, 1, 0])
    for shape in ((8, 32, 64), (2, 16, 16)):
        yield deep, shape
        yield threads, shape
        yield SliceLayout(0, SliceLayout(2, threads)), shape[1:2]
        for index in (0, 1):
            yield DotOperandLayout(index, deep, 2), shape
            yield DotOperandLayout(index, threads, 0), shape
    yield BlockedLayout([4], [32], [4], [0]), (1024, )
    yield BlockedLayout([4], [32], [4], [0]), (32, )


def buffers():
    """(layout, shape, bits) of buffers; of padded ones Triton names no linear map."""
    for bits, blocks, shape in product((8, 16, 32), CLUSTERS[:4], SHAPES):
        part = [extent // max([1, *(2 * basis[axis] for basis in blocks)]) for axis, extent in enumerate(shape)]
        for swizzle, transposed in product((0, 32, 64, 128), (False, True)):
            if part[0 if transposed else 1] * bits // 8 >= max(16, swizzle) and part[1 if transposed else 0] >= 8:
                yield NVMMASharedLayout(swizzle, bits, 2, transposed, False, blocks), shape, bits
    for (vector, per_phase, phases), order, blocks in product(((1, 1, 1), (8, 1, 8), (4, 2, 4)), ([1, 0], [0, 1]), CLUSTERS[:4]):
        yield SwizzledSharedLayout(vector, per_phase, phases, order, blocks), (64, 64), 16
    yield NVMMASharedLayout(64, 16, 3), (4, 16, 32), 16
    yield SwizzledSharedLayout(4, 1, 8, [2, 0, 1]), (4, 16, 32), 32
    yield SwizzledSharedLayout(1, 1, 1, [0]), (256, ), 64
    columns, rows = [[0, 1 << bit] for bit in range(4)], [[1 << bit, 0] for bit in range(4)]
    yield SharedLinearLayout(columns + [[1, 4], [2, 8], [4, 0], [8, 0]]), (16, 16), 16
    yield SharedLinearLayout(rows + [[0, 1], [3, 2], [0, 4]], [[0, 8]], 128), (16, 16), 16


def main() -> None:
    context = mlir_context()
    for dialects in (ir, nvidia, amd):
        dialects.load_dialects(context)
    builder = GluonOpBuilder(context)
    half = builder.get_half_ty()
    for layout, shape in tiles():
        text = str(builder.get_distributed_ty(half, list(shape), layout._to_ir(builder))).split("f16, ", 1)[1][:-1]
        found = builder.to_linear_layout(layout._to_ir(builder), list(shape))
        print(json.dumps([text, shape, 0, [found.reg_bases, found.lane_bases, found.warp_bases, found.block_bases]]))
    for layout, shape, bits in buffers():
        element, attribute = builder.get_int8_ty() if bits == 8 else half, layout._to_ir(builder)
        type_ = str(builder.get_shared_mem_desc_ty(element, list(shape), attribute, list(shape)))
        text = type_.split(", ", 1)[1].removesuffix(", #ttg.shared_memory, mutable>")
        found = builder.to_linear_layout(layout._to_ir(builder), list(shape))
        print(json.dumps([text, shape, bits, [found.offset_bases, found.block_bases]]))


main()
