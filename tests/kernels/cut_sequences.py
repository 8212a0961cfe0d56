"""Attention of a sequence that is cut over simulated GPUs, small: launches of all ranks, and what they should leave.

    kernel, grid, args, meta, results = forward(2, heads=2, kv_heads=1, length=256, causal=True)
    mimw.simulate(kernel, grid, *args, **meta)
    o, lse = whole_of(results, 2, length=256, causal=True)      as expected(...) of the whole sequence

Input: a number of ranks, and sizes. Output: launches with a `mimw.World`'s arrays, results by rank. Inputs are standard normal,
the same for the same sizes. Shapes: (batch, heads, rows of a rank, dim), of chunks of 128 rows. None of these makes a mistake.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.kernels import attention_backward, ring_attention, ring_attention_backward
from mimw.kernels.ring_attention import positions
from mimw.kernels.ring_attention.gather import PIECES, Arrivals, KeysAndValues, Strides, arrived, enter, put
from mimw.kernels.ring_attention_backward.collect import collect


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


@mimw.jit
def keys_twice(k, v, whole_k, whole_v, k_desc, v_desc, flags, state, out, world, rows, D: tl.constexpr):
    """Two calls in one launch: 64 rows of keys and of values at a time from each other rank, read by TMA, their sum to `out`."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    within = tl.arange(0, 64)[:, None] * D + tl.arange(0, D)[None, :]
    for turn in range(2):
        base = enter(state, 1)
        own = KeysAndValues(k + turn * rows * D, v + turn * rows * D)
        steps = KeysAndValues(Strides(0, 0, D), Strides(0, 0, D))
        put(own, KeysAndValues(whole_k, whole_v), flags, 0, steps, 1, 1, rows, world, 0, D, 1)
        for step in range(1, size):
            source = (me + step) % size
            arrived(Arrivals(flags, 0, base, world, 1), source, 0)
            for first in range(source * rows, (source + 1) * rows, 64):
                tl.store(out + (turn * size * rows + first) * D + within, k_desc.load([first, 0]) + v_desc.load([first, 0]))


def gathering(size=2, rows=64, dim=64):
    """(kernel, grid, args, meta) of `keys_twice`: a rank's keys are 1 + its number, in the second call twice that; its values 10
    times as much."""
    world = mimw.World(size)
    k, v = (world.each([factor * (rank + 1) * np.arange(1, 3, dtype=np.float16).repeat(rows * dim).reshape(2, rows, dim)
                        for rank in range(size)]) for factor in (1, 10))
    whole = [world.symmetric((size * rows, dim), np.float16, name) for name in ("whole_k", "whole_v")]
    descs = [world.each([mimw.TensorDescriptor.from_tensor(one, [64, dim]) for one in x]) for x in whole]
    out = world.each([np.zeros((2, size, rows, dim), np.float16) for _ in range(size)])
    state = world.each([np.zeros(2, np.int64) for _ in range(size)])
    flags = world.symmetric(size * PIECES.value, "int64", "flags")
    return keys_twice, (1, ), (k, v, *whole, *descs, flags, state, out, world, rows, dim), {}


def gathered(rank, size):
    """What `out` of a rank should be, (2, size) numbers; 0 for its own, which nobody puts."""
    others = np.array([0 if one == rank else 11 * (one + 1) for one in range(size)])
    return np.stack([others, 2 * others])


@mimw.jit
def shares_twice(parts_k, parts_v, dk, dv, world, rows, D: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """Shares of 1 + the rank's number, times 1 and 10, given to all ranks and added; then the same of twice as much, into the
    second half."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    for turn in range(2):
        one = (me + 1) * (turn + 1)
        for owner in range(size):
            for first in range(me * rows * D, (me + 1) * rows * D, 4096):
                at = first + tl.arange(0, 4096)
                share = tl.full((4096, ), one, tl.float32)
                tl.store(tlx.peer_pointer(parts_k, owner, world) + at, share.to(parts_k.dtype.element_ty))
                tl.store(tlx.peer_pointer(parts_v, owner, world) + at, (10 * share).to(parts_v.dtype.element_ty))
        collect(parts_k, parts_v, dk + turn * rows * D, dv + turn * rows * D, world, 1, rows, D, PARTS, CAUSAL)


def collecting(size=2, length=256, dim=64):
    """(kernel, grid, args, meta) of `shares_twice`, causal, with two chunks a rank."""
    world = mimw.World(size)
    parts = [world.symmetric(size * length * dim, np.float16, name) for name in ("parts_k", "parts_v")]
    found = [world.each(lambda rank: np.zeros((2, length, dim), np.float16), name) for name in ("dk", "dv")]
    return shares_twice, (1, ), (*parts, *found, world, length, dim, 2, True), {}


def collected(rank, size, length, dim=64):
    """What `dk` of a rank should be: of its second chunk only ranks up to its own have shares."""
    both = np.concatenate([np.full(length // 2, size * (size + 1) / 2), np.full(length // 2, (rank + 1) * (rank + 2) / 2)])
    return np.stack([both, 2 * both])[..., None].repeat(dim, -1)
