"""06  Attention: two matrix products with a softmax in between, and how to hide the softmax.

    python tutorials/06_attention.py             on a GPU: check, and measure against cuDNN; elsewhere: simulate a small one
                                                 (harness.py runs and measures it)

O = softmax(scale Q K^T) V for each head. The scores are never stored: a tile of queries walks over blocks of keys, and when a block
raises a row's maximum, what was summed before shrinks to the new scale ("online softmax"). So the tensor cores and the
exponentials take turns, unless we arrange that they do not. Three arrangements make this program fast, each a few lines:

    roles            one warp loads with TMA, two warpgroups of 64 queries each compute
    one block ahead  a warpgroup starts the scores of block n, then the product of block n - 1, and only then does the softmax of n
    turns            while one warpgroup does its softmax, the other one has the tensor cores

The library's version (src/mimw/kernels/attention) adds what users need: lengths that no tile divides, grouped queries, strides, a
persistent grid that evens out causal work.
"""

from math import e, log2, sqrt

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. A ring of tiles is three nouns: the tiles, a barrier each that completes when a tile has landed, and one that completes
# when its readers are done. Slot and phase follow from how many tiles have gone through. The loading warp fills rings:
@mimw.jit
def load(desc, ring, number, row, BYTES: tl.constexpr, STAGES: tl.constexpr):
    tiles, full, free = ring
    slot, phase = tlx.warp_spec.get_bufidx_phase(number, STAGES)
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], BYTES)
    tlx.async_descriptor_load(desc, tiles[slot], [row, 0], full[slot])


# Step 2. The online softmax of one block, in base 2, because that is what the hardware has: `scale` includes log2(e). Scaling and
# subtracting the maximum is one multiply-add for each score.
@mimw.jit
def softmax(scores, highest, total, scale):
    new = tl.maximum(highest, tl.max(scores, 1))
    p = tl.exp2(scores * scale - (new * scale)[:, None])
    shrink = tl.exp2((highest - new) * scale)
    return p, new, total * shrink + tl.sum(p, 1), shrink


