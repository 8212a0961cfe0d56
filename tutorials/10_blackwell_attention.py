"""10  Attention on Blackwell: five roles, and every tile that they pass on stays in tensor memory.

    python tutorials/10_blackwell_attention.py    on a Blackwell GPU (sm_100a): check the result; elsewhere: simulate

O = softmax(scale Q K^T) V for each head, by the online softmax of tutorial 06. There, a task that multiplies also does
the softmax, since sums and left operands live in registers. Here one thread starts all products, and scores, probabilities
and sums lie in tensor memory, where different warps may reach them. So each kind of work gets warps of its own:

    load, 1 warp         two tiles of 128 queries, then keys and values, by TMA
    mma, 1 warp          S = Q K^T and O += P V, for the two tiles in turn
    softmax, 2 x 4 warps S -> P, a thread a row; while one works on its tile, the tensor cores work on the other's
    correct, 4 warps     where a row's maximum grew, O shrinks; at the end O / total goes to memory

The values that the roles pass on, and the barriers for them, for each tile of queries:

    mma      S ──> softmax      `scored`      the tensor cores arrive when the product is there
    softmax  shrink ──> correct `shrunk`      by how much the sums shrink, a column of one value a row
    softmax  P ──┬──> mma       `ready`       two arrivals: P is stored, O has shrunk
    correct  O ──┘
    mma      O ──> correct      `summed`      once, at the end

The columns: 2 x 128 for S, 2 x D for O, 512 at D = 128. That is all there are. P lies over the S of which it was made,
and the columns of shrinking over the half of S that P leaves free.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.

Next: 11_tle_pipe_gemm.py, the other language. 18_blackwell_attention_backward.py has the gradients.
"""

from math import e, log2, sqrt

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. Rings of keys and values, as in tutorial 06.
@mimw.jit
def load(desc, ring, number, row, BYTES: tl.constexpr, STAGES: tl.constexpr):
    tiles, full, free = ring
    slot, phase = tlx.warp_spec.get_bufidx_phase(number, STAGES)
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], BYTES)
    tlx.async_descriptor_load(desc, tiles[slot], [row, 0], full[slot])


