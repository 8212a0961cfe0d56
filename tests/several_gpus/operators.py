"""The operators of several GPUs on real ones, against torch: eagerly, time after time, and in a CUDA graph.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.several_gpus.operators [names]

Input: one process for each GPU. Output: as running.py says.
"""

import sys

import numpy as np
import torch
import torch.distributed as dist

from mimw import ops
from mimw.errors import RanksDisagree
from mimw.ops.distributed import (
    all_gather,
    all_gather_matmul,
    all_reduce,
    all_reduce_,
    all_to_all,
    matmul_all_reduce,
    matmul_reduce_scatter,
    moe,
    moe_combine,
    moe_dispatch,
    moe_dispatch_rows,
    moe_experts,
    reduce_scatter,
    ring_attention,
)

from .running import close, main, same, times


def drawn(seed, *shape, dtype=torch.bfloat16, scale=1.0):
    """The same at all ranks for a seed."""
    return (scale * torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")).to(dtype)


def everywhere(world, function, *inputs):
    """What `function` gives of `inputs`: the first time, after more calls, and of a graph of two calls on new inputs."""
    found = [function(*inputs)]
    for _ in range(times(world, 20)):
        again = function(*inputs)
    found.append(again)
    static, graph = [x.clone() for x in inputs], torch.cuda.CUDAGraph()
    dist.barrier()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        function(*static)
        out = function(*static)
    for x in static:
        x.zero_() if x.is_floating_point() else None
    graph.replay()
    for x, y in zip(static, inputs):
        x.copy_(y)
    graph.replay()
    torch.cuda.synchronize()
    return [*found, out]


def collectives(world):
    """All-reduce, all-gather and reduce-scatter, of sums in fp32."""
    rank, ranks, worst = world.rank, range(world.size), 0.0
    for shape, dtype in (((6, 5, 3), torch.bfloat16), ((512, 96), torch.float16), ((1024, 2048), torch.float32)):
        every = [drawn(one, *shape, dtype=dtype) for one in ranks]
        total = sum(one.float() for one in every)
        for found in everywhere(world, lambda x: all_reduce(x, world.group), every[rank]):
            worst = max(worst, close(found, total))
        for found in everywhere(world, lambda x: all_gather(x, world.group), every[rank]):
            same(found, torch.cat(every))
        place = every[rank].clone()
        assert all_reduce_(place, world.group) is place
        close(place, total)
        if shape[0] % world.size == 0:
            for found in everywhere(world, lambda x: reduce_scatter(x, world.group), every[rank]):
                worst = max(worst, close(found, total.chunk(world.size)[rank]))
    return f"error {worst:.1e}"


def products(world):
    """All-gather GEMM, GEMM reduce-scatter and GEMM all-reduce, with the routes that shapes choose."""
    rank, ranks, told = world.rank, range(world.size), []
    for rows, k, n, dtype in ((72, 64, 40, torch.bfloat16), (3, 20, 7, torch.float16), (1024, 512, 768, torch.bfloat16),
                              (4096, 2048, 4096, torch.bfloat16)):
        if world.shares_gpus and n % 8:     # which is a collective of torch's: of gloo, not in a graph
            continue
        a, b = [drawn(one, rows, k, dtype=dtype) for one in ranks], [drawn(9 + one, k, n, dtype=dtype) for one in ranks]
        tall = [drawn(20 + one, world.size * rows, k, dtype=dtype) for one in ranks]
        total = sum(one.float() @ other.float() for one, other in zip(tall, b))
        whole = torch.cat(a).float() @ b[rank].float()
        worst = 0.0
        for found in everywhere(world, lambda x, y: all_gather_matmul(x, y, world.group), a[rank], b[rank]):
            worst = max(worst, close(found, whole))
        for found in everywhere(world, lambda x, y: matmul_reduce_scatter(x, y, world.group), tall[rank], b[rank]):
            worst = max(worst, close(found, total.chunk(world.size)[rank]))
        for found in everywhere(world, lambda x, y: matmul_all_reduce(x, y, world.group), tall[rank], b[rank]):
            worst = max(worst, close(found, total))
        told.append(f"{worst:.1e}")
    return f"errors {' '.join(told)}"


def gradients(world):
    """Gradients of a product whose rows are gathered, against all ranks' sum."""
    rank, ranks = world.rank, range(world.size)
    a, b = [drawn(one, 256, 512) for one in ranks], [drawn(19 + one, 512, 384) for one in ranks]
    weights = [drawn(30 + one, world.size * 256, 384) for one in ranks]
    mine = a[rank].clone().requires_grad_(), b[rank].clone().requires_grad_()
    (all_gather_matmul(*mine, world.group) * weights[rank]).sum().backward()
    of_a = sum(weight.float() @ one.float().T for weight, one in zip(weights, b)).chunk(world.size)[rank]
    return f"errors {close(mine[0].grad, of_a):.1e} {close(mine[1].grad, torch.cat(a).float().T @ weights[rank].float()):.1e}"


def parts(world):
    """all_to_all: equal parts, and parts whose sizes are on the device."""
    ranks = range(world.size)
    every = [drawn(one, 64, 40, dtype=torch.float32) for one in ranks]
    wanted = torch.cat([one.chunk(world.size)[world.rank] for one in every])
    for found in everywhere(world, lambda x: all_to_all(x, group=world.group), every[world.rank]):
        same(found, wanted)
    draws = np.random.default_rng(world.size)
    cuts = np.sort(draws.integers(0, 65, (world.size, world.size - 1)), 1)      # none, one row, all of them
    splits = np.diff(cuts, prepend=0, append=64).tolist()
    mine = torch.tensor(splits[world.rank], device="cuda")
    for _ in range(times(world, 20)):
        y, counts = all_to_all(every[world.rank], mine, max_rows=64, group=world.group)
    wanted = torch.cat([one.split(sizes)[world.rank] for one, sizes in zip(every, splits)])
    same(counts.cpu(), torch.tensor([sizes[world.rank] for sizes in splits], dtype=counts.dtype))
    same(y[:len(wanted)], wanted)


def experts(world):
    """moe against all experts on one GPU, also in a graph; rows of fp8 with scales there and back, by weights that are sent and by
    weights that came."""
    count, hidden, inner, tokens, k, rank = 8, 512, 256, 200, 3, world.rank
    gate_up, down = drawn(1, count, 2 * inner, hidden, scale=0.05), drawn(2, count, hidden, inner, scale=0.1)
    x = drawn(3 + rank, tokens, hidden)
    ids = torch.rand(tokens, count, generator=torch.Generator("cuda").manual_seed(5 + rank), device="cuda").topk(k).indices
    weights = drawn(7 + rank, tokens, k, dtype=torch.float32).softmax(1)
    mine = slice(rank * count // world.size, (rank + 1) * count // world.size)
    wanted = ops.moe(x, gate_up, down, ids, weights)
    found = everywhere(world, lambda x, w: moe(x, gate_up[mine], down[mine], ids, w, max_tokens=256, group=world.group), x, weights)
    worst = max(close(one, wanted, 0.03) for one in found)

    def by_number(x, w):
        rows, _, sources, ends, handle = moe_dispatch_rows(x, ids, count, max_tokens=256, block=128, group=world.group)
        return moe_combine(moe_experts(rows, ends, gate_up[mine], down[mine], 128, sources), handle, w, world.group)

    worst = max(worst, *(close(one, wanted, 0.03) for one in everywhere(world, by_number, x, weights)))
    quantised, scale = x.to(torch.float8_e4m3fn), torch.rand(tokens, 4, device="cuda")
    rows, ends, scales, handle = moe_dispatch(quantised, ids, count, max_tokens=256, scale=scale, group=world.group)
    y = torch.where(torch.arange(len(rows), device="cuda")[:, None] < ends[-1], rows.float() * scales[:, :1], float("nan"))
    back = moe_combine(y, handle, weights, world.group)
    close(back, quantised.float() * scale[:, :1] * weights.sum(1, keepdim=True), 1e-3)
    everyones = torch.full((world.size, 256, k), float("nan"), device="cuda")       # as if they had come with the tokens
    for one in range(world.size):
        everyones[one, :tokens] = drawn(7 + one, tokens, k, dtype=torch.float32).softmax(1)
    for again in everywhere(world, lambda y, all_weights: moe_combine(y, handle._replace(weights=all_weights), group=world.group),
                            y, everyones):
        same(again, back)
    once, graph = (y.clone(), handle._replace(weights=everyones)), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):       # of an odd number of calls: a replay begins with the other generation
        out = moe_combine(*once, group=world.group)
    for _ in range(times(world, 21)):
        out.zero_()
        graph.replay()
    torch.cuda.synchronize()
    same(out, back)
    return f"error {worst:.1e}"


def few_tokens(world):
    """Results of few tokens in turn: eagerly, and of graphs of an odd number of calls; with the weights of all ranks."""
    count, hidden, tokens, k, rank, most = 4 * world.size, 1024, 61, 3, world.rank, 64
    x, weights = drawn(3 + rank, tokens - rank, hidden), drawn(7 + rank, tokens - rank, k, dtype=torch.float16)
    draws = [torch.rand(tokens - one, count, generator=torch.Generator("cuda").manual_seed(5 + one), device="cuda").topk(k).indices
             for one in range(world.size)]
    own = slice(4 * rank, 4 * rank + 4)

    def layer(x, w):
        rows, ends, _, handle = moe_dispatch(x, draws[rank], count, max_tokens=most, group=world.group, weights=w)
        listed = moe_dispatch_rows(x, draws[rank], count, max_tokens=most, group=world.group, weights=w)
        return rows, ends, handle.weights, listed.rows, listed.sources, listed.handle.weights

    def right(found, n):
        rows, ends, every, stay, sources, again = found
        routed = [(expert, one, int(token)) for expert in range(own.start, own.stop) for one, ids in enumerate(draws)
                  for token in (ids == expert).any(1).nonzero().flatten()]
        wanted = torch.stack([drawn(3 + one, tokens - one, hidden)[token] for _, one, token in routed]) + n
        assert int(ends[-1]) == len(routed)
        same(rows[:len(routed)], wanted)
        same(stay[sources[:len(routed)].long()], wanted)
        for found in (every, again):
            for one in range(world.size):
                same(found[one, :tokens - one], drawn(7 + one, tokens - one, k, dtype=torch.float16).float())
                assert not found[one, tokens - one:].any()

    for n in range(times(world, 5)):
        right(layer(x + n, weights), n)
    static, graph = x.clone(), torch.cuda.CUDAGraph()
    dist.barrier()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found = [layer(static, weights) for _ in range(3)][-1]
    for n in range(times(world, 7)):
        static.copy_(x + n)
        graph.replay()
        right(found, n)
        if n % 2:
            right(layer(x - n, weights), -n)        # and between replays by itself


def micro_batches(world):
    """moe in fp8 against numbers that are quantised and computed in fp32; in micro-batches the same bits, also in a graph."""
    count, hidden, inner, tokens, k, rank = 4 * world.size, 1024, 256, 500, 3, world.rank
    shapes = (count, 2 * inner, hidden), (count, hidden, inner)
    matrices = [drawn(one, *shape, dtype=torch.float32).to(torch.float8_e4m3fn) for one, shape in enumerate(shapes)]
    scales = [drawn(3 + one, shape[0], shape[1] // 128, shape[2] // 128, dtype=torch.float32).abs() / shape[2] ** 0.5
              for one, shape in enumerate(shapes)]
    x = drawn(5 + rank, tokens - rank, hidden)
    ids = torch.rand(len(x), count, generator=torch.Generator("cuda").manual_seed(5 + rank), device="cuda").topk(k).indices.int()
    weights = drawn(7 + rank, len(x), k, dtype=torch.float32).softmax(1)
    wanted = ops.moe(x, *matrices, ids, weights, w_gate_up_scale=scales[0], w_down_scale=scales[1])
    mine = slice(4 * rank, 4 * rank + 4)
    (gate_up, down), (of_gate_up, of_down) = [one[mine] for one in matrices], [one[mine] for one in scales]

    def layer(x, w, **how):
        return moe(x, gate_up, down, ids, w, w_gate_up_scale=of_gate_up, w_down_scale=of_down, max_tokens=tokens, group=world.group,
                   **how)

    found = everywhere(world, layer, x, weights)
    worst = max(close(one, wanted) for one in found)
    for parts in (2, 5):
        for again in everywhere(world, lambda x, w, parts=parts: layer(x, w, micro_batches=parts), x, weights):
            assert torch.equal(again, found[0]), f"{parts} micro-batches: {int((again != found[0]).sum())} numbers differ"
    wide = [(one.float() / 16).bfloat16() for one in (gate_up, down)]
    found = [moe(x, *wide, ids, weights, max_tokens=tokens, group=world.group, micro_batches=parts) for parts in (1, 2)]
    assert torch.equal(*found), "without scales"
    return f"error {worst:.1e}"


def looks(world):
    """Operands that lie otherwise at one rank, at another call, where TMA reads nothing; a row each; streams of torch's pool."""
    rank, ranks, size, worst = world.rank, range(world.size), world.size, 0.0
    for rows, k, n in ((1, 64, 8), (256, 512, 384), (4096, 4096, 4096)):
        a, b = [drawn(one, rows, k) for one in ranks], [drawn(9 + one, k, n) for one in ranks]
        tall = [drawn(20 + one, size * rows, k) for one in ranks]
        total = sum(one.float() @ other.float() for one, other in zip(tall, b))
        odd = torch.nn.functional.pad(b[rank], (0, 1))[:, :-1]
        moved = torch.cat([a[rank].flatten()[:1], a[rank].flatten()])[1:].view(rows, k)
        for x, y in ((a[rank], b[rank]), (moved, odd) if rank else (a[rank], b[rank]), (a[rank], b[rank].T.contiguous().T),
                     (moved, odd)):
            worst = max(worst, close(all_gather_matmul(x, y, world.group), torch.cat(a).float() @ b[rank].float()))
            worst = max(worst, close(matmul_reduce_scatter(tall[rank], y, world.group), total.chunk(size)[rank]))
            worst = max(worst, close(matmul_all_reduce(tall[rank], y, world.group), total))
        streams = [torch.cuda.Stream(priority=-1) for _ in range(33)]       # among them the one that carries sums
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = matmul_reduce_scatter(tall[rank], b[rank], world.group)
            torch.cuda.current_stream().wait_stream(stream)
        worst = max(worst, close(found, total.chunk(size)[rank]))
    whole = [drawn(40 + one, size * 4096 + 1, dtype=torch.float32)[1:].view(size, 4096) for one in ranks]   # not at 16 bytes
    wanted = torch.stack([one[rank] for one in whole])
    x = whole[rank].requires_grad_()
    y = all_to_all(x, group=world.group)
    (y * (rank + 1)).sum().backward()
    same(y, wanted)
    same(x.grad[:, 0].cpu(), torch.arange(1.0, size + 1))
    return f"error {worst:.1e}"


def differences(world):
    """Each operator with another shape at one rank, new to all: named at both before anything runs, and the next call is right."""
    rank, group, size = world.rank, world.group, world.size
    x, ids = drawn(1, 64 + 64 * rank, 64), torch.zeros(64, 2, dtype=torch.int32, device="cuda")
    b, q = drawn(2, 64, 64), drawn(3, 1, 2, 128 + 128 * rank, 64)
    either = [world.symmetric((64, 64), torch.bfloat16) for _ in range(2)]
    rows, weights = drawn(4, 64, 64 + 64 * rank), torch.ones(64, 2, device="cuda")
    for call in (lambda: all_reduce(x, group), lambda: all_reduce_(x.clone(), group), lambda: all_gather(x, group),
                 lambda: all_reduce(either[rank > 0], group, True),
                 lambda: reduce_scatter(x, group), lambda: all_gather_matmul(x, b, group), lambda: matmul_all_reduce(x, b, group),
                 lambda: matmul_reduce_scatter(x, b, group), lambda: ring_attention(q, q, q, group=group),
                 lambda: all_to_all(x, group=group), lambda: moe_dispatch(rows, ids, 2 * size, group=group),
                 lambda: moe_dispatch_rows(rows, ids, 2 * size, group=group),
                 lambda: moe(rows, drawn(5, 2, 64, 64 + 64 * rank), drawn(6, 2, 64 + 64 * rank, 32), ids, weights, group=group)):
        try:
            call()
        except RanksDisagree:
            continue
        raise AssertionError("no RanksDisagree")
    close(all_reduce(drawn(rank, 64, 64), group), sum(drawn(one, 64, 64).float() for one in range(size)))


CHECKS = (collectives, products, gradients, parts, experts, few_tokens, micro_batches, looks, differences)

if __name__ == "__main__":
    sys.exit(main(CHECKS, heap=1 << 30, ahead=True))
