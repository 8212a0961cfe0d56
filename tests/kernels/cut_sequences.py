"""Attention of a sequence that is cut over simulated GPUs, small: launches of all ranks, and what they should leave.

    kernel, grid, args, meta, results = forward(2, heads=2, kv_heads=1, length=256, causal=True)
    mimw.simulate(kernel, grid, *args, **meta)
    o, lse = whole_of(results, 2, length=256, causal=True)      as expected(...) of the whole sequence

Input: a number of ranks, and sizes. Output: launches with a `mimw.World`'s arrays, results by rank. Inputs are standard normal,
the same for the same sizes.
"""

from __future__ import annotations

import numpy as np

import mimw
from mimw.kernels import attention_backward, ring_attention, ring_attention_backward
from mimw.kernels.ring_attention import positions


def inputs(size, batch=1, heads=1, kv_heads=1, length=256, dim=64, dtype=np.float16):
    """q, k, v and dO of the whole sequence."""
    random = np.random.default_rng(length)
    return [random.standard_normal((batch, h, size * length, dim)).astype(dtype) for h in (heads, kv_heads, kv_heads, heads)]


def expected(q, k, v, do, causal):
    """(o, lse, dq, dk, dv) in fp64."""
    group, scale = q.shape[1] // k.shape[1], q.shape[-1]**-0.5
    q, k, v, do = q.astype(np.float64), *(np.repeat(x.astype(np.float64), group, 1) for x in (k, v)), do.astype(np.float64)
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    p = np.exp(scores - lse[..., None])
    o = p @ v
    ds = p * (do @ v.swapaxes(-1, -2) - (o * do).sum(-1, keepdims=True))
    batch, heads, rows, dim = q.shape
    dk, dv = (x.reshape(batch, heads // group, group, rows, dim).sum(2)
              for x in (ds.swapaxes(-1, -2) @ q * scale, p.swapaxes(-1, -2) @ do))
    return o, lse, ds @ k * scale, dk, dv


def parts_of(x, size, length, causal, balanced=True):
    """What each rank holds of the rows of x."""
    parts = 2 if causal and balanced else 1
    return [np.ascontiguousarray(x[:, :, positions(rank, size, length, parts)]) for rank in range(size)]


def forward(size, causal=False, balanced=True, programs=2, putters=1, chosen=None, times=1, **sizes):
    """(kernel, grid, args, meta, [(o, lse) of each rank]); `times` over, args are those of so many calls, one behind the other."""
    q, k, v, _ = (parts_of(x, size, sizes.get("length", 256), causal, balanced) for x in inputs(size, **sizes))
    world = mimw.World(size)
    work = ring_attention.Workspace.of(world, *k[0].shape, k[0].dtype)
    launches, results = [], []
    for rank in range(size):
        o, lse = np.full_like(q[rank], np.nan), np.full(q[rank].shape[:3], np.nan, np.float32)
        results.append((o, lse))
        launches.append(ring_attention.arguments(
            q[rank], k[rank], v[rank], o, lse, np.zeros(1, np.int32), work.at(rank), rank, programs, causal, balanced,
            chosen=chosen, putters=putters))
    return ring_attention.kernel, *ring_attention.simulated(launches, world), results


def backward(size, causal=False, balanced=True, programs=2, putters=1, chosen=None, **sizes):
    """([(kernel, grid, args, meta) of each of the four launches], [(dq, dk, dv) of each rank])."""
    length = sizes.get("length", 256)
    whole = inputs(size, **sizes)
    o, lse, *_ = expected(*whole, causal)
    q, k, v, do, o, lse = (parts_of(x, size, length, causal, balanced)
                           for x in (*whole, o.astype(whole[0].dtype), lse.astype(np.float32)))
    world = mimw.World(size)
    work = ring_attention_backward.Workspace.of(world, *k[0].shape, k[0].dtype)
    launches, results = [], []
    for rank in range(size):
        dq, dk, dv = (np.full_like(x[rank], np.nan) for x in (q, k, v))
        rows, sums = (np.full(shape, np.nan, np.float32) for shape in attention_backward.workspace(q[rank], chosen, causal))
        results.append((dq, dk, dv))
        launches.append(ring_attention_backward.launches(
            q[rank], k[rank], v[rank], o[rank], lse[rank], do[rank], dq, dk, dv, rows, sums, work.at(rank), rank, programs, causal,
            balanced, chosen=chosen, putters=putters))
    return [(each[0][0], *ring_attention.simulated([one[1:] for one in each], world)) for each in zip(*launches)], results
