"""fla's chunked linear attention by `mimw.ops.linear_attention`, with fla's parameters and autograd of ours.

Input: the arguments of GLA, simple GLA, DeltaNet, Gated DeltaNet and KDA. Output: (o, final states or None). For example:

    gla(q, k, v, g, 0.125, None, True, False, None, None)               as `ChunkGLAFunction.apply` is called
    gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)    as `chunk_gated_delta_rule`

Gates that fla computes in a kernel (`use_gate_in_kernel`), and sigmoids of beta, are made in ours. States as [V, K]
(`state_v_first`) are turned on the way in and out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mimw import ops
from mimw.ops.linear_attention_kernels import against

from .tensors import refused

_TYPES = torch.bfloat16, torch.float16


def _refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, beta: Tensor | None = None, state: Tensor | None = None,
             **options: Any) -> str | None:
    """Reasons against all of them; an option that is set is one."""
    for name, value in options.items():
        if value is not None and value is not False:
            return f"mimw has no {name}"
    if beta is not None and beta.dim() != 3:
        return "mimw's betas are a number a head, and these are one a column"
    return refused(q, k, v, types=_TYPES, alike=True) or refused(g, beta, state) or next(filter(None, against(q, v)), None)


def _unsound(lacks_rate: bool | None, negative: bool) -> str | None:
    """Reasons by which a call goes on to fla, which has an error for it."""
    if lacks_rate:
        return "use_gate_in_kernel needs A_log"
    return "allow_neg_eigval needs use_beta_sigmoid_in_kernel" if negative else None


def _called(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, scale: float | None, state: Tensor | None,
            final: bool, turned: bool, cu_seqlens: Tensor | None, normed: bool = False, **raw: Any) -> tuple[Tensor, Tensor | None]:
    """`raw`: how gates and betas are made, by the names of `ops.linear_attention`."""
    state = state.transpose(2, 3) if turned and state is not None else state
    o, last = ops.linear_attention(q, k, v, g, beta, scale, state, final, cu_seqlens, normed, **raw)
    return o, last.transpose(2, 3).contiguous() if turned and last is not None else last


def gla_refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float, initial_state: Tensor | None, output_final_state: bool,
                state_v_first: bool, cu_seqlens: Tensor | None, cu_seqlens_cpu: Tensor | None) -> str | None:
    return _refused(q, k, v, g, None, initial_state)


def gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float, initial_state: Tensor | None, output_final_state: bool,
        state_v_first: bool, cu_seqlens: Tensor | None, cu_seqlens_cpu: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return _called(q, k, v, g, None, scale, initial_state, output_final_state, state_v_first, cu_seqlens)


def simple_gla_refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, g_gamma: Tensor | None, scale: float,
                       initial_state: Tensor | None, output_final_state: bool, state_v_first: bool, cu_seqlens: Tensor | None,
                       cu_seqlens_cpu: Tensor | None, chunk_size: int | None = None) -> str | None:
    return _refused(q, k, v, g, None, initial_state) or refused(g_gamma)


def simple_gla(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, g_gamma: Tensor | None, scale: float,
               initial_state: Tensor | None, output_final_state: bool, state_v_first: bool, cu_seqlens: Tensor | None,
               cu_seqlens_cpu: Tensor | None, chunk_size: int | None = None) -> tuple[Tensor, Tensor | None]:
    """g_gamma, a gate for each head and every token, has no gradient, as in fla."""
    if g_gamma is not None:
        fixed = g_gamma.detach().float().expand(*q.shape[:2], -1)
        g = fixed if g is None else g + fixed
    return _called(q, k, v, g, None, scale, initial_state, output_final_state, state_v_first, cu_seqlens)


def delta_rule_refused(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: float, initial_state: Tensor | None,
                       output_final_state: bool, use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Tensor | None = None,
                       cu_seqlens_cpu: Tensor | None = None, chunk_size: int = 64) -> str | None:
    return _refused(q, k, v, None, beta, initial_state)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: float, initial_state: Tensor | None,
               output_final_state: bool, use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Tensor | None = None,
               cu_seqlens_cpu: Tensor | None = None, chunk_size: int = 64) -> tuple[Tensor, Tensor | None]:
    return _called(q, k, v, None, beta, scale, initial_state, output_final_state, False, cu_seqlens, use_qk_l2norm_in_kernel)


def gated_delta_rule_refused(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None, initial_state: Tensor | None = None,
        output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False, state_v_first: bool = False, cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None, chunk_indices: Tensor | None = None, cp_context: Any = None,
        **kwargs: Any) -> str | None:
    known = {"use_gate_in_kernel", "A_log", "dt_bias", "chunk_size"}
    unknown = {name: value for name, value in kwargs.items() if name not in known}
    lacking = kwargs.get("use_gate_in_kernel") and kwargs.get("A_log") is None
    return _unsound(lacking, allow_neg_eigval and not use_beta_sigmoid_in_kernel) or _refused(
        q, k, v, g, beta, initial_state, cp_context=cp_context, **unknown)


def gated_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None, initial_state: Tensor | None = None,
        output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False, state_v_first: bool = False, cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None, chunk_indices: Tensor | None = None, cp_context: Any = None,
        **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    raw = raw_of(g if kwargs.get("use_gate_in_kernel") else None, kwargs, None, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    return _called(q, k, v, g, beta, scale, initial_state, output_final_state, state_v_first, cu_seqlens, use_qk_l2norm_in_kernel,
                   **raw)


def kda_refused(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None,
                initial_state: Tensor | None = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                safe_gate: bool = False, lower_bound: float | None = None, disable_recompute: bool = False,
                return_intermediate_states: bool = False, state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                cu_seqlens_cpu: Tensor | None = None, cp_context: Any = None, use_graph: bool = False,
                max_num_seqs: int | None = None, **kwargs: Any) -> str | None:
    unknown = {name: value for name, value in kwargs.items() if name not in {"A_log", "dt_bias", "chunk_size"}}
    lacking = use_gate_in_kernel and kwargs.get("A_log") is None and lower_bound is None
    return _unsound(lacking, allow_neg_eigval and not use_beta_sigmoid_in_kernel) or _refused(
        q, k, v, g, beta, initial_state, cp_context=cp_context, use_graph=use_graph,
        return_intermediate_states=return_intermediate_states, **unknown)


def kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None,
        initial_state: Tensor | None = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
        use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
        safe_gate: bool = False, lower_bound: float | None = None, disable_recompute: bool = False,
        return_intermediate_states: bool = False, state_v_first: bool = False, cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None, cp_context: Any = None, use_graph: bool = False,
        max_num_seqs: int | None = None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    raw = raw_of(g if use_gate_in_kernel else None, kwargs, lower_bound, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    return _called(q, k, v, g, beta, scale, initial_state, output_final_state, state_v_first, cu_seqlens, use_qk_l2norm_in_kernel,
                   **raw)


def raw_of(g: Tensor | None, given: dict[str, Any], bound: float | None, betas: bool, twice: bool) -> dict[str, Any]:
    """Of fla's options those of `ops.linear_attention` and its step; those of gates for raw ones, g, of which fla takes rates and
    biases of any shape."""
    made, A_log, dt_bias = {}, given.get("A_log"), given.get("dt_bias")
    if g is not None:
        made = dict(use_gate=True, A_log=None if A_log is None else A_log.view(-1),
                    dt_bias=None if dt_bias is None else dt_bias.view(g.shape[2:]), lower_bound=bound)
    return made | (dict(use_beta_sigmoid=True, allow_neg_eigval=bool(twice)) if betas else {})


__all__ = ["delta_rule", "delta_rule_refused", "gated_delta_rule", "gated_delta_rule_refused", "gla", "gla_refused", "kda",
           "kda_refused", "raw_of", "simple_gla", "simple_gla_refused"]
