"""fla's recurrent functions for one new token of each sequence, by `mimw.ops.linear_attention_step`, with fla's parameters.

Input: the arguments of `fused_recurrent_*` where sequences have one token. Output: (o, final states or None). For example:

    recurrent(q, k, v, g, None, None, None, 0.125, state, True)     as fla's common `FusedRecurrentFunction.apply`
    kda(q, k, v, g, beta, initial_state=pool, ssm_state_indices=indices)    states in place

More tokens stay with fla, and so does what needs a gradient: the step has none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mimw import ops

from .linear import raw_of
from .tensors import refused


def _refused(q: Tensor, k: Tensor, v: Tensor, *more: Tensor | None, beta: Tensor | None = None, **options: Any) -> str | None:
    for name, value in options.items():
        if value is not None and value is not False:
            return f"mimw's step has no {name}"
    if q.shape[1] != 1:
        return f"mimw's step takes one token of each sequence, and there are {q.shape[1]}"
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (q, k, v, beta, *more)):
        return "mimw's step has no gradient"
    if beta is not None and beta.dim() != 3:
        return "mimw's betas are a number a head, and these are one a column"
    return refused(q, k, v, alike=True) or refused(*more, beta)


def _stepped(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, scale: float | None, initial: Tensor | None,
             final: bool, turned: bool = False, normed: bool = False, **raw: Any) -> tuple[Tensor, Tensor | None]:
    """The states in memory of their own, for fla keeps the first ones."""
    sizes = v.shape[3:] + q.shape[3:] if turned else q.shape[3:] + v.shape[3:]
    if initial is None:
        state = torch.zeros((v.shape[0], v.shape[2], *sizes), device=q.device)
    else:
        state = initial.to(torch.float32, copy=True)
    return _into(q, k, v, g, beta, scale, state, None, turned, normed, **raw), state if final else None


def _into(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, scale: float | None, state: Tensor,
          indices: Tensor | None, turned: bool, normed: bool, **raw: Any) -> Tensor:
    rows = [None if one is None else one[:, 0] for one in (q, k, v, g, beta)]
    state = state.transpose(2, 3) if turned else state
    return ops.linear_attention_step(*rows[:3], state, *rows[3:], indices, scale=scale, use_qk_l2norm=normed, **raw)[:, None]


def recurrent_refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
                      gk: Tensor | None = None, gv: Tensor | None = None, scale: float | None = None,
                      initial_state: Tensor | None = None, output_final_state: bool = False, reverse: bool = False,
                      state_v_first: bool = False, cu_seqlens: Tensor | None = None) -> str | None:
    if sum(one is not None for one in (g, g_gamma, gk)) > 1:
        return "mimw's step has gates by head or by column, and these are both"
    return _refused(q, k, v, g, g_gamma, gk, initial_state, gv=gv, cu_seqlens=cu_seqlens)


def recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None, gk: Tensor | None = None,
              gv: Tensor | None = None, scale: float | None = None, initial_state: Tensor | None = None,
              output_final_state: bool = False, reverse: bool = False, state_v_first: bool = False,
              cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Of GLA, simple GLA, retention and linear attention; one token is the same from behind."""
    gates = gk if g is None else g
    if g_gamma is not None:
        gates = g_gamma.float().expand(q.shape[0], 1, -1)
    return _stepped(q, k, v, gates, None, scale, initial_state, output_final_state, state_v_first)


def delta_rule_refused(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: float, initial_state: Tensor | None,
                       output_final_state: bool, use_qk_l2norm_in_kernel: bool = False,
                       cu_seqlens: Tensor | None = None) -> str | None:
    return _refused(q, k, v, initial_state, beta=beta, cu_seqlens=cu_seqlens)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: float, initial_state: Tensor | None,
               output_final_state: bool, use_qk_l2norm_in_kernel: bool = False,
               cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    return _stepped(q, k, v, None, beta, scale, initial_state, output_final_state, False, use_qk_l2norm_in_kernel)


def gated_delta_rule_refused(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, gk: Tensor | None = None, gv: Tensor | None = None,
        beta: Tensor | None = None, A_log: Tensor | None = None, dt_bias: Tensor | None = None, scale: float | None = None,
        initial_state: Tensor | None = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, state_v_first: bool = False,
        cu_seqlens: Tensor | None = None) -> str | None:
    if g is not None and gk is not None:
        return "mimw's step has gates by head or by column, and these are both"
    return _refused(q, k, v, g, gk, A_log, dt_bias, initial_state, beta=beta, gv=gv, cu_seqlens=cu_seqlens)


def gated_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, gk: Tensor | None = None, gv: Tensor | None = None,
        beta: Tensor | None = None, A_log: Tensor | None = None, dt_bias: Tensor | None = None, scale: float | None = None,
        initial_state: Tensor | None = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, state_v_first: bool = False,
        cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    makers = dict(A_log=A_log, dt_bias=dt_bias)
    raw = raw_of(None if A_log is None else g, makers, None, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    given = q, k, v, gk if g is None else g, beta
    return _stepped(*given, scale, initial_state, output_final_state, state_v_first, use_qk_l2norm_in_kernel, **raw)


def kda_refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Tensor | None = None,
                dt_bias: Tensor | None = None, initial_state: Tensor | None = None, scale: float | None = None,
                output_final_state: bool = False, inplace_final_state: bool = True, state_v_first: bool = False,
                cu_seqlens: Tensor | None = None, ssm_state_indices: Tensor | None = None,
                num_accepted_tokens: Tensor | None = None, use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
                use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, lower_bound: float | None = None,
                out: Tensor | None = None, **kwargs: Any) -> str | None:
    if ssm_state_indices is not None and (ssm_state_indices.dim() != 1 or not inplace_final_state):
        return "mimw's step takes one index for each sequence, and writes its state in place"
    return _refused(q, k, v, g, A_log, dt_bias, initial_state, beta=beta, cu_seqlens=cu_seqlens,
                    num_accepted_tokens=num_accepted_tokens)


def kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Tensor | None = None,
        dt_bias: Tensor | None = None, initial_state: Tensor | None = None, scale: float | None = None,
        output_final_state: bool = False, inplace_final_state: bool = True, state_v_first: bool = False,
        cu_seqlens: Tensor | None = None, ssm_state_indices: Tensor | None = None,
        num_accepted_tokens: Tensor | None = None, use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, lower_bound: float | None = None,
        out: Tensor | None = None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """(out, the states), which are `initial_state` itself if they are written in place."""
    makers = dict(A_log=A_log, dt_bias=dt_bias)
    raw = raw_of(g if use_gate_in_kernel else None, makers, lower_bound, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    given = q, k, v, g, beta, scale, initial_state
    if inplace_final_state:
        o, state = _into(*given, ssm_state_indices, state_v_first, use_qk_l2norm_in_kernel, **raw), initial_state
    else:
        o, state = _stepped(*given, output_final_state, state_v_first, use_qk_l2norm_in_kernel, **raw)
    return o if out is None else out.copy_(o), state


__all__ = ["delta_rule", "delta_rule_refused", "gated_delta_rule", "gated_delta_rule_refused", "kda", "kda_refused", "recurrent",
           "recurrent_refused"]
