"""Products of chips with tensor memory: `async_dot` as it is there, and commits.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/tmem.py`. For example, of buffers a (128, 64) and b (64, 256) of
bf16 in shared memory and acc (128, 256) of fp32 in tensor memory:

    tlx.async_dot(a, b, acc, mBarriers=[done])       tcgen05_mma %a, %b, %acc, True; tcgen05_commit %done
    tlx.tcgen05_commit(done)                         tcgen05_commit %done
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from . import pairs
from .arguments import needs_tensor_memory, one_buffer, predicate_handle, single_barrier
from .dot_operands import check_depth, check_types
from .types import buffered_tensor, mbarrier, storage_kind

__all__ = ["tcgen05_commit"]

_ROWS, _WIDEST = (64, 128), 256
_SWIZZLE = 32          # bytes of the narrowest swizzle


def dot(A, B, acc, use_acc, pred, barriers, two_ctas: bool, force_async: bool, out_dtype, semantic) -> None:
    """`async_dot` on a chip with tensor memory; its docstring says all."""
    a, b = _operand("A", A, (storage_kind.smem, storage_kind.tmem)), _operand("B", B, (storage_kind.smem, ))
    into = _accumulator(acc)
    _check_types(a.dtype, b.dtype, into.dtype, out_dtype)
    _check_shapes(a, b, into, 2 if two_ctas else 1)
    builder = semantic.builder
    barriers = [single_barrier("async_dot", bar, semantic) for bar in barriers_of("async_dot", barriers)]
    when = predicate_handle("async_dot", pred, semantic)
    waits = not barriers and not force_async
    if two_ctas:
        check_pair("async_dot", a, b)
        operands = a.handle, b.handle, into.handle, use_acc_of("async_dot", use_acc, semantic)
        pairs.record_dot("tcgen05_mma_pair", operands, when, barriers, waits, semantic)
        return
    builder.record("tcgen05_mma", a.handle, b.handle, into.handle, use_acc_of("async_dot", use_acc, semantic), when,
                   **({"waits": True} if waits else {}))
    for barrier in barriers:
        builder.record("tcgen05_commit", barrier, when, of_dot=True)


def barriers_of(name: str, barriers) -> tuple:
    """The barriers of `mBarriers=`, one or several."""
    if isinstance(barriers, mbarrier):
        return (barriers, )
    return tuple(barriers or ())


def use_acc_of(name: str, use_acc, semantic):
    """`use_acc=` of a product: None counts as True; a run-time i1 stays one."""
    if use_acc is None:
        return True
    if isinstance(use_acc, (bool, int)):
        return bool(use_acc)
    return predicate_handle(f"{name}: use_acc", use_acc, semantic)


def _operand(name: str, operand, storages: tuple) -> buffered_tensor:
    if not isinstance(operand, buffered_tensor):
        if isinstance(operand, tl.tensor) and name == "A":
            refuse(AssertionError, "async_dot: register operand is not supported on Blackwell",
                   mend="store it with tlx.local_store to a buffer in shared or tensor memory first")
        refuse(KernelError, f"async_dot: {name} must be a buffer, got {operand}", mend="store it with tlx.local_store first")
    buffer = one_buffer("async_dot", name, operand)
    if buffer.type.storage not in storages:
        refuse(KernelError, f"async_dot: {name} must lie in shared memory, got {buffer}",
               mend="only A may lie in tensor memory: multiply the transposes, or move it")
    if len(buffer.shape) != 2:
        refuse(AssertionError, f"async_dot: {name} must have rank 2, got shape {list(buffer.shape)}",
               mend="view it by tlx.local_reshape")
    return buffer


def _accumulator(acc) -> buffered_tensor:
    if not isinstance(acc, buffered_tensor):
        refuse(KernelError, f"async_dot: on Blackwell `acc` is a buffer in tensor memory, got {acc}",
               mend="allocate it with tlx.local_alloc(..., tlx.storage_kind.tmem)")
    acc = one_buffer("async_dot", "acc", acc)
    if acc.type.storage is not storage_kind.tmem:
        refuse(KernelError, f"async_dot: on Blackwell `acc` lies in tensor memory, got {acc}",
               mend="allocate it with tlx.local_alloc(..., tlx.storage_kind.tmem)")
    return acc


def _check_types(a: tl.dtype, b: tl.dtype, acc: tl.dtype, out_dtype) -> None:
    check_types(a, b)
    wanted = tl.int32 if a == tl.int8 else tl.float32
    if acc != wanted:
        refuse(AssertionError, f"async_dot: {a} operands add up in {wanted}, but `acc` holds {acc}",
               mend=f"allocate `acc` with {wanted}, and convert what local_load gives")


def check_pair(word: str, a: buffered_tensor, b: buffered_tensor) -> None:
    """Refuse products that a pair of CTAs cannot do although one CTA can."""
    for name, operand in (("A", a), ("B", b)):
        inner = operand.type.order[0] if operand.type.storage is storage_kind.smem else None
        size = 0 if inner is None else operand.shape[inner] * operand.dtype.primitive_bitwidth // 8
        if inner is not None and size < _SWIZZLE:
            refuse(KernelError, f"{word}: a pair of CTAs reads {_SWIZZLE} bytes and more of {name} that follow each other in "
                                f"shared memory, got {size}", mend="take wider tiles, or keep the other dimension contiguous")


def _check_shapes(a: buffered_tensor, b: buffered_tensor, acc: buffered_tensor, ctas: int) -> None:
    """`ctas` work together: each has its rows of A and its columns of B."""
    m, n = a.shape[0], b.shape[1] * ctas
    of_both = " with the columns of both CTAs" if ctas > 1 else ""
    check_depth(a.shape, b.shape, a.dtype)
    if m not in _ROWS:
        refuse(AssertionError, f"async_dot: M must be 64 or 128 on Blackwell, got M = {m}",
               mend="cut A into buffers of 128 rows, and multiply each into an accumulator of its own")
    least = 8 if m * ctas == 64 else 16 if ctas == 1 or a.dtype != tl.int8 else 32
    if not 8 <= n <= _WIDEST or n % 8 != 0:
        refuse(AssertionError, f"async_dot: N must be a multiple of 8 between 8 and {_WIDEST}, got N = {n}" + of_both,
               mend=f"cut B into buffers of at most {_WIDEST} columns, and multiply by each")
    if n % least:
        refuse(AssertionError, f"async_dot: N must be a multiple of {least} with M = {m * ctas}, got N = {n}{of_both}")
    if acc.shape != (m, n):
        refuse(AssertionError, f"async_dot: `acc` must have the shape {[m, n]} of A x B, got {list(acc.shape)}",
               mend="allocate it so, or pass a tlx.subslice of as many columns")
    _check_order(a, b)


def _check_order(a: buffered_tensor, b: buffered_tensor) -> None:
    """PTX ISA, tcgen05 instruction descriptor: operands of 8 and 16 bits may be transposed; Triton has no layout for tf32 ones."""
    if a.dtype.primitive_bitwidth != 32:
        return
    for name, operand, axis in (("A", a, 1), ("B", b, 0)):
        if operand.type.storage is storage_kind.smem and operand.type.order[0] != axis:
            layout, mend = (("(M, K) row-major", "allocate A as (M, K)") if name == "A" else
                            ("a transposed view of an (N, K) buffer", "allocate B as (N, K) and pass tlx.local_trans(B)"))
            refuse(KernelError, f"async_dot: {operand.dtype} operands are read only contiguous along K, so {name} must be {layout}",
                   mend=mend)


@word
def tcgen05_commit(mBarrier, two_ctas: tl.constexpr = False, _semantic=None) -> None:
    """Arrive once on a barrier when all tensor-core work that this task has issued so far is done.

    args:      mBarrier - one barrier; not one that is also given to an `async_dot` for the same phase: where it surely is, the
                          compiler refuses the kernel (TooManyArrivals)
               two_ctas - for products of pairs of CTAs: issued by the even CTA, on the barriers of both. In a kernel with products
                          of pairs every commit is so, as in Triton, whether this is given or not
    orders:    the task's earlier async_dots and tmem_copys, their reads and writes -> the task that waits for the phase; nothing
               else of the task (use barrier_arrive for that)
    errors:    AssertionError on chips without tensor memory; KernelError for a `mBarrier` that is not one mbarrier, and for
               `two_ctas` in clusters of an odd number of CTAs
    lowers to: tcgen05.commit.mbarrier::arrive::one, for pairs with .multicast::cluster
    example:   tlx.tcgen05_commit(done[0])
    """
    needs_tensor_memory("tcgen05_commit", _semantic)
    barrier = single_barrier("tcgen05_commit", mBarrier, _semantic)
    if two_ctas:
        pairs.record_commit(barrier, _semantic)
    else:
        _semantic.builder.record("tcgen05_commit", barrier, None)
