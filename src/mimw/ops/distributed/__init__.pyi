"""Written by docs/support/operator_stubs.py, from the operators' contracts: mimw.ops.distributed for type checkers and editors.

A tensor is annotated with the types and the shape that the contract gives it (mimw.kernels.contract explains the words,
mimw.ops.contract those of results); `or` stands between the lines of several contracts.
"""

from typing import Annotated, Any, Literal, overload

import torch
from torch import Tensor

from .moe_dispatch import Dispatched as Dispatched
from .moe_dispatch import Handle as Handle
from .moe_dispatch_rows import Listed as Listed

__all__ = [
    "Dispatched",
    "Handle",
    "Listed",
    "all_gather",
    "all_gather_matmul",
    "all_reduce",
    "all_reduce_",
    "all_to_all",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "moe",
    "moe_combine",
    "moe_dispatch",
    "moe_dispatch_rows",
    "moe_experts",
    "reduce_scatter",
    "ring_attention",
]

def all_gather(
    x: Annotated[Tensor, "float (rows, *rest)"],
    group: Any = None,
    symmetric: bool = False,
) -> Annotated[Tensor, "=x (rows * ranks, *rest)"]:
    """x of all ranks, one behind the other along the first extent; arguments, order and errors as `all_reduce`.

    args:      x          (M, ..)
    returns:   (ranks M, ..), contiguous
    gradients  of x: `reduce_scatter` of the gradients
    """

def all_gather_matmul(
    a: Annotated[Tensor, "bf16|fp16 (rows, k)"],
    b: Annotated[Tensor, "=a (k, n)"],
    group: Any = None,
) -> Annotated[Tensor, "=a (rows * ranks, n)"]:
    """The rows of all ranks, one under another, times b. All ranks call it.

    args:      a      (M / ranks, K), this rank's rows, the same shape at all ranks: bf16, fp16, any strides
               b      (K, N) of a's type, the same shape at all ranks, any strides; what is in it may differ by rank
               group  a process group, its name, or None for the default one
    returns:   (M, N), contiguous, sums in fp32
    computed:  on sm_90 by `mimw.kernels.all_gather_gemm`, where K and N are multiples of 8 (what TMA cannot read is copied first):
               rows come by copy engines, in CUDA graphs and in the first call for shapes by the kernel itself; else gathered by
               NCCL and multiplied by `mimw.ops.matmul`
    gradients  of both: a's by `matmul_reduce_scatter`, b's with the rows gathered once more
    order:     calls of a group follow each other, in the same order at all ranks, on one stream at a time; CUDA graphs too, at all
               ranks or at none. The first call for shapes is made outside of graphs
    errors:    RuntimeError where extents or devices do not fit; NotImplementedError for other types; RanksDisagree where shapes or
               types differ by rank, found at the first call for each; those of `mimw.distributed.World`

    contract:
        operations: 2 * rows * ranks * k * n
    """

def all_reduce(
    x: Annotated[Tensor, "float (*any)"],
    group: Any = None,
    symmetric: bool = False,
) -> Annotated[Tensor, "=x (*any)"]:
    """The sum of x over all ranks, the same at all of them to the bit. All ranks call it.

    args:      x          bf16, fp16 or fp32, any shape and strides; shape and type the same at all ranks
               group      a process group, its name, or None for the default one
               symmetric  x is contiguous in the group's symmetric heap (`mimw.distributed.symmetric_empty`), the same tensor at all
                          ranks: peers read it where it is. Then it may be written again as soon as the call is over on its stream
    returns:   of x's shape, contiguous
    computed:  by `mimw.kernels.collectives`: sums in fp32 in the order of the ranks, rounded once
    order      of a group's calls: one stream at a time, the same at all ranks; in CUDA graphs, too, if a call of each form came
               before, which makes its slots
    gradients  of x: the sum of all ranks' gradients
    errors:    NotImplementedError for other types; NotSymmetric for a tensor that is not in the heap; ValueError from 2^31 - 2^16
               numbers on; RanksDisagree where shapes, types, `symmetric` or the offsets of symmetric tensors differ by rank, on
               GPUs found at the first call for each (two tensors that all ranks have given before, and then not the same one at
               all, are not distinguished); those of `mimw.distributed.World`
    """