# Step 2. The softmax of one block of scores. A thread has a whole row, so that its maximum and its sum need no exchange.
# `shrink` goes out before the exponentials: the correction runs beside them.
@mimw.jit
def softmax(s, p, shrinks, scored, shrunk, ready, number, highest, total, scale, query, key, MASK: tl.constexpr):
    tlx.barrier_wait(scored, number & 1)
    scores = tlx.local_load(s)
    if MASK:
        # One number a row, compared with constants: a thread has no registers left for the numbers of 128 keys.
        seen = query - key + tl.arange(0, scores.shape[0])
        scores = tl.where(tl.arange(0, scores.shape[1])[None, :] <= seen[:, None], scores, float("-inf"))
    new = tl.maximum(highest, tl.max(scores, 1))
    shrink = tl.exp2((highest - new) * scale)
    tlx.local_store(shrinks, shrink[:, None])
    tlx.barrier_arrive(shrunk)
    # Step 3. P goes where S was: the scores are in registers by now.
    weights = tl.exp2(scores * scale - (new * scale)[:, None])
    tlx.local_store(p, weights.to(p.dtype))
    tlx.barrier_arrive(ready)
    return new, total * shrink + tl.sum(weights, 1)


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, seq, scale, BN: tl.constexpr, D: tl.constexpr, STAGES: tl.constexpr,
              PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """O and log-sum-exp of 256 queries of one head. Matrices have (heads * seq) rows of D; `seq` is a multiple of 256 and BN."""
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    PART: tl.constexpr = D // PARTS
    Q_BYTES: tl.constexpr = 128 * D * tlx.size_of(DTYPE)
    K_BYTES: tl.constexpr = BN * D * tlx.size_of(DTYPE)
    q_tiles, q_full = tlx.local_alloc((128, D), DTYPE, 2), tlx.alloc_barriers(2)
    keys = tlx.local_alloc((BN, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    values = tlx.local_alloc((BN, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)

    # Step 4. Tensor memory. `shared` lays S over all that is made of it; `distinct` lays these side by side.
    columns = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    s = tlx.local_alloc((128, BN), tl.float32, 2, tlx.storage_kind.tmem, reuse=columns)
    p = tlx.local_alloc((128, BN), DTYPE, 2, tlx.storage_kind.tmem, reuse=columns)
    shrinks = tlx.local_alloc((128, 1), tl.float32, 2, tlx.storage_kind.tmem, reuse=columns)
    totals = tlx.local_alloc((128, 1), tl.float32, 2, tlx.storage_kind.tmem, reuse=columns)
    made = tlx.reuse_group(p, shrinks, totals, group_type=tlx.reuse_group_type.distinct)
    columns.set_buffer_overlap(tlx.reuse_group(s, made))
    o = tlx.local_alloc((128, D), tl.float32, 2, tlx.storage_kind.tmem)
    scored, shrunk = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    totalled, summed = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    ready = tlx.alloc_barriers(2, arrive_count=2)

    # Step 5. The longest causal tiles first. Blocks of keys from the first on: those that need a mask come last.
    query = (tl.num_programs(0) - 1 - tl.program_id(0)) * 256
    head = tl.program_id(1) * seq
    blocks = (query + 256) // BN if CAUSAL else seq // BN
    plain = query // BN if CAUSAL else blocks

    with tlx.async_tasks():
        # Step 6. The correction, and the end. A tile of O goes through the registers in parts, so that these warps need
        # few and the softmax may have many. The first block has no sums yet that could shrink.
        with tlx.async_task("default", num_regs=80):              # correct
            for n in range(blocks):
                for i in tl.static_range(2):
                    tlx.barrier_wait(shrunk[i], n & 1)
                    if n > 0:
                        shrink = tlx.local_load(shrinks[i])
                        # Step 7. No barrier says that the product of the block before is done, but `scored`: a commit
                        # covers all that the thread issued before it, and the softmax waited for it.
                        for part in tl.static_range(PARTS):
                            some = tlx.subslice(o[i], part * PART, PART)
                            tlx.local_store(some, tlx.local_load(some) * shrink)
                    tlx.barrier_arrive(ready[i])
            for i in tl.static_range(2):
                # Step 8. The queries are read by now: O takes their place.
                tlx.barrier_wait(totalled[i], 0)
                inverse = 1 / tlx.local_load(totals[i])
                tlx.barrier_wait(summed[i], 0)
                for part in tl.static_range(PARTS):
                    out = tlx.local_load(tlx.subslice(o[i], part * PART, PART)) * inverse
                    tlx.local_store(tlx.local_slice(q_tiles[i], [0, part * PART], [128, PART]), out.to(DTYPE))
                tlx.fence("async_shared")
                tlx.async_descriptor_store(o_desc, q_tiles[i], [head + query + i * 128, 0])
            tlx.async_descriptor_store_wait(0)

        # Step 9. Two warpgroups of softmax, a tile of queries each.
        with tlx.async_task(num_warps=4, num_regs=192, replicate=2):    # softmax
            me: tl.constexpr = tlx.async_task_replica_id()
            mine = query + me * 128
            highest, total = tl.full((128, ), float("-inf"), tl.float32), tl.zeros((128, ), tl.float32)
            for n in range(plain):
                highest, total = softmax(s[me], p[me], shrinks[me], scored[me], shrunk[me], ready[me], n, highest, total, scale,
                                         mine, n * BN, False)
            if CAUSAL:
                for n in range(plain, blocks):
                    highest, total = softmax(s[me], p[me], shrinks[me], scored[me], shrunk[me], ready[me], n, highest, total,
                                             scale, mine, n * BN, True)
            tlx.local_store(totals[me], total[:, None])
            tlx.barrier_arrive(totalled[me])
            tl.store(lse + head + mine + tl.arange(0, 128), (highest * scale + tl.log2(total)) * 0.6931471805599453)

        # Step 10. All products. Those of one thread run in the order of issue, so the next scores may be asked for right
        # behind the product that reads P out of the same columns. `mBarriers` of the second tile free the slots.
        with tlx.async_task(num_warps=1, num_regs=48):            # mma
            k_tiles, k_full, k_free = keys
            v_tiles, v_full, v_free = values
            tlx.barrier_wait(k_full[0], 0)
            tlx.barrier_wait(q_full[0], 0)
            tlx.async_dot(q_tiles[0], tlx.local_trans(k_tiles[0]), s[0], use_acc=False, mBarriers=[scored[0]])
            tlx.barrier_wait(q_full[1], 0)
            tlx.async_dot(q_tiles[1], tlx.local_trans(k_tiles[0]), s[1], use_acc=False, mBarriers=[scored[1], k_free[0]])
            for n in range(1, blocks):
                slot, phase = tlx.warp_spec.get_bufidx_phase(n, STAGES)
                before, phase_before = tlx.warp_spec.get_bufidx_phase(n - 1, STAGES)
                tlx.barrier_wait(v_full[before], phase_before)
                tlx.barrier_wait(k_full[slot], phase)
                tlx.barrier_wait(ready[0], (n - 1) & 1)
                tlx.async_dot(p[0], v_tiles[before], o[0], use_acc=n > 1, force_async=True)
                tlx.async_dot(q_tiles[0], tlx.local_trans(k_tiles[slot]), s[0], use_acc=False, mBarriers=[scored[0]])
                tlx.barrier_wait(ready[1], (n - 1) & 1)
                tlx.async_dot(p[1], v_tiles[before], o[1], use_acc=n > 1, mBarriers=[v_free[before]])
                tlx.async_dot(q_tiles[1], tlx.local_trans(k_tiles[slot]), s[1], use_acc=False,
                              mBarriers=[scored[1], k_free[slot]])
            last, phase = tlx.warp_spec.get_bufidx_phase(blocks - 1, STAGES)
            tlx.barrier_wait(v_full[last], phase)
            for i in tl.static_range(2):
                tlx.barrier_wait(ready[i], (blocks - 1) & 1)
                tlx.async_dot(p[i], v_tiles[last], o[i], use_acc=blocks > 1, mBarriers=[summed[i]])

        with tlx.async_task(num_warps=1, num_regs=48):            # load
            tlx.barrier_expect_bytes(q_full[0], Q_BYTES)
            tlx.async_descriptor_load(q_desc, q_tiles[0], [head + query, 0], q_full[0])
            load(k_desc, keys, 0, head, K_BYTES, STAGES)
            tlx.barrier_expect_bytes(q_full[1], Q_BYTES)
            tlx.async_descriptor_load(q_desc, q_tiles[1], [head + query + 128, 0], q_full[1])
            load(v_desc, values, 0, head, K_BYTES, STAGES)
            for n in range(1, blocks):
                load(k_desc, keys, n, head + n * BN, K_BYTES, STAGES)
                load(v_desc, values, n, head + n * BN, K_BYTES, STAGES)


# Step 11. What if? One edit each, and what `mimw.check` says:
#
#     `arrive_count=1` for `ready`             PhaseMissed        P alone lets the product start, O may not have shrunk
#     totals on `shrunk`, too                  PhaseMissed        two arrivals in a row without a wait between them
#     the next scores before the product       UnwrittenRead      P lies in columns of the scores, and is read after them
#     `reuse_group(p, shrinks, totals)`        SlotReusedEarly    P over the columns that the correction reads
#     no wait for `summed`                     SlotReusedEarly    sums are read while the last product adds to them
#     `use_acc=True`                           UnwrittenRead      the first product adds to what nobody has written
#
# What ptxas says at D = 128, BN = 128: no spills if causal; one register, outside of loops, if not. With the mask written as
# in tutorial 06, `keys[None, :] <= queries[:, None]`, it keeps the numbers of 128 keys in registers and spills 106.


def arguments(q, k, v, o, lse, causal=False, BN=128, STAGES=2, PARTS=4):
    """(grid, args, meta) for contiguous (batch, heads, seq, dim) arrays; numpy for the simulator, torch on a GPU."""
    batch, heads, seq, dim = q.shape
    assert seq % 256 == 0, f"seq {seq} is no multiple of 256"

    def rows(x, block):
        return mimw.TensorDescriptor.from_tensor(x.reshape(batch * heads * seq, dim), [block, dim])

    args = rows(q, 128), rows(k, BN), rows(v, BN), rows(o, 128), lse, seq, log2(e) / sqrt(dim)
    return (seq // 256, batch * heads), args, dict(BN=BN, D=dim, STAGES=STAGES, PARTS=PARTS, CAUSAL=causal, num_warps=4)


def problem(heads, seq, dim, dtype=np.float16):
    """q, k, v, and room for o and the log-sum-exps."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, heads, seq, dim), np.float32).astype(dtype) for _ in range(3))
    return q, k, v, np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)


def expected(q, k, v, causal):
    """(o, lse) by numpy."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1]**-0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    return np.exp(scores - lse[..., None]) @ v, lse


def case():
    """A small problem on numpy arrays, and what should come out: `mimw check 10_blackwell_attention.py:case --target sm_100a`."""
    q, k, v, o, lse = problem(1, 512, 32)
    out, sums = expected(q, k, v, True)
    return mimw.Case(attention, *arguments(q, k, v, o, lse, causal=True, BN=64, PARTS=2),
                     expected={"o_desc": out.reshape(-1, 32), "lse": sums})


def simulate_one():
    """A small problem on the simulator."""
    import harness
    harness.simulated(case(), target="sm_100a")


def launch_one(seq):
    """The result on the GPU, full attention and causal."""
    import torch
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    from torch.nn.functional import scaled_dot_product_attention
    q, k, v = (torch.randn(4, 16, seq, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    for causal in (False, True):
        grid, args, meta = arguments(q, k, v, o, lse, causal)
        attention[grid](*args, **meta)
        print("largest difference to torch:", (o - scaled_dot_product_attention(q, k, v, is_causal=causal)).abs().max().item())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (4096, ))
