"""Asynchronous matrix multiply on the tensor cores, and its wait.

Input: the arguments of a kernel's call. Output: ops `async_dot` and `async_dot_wait`. For example, of two buffers (64,
64) of fp16:

    acc = tlx.async_dot(a, b)            %acc = async_dot %a, %b, precision=TF32, max_imprecise=0 : fp32[64, 64]
    acc = tlx.async_dot_wait(0, acc)     %acc.2 = async_dot_wait pending=0, %acc : fp32[64, 64]
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import maps, tensor_memory_columns, word
from ..refuse import refuse
from . import tcgen05
from .arguments import handle_of, is_int, needs_hopper, single_buffer
from .dot_operands import check_depth, check_types
from .local_mem import local_load
from .types import buffered_tensor, storage_kind

__all__ = ["async_dot", "async_dot_wait"]



@word
def async_dot(A, B, acc=None, use_acc=None, pred=None, mBarriers=(), two_ctas: tl.constexpr = False,
              force_async: tl.constexpr = False, input_precision: tl.constexpr = None, out_dtype: tl.constexpr = tl.float32,
              registers=None, _semantic=None) -> tl.tensor:
    """Start A (M, K) x B (K, N) + acc (M, N): on Hopper as one wgmma group whose result is a register tile, on Blackwell into
    `acc`.

    On Hopper:

    args:      A   - one buffer, or a register tile
               B   - one buffer; either may be a `local_trans` view
               acc - (opt) register tile of the result's dtype; None counts as 0
               input_precision - (opt) for f32 "tf32", the default, "tf32x3" or "ieee"; no effect on other types. The tensor core
                                 has tf32 only: the other two wait for `acc`, with all dots before, and have
                                 computed when they return; still a group of their own for the wait
               out_dtype       - float32, or float16 for f16 and fp8; int8 gives int32 and f32, bf16 give float32
               registers       - (opt, not of the published language) register tile like the result, in place of `acc`: what it
                                 holds is lost, and the result takes its registers. Without it ptxas may give products that
                                 follow each other registers of their own, and spill (the tiles of kernels/block_scaled_gemm)
               use_acc, pred, mBarriers, two_ctas, force_async - no effect on Hopper
    returns:   a register tile (M, N) of the result's dtype
    orders:    nothing until `async_dot_wait`: the result may only be passed on as `acc`, through a loop, or to the wait, and
               the operands must not be overwritten
    errors:    AssertionError for types, shapes, ranks and an `input_precision` that the tensor core does not take;
               KernelError for operands that are neither one buffer nor a tile, 8-bit or tf32 operands that are not
               contiguous along K, and another `acc`; TargetError below sm_90,
               NotImplementedError on Ascend
    not:       8-bit and tf32 operands that are not contiguous along K; M % 64, N % 8 != 0, N > 256 or K < 16
    lowers to: ttng.warp_group_dot, is_async; "tf32x3", "ieee": ttg.local_load, tt.dot

    On AMD as on Hopper, but done at once, as a product of tiles: the wait waits for nothing, f32 is multiplied as it is, and
    `mBarriers` are refused (KernelError). Lowers to tt.dot of ttg.local_load, MFMA or WMMA (docs/AMD.md).

    On Blackwell (chips with tensor memory), by one thread of the task; returns None:
    args:      A         - one buffer in shared or tensor memory, M 64 or 128; B - one in shared memory
               acc       - one buffer in tensor memory (M, N), 8 <= N <= 256: fp32, of int8 int32
               use_acc   - (opt) False or a run-time i1: whether to add to what `acc` holds; None is True
               pred      - (opt) i1: false skips the product and its arrivals
               mBarriers - each gets one arrival when this and all earlier tensor-core work of the task is done
               force_async - without mBarriers: do not wait; finish by `tcgen05_commit`
               two_ctas  - a pair of CTAs (ranks 2 i and 2 i + 1 of the cluster) multiplies together. A holds this CTA's rows,
                           B (K, N / 2) this CTA's columns, acc (M, N) this CTA's rows of the whole product. The even CTA
                           issues, whether or not the odd one calls it, too; each of mBarriers gets its arrival in both CTAs.
                           KernelError for products of one CTA beside those of pairs
    orders:    with mBarriers, or force_async: nothing until a wait for the phase; the operands must not be overwritten, nor `acc`
               be read, before it. Without: done when the call returns; of a pair, both CTAs must call it equally often, or the
               even one alone in an `if` that asks for the rank. In order with the task's other tensor-core work
    lowers to: ttng.tc_gen5_mma, tcgen05.commit; for pairs tcgen05.mma.cta_group::2, tcgen05.commit with .multicast::cluster
    example:   acc = tlx.async_dot(A[slot], B[slot], acc)                                     # Hopper
               tlx.async_dot(A[slot], B[slot], acc[0], use_acc=i > 0, mBarriers=[free[slot]])     # Blackwell
    """
    needs_hopper("async_dot", _semantic, mapped="wgmma", older="multiply by tl.dot, of tlx.local_load of the operands")
    if tensor_memory_columns(_semantic):
        return tcgen05.dot(A, B, acc, use_acc, pred, mBarriers, two_ctas, force_async, out_dtype, _semantic)
    at_once = maps("wgmma", _semantic)
    if at_once and tcgen05.barriers_of("async_dot", mBarriers):
        refuse(KernelError, "async_dot: a product is done at once on "
               f"{_semantic.builder.options.arch}, so nothing arrives on `mBarriers` later",
               mend="arrive behind it: tlx.barrier_arrive(bar), after tlx.async_dot_wait(0, acc)")
    shape_a = _operand("A", A, _semantic)
    if not isinstance(B, buffered_tensor):
        refuse(KernelError, f"async_dot: B must be a buffer in shared memory, got {B}",
                            mend="store it with tlx.local_store first")
    shape_b = _operand("B", B, _semantic)
    check_types(A.dtype, B.dtype)
    _check_shapes(shape_a, shape_b, A.dtype)
    precision = _precision(A.dtype, "ieee" if at_once else input_precision, _semantic)
    emulated = A.dtype == tl.float32 and precision.name != "TF32"
    if not emulated:
        _check_contiguous(A, B, _semantic)
    result = tl.block_type(_result_dtype(A.dtype, out_dtype), [shape_a[0], shape_b[1]])
    _check_acc("acc", acc, result, _semantic)
    _check_acc("registers", registers, result, _semantic)
    if acc is not None and registers is not None:
        refuse(KernelError, "async_dot: `acc` is added to and `registers` are overwritten, so there can be only one of them",
               mend="leave `registers` out: the result takes the registers of `acc`")
    if emulated:
        A, B = (local_load(x, _semantic=_semantic) if isinstance(x, buffered_tensor) else x for x in (A, B))
        acc = None if acc is None else async_dot_wait(0, acc, _semantic=_semantic)
    options = _semantic.builder.options
    imprecise = (options.max_num_imprecise_acc_default or 0) if A.dtype.is_fp8() else 0
    attrs = {"emulated": True} if emulated else {} if registers is None else {"fresh": True}
    start = acc if emulated or registers is None else registers
    handle = _semantic.builder.record("async_dot", A.handle, B.handle, handle_of(start), precision, imprecise,
                                      type=result.to_ir(_semantic.builder), **attrs).results[0]
    return tl.tensor(handle, result)


def _operand(name: str, operand, semantic) -> tuple[int, int]:
    """The shape of an operand; an error unless it is one buffer or a tile, of rank 2."""
    if isinstance(operand, buffered_tensor):
        if operand.type.storage is storage_kind.tmem:
            refuse(AssertionError, "tmem is only available on Blackwell")
        shape = single_buffer("async_dot", name, operand, semantic).shape
    elif isinstance(operand, tl.tensor) and operand.type.is_block():
        shape = tuple(operand.type.shape)
    else:
        refuse(KernelError, f"async_dot: {name} must be a buffer or a register tile, got {operand}")
    if len(shape) != 2:
        refuse(AssertionError, f"async_dot: {name} must have rank 2, got shape {list(shape)}",
               mend="view it by tlx.local_reshape, or reshape the tile")
    return shape


def _check_shapes(a: tuple[int, int], b: tuple[int, int], dtype: tl.dtype) -> None:
    m, n = a[0], b[1]
    check_depth(a, b, dtype)
    if not 8 <= n <= 256 or n % 8 != 0:
        refuse(AssertionError, f"async_dot: N must be a multiple of 8 between 8 and 256, got N = {n}",
               mend="cut B into buffers of at most 256 columns, and multiply by each")
    if m % 64 != 0:
        refuse(AssertionError, f"async_dot: M must be a multiple of 64 on Hopper, got M = {m}",
               mend="give each task 64, 128, ... rows, or use tl.dot for fewer")


def _precision(dtype: tl.dtype, name: str | None, semantic):
    """The precision in which f32 operands are read: wgmma reads them as tf32, a product at once as they are."""
    default = "tf32" if dtype == tl.float32 else semantic.builder.options.default_dot_input_precision
    return semantic._str_to_dot_input_precision(name or default)


def _check_contiguous(A, B, semantic) -> None:
    """wgmma transposes 16-bit operands only."""
    if A.dtype.primitive_bitwidth == 16:
        return
    for name, operand, axis in (("A", A, 1), ("B", B, 0)):
        if isinstance(operand, buffered_tensor) and operand.type.order[0] != axis:
            layout, mend = (("(M, K) row-major", "allocate A as (M, K)") if name == "A" else
                            ("a transposed view of an (N, K) buffer", "allocate B as (N, K) and pass tlx.local_trans(B)"))
            refuse(KernelError, f"async_dot: wgmma reads {operand.dtype} operands only contiguous along K, so {name} must be "
                                f"{layout}; its dimension {operand.type.order[0]} is the contiguous one", mend=mend)


def _result_dtype(operand: tl.dtype, out_dtype: tl.dtype) -> tl.dtype:
    if operand == tl.int8:
        return tl.int32
    allowed = (tl.float32, ) if operand in (tl.float32, tl.bfloat16) else (tl.float32, tl.float16)
    if out_dtype not in allowed:
        refuse(AssertionError, f"async_dot: {operand} operands cannot give out_dtype {out_dtype}, "
                               f"only {', '.join(map(str, allowed))}; convert the result instead")
    return out_dtype


def _check_acc(name: str, acc, result: tl.block_type, semantic) -> None:
    if acc is None:
        return
    if isinstance(acc, buffered_tensor):
        refuse(KernelError, f"async_dot: on Hopper `{name}` is a register tile, not a buffer")
    if not isinstance(acc, tl.tensor) or acc.type != result:
        refuse(KernelError, f"async_dot: `{name}` must be {result.element_ty}{list(result.shape)} like the result, got {acc}")


@word
def async_dot_wait(pendings: tl.constexpr, inp, _semantic=None) -> tl.tensor:
    """Hold this task until at most `pendings` of its newest wgmma groups are unfinished; gives `inp` back.

    args:      pendings - how many may still run, >= 0; every async_dot of the task is one group, in program order
               inp      - result of an async_dot; readable afterwards if its group is among the finished ones
    orders:    the finished groups' reads of shared memory -> what this task does after, so their operands are free
    errors:    ValueError for `pendings` that is no constexpr int >= 0; KernelError for an `inp` that is no result of an
               async_dot
    lowers to: ttng.warp_group_dot_wait
    example:   acc = tlx.async_dot_wait(0, acc)
    """
    if not is_int(pendings) or pendings < 0:
        refuse(ValueError, f"async_dot_wait: pendings must be a constexpr int >= 0, got {pendings!r}")
    if not isinstance(inp, tl.tensor) or not inp.type.is_block():
        refuse(KernelError, f"async_dot_wait: `inp` must be the result of an async_dot, got {inp}")
    return tl.tensor(_semantic.builder.record("async_dot_wait", pendings, inp.handle).results[0], inp.type)
