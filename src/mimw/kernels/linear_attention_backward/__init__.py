"""The gradients of chunked linear attention: gated (GLA), DeltaNet, Gated DeltaNet, Kimi delta attention, Mamba-2's SSD; any GPU,
any head dims, bf16, fp16 and fp32, batches or packed sequences.

Input: what the forward was given, what it keeps or computes anew (P, T, N, the states before each chunk), and the gradients of o and of
the final states. Output: gradients of q, k, v, g, beta and the initial states. For example:

    for kernel, grid, args, meta in launches(given, ready, results, D, spans, dfinal, dinitial):
        kernel[grid](*args, **meta)

**Derivation.** Of a chunk, with b the sum of the gate, E = diag(e^b), F = diag(e^(b_C - b)), and e^(b_i - b_j) inside of P and A:

    A = stril(beta K K^T), T = (I + A)^-1 diag(beta), R = V - E K S, N = T R        N = V without the delta rule
    O = scale (E Q S + P N), S' = e^b_C S + (F K)^T N

Given dO and D, the gradient of S', the recurrence (`states`) has

    dN = scale P^T dO + F K D,  dR = T^T dN,  dV = dR
    dS = e^b_C D + scale (E Q)^T dO - (E K)^T dR

and then every chunk by itself (`gradients`), as N = T R is (I + A) N = beta R, whence beta dA = -stril(dR N^T) with dR as above:

    dP = scale tril(dO N^T)
    dQ_i = sum_j dP_ij K_j e^(b_i - b_j) + scale (E dO S^T)_i
    dK = up + down + end:   up_i = sum_j (beta dA)_ij K_j e^(b_i - b_j) - (E dR S^T)_i          where k stands with e^b
                            down_j = sum_i (dP_ij Q_i + (beta dA)_ij K_i) e^(b_i - b_j)         where it stands with e^-b
                            end = F N D^T
    dbeta_i = dR_i N_i / beta_i^2                                                               (`beta`)

b stands wherever q and k do, so db = q dq + k (up - down - end), of a gate a head the sum over columns, and at the last row also the sum
of k end over rows plus e^b_C (S D), the sum over values; dg_t is the sum of db from t to the chunk's end.
"""

from __future__ import annotations

from ..powers import tile
from .gradients import gradients
from .nouns import BY_HEAD, BY_KEY, NO_GATE, Form, Given, Problem, Ready, Results
from .prepare import prepare
from .states import state_gradients

__all__ = ["Given", "Ready", "Results", "form_of", "gradients", "launches", "prepare", "state_gradients"]


def form_of(q, v, g, beta, exact: bool = False) -> Form:
    """The constants of tensors (B, T, heads, dim)."""
    K, V = q.shape[3], v.shape[3]
    gate = NO_GATE if g is None else BY_HEAD if len(g.shape) == 3 else BY_KEY
    return Form(K, V, tile(K), min(64, tile(V)), gate.value, beta is not None, v.shape[2] // q.shape[2], "bfloat16" in str(q.dtype), exact)


def launches(given: Given, ready: Ready, results: Results, D, spans, dfinal=None, dinitial=None, scale: float | None = None,
             exact: bool = False) -> list[tuple]:
    """The launches that fill `results`, `dinitial`, D and, with a gate by column, `ready`; each a (kernel, grid, args, meta).

    args:      given, ready, results     see nouns.py; what a form lacks is None. dg, dbeta of any float type
               D          (chunks, HV, V, K) of the type of q: the gradient of the state behind each chunk
               spans      (sequences, 8) int32, the table of whole sequences
               dfinal, dinitial    (sequences, HV, K, V), fp32, or None
               exact      products of fp32 as fp32 has them; else as tf32
    """
    q, v, g = given.q, given.v, given.g
    form = form_of(q, v, g, given.beta, exact)
    problem = Problem(float(q.shape[3]**-0.5 if scale is None else scale), q.shape[1], q.shape[2])
    heads, chunks = v.shape[2], given.table.shape[0]
    meta = dict(FORM=form, num_warps=8 if form.K_TILE.value > 64 else 4, num_stages=1)
    first = [(prepare, (chunks, heads), (given, ready, problem), meta)] if form.GATE.value == BY_KEY.value else []
    return [*first, (state_gradients, (spans.shape[0] * heads, -(-v.shape[3] // form.BV.value)),
                     (given, ready, D, results.dv, dfinal, dinitial, spans, problem), meta),
            (gradients, (chunks, q.shape[2]), (given, D, results, problem), meta)]