def all_reduce_(
    x: Annotated[Tensor, "float (*any) contiguous"],
    group: Any = None,
    symmetric: bool = False,
) -> Tensor:
    """`all_reduce` in the place of x, which is returned; x has to be contiguous, and while gradients are recorded no leaf that
    requires grad, nor a view of one (RuntimeError), and need no gradient (NotImplementedError).
    """

def all_to_all(
    x: Annotated[Tensor, "any (rows, *rest)"],
    splits: Tensor | None = None,
    *,
    max_rows: int | None = None,
    group: Any = None,
) -> Annotated[Any, "=x (rows, *rest)"]:
    """Part r of this rank's rows goes to rank r. All ranks call it.

    args:      x         (rows, ...) of any type of whole bytes, any strides. Equal parts: rows are a multiple of the ranks, and a
                         part of 16 bytes; by splits: a row is a multiple of 16 bytes
               splits    (opt) (ranks) int32 or int64 on x's device: how many rows go to rank 0, the next to rank 1 and so on; rows
                         behind the last part go nowhere
               max_rows  with splits, the most rows that any rank has, the same at all ranks; by default x's
               group     a process group, its name, or None for the default one
    returns:   without splits a tensor of x's shape and type. With splits (y, counts): y (ranks * max_rows, ...), which has room for
               all rows of all ranks, those of rank 0 first, then those of the next, without gaps; what is behind is not written;
               counts (ranks) int32: how many came from each
    computed:  by `mimw.ops.distributed.moe_dispatch`, one launch, and of splits three small ones of torch's. Nothing waits for the
               device; captures, streams, and tensors of the CPU as there
    gradients  of equal parts: `all_to_all` of the gradients. By splits there are none
    errors:    RuntimeError where extents or sizes do not fit; NotImplementedError by splits for x that requires a gradient; those
               of `moe_dispatch`

    contract:
        rows % ranks == 0 and rows * prod(rest) * x.itemsize % (16 * ranks) == 0 -- rows must be a multiple of the ranks, and a part
            of 16 bytes
    """

def matmul_all_reduce(
    a: Annotated[Tensor, "bf16|fp16 (rows, k)"],
    b: Annotated[Tensor, "=a (k, n)"],
    group: Any = None,
) -> Annotated[Tensor, "=a (rows, n)"]:
    """The sum over all ranks of a b, at all of them the same to the bit; as `matmul_reduce_scatter`, but for any M.

    returns:   (M, N), contiguous
    gradients  none: which sum is meant by it depends on what follows at the ranks

    contract:
        operations: 2 * rows * k * n
    """

def matmul_reduce_scatter(
    a: Annotated[Tensor, "bf16|fp16 (rows, k)"],
    b: Annotated[Tensor, "=a (k, n)"],
    group: Any = None,
) -> Annotated[Tensor, "=a (rows // ranks, n)"]:
    """This rank's rows of the sum over all ranks of a b. All ranks call it.

    args:      a      (M, K), the same shape at all ranks, M a multiple of the number of ranks: bf16, fp16, any strides
               b      (K, N) of a's type, the same shape at all ranks, any strides
               group  a process group, its name, or None for the default one
    returns:   (M / ranks, N), contiguous; rank r has the rows from r M / ranks on
    computed:  on sm_90 by `mimw.kernels.gemm_reduce_scatter`, where K and N are multiples of 8 (what TMA cannot read is copied
               first), with copy engines that carry the sums, if they are many, also in CUDA graphs; else by `mimw.ops.matmul` and
               NCCL
    order:     sums of the kernel are in fp32, the own product's first, then those of the next ranks, each rounded to a's type on
               its way: so the same each time, to the bit. Of calls as `all_gather_matmul`
    gradients  of both: a's by `all_gather_matmul`
    errors:    as `all_gather_matmul`

    contract:
        rows % ranks == 0 -- the rows of a cannot be scattered over the ranks: they must be a multiple of them
        operations: 2 * rows * k * n
    """

