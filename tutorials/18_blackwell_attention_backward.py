"""18  The gradients of attention on Blackwell: five products a block, and columns that change hands three times.

    python tutorials/18_blackwell_attention_backward.py    on a Blackwell GPU (sm_100a): check; elsewhere: simulate

Of O = P V with P = softmax(scale Q K^T), given dO:  dV = P^T dO,  dP = dO V^T,  dS = P (dP - delta),  dQ = scale dS K,
dK = scale dS^T Q, where delta is the sum of each row of O dO. P is made again from the scores and the log-sum-exp that
tutorial 10 stored. A program has 128 keys and walks over the queries: dK and dV add up in tensor memory, and each
block's share of dQ goes to memory by TMA, which adds it to that of the other programs.

    load, 1 warp       K and V once; blocks of Q and dO
    mma, 1 warp        S^T = K Q^T     dP^T = V dO^T     dV += P^T dO     dQ = dS K     dK += dS^T Q
    compute, 8 warps   S^T -> P^T      dP^T -> dS^T
    reduce, 4 warps    dQ -> memory; at the end dK and dV -> memory

Scores lie transposed, keys by queries. So P^T is what the product for dV takes as its left operand, out of tensor
memory, and lies over S^T. dS^T goes to shared memory, since it is an operand twice, as it lies and transposed. dQ takes
the columns of dP^T, which has been read by then. With S^T, dP^T, dK and dV that makes 2 x 128 + 2 x D columns.

The sums of dQ come in any order, so its last bits differ from run to run.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.
"""

from math import e, log2, sqrt

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. The sum of each row of O dO, by a kernel of its own.
@mimw.jit
def row_sums(o_ptr, do_ptr, delta_ptr, D: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(delta_ptr + rows, tl.sum(tl.load(o_ptr + at).to(tl.float32) * tl.load(do_ptr + at).to(tl.float32), 1))


@mimw.jit
def load(desc, ring, number, row, BYTES: tl.constexpr, STAGES: tl.constexpr):
    tiles, full, free = ring
    slot, phase = tlx.warp_spec.get_bufidx_phase(number, STAGES)
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], BYTES)
    tlx.async_descriptor_load(desc, tiles[slot], [row, 0], full[slot])


# Step 2. P^T and dS^T, half of the queries of a block at a time: a thread has some columns of one key, so it needs the
# numbers of many queries, and registers for all of a block would not be there.
@mimw.jit
def probabilities(s, p, lse_ptr, scale, HALF: tl.constexpr, MASK: tl.constexpr):
    queries = HALF * 64 + tl.arange(0, 64)
    lse = tl.load(lse_ptr + queries) * 1.4426950408889634
    weights = tl.exp2(tlx.local_load(tlx.subslice(s, HALF * 64, 64)) * scale - lse[None, :])
    if MASK:
        weights = tl.where(tl.arange(0, 128)[:, None] <= queries[None, :], weights, 0.0)
    tlx.local_store(tlx.subslice(p, HALF * 64, 64), weights.to(p.dtype))
    return weights


@mimw.jit
def slopes_of(weights, dp, ds, delta_ptr, HALF: tl.constexpr):
    delta = tl.load(delta_ptr + HALF * 64 + tl.arange(0, 64))
    slopes = weights * (tlx.local_load(tlx.subslice(dp, HALF * 64, 64)) - delta[None, :])
    tlx.local_store(tlx.local_slice(ds, [0, HALF * 64], [128, 64]), slopes.to(ds.dtype))


# Step 3. One tile of dS^T is enough: `multiplied` says, too, that the products of the block before have read it, since a
# commit covers all that was issued before.
@mimw.jit
def gradients(tiles, barriers, number, lse_ptr, delta_ptr, scale, MASK: tl.constexpr):
    s, p, dp, ds = tiles
    scored, stored, multiplied, ready = barriers
    tlx.barrier_wait(scored[0], number & 1)
    first = probabilities(s[0], p[0], lse_ptr, scale, 0, MASK)
    second = probabilities(s[0], p[0], lse_ptr, scale, 1, MASK)
    tlx.barrier_arrive(stored[0])
    tlx.barrier_wait(multiplied[0], number & 1)
    slopes_of(first, dp[0], ds[0], delta_ptr, 0)
    slopes_of(second, dp[0], ds[0], delta_ptr, 1)
    tlx.fence("async_shared")
    tlx.barrier_arrive(ready[0])


