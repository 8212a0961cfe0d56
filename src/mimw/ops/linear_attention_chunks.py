"""Linear attention and its gradients by torch's products, chunk by chunk: for tensors that no kernel of ours takes.

Input: the operator's tensors. Output: o and the final states, or the gradients. For example:

    o, final = forward(q, k, v, g, beta, initial_state, None, scale)
    dq, dk, dv, dg, dbeta, dstate = backward(do, dfinal, q, k, v, g, beta, initial_state, None, scale)

Within chunks everything is a batched product over all of them, in slabs so that what is in flight stays small; between them the
state goes on step by step. The backward pass keeps nothing of the forward pass: it computes it again, and takes as memory the
states before each chunk, in fp32, and a few times the size of q, k and v.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from .linear_attention_layout import BLOCK, Layout, layout
from .linear_attention_within import Parts, within

SLAB = 1 << 26          # numbers that the largest tensor within chunks may have
_C, _KEY, _SET = torch._C, torch._C.DispatchKey, torch._C.DispatchKeySet


def _plain() -> AbstractContextManager:
    """Inside, torch computes in the types that there are, and notes derivatives where grad is enabled: what runs under an operator
    of torch.library gets none, and what autograd calls in a region of autocast would get that region's types."""
    excluded = _C._dispatch_tls_local_exclude_set()
    for key in (_KEY.AutogradFunctionality, _KEY.AutogradOther, _KEY.AutogradNestedTensor, _KEY.ADInplaceOrView):
        excluded = excluded.remove(key)
    excluded = excluded | _SET(_KEY.AutocastCPU) | _SET(_KEY.AutocastCUDA)
    return _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded)


def forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, initial_state: Tensor | None,
            cu_seqlens: Sequence[int] | None, scale: float, l2norm: float | None = None) -> tuple[Tensor, Tensor]:
    """o of v's shape and type, 0 in rows of no sequence, and the final states (N, HV, K, V) in fp32. With `l2norm`, an epsilon, q
    and k are divided by sqrt(their sum of squares + l2norm) first."""
    with _plain(), torch.no_grad():
        at = layout(*q.shape[:2], cu_seqlens, q.device)
        o = torch.zeros(v.shape, dtype=v.dtype, device=v.device)
        parts = _parts(at, (q, k, v, g, beta), scale, l2norm)
        states, N, final = _recurrence(at, parts, _first(at, q, v, initial_state))
        for begin, end in _slabs(at, states[:1].numel()):
            own = slice(begin, end)
            at.part(begin, end).scatter((parts.Q[own] @ states[own] + parts.P[own] @ N[own]).transpose(1, 2), o)
        return o, final


def backward(do: Tensor, dfinal: Tensor | None, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None,
             initial_state: Tensor | None, cu_seqlens: Sequence[int] | None, scale: float) -> tuple[Tensor | None, ...]:
    """Of q, k, v, g, beta, each of its type, and of the initial states in fp32, whether there were any or not."""
    given = q, k, v, g, beta
    with _plain(), torch.no_grad():
        at = layout(*q.shape[:2], cu_seqlens, q.device)
        parts = _parts(at, given, scale)
        states, N, _ = _recurrence(at, parts, _first(at, q, v, initial_state))
        dfirst = _first(at, q, v, dfinal)
        found = _gradients(at, parts, states, N, at.gather(do).transpose(1, 2), dfirst)
        results = [None if one is None else torch.zeros(one.shape, dtype=one.dtype, device=one.device) for one in given]
        for begin, end in _slabs(at, _in_flight(given)):
            part = at.part(begin, end)
            _through(part, given, Parts(*(None if one is None else one[begin:end] for one in found)), results, scale)
        dstate = torch.empty_like(dfirst)
        dstate[at.order] = dfirst
        return *results, dstate