def moe(
    x: Annotated[Tensor, "float (tokens, hidden)"],
    w_gate_up: Tensor,
    w_down: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    *,
    w_gate_up_scale: Tensor | None = None,
    w_down_scale: Tensor | None = None,
    max_tokens: int | None = None,
    micro_batches: int = 1,
    group: Any = None,
) -> Tensor:
    """out[t] = sum over j of expert_weights[t, j] w_down[e] (silu(gate) up), where e = expert_ids[t, j] and gate and up are the
    halves of w_gate_up[e] x[t]; rank r has the experts r num_experts / ranks and on. All ranks call it.

    args:      x               (tokens, hidden): bf16, fp16 or fp32; another number of tokens at each rank is allowed
               w_gate_up       (experts / ranks, 2 inner, hidden) of x's type: those of this rank, gates first
               w_down          (experts / ranks, hidden, inner) of x's type
                               Or both fp8, e4m3 or e5m2, inner a multiple of 128, with scales:
               w_gate_up_scale, w_down_scale   fp32, what each 128 x 128 of them counts: (experts / ranks, 2 inner / 128,
                               cdiv(hidden, 128)) and (experts / ranks, cdiv(hidden, 128), inner / 128). Tokens are then quantised
                               to the matrices' type, with a scale for each 128 numbers, before they go to other ranks: half the
                               bytes. So are inner rows. What comes back is of x's type
               expert_ids      (tokens, k), int32 or int64, numbers of all ranks' experts; others, as -1, are no choice
               expert_weights  (tokens, k): bf16, fp16 or fp32
               max_tokens      the most that any rank has, the same at all ranks; by default x's
               micro_batches   in how many parts tokens are taken, the first max_tokens / micro_batches of each rank's and so on,
                               the same number at all ranks. While the experts compute one part, the next one comes and the one
                               before goes back, by a stream of its own (`moe_overlap`). Each part reads all matrices, and fills
                               up blocks of its own: it pays where an expert has several blocks of rows in a part
               group           a process group, its name, or None for the default one
    returns:   (tokens, hidden) of x's type; the same bits every time, in the order of sums that `moe_combine` says, on sm_90 also
               with another number of micro-batches
    computed:  for each choice that a rank may get, ranks * max_tokens * k in all, there is room of 2 hidden + inner
               elements, and as much to fill up the rows of each expert to blocks of 16 to 128; products are computed of the blocks
               that are there. Nothing waits for the device, so a call can be captured
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs

    contract:
        -> rows: dtype (tokens, hidden)
        -> scales: fp32 (tokens, cdiv(hidden, 512) * 4)
    """

def moe_combine(
    y: Annotated[Tensor, "float (rows, hidden)"],
    handle: Handle,
    weights: Annotated[Tensor | None, "float (tokens, k) or (ranks, most, k)"] = None,
    group: Any = None,
    programs: int = 0,
) -> Annotated[Tensor, "=y (tokens, hidden)"]:
    """out[t] = the sum over j of weights[t, j] times the row of y that choice j of token t has become. All ranks call it.

    args:      y        (rows, hidden), at least as many rows as `moe_dispatch` gave: bf16, fp16 or fp32. What is no token's is not
                        read
               handle   of that call
               weights  (opt) (tokens, k) of this rank's tokens: bf16, fp16 or fp32, which are sent to all ranks before any row,
                        5 to 8 us. By default the handle's, which came with the tokens; the same choice at all ranks
               group    that of the dispatch
               programs multiprocessors that the launch has, the same at all ranks, 0 for all, as with `moe_dispatch`
    returns:   (tokens, hidden) of y's type. A rank adds up its experts' rows of a token in fp32, in the order of j; sums of other
               ranks are rounded to y's type on their way, and added in fp32, those of the own rank first, then those of the next
               one and so on. So the same numbers give the same bits every time. A token without a choice gets 0
    computed:  on sm_90 in one launch of `mimw.kernels.moe_combine`. Over the link goes one row for each token and rank that has
               experts of it. Captures, streams, and tensors of the CPU as with `moe_dispatch`
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs; ValueError
               without weights, here or in the handle

    contract:
        tokens <= most -- there are no more tokens than moe_dispatch was given
        rows >= ranks * most * k -- y has a row for each that moe_dispatch gave
        num_experts % ranks == 0 -- experts must be a multiple of the ranks
    """