# Step 4. A tile of sums, to where an operand was, and from there to memory.
@mimw.jit
def store(desc, sums, tile, row, factor, PARTS: tl.constexpr):
    PART: tl.constexpr = tile.shape[1] // PARTS
    for part in tl.static_range(PARTS):
        some = tlx.local_load(tlx.subslice(sums, part * PART, PART)) * factor
        tlx.local_store(tlx.local_slice(tile, [0, part * PART], [tile.shape[0], PART]), some.to(tile.dtype))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(desc, tile, [row, 0])


@mimw.jit
def attention_backward(q_desc, k_desc, v_desc, do_desc, dq_desc, dk_desc, dv_desc, lse_ptr, delta_ptr, seq, scale,
                       D: tl.constexpr, STAGES: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """dK and dV of 128 keys of one head, and their share of dQ, which is added to. `seq` is a multiple of 128."""
    tl.static_assert(PARTS % 2 == 0, "parts of dQ go through the two places in turn, from block to block")
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    PART: tl.constexpr = D // PARTS
    BYTES: tl.constexpr = 128 * D * tlx.size_of(DTYPE)
    k_tile, v_tile = tlx.local_alloc((128, D), DTYPE, 1), tlx.local_alloc((128, D), DTYPE, 1)
    queries = tlx.local_alloc((128, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    slopes = tlx.local_alloc((128, D), DTYPE, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    ds = tlx.local_alloc((128, 128), DTYPE, 1)
    parts = tlx.local_alloc((128, PART), tl.float32, 2)

    # Step 5. Two overlays: P^T over S^T, and dQ over dP^T.
    first, second = tlx.storage_alias_spec(tlx.storage_kind.tmem), tlx.storage_alias_spec(tlx.storage_kind.tmem)
    s = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem, reuse=first)
    p = tlx.local_alloc((128, 128), DTYPE, 1, tlx.storage_kind.tmem, reuse=first)
    dp = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem, reuse=second)
    dq = tlx.local_alloc((128, D), tl.float32, 1, tlx.storage_kind.tmem, reuse=second)
    first.set_buffer_overlap(tlx.reuse_group(s, p))
    second.set_buffer_overlap(tlx.reuse_group(dp, dq))
    dk = tlx.local_alloc((128, D), tl.float32, 1, tlx.storage_kind.tmem)
    dv = tlx.local_alloc((128, D), tl.float32, 1, tlx.storage_kind.tmem)

    k_full, v_full = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    scored, stored, multiplied, ready = (tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1),
                                         tlx.alloc_barriers(1))
    shared, taken, summed = tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)

    # Step 6. Queries before the keys see nothing of them.
    key = tl.program_id(0) * 128
    head = tl.program_id(1) * seq
    start = key if CAUSAL else 0
    blocks = (seq - start) // 128
    row = head + start

    with tlx.async_tasks():
        # Step 7. dQ leaves through two places, part by part; TMA adds. The last part is in registers: the next dP^T may come.
        with tlx.async_task("default", num_regs=88):              # reduce
            for n in range(blocks):
                tlx.barrier_wait(shared[0], n & 1)
                for part in tl.static_range(PARTS):
                    some = tlx.local_load(tlx.subslice(dq[0], part * PART, PART)) * (scale * 0.6931471805599453)
                    if part == PARTS - 1:
                        tlx.barrier_arrive(taken[0])
                    tlx.async_descriptor_store_wait(1)
                    tlx.local_store(parts[part % 2], some)
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(dq_desc, parts[part % 2], [row + n * 128, part * PART], store_reduce="add")
            tlx.barrier_wait(summed[0], 0)
            store(dv_desc, dv[0], v_tile[0], head + key, 1.0, PARTS)
            store(dk_desc, dk[0], k_tile[0], head + key, scale * 0.6931471805599453, PARTS)
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=8, num_regs=160):           # compute
            tiles, barriers = (s, p, dp, ds), (scored, stored, multiplied, ready)
            # Only the first block of a causal program stands on the diagonal.
            if CAUSAL:
                gradients(tiles, barriers, 0, lse_ptr + row, delta_ptr + row, scale, True)
            for n in range(1 if CAUSAL else 0, blocks):
                gradients(tiles, barriers, n, lse_ptr + row + n * 128, delta_ptr + row + n * 128, scale, False)

        # Step 8. The scores of the next block stand between the products of this one, so that its softmax runs beside them.
        with tlx.async_task(num_warps=1, num_regs=104):           # mma
            q_tiles, q_full, q_free = queries
            do_tiles, do_full, do_free = slopes
            tlx.barrier_wait(k_full[0], 0)
            tlx.barrier_wait(q_full[0], 0)
            tlx.async_dot(k_tile[0], tlx.local_trans(q_tiles[0]), s[0], use_acc=False, mBarriers=[scored[0]])
            tlx.barrier_wait(v_full[0], 0)
            for n in range(blocks):
                slot = n % STAGES
                tlx.barrier_wait(do_full[0], n & 1)
                tlx.barrier_wait(taken[0], n & 1 ^ 1)
                tlx.async_dot(v_tile[0], tlx.local_trans(do_tiles[0]), dp[0], use_acc=False, mBarriers=[multiplied[0]])
                tlx.barrier_wait(stored[0], n & 1)
                tlx.async_dot(p[0], do_tiles[0], dv[0], use_acc=n > 0, mBarriers=[do_free[0]])
                if n + 1 < blocks:
                    after, phase = tlx.warp_spec.get_bufidx_phase(n + 1, STAGES)
                    tlx.barrier_wait(q_full[after], phase)
                    tlx.async_dot(k_tile[0], tlx.local_trans(q_tiles[after]), s[0], use_acc=False, mBarriers=[scored[0]])
                tlx.barrier_wait(ready[0], n & 1)
                tlx.async_dot(tlx.local_trans(ds[0]), k_tile[0], dq[0], use_acc=False, mBarriers=[shared[0]])
                tlx.async_dot(ds[0], q_tiles[slot], dk[0], use_acc=n > 0, mBarriers=[q_free[slot]])
            tlx.tcgen05_commit(summed[0])

        with tlx.async_task(num_warps=1, num_regs=48):            # load
            tlx.barrier_expect_bytes(k_full[0], BYTES)
            tlx.async_descriptor_load(k_desc, k_tile[0], [head + key, 0], k_full[0])
            load(q_desc, queries, 0, row, BYTES, STAGES)
            tlx.barrier_expect_bytes(v_full[0], BYTES)
            tlx.async_descriptor_load(v_desc, v_tile[0], [head + key, 0], v_full[0])
            load(do_desc, slopes, 0, row, BYTES, 1)
            for n in range(1, blocks):
                load(q_desc, queries, n, row + n * 128, BYTES, STAGES)
                load(do_desc, slopes, n, row + n * 128, BYTES, 1)