def _through(part: Layout, given: tuple[Tensor | None, ...], of: Parts, results: list[Tensor | None], scale: float) -> None:
    """The gradients of what is given, from those of its parts, in some chunks."""
    leaves = [None if one is None else part.gather(one).requires_grad_() for one in given]
    with torch.enable_grad():
        outs = within(*leaves, scale)
    pairs = [(out, one) for out, one in zip(outs, of) if out is not None and out.requires_grad]
    gradients = iter(torch.autograd.grad([out for out, _ in pairs], [one for one in leaves if one is not None],
                                         [one for _, one in pairs]))
    for leaf, into in zip(leaves, results):
        if leaf is not None:
            part.scatter(next(gradients), into)


def _first(at: Layout, q: Tensor, v: Tensor, states: Tensor | None) -> Tensor:
    """The states in the layout's order, in memory of their own; 0 without any."""
    shape = len(at.order), v.shape[2], q.shape[3], v.shape[3]
    return torch.zeros(shape, device=q.device) if states is None else states[at.order].float()


def _in_flight(given: tuple[Tensor | None, ...]) -> int:
    """The numbers of a chunk in the largest tensor of `within`: with a gate of each column, a block's against itself."""
    q, _, v, g, _ = given
    by_key = g is not None and g.dim() == 4
    return 64 * v.shape[2] * max(q.shape[3], v.shape[3]) * (2 * BLOCK if by_key else 1)


def _slabs(at: Layout, numbers: int) -> Iterator[tuple[int, int]]:
    """Spans of chunks of which each has that many numbers."""
    step = max(1, SLAB // max(1, numbers))
    for begin in range(0, len(at.rows), step):
        yield begin, min(begin + step, len(at.rows))


def _parts(at: Layout, given: tuple[Tensor | None, ...], scale: float, l2norm: float | None = None) -> Parts:
    """The parts of all chunks."""
    found = []
    for begin, end in _slabs(at, _in_flight(given)):
        part = at.part(begin, end)
        q, k, *others = (None if one is None else part.gather(one) for one in given)
        if l2norm is not None:
            q, k = (one * (one.square().sum(-1, keepdim=True) + l2norm).rsqrt() for one in (q, k))
        found.append(within(q, k, *others, scale))
    if not found:
        none = (None if one is None else at.gather(one.new_zeros((1, 1, *one.shape[2:]))) for one in given)
        found = [within(*none, scale)]
    return found[0] if len(found) == 1 else Parts(*(None if ones[0] is None else torch.cat(ones) for ones in zip(*found)))


def _recurrence(at: Layout, parts: Parts, S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(the state before each chunk, what each chunk adds to its state behind its keys, the final states in the caller's order)."""
    states = S.new_empty((len(at.rows), *S.shape[1:]))
    N, begin = torch.empty_like(parts.U), 0
    for count in at.steps:
        own, now = slice(begin, begin + count), S[:count]
        states[own] = now
        N[own] = parts.U[own] if parts.W is None else parts.U[own] - parts.W[own] @ now
        S[:count] = parts.D[own] * now + parts.K[own].mT @ N[own]
        begin += count
    final = torch.empty_like(S)
    final[at.order] = S
    return states, N, final


def _gradients(at: Layout, parts: Parts, states: Tensor, N: Tensor, do: Tensor, dS: Tensor) -> Parts:
    """The gradients of the parts; dS, those of the final states, becomes those of the first ones."""
    dK, dD, dN = torch.empty_like(parts.K), torch.empty_like(parts.D), parts.P.mT @ do
    begin = len(at.rows)
    for count in reversed(at.steps):
        begin -= count
        own, now = slice(begin, begin + count), dS[:count]
        dK[own] = N[own] @ now.mT
        decay = (now * states[own]).sum(-1, keepdim=True)
        dD[own] = decay if dD.shape[2] > 1 else decay.sum(2, keepdim=True)
        dN[own] += parts.K[own] @ now
        before = parts.D[own] * now + parts.Q[own].mT @ do[own]
        dS[:count] = before if parts.W is None else before - parts.W[own].mT @ dN[own]
    return Parts(do @ states.mT, do @ N.mT, dK, dD, dN, None if parts.W is None else -dN @ states.mT)


__all__ = ["backward", "forward"]
