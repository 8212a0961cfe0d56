"""Random calls of the operators of several GPUs, one behind the other, by ranks that each plan for themselves (threads.py).

    python -m tests.ops.distributed.sequences --seconds 300 --first 0       what was wrong; 1 if anything was

Input: how long, and the first seed. Output: the calls of a sequence with a wrong result, and how many sequences there were. Shapes
come back after others; operands lie at addresses of their own at each rank, which makes ranks plan at different times. Numbers are
small integers, so sums are exact, but for attention.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Callable

import torch

from mimw.kernels import moe_dispatch as library

from .threads import MODULES, Threads, moved, on_gpu, ranks_in_threads

CALLS = 12              # of a sequence
GATHER, REDUCE, COLLECTIVES, DISPATCH, COMBINE, RING = (MODULES[name]._run for name in (
    "all_gather_matmul", "matmul_reduce_scatter", "collectives", "moe_dispatch", "moe_combine", "ring_attention"))


class Call:
    """What is drawn for a call: by `dice` what is the same at all ranks, by `lies` how an operand lies at one of them."""

    def __init__(self, threads: Threads, seed: int, number: int):
        self.threads, self.seed, self.size = threads, f"{seed} {number}", len(threads.ranks)
        self.dice, self.made = random.Random(self.seed), 1000 * number
        self.dices = [random.Random(f"{self.seed} {rank}") for rank in range(self.size)]

    def numbers(self, *shape: int, dtype: torch.dtype = torch.bfloat16, low: int = -2, high: int = 3) -> torch.Tensor:
        self.made += 1
        return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(self.made)).to(dtype)

    def of_ranks(self, *shape: int, **how) -> list[torch.Tensor]:
        return [self.numbers(*shape, **how) for _ in range(self.size)]

    def lies(self, x: torch.Tensor, rank: int | None = None) -> torch.Tensor:
        """x on a "GPU", now and then moved; without a rank the same at all of them."""
        dice = random.Random(self.seed) if rank is None else self.dices[rank]
        return on_gpu(moved(x) if dice.random() < 0.4 else x)


def product(call: Call) -> tuple[str, Callable[[int], bool]]:
    name = call.dice.choice(["gathered", "scattered", "reduced"])
    rows, k, n = call.dice.choice([1, 1, 4, 24]), 64, 8
    a, b, tall = call.of_ranks(rows, k), call.of_ranks(k, n), call.of_ranks(call.size * rows, k)
    total = sum(one.float() @ other.float() for one, other in zip(tall, b)).bfloat16()

    def work(rank):
        if name == "gathered":
            found, wanted = GATHER(call.lies(a[rank], rank), call.lies(b[rank], rank), "0"), torch.cat(a).float() @ b[rank].float()
        else:
            of = "matmul_reduce_scatter" if name == "scattered" else "matmul_all_reduce"
            found = REDUCE(of, call.lies(tall[rank], rank), call.lies(b[rank], rank), "0")
            wanted = total.chunk(call.size)[rank] if name == "scattered" else total
        return torch.equal(found, wanted.bfloat16())

    return f"product {name} {rows} x {k} x {n}", work


def collective(call: Call) -> tuple[str, Callable[[int], bool]]:
    name, symmetric = call.dice.choice(["all_reduce", "all_gather", "reduce_scatter"]), call.dice.random() < 0.3
    rows, columns, dtype = call.size * call.dice.choice([1, 3, 8]), call.dice.choice([4, 33, 130]), call.dice.choice(
        [torch.bfloat16, torch.float32])
    x = call.of_ranks(rows, columns, dtype=dtype)
    total = sum(one.float() for one in x).to(dtype)

    def work(rank):
        given = call.lies(x[rank])      # where words lie at multiples of 4 bytes is in the binary, which is one for all here
        if symmetric:
            given = on_gpu(call.threads.world().symmetric((rows, columns), dtype, "x").copy_(x[rank]))
        wanted = {"all_reduce": total, "all_gather": torch.cat(x), "reduce_scatter": total.chunk(call.size)[rank]}[name]
        return torch.equal(COLLECTIVES(name, given, "0", symmetric), wanted)

    return f"{name} {rows} x {columns} {dtype}{' symmetric' * symmetric}", work


def experts(call: Call) -> tuple[str, Callable[[int], bool]]:
    """Rows there and back, each weighted: those that no token has become are not numbers."""
    dice = call.dice
    count, k, block = call.size * dice.choice([1, 2]), dice.choice([1, 2]), dice.choice([1, 4])
    most, hidden = dice.choice([3, 9]), dice.choice([8, 64])
    tokens = [dice.randint(1, most) if dice.random() < 0.3 else most for _ in range(call.size)]
    x = [call.numbers(one, hidden) for one in tokens]
    ids = [call.numbers(one, k, dtype=torch.int32, low=0, high=count) for one in tokens]
    weights = [call.numbers(one, k, dtype=torch.float32, low=1, high=4) for one in tokens]
    scales = [call.numbers(one, 4, dtype=torch.float32, low=1, high=4) for one in tokens] if dice.random() < 0.4 else None

    def work(rank):
        room = library.listed(most, k, count, call.size, block)
        beside = None if scales is None else call.lies(scales[rank], rank)
        given = call.lies(x[rank], rank), call.lies(ids[rank], rank), beside
        rows, ends, places, of_rows = DISPATCH(*given, count, most, room, block, "0")
        y, wanted = rows.as_subclass(torch.Tensor), x[rank].float() * weights[rank].sum(1, keepdim=True)
        if scales is not None:
            y, wanted = (y.float() * of_rows.as_subclass(torch.Tensor)[:, 1:2]).to(y.dtype), wanted * scales[rank][:, 1:2]
        used = torch.arange(len(rows))[:, None] < int(ends[-1])
        y = on_gpu(torch.where(used, y, torch.tensor(float("nan"), dtype=y.dtype)))
        found = COMBINE(y, places, on_gpu(ids[rank]), call.lies(weights[rank], rank), count, "0")
        return torch.equal(found, wanted.bfloat16())

    told = f"experts {count}, {k} of a token, {tokens} of {most} tokens, {hidden} columns, blocks of {block}"
    return told + " with scales" * (scales is not None), work


def attention(call: Call) -> tuple[str, Callable[[int], bool]]:
    heads, rows, dim, causal, group = 2, 128, 64, call.dice.random() < 0.5, call.dice.choice([1, 2])
    q, k, v = (call.of_ranks(1, of, rows, dim) for of in (heads, heads // group, heads // group))

    def work(rank):
        of = [call.lies(one[rank] / 8, rank) for one in (q, k, v)]
        found, _ = RING(*of, causal, False, None, None, "0")
        keys, values = (torch.cat(one, 2).float().repeat_interleave(group, 1) / 8 for one in (k, v))
        scores = q[rank].float() / 8 @ keys.mT * dim**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones(rows, call.size * rows).triu(1 + rank * rows).bool(), float("-inf"))
        return bool((found.as_subclass(torch.Tensor).float() - scores.softmax(-1) @ values).abs().max() < 5e-3)

    return f"attention of {heads} on {heads // group} heads{', causal' * causal}", work


def wrong(seed: int) -> str:
    """What is wrong with the sequence of a seed, "" if nothing is."""
    said = []
    with ranks_in_threads(2 + seed % 3) as threads:
        for number in range(CALLS):
            call = Call(threads, seed, number)
            text, work = call.dice.choice([product] * 6 + [collective, experts, attention])(call)
            threads.capturing = call.dice.random() < 0.3
            said.append(text + " in a graph" * threads.capturing)
            try:
                found = threads(work)
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            if found != [True] * call.size:
                return f"seed {seed}, {call.size} ranks: {found} in the last of {'; '.join(said)}"
    return ""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="start no sequence after so many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    began, seed, bad = time.monotonic(), options.first, 0
    while seed == options.first or time.monotonic() - began < options.seconds:
        if problem := wrong(seed):
            bad += 1
            print(f"WRONG {problem}", flush=True)
        seed += 1
    print(f"{seed - options.first} sequences of {CALLS} calls, {bad} wrong, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