# Step 3. Queries see no keys after themselves. Only the block on the diagonal needs this.
@mimw.jit
def mask(scores, query, key):
    queries, keys = query + tl.arange(0, scores.shape[0]), key + tl.arange(0, scores.shape[1])
    return tl.where(keys[None, :] <= queries[:, None], scores, float("-inf"))


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, seq, scale, BN: tl.constexpr, D: tl.constexpr, STAGES: tl.constexpr,
              CAUSAL: tl.constexpr):
    """O and log-sum-exp of 128 queries of one head. Matrices have (heads * seq) rows of D; `seq` is a multiple of 128 and BN."""
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    Q_BYTES: tl.constexpr = 64 * D * tlx.size_of(DTYPE)
    K_BYTES: tl.constexpr = BN * D * tlx.size_of(DTYPE)
    q_tiles, q_full = tlx.local_alloc((64, D), DTYPE, 2), tlx.alloc_barriers(2)
    keys = tlx.local_alloc((BN, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)
    values = tlx.local_alloc((BN, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)

    # Step 4. Which queries? The longest causal tiles first, so that the short ones fill the gaps at the end. Blocks of keys are
    # taken from the last to the first: then it is the first block, before the loop, that needs the mask.
    query = (tl.num_programs(0) - 1 - tl.program_id(0)) * 128
    head = tl.program_id(1) * seq
    blocks = (query + 128) // BN if CAUSAL else seq // BN

    with tlx.async_tasks():
        # Step 5. Two consumers, with most of the registers: each holds a 64 x BN tile of scores, one of probabilities and a
        # 64 x D accumulator.
        with tlx.async_task("default", num_regs=240, replicate=2):    # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            k_tiles, k_full, k_free = keys
            v_tiles, v_full, v_free = values
            q = q_tiles[me]
            # Step 6. The first block has nothing to run beside.
            tlx.barrier_wait(q_full[me], 0)
            tlx.barrier_wait(k_full[0], 0)
            scores = tlx.async_dot(q, tlx.local_trans(k_tiles[0]))
            scores = tlx.async_dot_wait(0, scores)
            tlx.barrier_arrive(k_free[0])
            if CAUSAL:
                scores = mask(scores, query + me * 64, (blocks - 1) * BN)
            p, highest, total, _ = softmax(scores, tl.full((64, ), float("-inf"), tl.float32), tl.zeros((64, ), tl.float32), scale)
            p = p.to(DTYPE)
            acc = tl.zeros((64, D), tl.float32)
            tlx.barrier_wait(v_full[0], 0)

            # Step 7. Turns are two of the hardware's named barriers. Number 8 + i lets consumer i go on when the 128 threads of
            # both consumers have come: its own to wait, the other's to say that they have started their dots. Consumer 1
            # begins by saying so, hence consumer 0 goes first.
            if me == 1:
                tlx.named_barrier_arrive(8, 256)
            for n in range(1, blocks):
                slot, phase = tlx.warp_spec.get_bufidx_phase(n, STAGES)
                before = (n - 1) % STAGES
                tlx.barrier_wait(k_full[slot], phase)
                tlx.named_barrier_wait(8 + me, 256)
                # Step 8. Both dots start here. The second takes its left operand from registers, where the softmax left it.
                scores = tlx.async_dot(q, tlx.local_trans(k_tiles[slot]))
                acc = tlx.async_dot(p, v_tiles[before], acc)
                tlx.named_barrier_arrive(9 - me, 256)
                # Step 9. One may still run: that is the product. The scores are there.
                scores = tlx.async_dot_wait(1, scores)
                tlx.barrier_arrive(k_free[slot])
                p, highest, total, shrink = softmax(scores, highest, total, scale)
                # Step 10. Wait for the next values here, not where they are needed: the assembler moves nothing over this loop
                # of the hardware, so the wait for the product stays after the softmax. Without it, it would come before, and
                # nothing would overlap.
                tlx.barrier_wait(v_full[slot], phase)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(v_free[before])
                acc *= shrink[:, None]
                p = p.to(DTYPE)

            # Step 11. The last product; the result goes where the queries lay, and from there to memory by TMA.
            acc = tlx.async_dot(p, v_tiles[(blocks - 1) % STAGES], acc)
            acc = tlx.async_dot_wait(0, acc)
            tl.store(lse + head + query + me * 64 + tl.arange(0, 64), (highest * scale + tl.log2(total)) * 0.6931471805599453)
            tlx.local_store(q, (acc * (1 / total)[:, None]).to(DTYPE))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(o_desc, q, [head + query + me * 64, 0])
            tlx.async_descriptor_store_wait(0)

        # Step 12. The producer: keys are one block ahead of values here, too.
        with tlx.async_task(num_warps=1, num_regs=24):            # producer
            for i in tl.static_range(2):
                tlx.barrier_expect_bytes(q_full[i], Q_BYTES)
                tlx.async_descriptor_load(q_desc, q_tiles[i], [head + query + i * 64, 0], q_full[i])
            last = head + (blocks - 1) * BN
            load(k_desc, keys, 0, last, K_BYTES, STAGES)
            for n in range(1, blocks):
                load(k_desc, keys, n, last - n * BN, K_BYTES, STAGES)
                load(v_desc, values, n - 1, last - (n - 1) * BN, K_BYTES, STAGES)
            load(v_desc, values, blocks - 1, head, K_BYTES, STAGES)


def arguments(q, k, v, o, lse, causal=False, BN=128, STAGES=2):
    """(grid, args, meta) for contiguous (batch, heads, seq, dim) arrays; numpy for the simulator, torch on a GPU."""
    batch, heads, seq, dim = q.shape
    assert seq % 128 == 0, f"seq {seq} is no multiple of 128"

    def rows(x, block):
        return mimw.TensorDescriptor.from_tensor(x.reshape(batch * heads * seq, dim), [block, dim])

    args = rows(q, 64), rows(k, BN), rows(v, BN), rows(o, 64), lse, seq, log2(e) / sqrt(dim)
    return (seq // 128, batch * heads), args, dict(BN=BN, D=dim, STAGES=STAGES, CAUSAL=causal, num_warps=4)


# Measured on an H200 (this program, batch 4, 48 heads, head dim 128, seq 4096, bf16):
#
#     full     614 TFLOP/s, 0.978 x cuDNN in the same run
#     causal   566 TFLOP/s, 1.033 x cuDNN
#
# The library's kernel made 638 and 598 TFLOP/s there: 1.056 and 1.115 x cuDNN.


def case():
    """A small problem on numpy arrays, and what should come out: `mimw check 06_attention.py:case`."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, 640, 64), np.float32).astype(np.float16) for _ in range(3))
    o, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    scores = q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2) / 8
    scores[..., np.triu(np.ones((640, 640), bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ v.astype(np.float32)
    return mimw.Case(attention, *arguments(q, k, v, o, lse, causal=True), expected={"o_desc": expected.reshape(-1, 64)})


def measure_one(seq):
    """Two lines for the GPU, full attention and causal."""
    import torch
    from measure import measured
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    q, k, v = (torch.randn(4, 48, seq, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    for causal in (False, True):

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return scaled_dot_product_attention(q, k, v, is_causal=causal)

        grid, args, meta = arguments(q, k, v, o, lse, causal)
        print(measured("causal attention" if causal else "attention", dict(batch=4, heads=48, seq=seq, dim=128), meta,
                       lambda: attention[grid](*args, **meta), {"cuDNN": cudnn}, o, cudnn(),
                       flops=4 * 4 * 48 * seq**2 * 128 / (2 if causal else 1), allowed=5e-3))


if __name__ == "__main__":
    import harness
    harness.run(case, measure_one, (4096, ))