def moe_dispatch(
    x: Annotated[Tensor, "any (tokens, columns)"],
    expert_ids: Annotated[Tensor, "int (tokens, k)"],
    num_experts: int,
    *,
    max_tokens: int | None = None,
    scale: Annotated[Tensor | None, "any (tokens, scales)"] = None,
    block: int = 1,
    group: Any = None,
    programs: int = 0,
    weights: Annotated[Tensor | None, "float (tokens, k)"] = None,
) -> Dispatched:
    """Each token's row to the ranks of its experts: rank r has the experts r num_experts / ranks and on. All ranks call it.

    args:      x            (tokens, hidden) of any type of whole bytes, any strides; a row is a multiple of 16 bytes. The tokens
                            may be another number at each rank, also none
               expert_ids   (tokens, k), int32 or int64, as torch.topk gives them. What is no expert's number, as -1, is no choice;
                            a token may have an expert twice, and gets two rows
               num_experts  of all ranks, a multiple of the ranks, at most 4096
               max_tokens   the most that any rank has, the same at all ranks and for each call: it says how large the results are.
                            By default x's, which then is the same number at all ranks
               scale        (opt) (tokens, columns), what goes with each row, as the scales of fp8 rows; a multiple of 16 bytes
               block        the rows of each expert are filled up to a multiple of so many, as tiles of products want them
               group        a process group, its name, or None for the default one
               programs     multiprocessors that the launch has, the same at all ranks, 0 for all: others may have products beside
                            it. All of its programs have to find room at one time
               weights      (opt) (tokens, k), bf16, fp16 or fp32: of this rank's choices, sent to all ranks beside them
    returns:   rows    (ranks * max_tokens * k, hidden) of x's type: the rows for this rank's experts, by expert, then by rank, then
                       by token. There is room for every choice of every rank, and for what fills up, in whole blocks; the latter,
                       and what is behind the last row, is not written
               ends    (num_experts / ranks) int32: the row behind each expert's last block, as `grouped_matmul` takes them
               scale   as rows, or None
               handle  for `moe_combine`; with weights it has those of all ranks, 0 where a rank has no token
    computed:  on sm_90 in one launch of `mimw.kernels.moe_dispatch`: a row goes once to each rank that has experts of it, and is
               copied there. Nothing waits for the device, so a call can be captured; the first one of its kind makes symmetric
               memory of (ranks - 1) max_tokens rows, twice if they are few, outside of a capture. Calls of a group follow each
               other on one stream. Tensors of the CPU are simulated
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs; those of
               `mimw.distributed.World.symmetric`

    contract:
        block >= 1 -- blocks have one row at least
        tokens <= max_tokens -- there are more tokens than max_tokens
        1 <= num_experts <= 4096 and num_experts % ranks == 0 -- experts must be a multiple of the ranks, and 4096 at most
        columns > 0 and columns * x.itemsize % 16 == 0 -- a row must be a multiple of 16 bytes: pad the columns
        scale is None or scales > 0 and scales * scale.itemsize % 16 == 0 -- the scales of a row must be a multiple of 16 bytes: pad
            them
        -> rows: =x (room, columns)
        -> ends: i32 (num_experts // ranks)
        -> places: i32 (ranks, max_tokens, k)
        -> scales: =scale|=x (room, scales) if scale
        -> all_weights: fp32 (ranks, max_tokens, k)
    """

def moe_dispatch_rows(
    x: Annotated[Tensor, "any (tokens, columns)"],
    expert_ids: Annotated[Tensor, "int (tokens, k)"],
    num_experts: int,
    *,
    max_tokens: int | None = None,
    scale: Annotated[Tensor | None, "any (tokens, scales)"] = None,
    block: int = 1,
    group: Any = None,
    weights: Annotated[Tensor | None, "float (tokens, k)"] = None,
) -> Listed:
    """As `moe_dispatch`, but a row lies once at each rank that has experts of it, and the experts read it by its number. All ranks
    call it.

    args:      x, expert_ids, num_experts, max_tokens, scale, block, group, weights     as `moe_dispatch`, with numbers for rows
    returns:   rows     (ranks * max_tokens, hidden) of x's type: row r max_tokens + t is token t of rank r, if one of its experts
                        is here. On a GPU this is the memory that peers write to: valid until this rank calls the operator again
                        with as many tokens, choices and experts and rows as long
               scale    as rows, or None
               sources  int32, as `mimw.kernels.moe_dispatch.listed` says how many: the numbers of rows by expert, then by rank,
                        then by token; in what fills up a list, ranks * max_tokens. Behind the last list nothing is written
               ends     (num_experts / ranks) int32: where the list of each expert ends, filled up
               handle   for `moe_combine`, whose y has as many rows as `sources` numbers, in that order
    computed:  on sm_90 in one launch of `mimw.kernels.moe_dispatch.rows_kernel`, with symmetric memory of ranks * max_tokens
               rows, twice if they are few: results of calls that follow each other then lie in either half in turn; else as
               `moe_dispatch`
    gradients  none
    errors:    those of `moe_dispatch`

    contract:
        block >= 1 -- blocks have one row at least
        tokens <= max_tokens -- there are more tokens than max_tokens
        1 <= num_experts <= 4096 and num_experts % ranks == 0 -- experts must be a multiple of the ranks, and 4096 at most
        columns > 0 and columns * x.itemsize % 16 == 0 -- a row must be a multiple of 16 bytes: pad the columns
        scale is None or scales > 0 and scales * scale.itemsize % 16 == 0 -- the scales of a row must be a multiple of 16 bytes: pad
            them
        -> rows: =x (ranks * max_tokens, columns)
        -> sources: i32 (cdiv(ranks * max_tokens * k + (block - 1) * (num_experts // ranks), block) * block)
        -> ends: i32 (num_experts // ranks)
        -> places: i32 (ranks, max_tokens, k)
        -> scales: =scale|=x (ranks * max_tokens, scales) if scale
        -> all_weights: fp32 (ranks, max_tokens, k)
    """

