"""Products with a scale for each block of elements along K, on chips with tensor memory.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/tmem.py`. For example, of fp8 buffers a (128, 128) and b (128, 64),
scales sa (1, 1, 32, 16) and sb (1, 1, 32, 16) in shared memory, and acc (128, 64) of fp32 in tensor memory:

    tlx.async_dot_scaled(a, b, acc, sa, "e4m3", sb, "e4m3", mBarriers=[done])
                        tcgen05_mma_scaled %a, %b, %acc, %sa, %sb, e4m3, e4m3, True; tcgen05_commit %done
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ...ir.tensor_memory import is_packed, whole_columns
from ..core import word
from ..refuse import refuse
from . import pairs, tcgen05
from .arguments import needs_tensor_memory, one_buffer, predicate_handle, single_barrier
from .types import buffered_tensor, storage_kind

__all__ = ["async_dot_scaled"]

_WORD, _FP4, _ROWS, _WIDEST = "async_dot_scaled", "e2m1", 128, 256
_FORMATS = {_FP4: (), "e4m3": (tl.float8e4nv, ), "e5m2": (tl.float8e5, )}
_BYTES = (tl.int8, tl.uint8)
_BLOCK, _NVFP4_BLOCK = 32, 16       # elements of a scale: e8m0; e4m3
_PADDED_ROW = 128                   # elements of fp4 that fill the only swizzle of padded rows


@word
def async_dot_scaled(A, B, acc, A_scale, A_format: tl.constexpr, B_scale, B_format: tl.constexpr, use_acc=None, pred=None,
                     mBarriers=(), two_ctas: tl.constexpr = False, force_async: tl.constexpr = False,
                     out_dtype: tl.constexpr = tl.float32, _semantic=None) -> None:
    """Start (A * A_scale) (128, K) x (B * B_scale) (K, N), added to `acc`, by one thread of the task.

    args:      A         - one buffer in shared or tensor memory; B - one in shared memory, such as `local_trans` of (N, K)
               acc       - one buffer of fp32 in tensor memory, (128, N), 16 <= N <= 256
               A_format, B_format - "e4m3", "e5m2": fp8, or its bytes; "e2m1": pairs of fp4 in bytes along K, the first in the
                                    low half: (128, K / 2) and (K / 2, N). fp4 beside fp8 lies padded: its buffer
                                    takes twice its bytes, K is a multiple of 128, and TMA fills it
               A_scale, B_scale - bytes: e8m0, one for 32 elements along K; or, of fp4 by fp4, one for 16 (nvfp4), e4m3. Which
                                  they are their number says. In tensor memory tables (128, K / 32) and (N, K / 32), or of more
                                  rows for N < 128; in shared memory packed as `tmem_copy` takes them, rows full to 128. Of a K
                                  whose scales fill no whole column of 32 bits they may have the rest of it, too, which is not
                                  read: (128, 4) for K = 64
               use_acc   - (opt) False or a run-time i1: whether to add to what `acc` holds; None is True
               pred      - (opt) i1: false skips the product and its arrivals
               mBarriers - each gets one arrival when this and all earlier tensor-core work of the task is done
               force_async - without mBarriers: do not wait; finish by `tcgen05_commit`
               two_ctas  - a pair of CTAs (ranks 2 i and 2 i + 1 of the cluster) multiplies together, as in `async_dot`: A and
                           A_scale hold this CTA's rows, B (K, N / 2) this CTA's columns, `acc` (128, N) this CTA's rows of the
                           whole product, and B_scale, in each of the two CTAs, the scales of all N columns. Scales in
                           shared memory the even CTA copies in both, each CTA's own; bytes must have come in both
               out_dtype - float32
    orders:    with mBarriers, or force_async: nothing until a wait for the phase; operands and scales must not be overwritten,
               nor `acc` be read, before it. Without: done when the call returns. In order with the task's other tensor-core work
    errors:    AssertionError on chips without tensor memory, and for formats, types and shapes that the tensor core does not take;
               KernelError for operands in other memories, arrays of buffers, fp4 that is not contiguous along K, and fp4 in
               tensor memory beside fp8
    lowers to: tcgen05.cp of scales in shared memory; ttng.tc_gen5_mma_scaled, tcgen05.commit; for pairs
               tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale and the like
    example:   tlx.async_dot_scaled(A[slot], B[slot], acc[0], a_scale[0], "e4m3", b_scale[0], "e4m3", mBarriers=[done[0]])
    """
    needs_tensor_memory(_WORD, _semantic)
    for name, given in (("A_format", A_format), ("B_format", B_format)):
        if given not in _FORMATS:
            refuse(AssertionError, f"{_WORD}: {name} must be one of {tuple(_FORMATS)}, got {given!r}")
    a = _operand("A", A, A_format, (storage_kind.smem, storage_kind.tmem), _semantic)
    b = _operand("B", B, B_format, (storage_kind.smem, ), _semantic)
    into = _accumulator(acc, out_dtype)
    if a.type.storage is storage_kind.tmem and A_format == _FP4 != B_format:
        refuse(KernelError, f"{_WORD}: fp4 in tensor memory is multiplied by fp4 only: beside {B_format} the tensor core takes "
                            "each fp4 from a byte of its own there (PTX ISA, tcgen05.mma, .kind::mxf8f6f4), and these are in "
                            "pairs",
               mend="leave A in shared memory, filled by TMA, or convert it to fp8")
    k = _check_shapes(a, b, into, A_format, B_format, 2 if two_ctas else 1)
    if two_ctas:
        tcgen05.check_pair(_WORD, a, b)
    scales = _scales("A_scale", A_scale), _scales("B_scale", B_scale)
    columns = k // _check_scales(scales, into.shape, k, A_format == B_format == _FP4)
    builder = _semantic.builder
    tables = [_narrowed(scale, columns, builder) for scale in scales]
    barriers = [single_barrier(_WORD, bar, _semantic) for bar in tcgen05.barriers_of(_WORD, mBarriers)]
    when = predicate_handle(_WORD, pred, _semantic)
    waits = not barriers and not force_async
    operands = (a.handle, b.handle, into.handle, *tables, A_format, B_format,
                tcgen05.use_acc_of(_WORD, use_acc, _semantic))
    if two_ctas:
        pairs.record_dot("tcgen05_mma_pair_scaled", operands, when, barriers, waits, _semantic)
        return
    builder.record("tcgen05_mma_scaled", *operands, when, **({"waits": True} if waits else {}))
    for barrier in barriers:
        builder.record("tcgen05_commit", barrier, when, of_dot=True)


def _operand(name: str, operand, format_: str, storages: tuple, semantic) -> buffered_tensor:
    """One buffer of that format, of rank 2."""
    if isinstance(operand, tl.tensor):
        refuse(AssertionError, f"{_WORD}: register operand is not supported on Blackwell, got {operand} as {name}",
               mend="store it with tlx.local_store first")
    buffer = one_buffer(_WORD, name, operand)
    if buffer.type.storage not in storages:
        refuse(KernelError, f"{_WORD}: {name} must lie in shared memory, got {buffer}", mend="only A may lie in tensor memory")
    if len(buffer.shape) != 2:
        refuse(AssertionError, f"{_WORD}: {name} must have rank 2, got shape {list(buffer.shape)}",
               mend="view it by tlx.local_reshape")
    if buffer.dtype not in (*_FORMATS[format_], *_BYTES):
        held = " or ".join(map(str, (*_FORMATS[format_], tl.uint8)))
        refuse(AssertionError, f"{_WORD}: {name} of format {format_!r} holds {held}, got {buffer.dtype}")
    along = 1 if name == "A" else 0
    if format_ == _FP4 and buffer.type.order[0] != along:
        how = "allocate A as (M, K / 2)" if name == "A" else "allocate B as (N, K / 2) and pass tlx.local_trans(B)"
        refuse(KernelError, f"{_WORD}: fp4 is read only contiguous along K, and dimension {buffer.type.order[0]} of {name} is the "
                            f"contiguous one", mend=how)
    return buffer


def _accumulator(acc, out_dtype) -> buffered_tensor:
    mend = "allocate it with tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)"
    if not isinstance(acc, buffered_tensor) or acc.type.storage is not storage_kind.tmem:
        refuse(KernelError, f"{_WORD}: `acc` is a buffer in tensor memory, got {acc}", mend=mend)
    acc = one_buffer(_WORD, "acc", acc)
    if acc.dtype != tl.float32 or out_dtype != tl.float32:
        refuse(AssertionError, f"{_WORD} adds up in float32, but `acc` holds {acc.dtype} and out_dtype is {out_dtype}", mend=mend)
    return acc


def _check_shapes(a, b, acc, a_format: str, b_format: str, ctas: int) -> int:
    """K, in elements. `ctas` work together: each has its rows of A and its columns of B."""
    (m, k_a), (k_b, n) = a.shape, b.shape
    k_a, k_b = k_a * (1 + (a_format == _FP4)), k_b * (1 + (b_format == _FP4))
    if k_a != k_b:
        refuse(AssertionError, f"{_WORD}: the inner dimensions differ: A is {list(a.shape)} of {a_format}, B is {list(b.shape)} of "
                               f"{b_format}, so K is {k_a} and {k_b}",
               mend="pass tlx.local_trans(B) if B is stored as (N, K); a byte holds two fp4")
    if m != _ROWS:
        refuse(AssertionError, f"{_WORD}: M must be {_ROWS}, got M = {m}",
               mend="cut A into buffers of 128 rows, and multiply each into an accumulator of its own")
    n *= ctas
    if n % 16 or not 16 <= n <= _WIDEST:
        refuse(AssertionError, f"{_WORD}: N must be a multiple of 16 between 16 and {_WIDEST}, got N = {n}" +
               (" with the columns of both CTAs" if ctas > 1 else ""),
               mend=f"cut B into buffers of at most {_WIDEST} columns, and multiply by each")
    fours = (a_format == _FP4) + (b_format == _FP4)
    step = {0: _BLOCK, 1: _PADDED_ROW, 2: 2 * _BLOCK}[fours]
    if k_a % step:
        why = ("one instruction takes 32", "fp4 beside fp8 lies in padded rows of 128", "one instruction takes 64")[fours]
        refuse(AssertionError, f"{_WORD}: K must be a multiple of {step} for {a_format} by {b_format} ({why}), got K = {k_a}")
    if acc.shape != (m, n):
        refuse(AssertionError, f"{_WORD}: `acc` must have the shape {[m, n]} of A x B, got {list(acc.shape)}",
               mend="allocate it so, or pass a tlx.subslice of as many columns")
    return k_a


def _scales(name: str, scales) -> buffered_tensor:
    buffer = one_buffer(_WORD, name, scales)
    if buffer.type.storage is storage_kind.smemCluster:
        refuse(KernelError, f"{_WORD}: {name} must lie in shared or tensor memory of this CTA, got {buffer}")
    in_tensor_memory = buffer.type.storage is storage_kind.tmem
    if buffer.dtype not in _BYTES and (in_tensor_memory or buffer.dtype != tl.float8e4nv):
        refuse(AssertionError, f"{_WORD}: {name} holds bytes (uint8), got {buffer.dtype}",
               mend="allocate scales as tl.uint8, also those that are e4m3")
    return buffer


def _narrowed(scales: buffered_tensor, columns: int, builder):
    """The table without what fills up its last column; packed ones lose that when they have been copied (`stage_scales`)."""
    rows, had = scales.shape[:2]
    if scales.type.storage is not storage_kind.tmem or had == columns:
        return scales.handle
    return builder.record("buffer_slice", scales.handle, (0, 0), (rows, columns)).results[0]


def _check_scales(scales: tuple, extents: tuple[int, int], k: int, fp4: bool) -> int:
    """Check that both tables are of one kind, and as large as the operands need; return the number of elements that have one
    scale."""
    blocks = [block for block in ((_BLOCK, _NVFP4_BLOCK) if fp4 else (_BLOCK, )) if k % block == 0]
    found = []
    for name, buffer, rows in zip(("A_scale", "B_scale"), scales, extents):
        fits = [block for block in blocks if _fits(buffer, rows, k // block)]
        fits = fits or [block for block in blocks if _fits(buffer, rows, whole_columns(k // block))]
        if not fits:
            _refuse_shape(name, buffer, rows, [k // block for block in blocks])
        found.append(fits[0])
    if found[0] != found[1]:
        refuse(AssertionError, f"{_WORD}: A_scale has one scale for {found[0]} elements, B_scale one for {found[1]}: both are e8m0 "
                               f"of 32, or both e4m3 of 16")
    for name, buffer in zip(("A_scale", "B_scale"), scales):
        if buffer.dtype == tl.float8e4nv and found[0] == _BLOCK:
            refuse(AssertionError, f"{_WORD}: {name} has one scale for 32 elements, which is e8m0 (uint8), got {buffer.dtype}")
    return found[0]


def _fits(buffer: buffered_tensor, rows: int, columns: int) -> bool:
    full = -(-rows // _ROWS) * _ROWS
    if buffer.type.storage is storage_kind.smem:
        return is_packed(buffer.shape, full, columns)
    return buffer.shape[1] == columns and buffer.shape[0] in (rows, full, max(32, rows))


def _refuse_shape(name: str, buffer: buffered_tensor, rows: int, columns: list[int]) -> None:
    """The error for scales of another shape than the product has."""
    full = -(-rows // _ROWS) * _ROWS
    wanted = " or ".join(str([max(32, rows), count]) for one in columns for count in dict.fromkeys((one, whole_columns(one))))
    if buffer.type.storage is storage_kind.tmem:
        refuse(AssertionError, f"{_WORD}: {name} in tensor memory must have the shape {wanted}, got {list(buffer.shape)}")
    packed = " or ".join(str([full // _ROWS, whole_columns(count) // 4, 32, 16]) for count in columns)
    refuse(AssertionError, f"{_WORD}: {name} in shared memory must be packed: {wanted} scales as {packed} or another form that "
                           f"tlx.tmem_copy takes, got {list(buffer.shape)}",
           mend="or store them with tlx.local_store to a table in tensor memory")
