"""The gradients of attention for any strides, head dims and lengths, on any GPU, in bf16, fp16 and fp32, with a window, soft cap,
sinks and ALiBi; of batches, or of sequences packed one behind the other.

Input: q, k, v and the gradient of o, and for each query the logarithm of its denominator, `lse`, and `delta`. Output: the
gradients of q, k and v. For example:

    launches(q, k, v, do, lse, delta, dq, dk, dv)                               two launches: each (kernel, grid, args, meta)
    launches(q, k, v, do, lse, delta, dq, dk, dv, packed=(cu_q, cu_k, 500, 500))    of packed sequences, q (total, heads, dim)
"""

from __future__ import annotations

from ..attention.changes import HEADS, SOFTCAP, bounds, scale_of, slopes_step
from ..contract import Contract
from ..contract.memory import strides
from ..plain_attention.nouns import Packed, Problem, Rules, Steps
from .configs import Tiles, metas, tiles_on_amd
from .kernel import key_gradients, query_gradients
from .nouns import Inputs, RowSteps, StepsForKeys, StepsForQueries

__all__ = ["Tiles", "key_gradients", "launches", "query_gradients", "tiles_on_amd"]

NUMBERS = "fp32 (batch, heads, seq_q) or (heads, seq_q)"       # the latter of packed sequences
CONTRACT = Contract(
    "q: float (batch, heads, seq_q, dim)", "k: =q (batch, kv_heads, seq_k, dim)", "v: =q (batch, kv_heads, seq_k, value_dim)",
    "do: =q (batch, heads, seq_q, value_dim)", "dq: =q (batch, heads, seq_q, dim)", "dk: =q (batch, kv_heads, seq_k, dim)",
    "dv: =q (batch, kv_heads, seq_k, value_dim)", f"lse: {NUMBERS}", f"delta: {NUMBERS}", "cu_seqlens_q?: i32 (sequences + 1)",
    "cu_seqlens_k?: i32 (sequences + 1)", "slopes?: fp32 (heads) or (batches, heads) contiguous",
    SOFTCAP, HEADS,
    "slopes is None or batches == 1 or batches == (batch if cu_seqlens_q is None else sequences) -- slopes are for all batches, or "
    "each")


def launches(q, k, v, do, lse, delta, dq, dk, dv, causal: bool = False, scale: float | None = None, exact: bool = False, *,
             packed: tuple | None = None, window: tuple[int | None, int | None] = (None, None), softcap: float | None = None,
             slopes=None, large: bool = False, chosen: tuple[Tiles, Tiles] | None = None) -> list[tuple]:
    """The two launches that compute dq, and dk and dv; each a (kernel, grid, args, meta).

    args:      q, do, dq  (batch, heads, seq_q, dim), of do value_dim, of one type of bf16, fp16 and fp32, any strides
               k, v, dk, dv   (batch, kv_heads, seq_k, dim), of v and dv value_dim; kv_heads divides heads
               lse        (batch, heads, seq_q) fp32, contiguous: what the forward gave, with the sinks
               delta      like lse: of each query the sum of o do, less the gradient of lse where it has one
               causal, scale, exact, window, softcap, slopes    as `mimw.kernels.plain_attention.arguments` had them
               packed     (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k): then arrays are (total, heads, dim), and lse and
                          delta (heads, total_q), as `mimw.kernels.plain_attention.packed_arguments` has them
               large      the chip has the shared memory of sm_90
               chosen     tiles of both launches, by default from configs.py; `tiles_on_amd` for those chips
    returns:   the launches. Rows of results that are in no sequence stay as they are; the bits are the same in every run
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    left, right = bounds(window)
    cu_q, cu_k, *longest = packed or (None, None)
    # All as (batch or 1, heads, length, dim): packed sequences are one batch, and the kernel adds where a sequence begins.
    four = [x if packed is None else x[None].swapaxes(1, 2) for x in (q, k, v, do, dq, dk, dv)]
    names = dict(zip(("q", "k", "v", "do", "dq", "dk", "dv"), four))
    of = CONTRACT.check(**names, lse=lse, delta=delta, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, slopes=slopes, softcap=softcap)
    steps = [Steps(*strides(x)) for x in four]
    batch, heads, kv_heads, seq_q, seq_k, dim, value_dim = (of.batch, of.heads, of.kv_heads, of.seq_q, of.seq_k, of.dim,
                                                            of.value_dim)
    row_steps = RowSteps(heads * seq_q, seq_q)
    if packed is not None:
        (seq_q, seq_k), batch, row_steps = longest, of.sequences, RowSteps(0, seq_q)
        steps = [one._replace(batch=0) for one in steps]
    of_queries, of_keys = metas(seq_q, seq_k, dim, value_dim, q.dtype.itemsize, large, chosen, causal, exact)
    problem = Problem(float(scale_of(scale, dim)), heads, heads // kv_heads, seq_q, seq_k)
    more = (lse, delta, Rules(left, right, softcap, None, slopes, slopes_step(slopes)),
            None if packed is None else Packed(cu_q, cu_k), row_steps, problem)
    inputs, (*of_inputs, of_dq, of_dk, of_dv) = Inputs(q, k, v, do), steps
    return [(query_gradients, (-(-seq_q // of_queries["FORM"].BM.value), batch * heads),
             (inputs, dq, *more, StepsForQueries(*of_inputs, of_dq)), of_queries),
            (key_gradients, (-(-seq_k // of_keys["FORM"].BN.value), batch * kv_heads),
             (inputs, dk, dv, *more, StepsForKeys(*of_inputs, of_dk, of_dv)), of_keys)]
