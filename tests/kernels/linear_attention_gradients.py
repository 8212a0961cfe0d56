"""The gradients of linear attention by chunks in fp64, each part by its definition: what each kernel of the backward gives.

Input: what `linear_attention_reference.recurrence` takes, and the gradients of its results. Output: gradients by name, and between:

    found = chunked_gradients(do, dfinal, **given)          found.q, found.k, ..., found.initial_state, as `gradients` has them
    found.dN, found.D                                       of N, and of the state behind each chunk
    found.b                                                 of b, whose sums from each row to its chunk's end are found.g

The derivation stands in the docstring of `mimw.kernels.linear_attention_backward`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from . import linear_attention_reference as reference


@dataclass(frozen=True)
class Gradients:
    """All fp64. args:

        q, k            [B, T, H, K], over all heads of v that read a head
        v, dN           [B, T, HV, V]
        g, b            as g, or zeros [B, T, HV] without
        beta            [B, T, HV], or None
        initial_state   [N, HV, K, V]
        D               [B, NT, HV, K, V]: of the state behind each chunk
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor | None
    initial_state: Tensor
    b: Tensor
    dN: Tensor
    D: Tensor


def chunked_gradients(do, dfinal=None, C: int = 64, **given) -> Gradients:
    """The gradients of the sum of do o + dfinal final."""
    names = ("q", "k", "v", "g", "beta", "scale", "initial_state", "cu_seqlens")
    q, k, v, g, beta, S, scale, spans = reference._ready(*(given.get(name) for name in names), False)
    parts, do, group = reference.chunked(**given, C=C), do.double(), v.shape[2] // given["q"].shape[2]
    D_of = torch.zeros_like(S) if dfinal is None else dfinal.double()
    found = {name: torch.zeros_like(one) for name, one in (("q", q), ("k", k), ("v", v), ("b", parts.b), ("g", parts.b), ("dN", v))}
    dbeta, D_all, chunk = None if beta is None else torch.zeros_like(beta), torch.zeros_like(parts.states), 0
    places = [(row, batch, at, min(at + C, end)) for row, (batch, begin, end) in enumerate(spans) for at in range(begin, end, C)]
    of_batch = [sum(batch == one for _, batch, _, _ in places[:at]) for at, (_, one, _, _) in enumerate(places)]
    ends = D_of.clone()
    for (row, batch, begin, end), chunk in reversed(list(zip(places, of_batch))):
        rows = slice(begin, end)
        take = lambda one: None if one is None else one[batch, rows].transpose(0, 1)                # noqa: E731
        D_all[batch, chunk] = ends[row]
        one, ends[row] = _chunk(*(take(x) for x in (q, k, v, beta, do, parts.b, parts.inverse, parts.N)),
                                parts.states[batch, chunk], ends[row], scale)
        for name, value in one.items():
            (dbeta if name == "beta" else found[name])[batch, rows] = value.transpose(0, 1)
    for name in ("q", "k"):
        found[name] = found[name].unflatten(2, (-1, group)).sum(3)
    return Gradients(**found, beta=dbeta, initial_state=ends, D=D_all)


def _chunk(q, k, v, beta, do, b, inverse, N, S, D, scale) -> tuple[dict[str, Tensor], Tensor]:
    """(gradients by head and row, that of the state before the chunk), D that of the state behind it."""
    L, by_head = v.shape[1], b.dim() == 2
    b = b[..., None] if by_head else b
    tril = torch.ones(L, L, dtype=torch.bool).tril()
    between = torch.where(tril[..., None], b[:, :, None] - b[:, None], -torch.inf).exp()
    up, down, last = b.exp(), (b[:, -1:] - b).exp(), b[:, -1:].exp()
    P = (q[:, :, None] * between * k[:, None]).sum(-1)
    dN = scale * P.transpose(1, 2) @ do + (k * down) @ D
    dP = scale * (do @ N.transpose(1, 2)).tril()
    dq = (dP[..., None] * between * k[:, None]).sum(2) + scale * up * (do @ S.transpose(1, 2))
    falling = (dP[..., None] * between * q[:, :, None]).sum(1)          # of k where it stands with e^-b
    of_end = down * (N @ D.transpose(1, 2))
    found, rising = {"q": dq, "dN": dN, "v": dN}, torch.zeros_like(k)
    dS = last.transpose(1, 2) * D + scale * (q * up).transpose(1, 2) @ do
    if beta is not None:
        dR = inverse[..., :L].transpose(1, 2) @ dN
        dA = -(dR @ N.transpose(1, 2)).tril(-1)
        of_rows = dA * beta[..., None]
        through_state = -up * (dR @ S.transpose(1, 2))
        rising = beta[..., None] * through_state + (of_rows[..., None] * between * k[:, None]).sum(2)
        falling = falling + (of_rows[..., None] * between * k[:, :, None]).sum(1)
        products = (k[:, :, None] * between * k[:, None]).sum(-1)
        found |= {"v": beta[..., None] * dR,
                  "beta": (dR * v).sum(-1) + (k * through_state).sum(-1) + (dA * products).sum(-1)}
        dS = dS - (k * up * beta[..., None]).transpose(1, 2) @ dR
    db = q * dq + k * (rising - falling - of_end)
    db[:, -1] += (k * of_end).sum(1) + (last.transpose(1, 2) * D * S).sum(-1)
    if by_head:
        db = db.sum(-1)
    return found | {"k": rising + falling + of_end, "b": db, "g": db.flip(1).cumsum(1).flip(1)}, dS


__all__ = ["Gradients", "chunked_gradients"]
