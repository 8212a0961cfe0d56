"""`mimw.ops.linear_attention`: chunked linear attention with gates and the delta rule, on batches or packed sequences.

Input: queries, keys, values, gates (logarithms of decays), weights of the delta rule, states. Output: o, and the states behind the
last rows. One family by what is given:

    o, final = linear_attention(q, k, v, g)                 GLA, g (B, T, HV, K); Mamba-2's SSD and simple GLA, g (B, T, HV)
    o, final = linear_attention(q, k, v, None, beta)        DeltaNet
    o, final = linear_attention(q, k, v, g, beta, initial_state=S, output_final_state=True)     Gated DeltaNet, Kimi delta attention
    o, _ = linear_attention(q, k, v, x, y, A_log=A, dt_bias=b, use_gate=True, use_beta_sigmoid=True)    of numbers of projections
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels.linear_attention.gates import lines

from . import linear_attention_chunks as chunks
from . import linear_attention_gates as raw
from . import linear_attention_kernels as kernels
from .chips import asked
from .contract import Contract, Extents, Result
from .norm import NORM_BACKWARD, RMS_NORM
from .notes import takes
from .operator import LOWER, Operator
from .packed import ends_of
from .planned import Planned

EPSILON = 1e-6          # of the L2 norm, as fla has it


def _sequences(of: Extents, given: dict) -> None:
    """Sets of.sequences; one state for each is demanded."""
    cu_seqlens, state = given["cu_seqlens"], given["initial_state"]
    of.sequences = of.B if cu_seqlens is None else cu_seqlens.shape[0] - 1
    CONTRACT.demand(state is None or state.shape[0] == of.sequences, lambda:
                    f"initial_state has {state.shape[0]} states, and there are {of.sequences} sequences; it must have one for each")


_LINES = ("q: float (B, T, H, K)", "k: =q (B, T, H, K)", "v: =q (B, T, HV, V)", "g?: float (B, T, HV) or (B, T, HV, K)",
          "beta?: float (B, T, HV)", "initial_state?: float (states, HV, K, V)", "cu_seqlens?: int (ends)",
          "K > 0 and V > 0 -- heads of width 0 have no state",
          "HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v",
          "cu_seqlens is None or B == 1 -- packed sequences are a batch of 1", "cu_seqlens is None or ends > 0 -- cu_seqlens has "
          "one number more than there are sequences")
CONTRACT = Contract("linear_attention", *_LINES, *lines("B, T"), "-> o: =q (B, T, HV, V)",
                    "-> final_state: fp32 (sequences, HV, K, V) if output_final_state", also=_sequences,
                    flops="4 * B * T * HV * (K * V + 32 * (K + V))")
BACKWARD = Contract("linear_attention_backward", "do: =q (B, T, HV, V)", *_LINES, "dfinal?: float (states, HV, K, V)",
                    "-> dq: =q (B, T, H, K)", "-> dk: =q (B, T, H, K)", "-> dv: =q (B, T, HV, V)", "-> dg: =g|fp32 () like g",
                    "-> dbeta: =beta|fp32 () like beta", "-> dinitial: =initial_state|fp32 () like initial_state",
                    also=_sequences)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, beta: Tensor | None = None,
                     scale: float | None = None, initial_state: Tensor | None = None, output_final_state: bool = False,
                     cu_seqlens: Tensor | None = None, use_qk_l2norm: bool = False, A_log: Tensor | None = None,
                     dt_bias: Tensor | None = None, lower_bound: float | None = None, use_gate: bool = False,
                     use_beta_sigmoid: bool = False, allow_neg_eigval: bool = False) -> tuple[Tensor, Tensor | None]:
    """(o, final states): per head of v, S <- exp(g_t) S + k_t u_t^T and o_t = scale S^T q_t, with u_t = v_t, or with beta
    u_t = beta_t (v_t - (exp(g_t) S)^T k_t).

    args:      q, k           (B, T, H, K): bf16, fp16 or fp32, any strides
               v              (B, T, HV, V) of q's type; H divides HV, and head h of v reads head h * H // HV of q and k
               g              (B, T, HV) or (B, T, HV, K), any of these types: logarithms of decays, at most 0 (larger
                              ones are computed with, and may overflow); None is no decay
               beta           (B, T, HV), any of these types: the delta rule's weights; None is no delta rule
               scale          of the outputs, by default K ** -0.5
               initial_state  (N, HV, K, V), any of these types, best fp32: the state before each sequence; None is 0. N is B,
                              or the number of packed sequences
               output_final_state   whether the states behind the last rows are wanted
               cu_seqlens     (N + 1) int32 or int64, ascending from 0 to at most T, with B = 1: sequence n has the rows
                              from cu_seqlens[n] to before cu_seqlens[n + 1], maybe none, and its own state. The host waits for
                              the numbers, once a tensor: one that a kernel of yours writes anew must come as another tensor
               use_qk_l2norm  q and k are divided by sqrt(their sum of squares + 1e-6) first, as fla has it: in fp32, on the
                              way, and for gradients as rows rounded to their type
               use_gate       g is raw, and gates are made of it on the way, as fla's kernels make them (`use_gate_in_kernel`):
                              -exp(A_log) softplus(g + dt_bias), or with a lower_bound, below 0, lower_bound sigmoid(exp(A_log)
                              (g + dt_bias)), in fp32; then g may have any sign
               A_log          (HV): logarithms of rates; None is 0
               dt_bias        (HV), or for gates of columns (HV, K); None is 0
               use_beta_sigmoid    beta is raw, and its sigmoid is the weight; with allow_neg_eigval twice that
    returns:   o (B, T, HV, V) of q's type, contiguous, 0 in rows of no sequence; the states (N, HV, K, V) in fp32, or None
    computed:  on sm_90 by `mimw.kernels.linear_attention` for bf16 and fp16, 64, 128 or 256 columns of keys and of values,
               gradients by `mimw.kernels.linear_attention_backward`; else by torch's products in fp32, chunks of 64 rows at
               once and their states one after the other
    gradients  of q, k, v, g, beta, initial_state, A_log and dt_bias, from those of o and the final states; no second derivative
    errors:    RuntimeError where shapes or devices do not fit, and for cu_seqlens that do not ascend from 0 to at most T, with the
               numbers; NotImplementedError for other types
    """
    o, final = LINEAR_ATTENTION(q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias, scale, output_final_state,
                                use_qk_l2norm, use_gate, lower_bound, use_beta_sigmoid, allow_neg_eigval)
    return o, final if output_final_state else None


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, initial_state: Tensor | None,
          cu_seqlens: Tensor | None, A_log: Tensor | None, dt_bias: Tensor | None, scale: float | None, output_final_state: bool,
          use_qk_l2norm: bool, use_gate: bool, lower_bound: float | None, use_beta_sigmoid: bool,
          allow_neg_eigval: bool) -> Callable:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    making = use_gate, lower_bound, use_beta_sigmoid, allow_neg_eigval
    by_kernels = kernels.forward_plan(of, scale, use_qk_l2norm, making) if _takes(of, q, v) else None

    def plan(*given: Tensor | None) -> tuple[Tensor, Tensor]:
        *given, state, cu_seqlens, A_log, dt_bias = given
        ends = ends_of(CONTRACT, cu_seqlens, given[0].shape[1])
        if by_kernels is not None and _some(ends):
            o, final = by_kernels(*given, None if state is None else state.float(), A_log, dt_bias, ends)
        elif _explained():
            return of.empty(given[0])
        else:
            *given, g, beta = given
            g = raw.gates(g, A_log, dt_bias, lower_bound) if use_gate else g
            beta = raw.betas(beta, allow_neg_eigval) if use_beta_sigmoid else beta
            o, final = chunks.forward(*given, g, beta, state, ends, scale, EPSILON if use_qk_l2norm else None)
        return o, final if output_final_state else of.final_state.empty(o)

    return plan


def _plan_backward(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None,
                   initial_state: Tensor | None, cu_seqlens: Tensor | None, dfinal: Tensor | None, scale: float | None) -> Callable:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    results, has_state = (of.dq, of.dk, of.dv, of.dg, of.dbeta, of.dinitial), initial_state is not None
    by_kernels = kernels.backward_plan(of, scale) if _takes(of, q, v) else None

    def plan(do: Tensor, *given: Tensor | None) -> tuple[Tensor, ...]:
        *given, state, cu_seqlens, dfinal = given
        ends = ends_of(CONTRACT, cu_seqlens, do.shape[1])
        if by_kernels is not None and _some(ends):
            state, dfinal = (None if one is None else one.float() for one in (state, dfinal))
            *found, dinitial = by_kernels(do, dfinal, *given, state, ends)
        elif _explained():
            return of.empty(do)
        else:
            *found, dinitial = chunks.backward(do, dfinal, *given, state, ends, scale)
        found.append(dinitial if has_state else None)
        return tuple(_lying(one, result, do) for one, result in zip(found, results))

    return plan


def _some(ends: tuple[int, ...] | None) -> bool:
    """True unless all packed sequences are empty."""
    return ends is None or ends[-1] > 0


def _takes(of: Extents, q: Tensor, v: Tensor) -> bool:
    """True for a call that the kernels take."""
    return takes("linear_attention", v.numel() * of.sequences == 0 and "there is nothing to compute", *kernels.against(q, v))


def _lying(found: Tensor | None, result: Result, on: Tensor) -> Tensor:
    """A gradient as its contract says; nothing of what was not given."""
    if found is not None and found.dtype is result.dtype and found.stride() == result.strides:
        return found
    return result.empty(on) if found is None else result.empty(on).copy_(found)


def _explained() -> bool:
    """Notes what torch would compute of a call that is only to be explained."""
    call = asked()
    if call is not None:
        call.steps.append("chunks of linear attention, and a loop over their states")
    return call is not None


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *given, ctx.scale, ctx.final, ctx.l2norm, ctx.gate, ctx.bound, ctx.sigmoid, ctx.twice = inputs
    ctx.save_for_backward(*given)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do: Tensor | None, dfinal: Tensor | None) -> tuple:
    q, k, v, g, beta, initial_state, cu_seqlens, A_log, dt_bias = ctx.saved_tensors
    if do is None:
        do = torch.zeros_like(v, memory_format=torch.contiguous_format)
    weight = _weight(q) if ctx.l2norm else None     # k has as many columns
    rows = [(one, RMS_NORM(one, weight, EPSILON / one.shape[-1], 1)) for one in (q, k)] if ctx.l2norm else []
    normed = [row for _, (row, _) in rows] or [q, k]
    made = raw.gates(g, A_log, dt_bias, ctx.bound) if ctx.gate else g
    weights = raw.betas(beta, ctx.twice) if ctx.sigmoid else beta
    *found, dg, dbeta, dinitial = LINEAR_ATTENTION_BACKWARD(do, *normed, v, made, weights, initial_state, cu_seqlens,
                                                            dfinal if ctx.final else None, ctx.scale)
    dA_log = dbias = None
    if ctx.gate:
        dg, dA_log, dbias = raw.gate_gradients(dg, made, g, A_log, dt_bias, ctx.bound)
    if ctx.sigmoid:
        dbeta = raw.beta_gradients(dbeta, weights, beta, ctx.twice)
    for number, (one, (_, rstd)) in enumerate(rows):
        found[number] = NORM_BACKWARD(one, found[number], weight, None, rstd, None, False, False, 1)[0]
    others = *(None if one is None else grad for one, grad in ((g, dg), (beta, dbeta), (initial_state, dinitial))),
    return *found, *others, None, dA_log, dbias


def _weight(x: Tensor) -> Tensor:
    """Of the RMS norm that divides rows by sqrt(their sum of squares + EPSILON), if its epsilon is EPSILON / columns."""
    return x.new_full((x.shape[-1], ), x.shape[-1] ** -0.5, dtype=torch.float32)


_GIVEN = "Tensor q, Tensor k, Tensor v, Tensor? g, Tensor? beta, Tensor? initial_state, Tensor? cu_seqlens"
LINEAR_ATTENTION_BACKWARD = Operator(
    f"linear_attention_backward(Tensor do, {_GIVEN}, Tensor? dfinal, float? scale=None) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", Planned(_plan_backward), BACKWARD)
LINEAR_ATTENTION = Operator(
    f"linear_attention({_GIVEN}, Tensor? A_log=None, Tensor? dt_bias=None, float? scale=None, bool output_final_state=False, "
    "bool use_qk_l2norm=False, bool use_gate=False, float? lower_bound=None, bool use_beta_sigmoid=False, "
    "bool allow_neg_eigval=False) -> (Tensor, Tensor)",
    Planned(_plan), CONTRACT, _save, _gradients, LOWER, kept=("g", "beta", "initial_state", "A_log", "dt_bias"))