def moe_experts(
    rows: Annotated[Tensor, "fp8 (places, hidden) or float (held, hidden)"],
    ends: Annotated[Tensor, "i32 (experts)"],
    w_gate_up: Annotated[Tensor, "fp8 (experts, 2 * inner, hidden) or =rows (experts, 2 * inner, hidden)"],
    w_down: Annotated[Tensor, "fp8 (experts, hidden, inner) or =rows (experts, hidden, inner)"],
    block: int,
    sources: Annotated[Tensor | None, "i32 (listed)"] = None,
    *,
    scale: Annotated[Tensor | None, "fp32 (places, scales)"] = None,
    w_gate_up_scale: Annotated[Tensor | None, "fp32 (experts, 2 * inner // 128, cdiv(hidden, 128))"] = None,
    w_down_scale: Annotated[Tensor | None, "fp32 (experts, cdiv(hidden, 128), inner // 128)"] = None,
    dtype: Literal["bfloat16", "float16", "float32"] = torch.bfloat16,
    programs: int = 0,
) -> Annotated[Tensor, "dtype (places, hidden) or =rows (held if sources is None else listed, hidden)"]:
    """y[i] = w_down[e] (silu(gate) up), where e is the expert of row i, and gate and up are the halves of w_gate_up[e] times row i,
    which is rows[i], or rows[sources[i]].

    args:      rows, ends      of `moe_dispatch`, or of `moe_dispatch_rows` with its sources: bf16, fp16 or fp32
               w_gate_up       (experts of this rank, 2 inner, hidden) of rows' type, gates first
               w_down          (experts of this rank, hidden, inner) of rows' type
               block           that of the dispatch: 16, 32, 64 or 128, with sources 128; as `block_of` says
                               Or rows and matrices of one fp8 type, e4m3 or e5m2, without sources, inner a multiple of 128, with
               scale           fp32, what each 128 numbers of a row count: (rows, cdiv(hidden, 128)), or more columns, which are of
                               no use: as they came with the rows
               w_gate_up_scale, w_down_scale   fp32, any strides: (experts, 2 inner / 128, cdiv(hidden, 128)) and (experts,
                               cdiv(hidden, 128), inner / 128)
               dtype           of the result where there are scales: bf16, fp16 or fp32
               programs        multiprocessors that the products may have, 0 for all: others may have a launch beside them
    returns:   (as many as rows, or as sources; hidden) of rows' type, or of `dtype`. What is behind the last block, or only fills
               one up, is of no use
    computed:  on sm_90 by the two products of `mimw.kernels.moe`, where TMA can read the matrices: gate and up are never written.
               Threads copy rows by number to where the tensor cores read them, which costs the first product 17 %, more than
               copying the rows before does: sources are for rows that cannot be copied. With scales a launch before turns those of
               the rows around, one between the products quantises gate times up, 128 numbers a scale; sums of 128 of K are scaled
               and added in fp32. A row's bits depend on that row alone, not on block or programs. Else, and for fp32 while
               torch.get_float32_matmul_precision() is "highest", by `grouped_matmul`. Nothing waits for the device
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types

    contract:
        w_gate_up.dtype == w_down.dtype -- with scales both are of one fp8 type
        inner % 128 == 0 -- with scales inner must be a multiple of 128
        rows.dtype == w_down.dtype -- with scales rows are of the matrices' type
        scales >= cdiv(hidden, 128) -- there must be a scale for each 128 numbers of a row
        block in (16, 32, 64, 128) and places % block == 0 -- rows must be whole blocks of 16, 32, 64, 128 rows
        block in (16, 32, 64, 128) and (sources is None or block == 128) and (held if sources is None else listed) % block == 0 --
            rows must be whole blocks of 16, 32, 64, 128 rows, with sources 128
    """

