"""Random calls of linear attention against the recurrence in fp64: values, final states and, of every second call, all gradients.

    python -m tests.ops.linear_attention_fuzz --calls 1000 --seed 1 --processes 2
    python -m tests.ops.linear_attention_fuzz --only 4711 --seed 1              one call, with what it is
    python -m tests.ops.linear_attention_fuzz --device cuda --calls 100000 --processes 12

Input: a seed; it and a number settle a call. Output: how many calls ran, by path and family; of each process the first wrong one,
and exit status 1. Drawn are gates (none, a head, a column), the delta rule, heads and groups of heads, columns, lengths 1 to 300,
packed sequences, some of them empty, rows behind the last one, gates near 0, near 1 and between, states, scales and the L2 norm.
Of one call in five gates and betas are made of raw ones, without gradients. On the CPU one call in 40 has heads that our kernels
take, and is simulated; on a GPU every second one.

Where terms of a sum cancel, as those of dbeta of a single row may, the rest is wrong by a larger share of itself. So an error is
allowed as well if it is at most twice what rounding the inputs once more to 16 bits changes: our kernels round what they multiply.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from random import Random

import torch

from mimw import ops
from tests.kernels.linear_attention_reference import draw, gates_of_raw, gradients, recurrence

TENSORS = "q", "k", "v", "g", "beta", "initial_state"
DECAYS = ((-0.2, 0.0), (-1e-4, 0.0), (-60.0, -20.0), (-60.0, 0.0), (-5.0, -1e-3))
ALLOWED = {"torch": 1e-4, "kernels": 3e-2}      # relative errors of fp32, and of bf16
ROUNDED = {"torch": 2.0**-22, "kernels": 2.0**-8}       # by how much of itself a number that is multiplied may change
ROUNDINGS, TIMES = 4, 2.0       # drawings of such changes, and how many times their largest effect is allowed


def call(seed: int, number: int, device: str) -> tuple[str, dict, dict, bool]:
    """(path, tensors, options, whether gradients are compared) of a call."""
    random = Random(f"{seed}:{number}")
    by_kernels = random.random() < (0.5 if device == "cuda" else 1 / 40)
    columns = [64, 128, 256] if by_kernels and device == "cuda" else [64] if by_kernels else [4, 8, 20, 32]
    length = int(300**random.random())
    if by_kernels and device == "cpu":
        length = min(length, 130)
    ends = None
    if random.random() < 0.5:
        cuts = sorted(random.randint(0, length) for _ in range(random.randint(0, 4)))
        ends = [0, *cuts, length if random.random() < 0.8 else max([0, *cuts])]
    heads, group = random.choice([1, 1, 2]), random.choice([1, 1, 2, 3])
    given = draw(random.randrange(1 << 40), B=1 if ends else random.choice([1, 1, 2]), T=length, H=heads, HV=heads * group,
                 K=random.choice(columns), V=random.choice(columns), gates=random.choice(["none", "head", "key"]),
                 delta=random.random() < 0.5, decay=random.choice(DECAYS), cu_seqlens=ends, state=random.random() < 0.7)
    if by_kernels:
        given |= {name: given[name].bfloat16() for name in "qkv"}
    options = dict(scale=random.choice([None, None, 0.5]), use_qk_l2norm=random.random() < (0.3 if device == "cuda" else 0.05))
    return "kernels" if by_kernels else "torch", given, options, random.random() < 0.5


def raw(seed: int, number: int, given: dict) -> tuple[dict, dict, dict]:
    """(raw gates and betas in place of those of a call, the options that make them, what they are), or nothing."""
    random, numbers = Random(f"raw {seed}:{number}"), torch.Generator().manual_seed(number)
    replaced, options, made = {}, {}, {}
    if number % 5 != 3:
        return replaced, options, made
    normal = lambda shape: torch.randn(shape, generator=numbers)        # noqa: E731
    if given["g"] is not None:
        g = random.choice([1, 5]) * normal(given["g"].shape) + random.choice([0, 0, -8, 20])
        replaced["g"] = g.to(random.choice([torch.float32, torch.bfloat16, torch.float16]))
        heads = g.shape[2:]
        options = dict(use_gate=True, A_log=random.choice([None, normal(heads[:1])]),
                       dt_bias=random.choice([None, normal(heads)]), lower_bound=random.choice([None, -0.01, -1.0, -5.0, -20.0]))
        made["g"] = gates_of_raw(replaced["g"], options["A_log"], options["dt_bias"], options["lower_bound"])
    if given["beta"] is not None and random.random() < 0.7:
        replaced["beta"], twice = 3 * normal(given["beta"].shape), random.random() < 0.5
        options |= dict(use_beta_sigmoid=True, allow_neg_eigval=twice)
        made["beta"] = replaced["beta"].double().sigmoid() * (2 if twice else 1)
    return replaced, options, made


def by_rounding(path: str, used: dict, options: dict, do=None, dfinal=None) -> dict[str, float]:
    """How far o, the final states and the gradients move, by norm, when each number that is multiplied is rounded once more."""
    def both(of: dict, *sums) -> dict:
        o, final = recurrence(**of, **options)
        graded = gradients(*sums, **of, **options) if sums else {}
        return {"o": o, "final": final, **{f"d{name}": one for name, one in graded.items()}}

    def rounded(one):
        noise = 2 * torch.rand(one.shape, generator=drawn, dtype=torch.float64) - 1
        return one.double() * (1 + ROUNDED[path] * noise)

    sums = () if do is None else (do, dfinal)
    exact, moved, drawn = both(used, *sums), Counter(), torch.Generator().manual_seed(0)
    for _ in range(ROUNDINGS):
        other = {name: rounded(one) if name in TENSORS and one is not None and name != "g" else one for name, one in used.items()}
        for name, one in both(other, *map(rounded, sums)).items():
            moved[name] = max(moved[name], (one - exact[name]).norm().item())
    return moved


def wrong(seed: int, number: int, device: str) -> tuple[str, str | None]:
    """(path and family, what differs by how much, or None)."""
    path, given, options, graded = call(seed, number, device)
    replaced, making, made = raw(seed, number, given)
    graded = graded and not making
    there = {name: one if one is None else one.to(device) for name, one in (given | replaced).items()}
    making = {name: one.to(device) if isinstance(one, torch.Tensor) else one for name, one in making.items()}
    leaves = {name: one.requires_grad_(graded) if name in TENSORS and one is not None else one for name, one in there.items()}
    o, final = ops.linear_attention(**leaves, **options, **making, output_final_state=True)
    given = {name: one if one is None else one.detach().cpu() for name, one in (given | made).items()}
    ends = given["cu_seqlens"]
    rows = o.shape[1] if ends is None else int(ends[-1])
    used = {name: one if one is None or name not in ("q", "k", "v", "g", "beta") else one[:, :rows] for name, one in given.items()}
    expected, last = recurrence(**used, **options)
    pairs = {"o": (o[:, :rows], expected), "final": (final, last), "o behind the last": (o[:, rows:], torch.zeros(()).double())}
    sums = ()
    if graded:
        drawn = torch.Generator().manual_seed(number)
        do, dfinal = (torch.randn(one.shape, generator=drawn).to(one.dtype) for one in (o, final))
        torch.autograd.backward((o, final), (do.to(device), dfinal.to(device)))
        sums = do[:, :rows], dfinal
        for name, gradient in gradients(*sums, **used, **options).items():
            found = leaves[name].grad
            pairs[f"d{name}"] = (found if name == "initial_state" else found[:, :rows], gradient)
    family = f"{path}, {'none' if given['g'] is None else 'head' if given['g'].dim() == 3 else 'key'}"
    family += ", delta" * (given["beta"] is not None) + ", packed" * (ends is not None) + ", raw" * bool(making)
    family += ", gradients" * graded
    for name, (found, exact) in pairs.items():
        error = (found.detach().double().cpu() - exact).norm().item()
        allowed = ALLOWED[path] * exact.norm().item() + 1e-7 * (1 + exact.numel())**0.5
        if not error <= allowed:
            moved = by_rounding(path, used, options, *sums)[name]
            if not error <= allowed + TIMES * moved:
                return family, f"{name} differs by {error:.2e} of {exact.norm().item():.2e}, rounding its terms by {moved:.2e}"
    return family, None


def run(seed: int, first: int, step: int, calls: int, seconds: float, device: str, results) -> None:
    """Numbers first, first + step, .. below `calls`, in a process of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began, counted = time.monotonic(), Counter()
    for number in range(first, calls, step):
        if time.monotonic() - began > seconds:
            break
        try:
            family, why = wrong(seed, number, device)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the number repeats it
            family, why = "error", f"{type(error).__name__}: {error}"
        counted[family] += 1
        if why is not None:
            results.put((counted, f"call {number} ({family}): {why}"))
            return
    results.put((counted, None))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no call after so many")
    parser.add_argument("--only", type=int, help="the number of one call")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(words)
    if options.only is not None:
        family, why = wrong(options.seed, options.only, options.device)
        print(f"{family}: {why or 'right'}")
        return why is not None
    context = multiprocessing.get_context("spawn" if options.device == "cuda" else "fork")
    results = context.Queue()
    rest = options.processes, options.calls, options.seconds, options.device, results
    started = [context.Process(target=run, daemon=True, args=(options.seed, first, *rest)) for first in range(options.processes)]
    for process in started:
        process.start()
    counted, every = Counter(), []
    for _ in started:
        more, found = results.get()
        counted += more
        every += [] if found is None else [found]
    for family, count in sorted(counted.items()):
        print(f"{count:>8} {family}")
    print(f"{counted.total()} calls: {len(every) or 'none'} {'are' if len(every) > 1 else 'is'} wrong")
    for why in every:
        print(f"{why}\npython -m tests.ops.linear_attention_fuzz --seed {options.seed} --device {options.device} --only "
              f"{why.split()[1]}")
    return bool(every)


if __name__ == "__main__":
    sys.exit(main())