# Step 9. What if? One edit each, and what `mimw.check` says:
#
#     no wait for `taken`                    SlotReusedEarly    the next dP^T over dQ that has not left yet
#     `barrier_arrive(taken)` at part 0      SlotReusedEarly    the same, of the parts behind
#     no wait for `stored`                   DataRace           a product of scores that are still being made into P^T
#     no fence in step 3                     nothing            the compiler puts one in, for dS^T goes from threads to tensor cores
#     no `store_reduce`                      DataRace           programs overwrite each other's dQ
#     `use_acc=True` for dK                  UnwrittenRead      the first product adds to what nobody has written
#
# What ptxas says at D = 128: up to 52 bytes of spills, addresses for the most part, none of a tile. The 16 warps share 2048
# registers a lane, which 88, 2 x 160 and 104 are, four warps each. With 80 for the first task and 96 for the products there were
# 84 bytes; with those, and all of a block in one piece in step 2, 532; with 48 for the products 284, since their descriptors
# take more.


def arguments(q, k, v, do, dq, dk, dv, lse, delta, causal=False, STAGES=2, PARTS=4):
    """(grid, args, meta) for contiguous (batch, heads, seq, dim) arrays; dq is of fp32 and zero, delta is that of `row_sums`."""
    batch, heads, seq, dim = q.shape
    assert seq % 128 == 0, f"seq {seq} is no multiple of 128"
    assert STAGES > 1, "the scores of a block are asked for while the queries of the block before are still needed"

    def rows(x, width=dim):
        return mimw.TensorDescriptor.from_tensor(x.reshape(batch * heads * seq, dim), [128, width])

    args = rows(q), rows(k), rows(v), rows(do), rows(dq, dim // PARTS), rows(dk), rows(dv), lse, delta, seq, log2(e) / sqrt(dim)
    return (seq // 128, batch * heads), args, dict(D=dim, STAGES=STAGES, PARTS=PARTS, CAUSAL=causal, num_warps=4)


def expected(q, k, v, do, causal):
    """o, its log-sum-exps and the three gradients by numpy."""
    q, k, v, do = (x.astype(np.float32) for x in (q, k, v, do))
    scale = q.shape[-1]**-0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    p = np.exp(scores - lse[..., None])
    o = p @ v
    ds = p * (do @ v.swapaxes(-1, -2) - (o * do).sum(-1, keepdims=True)) * scale
    return o, lse, ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do


def problem(heads, seq, dim, causal, dtype=np.float16):
    """((q, k, v, do, dq, dk, dv, lse, delta), the three gradients by numpy)."""
    random = np.random.default_rng(0)
    q, k, v, do = (random.standard_normal((1, heads, seq, dim), np.float32).astype(dtype) for _ in range(4))
    o, lse, *gradients = expected(q, k, v, do, causal)
    delta = np.full(lse.shape, np.nan, np.float32)
    mimw.simulate(row_sums, (heads * seq // 64, ), o.astype(dtype), do, delta, dim, 64)
    return (q, k, v, do, np.zeros(q.shape, np.float32), np.full_like(k, np.nan), np.full_like(v, np.nan), lse, delta), gradients


def case():
    """A small problem on numpy arrays, and its gradients: `mimw check 18_blackwell_attention_backward.py:case --target sm_100a`."""
    arrays, wanted = problem(1, 256, 32, True)
    dq, dk, dv = (one.reshape(-1, 32) for one in wanted)
    return mimw.Case(attention_backward, *arguments(*arrays, causal=True, PARTS=2),
                     expected={"dq_desc": dq, "dk_desc": dk, "dv_desc": dv}, tolerance=4e-3)


def simulate_one():
    """A small problem on the simulator."""
    import harness
    harness.simulated(case(), target="sm_100a")


def launch_one(seq):
    """The result on the GPU."""
    import torch
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    from torch.nn.functional import scaled_dot_product_attention
    q, k, v = (torch.randn(2, 8, seq, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    do = torch.randn_like(q)
    for causal in (False, True):
        o = scaled_dot_product_attention(q, k, v, is_causal=causal)
        wanted = torch.autograd.grad(o, (q, k, v), do)
        scores = (q @ k.mT).float() / sqrt(128)
        lse = torch.logsumexp(scores.masked_fill(~torch.ones_like(scores).tril().bool(), float("-inf")) if causal else scores, -1)
        delta, dq = torch.empty_like(lse), torch.zeros(q.shape, device="cuda")
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        row_sums[(lse.numel() // 64, )](o.detach(), do, delta, 128, 64)
        grid, args, meta = arguments(*(x.detach() for x in (q, k, v, do, dq, dk, dv, lse, delta)), causal=causal)
        attention_backward[grid](*args, **meta)
        for name, got, one in zip(("dQ", "dK", "dV"), (dq, dk, dv), wanted):
            print(f"largest difference to torch of {name}:", (got - one).abs().max().item())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (4096, ))
