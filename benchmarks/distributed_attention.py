"""Attention of a sequence that is cut over the GPUs of one host, forward or backward.

    python -m benchmarks.distributed_attention      batch 1, 32 heads, 8 of keys, head dim 128, bf16; 16384, 32768 and 65536 rows in
                                                    all, full and causal; two GPUs
    python -m benchmarks.distributed_attention --seq 4096 --mask full       others
    python -m benchmarks.distributed_attention --backward                   the gradients

Each rank holds seq / gpus rows; under a causal mask they are two chunks, so that all have the same work. Beside ours:

    mimw alone      our attention on one GPU, of as many operations, whose keys are all there: the least that is left to do. Full:
                    the rank's queries on all keys; causal: the whole sequence with heads / gpus heads
    NCCL, cuDNN     all-gather of keys and values, then cuDNN's attention; causal: on the rank's own rows and on the others', two
                    results merged by their log-sum-exps. Gradients: gathered again, then reduce-scattered
                    (distributed_attention_peers.py)
    ring            a plain ring: NCCL sends the next keys and values while cuDNN works on these, results merged as above

Inputs are standard normal, and each result is checked against fp64 on some rows of some heads. Times are of the slowest rank, from
when all have met on the GPU, with a cold L2 (benchmarks/distributed.py). Causal counts half the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from mimw.kernels import attention, attention_backward, ring_attention
from mimw.testing.benchmark import Row

from .distributed import alternate, compiled_ahead, ended, keep_row, started, together, worst
from .distributed_attention_peers import gather_and_scatter
from .driver import command
from .gpu import row_of, torch
from .progress import each

SEQS = (16384, 32768, 65536)
_ROWS = 8           # of every head, in a check
_CHECKED = 4        # heads


class Problem:
    """A rank's rows, and what the others' are."""

    def __init__(self, world, seq: int, heads: int, kv_heads: int, dim: int, causal: bool):
        self.world, self.seq, self.causal, self.dim = world, seq, causal, dim
        self.length = seq // world.size
        self.group = heads // kv_heads
        torch.manual_seed(world.rank)
        self.q, self.k, self.v, self.do = (torch.randn(1, h, self.length, dim, device="cuda", dtype=torch.bfloat16)
                                           for h in (heads, kv_heads, kv_heads, heads))
        self.rows = [torch.from_numpy(ring_attention.positions(rank, world.size, self.length, 2 if causal else 1)).cuda()
                     for rank in range(world.size)]

    def gathered(self, x):
        """x of all ranks, by rank."""
        whole = x.new_empty(self.world.size, *x.shape)
        torch.distributed.all_gather_into_tensor(whole, x.contiguous(), group=self.world.group)
        return whole

    def error(self, o, lse=None) -> float:
        """||o - reference|| / ||reference|| on some rows of some heads, the worst rank's; no number where lse is wrong."""
        keys, values = (torch.cat(tuple(self.gathered(x)), 2) for x in (self.k, self.v))
        order = torch.cat(self.rows)
        at = torch.randperm(self.length, device="cuda")[:_ROWS]
        at[0], at[1] = 0, self.length - 1
        worst_of = []
        for head in torch.arange(0, self.q.shape[1], max(1, self.q.shape[1] // _CHECKED)).tolist():
            key, value = keys[0, head // self.group].double(), values[0, head // self.group].double()
            scores = self.q[0, head, at].double() @ key.T / self.dim**0.5
            if self.causal:
                scores.masked_fill_(order[None, :] > self.rows[self.world.rank][at][:, None], float("-inf"))
            expected = scores.softmax(-1) @ value
            worst_of.append(((o[0, head, at].double() - expected).norm() / expected.norm()).item())
            if lse is not None and not (lse[0, head, at] - scores.logsumexp(-1)).abs().max() < 1e-3:
                worst_of.append(float("nan"))
        return worst(self.world, max(worst_of, key=lambda one: float("inf") if one != one else one))

    def gradient_error(self, o, lse, dq, dk, dv) -> float:
        """The same of the gradients of the first head of keys: of some queries, and of some keys, which all ranks see."""
        parts = *(x[:, :self.group] for x in (self.q, self.do, o, lse)), self.k[:, :1], self.v[:, :1]
        q, do, out, sums, k, v = (torch.cat(tuple(self.gathered(x)), 2)[0].double() for x in parts)
        order, mine = torch.cat(self.rows), self.world.rank * self.length
        at = torch.randperm(self.length, device="cuda")[:_ROWS]
        at[0], at[1] = 0, self.length - 1
        delta, scale = (do * out).sum(-1), self.dim**-0.5

        def slopes(queries, keys):
            """(P, dS), heads by queries by keys."""
            scores = q[:, queries] @ k[:, keys].mT * scale
            p = (scores - sums[:, queries, None]).exp()
            if self.causal:
                p = p.masked_fill(order[keys][None, None, :] > order[queries][None, :, None], 0)
            return p, p * (do[:, queries] @ v[:, keys].mT - delta[:, queries, None])

        every = torch.arange(self.seq, device="cuda")
        p, ds = slopes(every, mine + at)
        wanted = {"dk": (ds.mT @ q * scale).sum(0), "dv": (p.mT @ do).sum(0), "dq": slopes(mine + at, every)[1] @ k * scale}
        found = {"dk": dk[0, 0, at], "dv": dv[0, 0, at], "dq": dq[0, :self.group, at]}
        return worst(self.world, max(((found[name].double() - one).norm() / one.norm()).item() for name, one in wanted.items()))


# ---- ours ------------------------------------------------------------------------------------------------------------------


def ours(problem: Problem) -> Callable[[], tuple]:
    from mimw.ops.distributed import ring_attention as operator

    def call():
        return operator(problem.q, problem.k, problem.v, problem.causal, return_lse=True, group=problem.world)
    return call


def alone(problem: Problem, backward: bool) -> Callable[[], Any]:
    """Our attention of as many operations, on one GPU."""
    from mimw import ops
    if problem.causal:
        share = problem.world.size
        heads = problem.q.shape[1] // share
        shapes = [(1, heads, problem.seq), (1, max(1, problem.k.shape[1] // share), problem.seq)]
    else:
        shapes = [tuple(problem.q.shape[:3]), (1, problem.k.shape[1], problem.seq)]
    q, k, v = (torch.randn(*shapes[at], problem.dim, device="cuda", dtype=torch.bfloat16) for at in (0, 1, 1))
    if not backward:
        return lambda: ops.attention(q, k, v, causal=problem.causal)
    o, lse = ops.attention(q, k, v, causal=problem.causal, return_lse=True)
    do = torch.randn_like(o)
    return lambda: torch.ops.mimw.attention_backward(do, q, k, v, o, lse, None, problem.causal, None)


def gradients(problem: Problem) -> Callable[[], Any]:
    """Our gradients."""
    from mimw.ops.distributed.ring_attention_backward import RING_ATTENTION_BACKWARD
    o, lse = ours(problem)()
    return lambda: RING_ATTENTION_BACKWARD(problem.do, problem.q, problem.k, problem.v, o, lse, None, problem.causal, True, None,
                                           None, problem.world.name)


# ---- of cuDNN and NCCL -----------------------------------------------------------------------------------------------------


def cudnn(q, k, v, causal: bool):
    """(o, log-sum-exps) by cuDNN."""
    o, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)
    return o, lse.reshape(o.shape[:3])


def merged(o, lse, more, more_lse):
    """Two results on different keys as one, in fp32."""
    both = torch.logaddexp(lse, more_lse)
    return o * (lse - both).exp()[..., None] + more * (more_lse - both).exp()[..., None], both


def with_source(problem: Problem, result, source: int, k, v):
    """The result so far and that on the keys of another rank, as many of them as the rank's queries see."""
    o, lse = result
    half, me = problem.length // 2, problem.world.rank
    if not problem.causal:
        return merged(o, lse, *cudnn(problem.q, k, v, False))
    if source < me:
        return merged(o, lse, *cudnn(problem.q, k[:, :, :half], v[:, :, :half], False))
    late = merged(o[:, :, half:], lse[:, :, half:], *cudnn(problem.q[:, :, half:], k, v, False))
    return tuple(torch.cat((x[:, :, :half], y), 2) for x, y in zip((o, lse), late))


def gather_then(problem: Problem) -> Callable[[], tuple]:
    """All-gather, then cuDNN. Full: keys and values lie as (rows, heads, dim), so that what is gathered is one sequence."""
    world, dist = problem.world, torch.distributed
    if problem.causal:
        both = torch.stack((problem.k, problem.v))
        whole = both.new_empty(world.size, *both.shape)

        def causal():
            dist.all_gather_into_tensor(whole, both, group=world.group)
            o, lse = cudnn(problem.q, problem.k, problem.v, True)
            result = o.float(), lse
            for source in (rank for rank in range(world.size) if rank != world.rank):
                result = with_source(problem, result, source, *whole[source])
            return result[0].to(problem.q.dtype), result[1]
        return causal
    k, v = (x[0].transpose(0, 1).contiguous() for x in (problem.k, problem.v))
    whole_k, whole_v = (x.new_empty(problem.seq, *x.shape[1:]) for x in (k, v))

    def full():
        dist.all_gather_into_tensor(whole_k, k, group=world.group)
        dist.all_gather_into_tensor(whole_v, v, group=world.group)
        return cudnn(problem.q, *(x.transpose(0, 1)[None] for x in (whole_k, whole_v)), False)
    return full


def ring(problem: Problem) -> Callable[[], tuple]:
    """Step s works on the keys of the rank s behind, while NCCL brings those of the rank behind that."""
    world, dist = problem.world, torch.distributed
    after, before = ((world.rank + step) % world.size for step in (1, -1))
    ranks = [dist.get_global_rank(world.group, one) for one in (after, before)]
    own = torch.stack((problem.k, problem.v))
    rooms = [torch.empty_like(own) for _ in range(2)]

    def call():
        result, here = None, own
        for step in range(world.size):
            source, works = (world.rank - step) % world.size, []
            there = rooms[step % 2]
            if step < world.size - 1:
                works = dist.batch_isend_irecv([dist.P2POp(dist.isend, here, ranks[0], world.group),
                                                dist.P2POp(dist.irecv, there, ranks[1], world.group)])
            if step == 0:
                o, lse = cudnn(problem.q, problem.k, problem.v, problem.causal)
                result = o.float(), lse
            else:
                result = with_source(problem, result, source, *here)
            for work in works:
                work.wait()
            here = there
        return result[0].to(problem.q.dtype), result[1]
    return call


# ---- rows ------------------------------------------------------------------------------------------------------------------


def works(world, name: str, call: Callable[[], Any]) -> bool:
    """Whether a baseline runs here; what it says if not."""
    try:
        call()
        torch.cuda.synchronize()
        return True
    except (RuntimeError, NotImplementedError) as error:
        if world.rank == 0:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        return False


def launches(world, shapes: list[tuple[int, bool]], options) -> Iterator[Callable[[], Any]]:
    """Ours of all rows, with what they are compared with, to be compiled before ranks meet."""
    for seq, causal in shapes:
        problem = Problem(world, seq, options.heads, options.kv_heads, options.dim, causal)
        yield ours(problem)
        if options.backward:
            yield gradients(problem)
        yield alone(problem, options.backward)
        torch.cuda.empty_cache()


def measured(world, seq: int, causal: bool, options) -> Row:
    """One row, checked."""
    problem = Problem(world, seq, options.heads, options.kv_heads, options.dim, causal)
    call = ours(problem)
    for _ in range(2):
        o, lse = call()
    error = problem.error(o, lse)
    assert error < 5e-3, f"wrong: an error of {error}"
    if options.backward:
        sides = {"mimw": gradients(problem), "mimw alone": alone(problem, True)}
        error = problem.gradient_error(o, lse, *sides["mimw"]())
        assert error < 1e-2, f"wrong: an error of {error} of the gradients"
        others = {"NCCL, cuDNN": lambda problem: gather_and_scatter(problem, o, lse)}
    else:
        sides = {"mimw": call, "mimw alone": alone(problem, False)}
        others = {"NCCL, cuDNN": gather_then, "ring": ring}
    for name, make in others.items():
        other = make(problem)
        if works(world, name, other):
            wrong = problem.gradient_error(o, lse, *other()) if options.backward else problem.error(*other())
            assert wrong < (2e-2 if options.backward else 1e-2), f"{name}: an error of {wrong}"
            sides[name] = other
    together(world)
    times = alternate(world, sides, options.ms)
    shape = dict(batch=1, heads=options.heads, kv_heads=options.kv_heads, seq=seq, dim=options.dim, gpus=world.size)
    name = f"distributed-attention-{'backward-' if options.backward else ''}bf16-{'causal' if causal else 'full'}"
    chosen = (attention_backward if options.backward else attention).configuration(options.dim, causal)
    return row_of(name, shape, vars(chosen), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people; the rate is one GPU's."""
    shape = row.shape
    flops = 4 * shape["heads"] * shape["seq"]**2 * shape["dim"] / shape["gpus"]
    flops *= (0.5 if "causal" in row.name else 1) * (2.5 if "backward" in row.name else 1)
    others = "  ".join(f"{name} {time:.0f} us ratio {row.ratios()[name]:.3f}" for name, time in row.baselines.items())
    rate = flops / row.microseconds / 1e6
    return f"{row.name:<38} seq {shape['seq']:<6} {row.microseconds:9.1f} us {rate:6.0f} TFLOP/s  {others}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=100.0)
    parser.add_argument("--seq", type=int, nargs="*", default=SEQS)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--mask", choices=["full", "causal", "both"], default="both")
    parser.add_argument("--backward", action="store_true", help="the gradients of q, k and v")
    options, world = started(parser, "benchmarks.distributed_attention")
    shapes = list(product(options.seq, {"full": [False], "causal": [True], "both": [False, True]}[options.mask]))
    compiled_ahead(world, launches(world, shapes, options))
    for seq, causal in each(shapes, lambda one: f"{one[0]} {'causal' if one[1] else 'full'}", world.rank > 0):
        row = measured(world, seq, causal, options)
        keep_row(world, row, options.results / "distributed-attention.jsonl", line)
        torch.cuda.empty_cache()
    ended()


if __name__ == "__main__":
    main()
