"""Collectives on GPUs against sums in fp64: every form, type and odd length, in place, in replayed graphs; the operators.

Input: a world of `mimw.distributed`. Output: a line; or an AssertionError that says which case is wrong. For example:

    python -m benchmarks.distributed_collectives --check        the operators are right; 56 cases are right, on 2 x NVIDIA H200
"""

from __future__ import annotations

import itertools

from mimw.kernels.collectives import COLLECTIVES, Configuration

from .distributed import graphed, together
from .distributed_collectives import TOLERANCE, TYPES, Problem
from .gpu import torch

FORMS = (("flagged", False, 2048, 8, 0), ("ring", False, 4096, 8, 0), ("ring", False, 4096, 8, 1), ("two_shot", False, 4096, 8, 0),
         ("direct", True, 8192, 8, 0), ("direct_two_shot", True, 8192, 8, 0))


def check(world) -> None:
    """Every form with every type, at lengths that are multiples of nothing, from odd places; in place; in replayed graphs."""
    done = 0
    for collective, (form, symmetric, chunk, warps, lag) in itertools.product(COLLECTIVES, FORMS):
        if "two_shot" in form and collective != "all_reduce":
            continue
        chosen = Configuration(form, 128 if form == "flagged" else 24, chunk, warps, lag)
        for dtype, numbers, shift in (("bf16", 512, 0), ("bf16", 33333, 1), ("fp16", 40000, 0), ("fp32", 25001, 0)):
            problem = Problem(world, collective, dtype, 0, numbers, 0 if symmetric else shift)
            x, out = problem.on_heap() if symmetric else (problem.x, problem.out)
            run = problem.run(symmetric, chosen)
            for turn in range(3):
                problem.checked(f"{chosen} shift {shift} turn {turn}", run, out)
            replay = graphed(world, run, 3)
            for turn in range(3):
                problem.checked(f"{chosen} shift {shift} graph {turn}", replay, out)
            if collective == "all_reduce" and form != "direct":
                before, expected = x.clone(), problem.expected()
                together(world)
                problem.run(symmetric, chosen, in_place=True)()
                torch.cuda.synchronize()
                error = ((x.double() - expected).norm() / expected.norm()).item()
                x.copy_(before)
                if not error < TOLERANCE[dtype]:
                    raise AssertionError(f"{collective} {dtype} {chosen} in place: error {error}")
            problem.free()
            done += 1
    if world.rank == 0:
        print(f"{done} cases are right, on {world.size} x {torch.cuda.get_device_name()}", flush=True)


def check_operators(world) -> None:
    """`mimw.ops.distributed` on tensors of several sizes, with a derivative."""
    from mimw.ops import distributed as ops
    for numbers, dtype in itertools.product((1, 1000, 1 << 18, (1 << 21) + 6), TYPES):
        made = {}
        for collective in COLLECTIVES:
            problem = made[collective] = Problem(world, collective, dtype, 0, numbers)
            for turn in range(2):
                error = problem.error(getattr(ops, collective)(problem.x, world.group))
                error = max(error, problem.error(getattr(ops, collective)(problem.on_heap()[0], world.group, symmetric=True)))
                if not error < TOLERANCE[dtype]:
                    raise AssertionError(f"ops.distributed.{collective} of {numbers} {dtype}, turn {turn}: error {error}")
        problem = made["all_reduce"]
        for symmetric in (False, True):
            x = problem.on_heap()[0] if symmetric else problem.x.clone()
            if not problem.error(ops.all_reduce_(x, world.group, symmetric=symmetric)) < TOLERANCE[dtype]:
                raise AssertionError(f"ops.distributed.all_reduce_ of {numbers} {dtype}, symmetric: {symmetric}")
        x = problem.x.detach().float().requires_grad_()
        ops.all_gather(x, world.group).sum().backward()
        if not bool((x.grad == world.size).all()):
            raise AssertionError("the gradient of ops.distributed.all_gather")
        for problem in made.values():
            problem.free()
    if world.rank == 0:
        print("the operators are right", flush=True)
