"""Gradients of attention over several GPUs by NCCL and cuDNN, for benchmarks/distributed_attention.py.

Input: a `Problem` of that module, o and the log-sum-exps of all keys. Output: a call that gives this rank's (dq, dk, dv):

    call = gather_and_scatter(problem, o, lse)      keys and values gathered again, cuDNN, shares of dk and dv reduce-scattered

Without a mask cuDNN works on the gathered keys as on one sequence. Under a causal mask a rank has two chunks: cuDNN works on the
rank's own rows, then on what it sees of each other rank's; since o and the log-sum-exps are those of all keys, what it finds are
parts of one sum, and nothing is merged but dq.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .gpu import torch


def cudnn_gradients(do, q, k, v, o, lse, causal: bool):
    """(dq, dk, dv) by cuDNN of some of the keys, where o and lse are those of all."""
    unused = lse.new_empty((), dtype=torch.int64)       # seed and offset, of a dropout of 0
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        do, q, k, v, o, lse[..., None], unused, unused, None, None, None, q.shape[2], k.shape[2], 0.0, causal)


def gradients_by_source(problem, o, lse, whole, shares):
    """dq of this rank, of a causal mask; of the keys and values of each source, whole[source], the shares of their gradients go to
    shares[source]: where no query sees them, nothing."""
    half, me = problem.length // 2, problem.world.rank
    every, early, late = slice(None), slice(half), slice(half, None)
    dq = None
    for source in (me, *(rank for rank in range(problem.world.size) if rank != me)):
        rows, keys = (every, every) if source == me else (every, early) if source < me else (late, every)
        do, q, out, sums = (x[:, :, rows] for x in (problem.do, problem.q, o, lse))
        part, *found = cudnn_gradients(do, q, *(x[:, :, keys] for x in whole[source]), out, sums, source == me)
        if dq is None:
            dq = part
        else:
            dq[:, :, rows] += part
        for share, one in zip(shares[source], found):
            share[:, :, keys] = one
    return dq


def gather_and_scatter(problem, o, lse) -> Callable[[], Any]:
    """The call."""
    return _causal(problem, o, lse) if problem.causal else _full(problem)


def _causal(problem, o, lse) -> Callable[[], Any]:
    world, dist = problem.world, torch.distributed
    own = torch.stack((problem.k, problem.v))
    whole, mine = own.new_empty(world.size, *own.shape), torch.empty_like(own)
    shares = torch.zeros_like(whole)

    def call():
        dist.all_gather_into_tensor(whole, own, group=world.group)
        dq = gradients_by_source(problem, o, lse, whole, shares)
        dist.reduce_scatter_tensor(mine, shares, group=world.group)
        return dq, *mine
    return call


def _full(problem) -> Callable[[], Any]:
    """Keys and values lie as (rows, heads, dim), so that what is gathered is one sequence."""
    world, dist = problem.world, torch.distributed
    k, v = (x[0].transpose(0, 1).contiguous() for x in (problem.k, problem.v))
    whole = [x.new_empty(problem.seq, *x.shape[1:]) for x in (k, v)]
    for one, mine in zip(whole, (k, v)):
        dist.all_gather_into_tensor(one, mine, group=world.group)
    q = problem.q.clone().requires_grad_()
    keys, values = (x.transpose(0, 1)[None].detach().requires_grad_() for x in whole)
    o = torch.ops.aten._scaled_dot_product_cudnn_attention(q, keys, values, None, True, 0.0, False, False)[0]
    out = [torch.empty_like(k) for _ in range(2)]

    def call():
        for one, mine in zip(whole, (k, v)):
            dist.all_gather_into_tensor(one, mine, group=world.group)
        dq, *found = torch.autograd.grad(o, (q, keys, values), problem.do, retain_graph=True)
        for one, to in zip(found, out):
            dist.reduce_scatter_tensor(to, one[0].transpose(0, 1).contiguous(), group=world.group)
        return dq, *(x.transpose(0, 1)[None] for x in out)
    return call
