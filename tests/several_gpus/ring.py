"""Ring attention on several real GPUs: values and gradients against torch in fp32, call after call, and in a CUDA graph.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.several_gpus.ring [how many cases]

Input: one process for each GPU. Output: a line for each case from rank 0, and exit status 1 where one is wrong at a rank. A
process that hangs prints its stack and ends after running.LIMIT seconds.
"""

import faulthandler
import sys

import torch
import torch.distributed as dist

import mimw.distributed
from mimw.kernels.ring_attention import positions
from mimw.ops.distributed import ring_attention

from .running import LIMIT, anew, compile_ahead

ALLOWED = {torch.bfloat16: 1e-2, torch.float16: 4e-3}      # of a result's largest element
# batch, heads, kv_heads, rows of a rank, dim, causal, balanced, type, room
CASES = [
    (1, 4, 2, 512, 128, False, True, torch.bfloat16, None),
    (1, 4, 2, 512, 128, True, True, torch.bfloat16, None),
    (2, 6, 3, 1024, 64, True, True, torch.float16, None),
    (2, 6, 2, 384, 64, False, True, torch.bfloat16, None),
    (1, 4, 4, 640, 128, True, False, torch.float16, None),
    (2, 8, 4, 512, 128, True, True, torch.bfloat16, 1),
    (1, 32, 8, 2048, 128, True, True, torch.bfloat16, None),
    (1, 32, 8, 2048, 128, False, True, torch.bfloat16, None),
]


def whole(size, batch, heads, kv_heads, length, dim, dtype):
    """q, k, v and the gradients of o and lse of the whole sequence, the same at all ranks."""
    made = torch.Generator("cuda").manual_seed(length + dim)
    shapes = [(batch, h, size * length, dim) for h in (heads, kv_heads, kv_heads, heads)]
    made_of = [torch.randn(shape, generator=made, device="cuda").to(dtype) for shape in shapes]
    return [*made_of, torch.randn(shapes[0][:3], generator=made, device="cuda")]


def expected(q, k, v, do, dlse, causal):
    """(o, lse, dq, dk, dv) in fp32, head by head."""
    group, found = q.shape[1] // k.shape[1], []
    for head in range(q.shape[1]):
        one, key, value = (x[:, at].float().requires_grad_() for x, at in ((q, head), (k, head // group), (v, head // group)))
        scores = one @ key.mT * q.shape[-1]**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").triu(1), float("-inf"))
        lse = scores.logsumexp(-1)
        o = (scores - lse[..., None]).exp() @ value
        gradients = torch.autograd.grad((o, lse), (one, key, value), (do[:, head].float(), dlse[:, head]))
        found.append((o.detach(), lse.detach(), *gradients))
    o, lse, dq, dk, dv = (torch.stack(x, 1) for x in zip(*found))
    return o, lse, dq, *(x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv))


def errors_of(world, batch, heads, kv_heads, length, dim, causal, balanced, dtype, room):
    inputs = whole(world.size, batch, heads, kv_heads, length, dim, dtype)
    mine = torch.from_numpy(positions(world.rank, world.size, length, 2 if causal and balanced else 1)).cuda()
    wanted = [x[:, :, mine] for x in expected(*inputs, causal)]
    q, k, v, do, dlse = (x[:, :, mine].contiguous() for x in inputs)
    q, k, v = (x.requires_grad_() for x in (q, k, v))

    def call():
        o, lse = ring_attention(q, k, v, causal, balanced, return_lse=True, room=room, group=world.group)
        return o, lse, *torch.autograd.grad((o, lse), (q, k, v), (do, dlse))

    worst = [0.0] * 5
    for _ in range(3):
        worst = [max(error, float((x.detach().float() - y).abs().max() / y.abs().max()))
                 for error, x, y in zip(worst, call(), wanted)]
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ring_attention(q, k, v, causal, balanced, room=room, group=world.group)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(3):
                o = ring_attention(q, k, v, causal, balanced, room=room, group=world.group)
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        worst[0] = max(worst[0], float((o.float() - wanted[0]).abs().max() / wanted[0].abs().max()))
    return worst


def main(cases=CASES):
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    world = mimw.distributed.init(timeout=60)
    wrong, cases = 0, cases[:int(sys.argv[1])] if len(sys.argv) > 1 else cases
    other = anew()
    compile_ahead(world, [lambda case=case: errors_of(other, *case) for case in cases])
    for case in cases:
        errors = errors_of(world, *case)
        everywhere = [None] * world.size
        dist.all_gather_object(everywhere, errors)
        worst = [max(of) for of in zip(*everywhere)]
        right = all(error < ALLOWED[case[7]] for error in worst)
        wrong += not right
        if world.rank == 0:
            told = " ".join(f"{name} {error:.1e}" for name, error in zip(("o", "lse", "dq", "dk", "dv"), worst))
            print("right" if right else "WRONG", *case, told, flush=True)
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
