"""Triton's Gluon builder and module, and our layouts as its attributes.

Input: a layout of `ir.layouts`; a target's name and options. Output: Gluon's twin of the layout; a builder with an empty module:

    to_gluon(Blocked((1, 8), (4, 8), (4, 1), (1, 0)))        BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
"""

from __future__ import annotations

from triton._C.libtriton import ir as mlir
from triton.experimental.gluon.language import (
    BlockedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
)
from triton.experimental.gluon.language.amd import AMDMFMALayout, AMDWMMALayout
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout, TensorMemoryScalesLayout
from triton.experimental.gluon.language.nvidia.hopper.mbarrier import MBarrierLayout

from ...ir.layouts import (
    AmdMfma,
    AmdWmma,
    Blocked,
    DotOperand,
    Linear,
    LinearShared,
    Mma,
    NvmmaShared,
    PaddedShared,
    RegisterLayout,
    SharedLayout,
    Slice,
    SwizzledShared,
    TensorMemory,
)
from .differences import GluonOpBuilder

__all__ = ["GluonOpBuilder", "barrier_layout", "bytes_layout", "mlir", "new_module", "to_gluon"]


def new_module(context, target_name: str, options) -> tuple[GluonOpBuilder, object]:
    """A builder and an empty module whose attributes say the target and the default task's warps."""
    builder = GluonOpBuilder(context, options.arch)
    builder.options = options
    module = builder.create_module()
    module.set_attr("ttg.target", builder.get_string_attr(target_name))
    module.set_attr("ttg.num-warps", builder.get_int32_attr(options.num_warps))
    module.set_attr("ttg.num-ctas", builder.get_int32_attr(options.num_ctas))
    module.set_attr("ttg.threads-per-warp", builder.get_int32_attr(options.warp_size))
    if getattr(options, "maxnreg", None) is not None:
        module.set_attr("ttg.maxnreg", builder.get_int32_attr(options.maxnreg))
    return builder, module


def to_gluon(layout: RegisterLayout | SharedLayout, num_ctas: int = 1):
    """Gluon's twin of one of our layouts; with several CTAs to a program, each of them holds the whole tile."""
    match layout:
        case Blocked(size, threads, warps, order):
            copies = [[0] * len(size) for _ in range(num_ctas.bit_length() - 1)]
            return BlockedLayout(list(size), list(threads), list(warps), list(order), copies)
        case Slice(axis, parent):
            return SliceLayout(axis, to_gluon(parent, num_ctas))
        case Mma(warps, instruction):
            return NVMMADistributedLayout(version=[3, 0], warps_per_cta=list(warps), instr_shape=list(instruction))
        case AmdMfma(version, instruction, transposed, warps, bits, tiles):
            return AMDMFMALayout(version, list(instruction), transposed, list(warps), bits, list(tiles))
        case AmdWmma(version, transposed, warps, registers, instruction):
            return AMDWMMALayout(version, transposed, _lists(warps), _lists(registers), list(instruction))
        case DotOperand(index, parent, k_width):
            return DotOperandLayout(index, to_gluon(parent, num_ctas), k_width)
        case NvmmaShared(swizzle, bits, rank, transposed, fp4_padded):
            return NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=bits, rank=rank, transposed=transposed,
                                     fp4_padded=fp4_padded)
        case SwizzledShared(vector, per_phase, max_phase, order):
            return SwizzledSharedLayout(vector, per_phase, max_phase, list(order))
        case Linear(registers, lanes, warps, shape):
            return DistributedLinearLayout(*(_lists(bases) for bases in (registers, lanes, warps, ())), list(shape))
        case PaddedShared(pairs, bases, shape):
            return PaddedSharedLayout(_lists(pairs), _lists(bases), [], list(shape))
        case LinearShared(bases, alignment):
            return SharedLinearLayout(_lists(bases), [], alignment)
        case TensorMemory(rows, columns, scales):
            return TensorMemoryScalesLayout() if scales else TensorMemoryLayout((rows, columns), 1)
    raise TypeError(f"no Gluon twin for {layout!r}")


def _lists(bases) -> list[list[int]]:
    return [list(basis) for basis in bases]


def bytes_layout(unit: int, alignment: int):
    """Bytes in rows of `unit`, starting at a multiple of `alignment`."""
    return SharedLinearLayout([[1 << bit] for bit in range(unit.bit_length() - 1)], alignment=alignment)


def barrier_layout():
    """The layout of an mbarrier in shared memory."""
    return MBarrierLayout()



def unseen_f32(builder, value):
    """The same fp32, a number or a tile, of which LLVM does not know where it comes from."""
    return builder.create_inline_asm("mov.b32 $0, $1;", "=f,f", [value], [value.get_type()], True, 1).get_result(0)