def reduce_scatter(
    x: Annotated[Tensor, "float (rows, *rest)"],
    group: Any = None,
    symmetric: bool = False,
) -> Annotated[Tensor, "=x (rows // ranks, *rest)"]:
    """This rank's part of the sum of x over all ranks; arguments, order and errors as `all_reduce`.

    args:      x          (M, ..), M a multiple of the number of ranks, or RuntimeError
    returns:   (M / ranks, ..), contiguous; rank r has the sum of the rows from r M / ranks on
    gradients  of x: `all_gather` of the gradients

    contract:
        rows % ranks == 0 -- rows must be a multiple of the ranks
    """

@overload
def ring_attention(
    q: Annotated[Tensor, "bf16|fp16 (batch, heads, length, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    causal: bool = False,
    balanced: bool = True,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    *,
    room: int | None = None,
    group: Any = None,
) -> Tensor: ...

@overload
def ring_attention(
    q: Annotated[Tensor, "bf16|fp16 (batch, heads, length, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    causal: bool = False,
    balanced: bool = True,
    scale: float | None = None,
    *,
    return_lse: Literal[True],
    room: int | None = None,
    group: Any = None,
) -> tuple[Tensor, Tensor]: ...

@overload
def ring_attention(
    q: Annotated[Tensor, "bf16|fp16 (batch, heads, length, dim)"],
    k: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    v: Annotated[Tensor, "=q (batch, kv_heads, length, dim)"],
    causal: bool = False,
    balanced: bool = True,
    scale: float | None = None,
    return_lse: bool = False,
    *,
    room: int | None = None,
    group: Any = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v with fp32 scores and sums, of this rank's queries on the keys of all ranks.

    args:      q           (batch, heads, length, dim) of bf16 or fp16, dim 64 or 128: the rows of the sequence that this rank
                           holds, as many at every rank
               k, v        (batch, kv_heads, length, dim) of q's type; kv_heads divides heads, and head h reads kv head
                           h * kv_heads // heads
               causal      a query sees the keys up to its own position in the whole sequence
               balanced    which rows of a causal sequence these are: of 2 N equal chunks rank r has number r, then number
                           2 N - 1 - r, so that all ranks have the same work; length is a multiple of 256. If not, of N chunks
                           number r: the last rank has most to do, and all wait for it; length is a multiple of 128. `positions`
                           says which rows. Without a mask it does not matter which they are
               scale       of the scores, more than 0, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
               room        bytes that keys and values of all ranks may take at a rank, by default all that there are: 2 * batch *
                           kv_heads * length * N * dim numbers. With less, some kv heads are computed at a time, one at least
               group       a process group, its name, or a `mimw.distributed.World`; by default the default group
    returns:   o, like q, contiguous; with lse, fp32 (batch, heads, length)
    orders     all ranks call it in one order, with the same shapes and options, and on one stream each; the first call of a shape
               outside of CUDA graphs
    memory     symmetric: what `room` says, and for gradients as much again; kept for later calls
    gradients  of q, k and v, from those of o and lse; no second derivative. Sums over a rank's queries are fp32, go to the rank
               that has the key rounded to q's type, and are there added in fp32 in the order of ranks. dQ's last bits differ from
               run to run, as `mimw.ops.attention`'s
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types, or a GPU that
               is not sm_90; RanksDisagree where shapes, types or options differ by rank, on GPUs found at the first call for
               each; those of `mimw.distributed.World.symmetric`

    contract:
        min(batch, heads, kv_heads, length, dim) > 0 -- there is nothing to compute
        kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q
        dim in (64, 128) -- the head dim may be 64 or 128
        -> o: =q (batch, heads, length, dim)
        -> lse: fp32 (batch, heads, length)
        operations: 4 * batch * heads * length * length * dim
    """
