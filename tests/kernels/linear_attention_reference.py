"""What kernels and operators of linear attention compute: the recurrence in fp64, its gradients, the chunked form by its parts.

Input: torch tensors or numpy arrays of any type, [B, T, H, D]. Output: torch tensors of fp64, where v is. For example:

    given = draw(0, T=100, gates="key", delta=True)         a dict of q, k, v, g, beta, initial_state, cu_seqlens (fp32, or None)
    o, final = recurrence(**given)                          token by token: what counts
    parts = chunked(**given)                                parts.b, parts.T, parts.W, ..., parts.states, parts.o, parts.final
    found = gradients(do, dfinal, **given)                  {"q": dq, ..., "initial_state": ...}, by autograd of the recurrence

Per head with the state S [K, V]: S' = exp(g_t) * S; u_t = v_t, or beta_t (v_t - S'^T k_t) with beta; S = S' + k_t u_t^T;
o_t = scale * S^T q_t. v, g, beta and states may have HV = a multiple of H heads: their head h reads head h // (HV / H) of q and k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-6          # of the L2 norm: x / sqrt(sum of x x + EPSILON), as fla has it


@dataclass(frozen=True)
class Chunks:
    """The parts of the chunked form in fp64. A chunk has C rows, the last one of a sequence maybe fewer; every sequence begins one.

    args:      b       the sum of g from the chunk's first row to this one: [B, T, HV] or [B, T, HV, K]; zeros [B, T, HV] without g
               P       [B, T, HV, C]: row i of its chunk has (q_i e^(b_i - b_j)) . k_j at columns j <= i, else 0; no scale in it
               A       [B, T, HV, C]: beta_i (k_i e^(b_i - b_j)) . k_j at columns j < i, else 0; None without beta
               inverse [B, T, HV, C]: the rows of (I + A)^-1
               T       [B, T, HV, C]: the rows of (I + A)^-1 diag(beta)
               W, U    [B, T, HV, K] and [B, T, HV, V]: T (K e^b), T V
               N       [B, T, HV, V]: U - W S with delta, v without
               states  [B, NT, HV, K, V]: S before each chunk, NT chunks over all sequences, in order
               o, final    [B, T, HV, V] and [N, HV, K, V]
    """

    b: Tensor
    P: Tensor
    A: Tensor | None
    inverse: Tensor | None
    T: Tensor | None
    W: Tensor | None
    U: Tensor | None
    N: Tensor
    states: Tensor
    o: Tensor
    final: Tensor


def recurrence(q, k, v, g=None, beta=None, scale=None, initial_state=None, cu_seqlens=None,
               use_qk_l2norm=False) -> tuple[Tensor, Tensor]:
    """(o [B, T, HV, V], the final states [N, HV, K, V]) in fp64, token by token; autograd goes through it."""
    q, k, v, g, beta, S, scale, spans = _ready(q, k, v, g, beta, scale, initial_state, cu_seqlens, use_qk_l2norm)
    outs, finals = [], []
    for row, (batch, begin, end) in enumerate(spans):
        state = S[row]
        for t in range(begin, end):
            if g is not None:
                state = _by_key(g[batch, t].exp())[..., None] * state
            u = v[batch, t]
            if beta is not None:
                u = beta[batch, t][:, None] * (u - torch.einsum("hkv,hk->hv", state, k[batch, t]))
            state = state + k[batch, t][..., None] * u[:, None]
            outs.append(scale * torch.einsum("hkv,hk->hv", state, q[batch, t]))
        finals.append(state)
    o = torch.stack(outs) if outs else v.new_zeros(0, *v.shape[2:])
    return o.reshape(v.shape), torch.stack(finals) if finals else S


def gates_of_raw(g, A_log=None, dt_bias=None, bound=None) -> Tensor:
    """Logarithms of gates [B, T, HV] or [B, T, HV, K] in fp64, of raw ones: -e^A_log softplus(g + dt_bias), or with a bound
    bound sigmoid(e^A_log (g + dt_bias))."""
    x = _double(g) if dt_bias is None else _double(g) + _double(dt_bias)
    rate = 1.0 if A_log is None else _double(A_log).exp().reshape(-1, *[1] * (g.ndim - 3))
    return -rate * torch.logaddexp(x, torch.zeros_like(x)) if bound is None else bound * torch.sigmoid(rate * x)


def gradients(do, dfinal=None, **given: Any) -> dict[str, Tensor]:
    """Of every floating tensor among the arguments of `recurrence`, by its name, in fp64: of the sum of do o + dfinal final."""
    leaves = {name: _double(one).clone().requires_grad_() for name, one in given.items()
              if name in ("q", "k", "v", "g", "beta", "initial_state") and one is not None}
    o, final = recurrence(**{**given, **leaves})
    total = (o * _double(do)).sum() + (0 if dfinal is None else (final * _double(dfinal)).sum())
    total = total + sum(0 * leaf.sum() for leaf in leaves.values())         # without rows it comes of none of them
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(leaf) if one is None else one for (name, leaf), one in zip(leaves.items(), found)}


def chunked(q, k, v, g=None, beta=None, scale=None, initial_state=None, cu_seqlens=None, use_qk_l2norm=False, C=64) -> Chunks:
    """The same by chunks of C rows, each part by its definition, so without the care that fp32 needs."""
    q, k, v, g, beta, S, scale, spans = _ready(q, k, v, g, beta, scale, initial_state, cu_seqlens, use_qk_l2norm)
    by_rows = {name: [] for name in ("b", "P", "A", "inverse", "T", "W", "U", "N", "o")}
    states, finals = [[] for _ in range(v.shape[0])], []
    for row, (batch, begin, end) in enumerate(spans):
        state = S[row]
        for at in range(begin, end, C):
            rows = slice(at, min(at + C, end))
            part = [None if one is None else one[batch, rows].transpose(0, 1) for one in (q, k, v, g, beta)]
            states[batch].append(state)
            found, state = _chunk(*part, state, scale, C)
            for name, one in found.items():
                by_rows[name].append(one.transpose(0, 1))
        finals.append(state)
    parts = {name: torch.cat(rows).reshape(*v.shape[:2], *rows[0].shape[1:]) if rows else None for name, rows in by_rows.items()}
    return Chunks(**parts, states=torch.stack([torch.stack(one) for one in states]), final=torch.stack(finals))


def _chunk(q, k, v, g, beta, S, scale, C) -> tuple[dict[str, Tensor], Tensor]:
    """(the parts of one chunk, by head and row, the state behind it)."""
    L = v.shape[1]
    b = v.new_zeros(v.shape[:2]) if g is None else g.cumsum(1)
    by_key = b if b.dim() == 3 else b[..., None]
    tril = torch.ones(L, L, dtype=torch.bool, device=v.device).tril()
    between = torch.where(tril[..., None], by_key[:, :, None] - by_key[:, None], -torch.inf).exp()      # (HV, L, L, K or 1)
    P = (q[:, :, None] * between * k[:, None]).sum(-1)
    found = {"b": b, "P": P, "N": v}
    if beta is not None:
        A = beta[..., None] * (k[:, :, None] * between * k[:, None]).sum(-1).tril(-1)
        one = torch.eye(L, dtype=A.dtype, device=A.device)
        inverse = torch.linalg.solve_triangular(A + one, one.expand_as(A), upper=False, unitriangular=True)
        T = inverse * beta[:, None]
        W, U = T @ (k * by_key.exp()), T @ v
        found |= {"A": A, "inverse": inverse, "T": T, "W": W, "U": U, "N": U - W @ S}
    found["o"] = scale * ((q * by_key.exp()) @ S + P @ found["N"])
    last = by_key[:, -1:]
    S = last.exp().transpose(1, 2) * S + (k * (last - by_key).exp()).transpose(1, 2) @ found["N"]
    for name in {"P", "A", "inverse", "T"} & set(found):
        found[name] = torch.nn.functional.pad(found[name], (0, C - L))
    return found, S


def draw(seed: int, B: int = 1, T: int = 100, H: int = 2, HV: int | None = None, K: int = 64, V: int = 64, gates: str = "none",
         delta: bool = False, decay: tuple[float, float] = (-0.2, 0.0), cu_seqlens: list[int] | None = None,
         state: bool = True) -> dict[str, Any]:
    """Random arguments of `recurrence` in fp32. gates: "none", "head" ([B, T, HV]) or "key" ([B, T, HV, K]), each between the two
    numbers of `decay`; near 1 is (-1e-3, 0), near 0 (-60, -20). With delta keys have length 1, as every model has them: longer ones
    make states grow without bound. cu_seqlens is int32, as numbers from 0 to T, and B is 1 with it."""
    drawn, HV = torch.Generator().manual_seed(seed), HV or H
    normal = lambda *shape: torch.randn(shape, generator=drawn)                         # noqa: E731
    q, k, v = normal(B, T, H, K), normal(B, T, H, K), normal(B, T, HV, V)
    k = torch.nn.functional.normalize(k, dim=-1) if delta else k * K ** -0.5
    shape = {"none": None, "head": (B, T, HV), "key": (B, T, HV, K)}[gates]
    g = None if shape is None else decay[0] + (decay[1] - decay[0]) * torch.rand(shape, generator=drawn)
    return {"q": q, "k": k, "v": v, "g": g, "beta": torch.rand((B, T, HV), generator=drawn) if delta else None,
            "initial_state": normal(B if cu_seqlens is None else len(cu_seqlens) - 1, HV, K, V) if state else None,
            "cu_seqlens": None if cu_seqlens is None else torch.tensor(cu_seqlens, dtype=torch.int32)}


def _ready(q, k, v, g, beta, scale, initial_state, cu_seqlens, use_qk_l2norm):
    """All in fp64 with HV heads, the states, the scale, and (batch, begin, end) of each sequence."""
    q, k, v, g, beta, S = (None if one is None else _double(one) for one in (q, k, v, g, beta, initial_state))
    if use_qk_l2norm:
        q, k = (one * (one.square().sum(-1, keepdim=True) + EPSILON).rsqrt() for one in (q, k))
    q, k = (one.repeat_interleave(v.shape[2] // one.shape[2], 2) for one in (q, k))
    if cu_seqlens is None:
        spans = [(batch, 0, v.shape[1]) for batch in range(v.shape[0])]
    else:
        ends = [int(one) for one in cu_seqlens]
        spans = [(0, *pair) for pair in zip(ends, ends[1:])]
    if S is None:
        S = v.new_zeros(len(spans), v.shape[2], q.shape[-1], v.shape[-1])
    return q, k, v, g, beta, S, q.shape[-1] ** -0.5 if scale is None else scale, spans


def _by_key(gate: Tensor) -> Tensor:
    """The factor of each row of the state, (HV, K) or (HV, 1)."""
    return gate if gate.dim() == 2 else gate[:, None]


def _double(one) -> Tensor:
    return torch.as_tensor(one).double()


__all__ = ["EPSILON", "Chunks", "chunked", "draw", "gradients", "recurrence"]
