"""Collectives among simulated GPUs, ready to be launched; and kernels of the library several times in one launch, as launches that
follow each other in a stream.

Input: a collective, a form, a number of ranks. Output: a launch, as (kernel, grid, args, meta), whose arrays are a `mimw.World`'s,
what each rank should find, and the array where. For example:

    launch, expected, out = collecting("all_reduce", "ring-lag", 2)
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    assert same_bits(out, expected)

With one program a rank `again=True` is several launches to `mimw.check`, which sees all accesses of all: what is in a slot may be
written over only in the next launch but one, or the next chunks but some.

Shapes: any length; chunks are of 64 numbers of 2 bytes, so that a few hundred go round the slots. None of these makes a mistake;
benchmarks/mutants.py makes them.
"""

from functools import cache

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw.kernels.collectives import Configuration, arguments, exchange_flagged, gather_direct, reduce_direct

FORMS = {"flagged": Configuration("flagged", 128, 128, 1), "ring": Configuration("ring", 2, 128, 1, 0),
         "ring-lag": Configuration("ring", 2, 128, 1, 1), "two_shot": Configuration("two_shot", 2, 128, 1),
         "direct": Configuration("direct", 2, 128, 1), "direct_two_shot": Configuration("direct_two_shot", 2, 128, 1)}
TYPES = {2: ml_dtypes.bfloat16, 3: np.float32, 4: np.float16}
LENGTHS = {2: 333, 3: 256, 4: 389}


@mimw.jit
def flagged_thrice(x, out, slots, calls, world, part, FORM: tl.constexpr):
    for _ in tl.static_range(3):
        exchange_flagged(x, out, slots, calls, world, part, FORM)


@mimw.jit
def reduced_twice(x, out, world, n, part, SIZE: tl.constexpr, PARTS: tl.constexpr, SPREAD: tl.constexpr, CHUNK: tl.constexpr):
    """Between the two x is written, as by a kernel between them."""
    at = tl.arange(0, CHUNK)
    for _ in tl.static_range(2):
        tl.store(x + at, tl.load(x + at))
        reduce_direct(x, out, world, n, part, SIZE, PARTS, SPREAD, CHUNK)


@mimw.jit
def gathered_twice(x, out, world, part, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    at = tl.arange(0, CHUNK)
    for _ in tl.static_range(2):
        tl.store(x + at, tl.load(x + at))
        gather_direct(x, out, world, part, SIZE, CHUNK)


AGAIN = {exchange_flagged: flagged_thrice, reduce_direct: reduced_twice, gather_direct: gathered_twice}


@cache
def world_of(gpus):
    """Slots and counters go on from launch to launch, as on a GPU."""
    return mimw.World(gpus)


def collecting(collective, form, gpus=2, in_place=False, numbers=None, shift=0, again=False, programs=2):
    world, n, dtype = mimw.World(gpus) if again else world_of(gpus), numbers or LENGTHS[gpus], TYPES[gpus]
    random = np.random.default_rng(gpus)
    scatter, adds = collective == "reduce_scatter", collective != "all_gather"
    given = [random.standard_normal(n * (gpus if scatter else 1)).astype(dtype) for _ in range(gpus)]
    symmetric = form.startswith("direct")

    def array(size, name, symmetric):
        if symmetric:
            return world.symmetric(size, dtype, name)
        return world.each(lambda rank: np.zeros(size + shift, dtype)[shift:], name)

    x = array(given[0].size, "x", symmetric)
    for one, values in zip(x, given):
        one[:] = values
    out = x if in_place else array(n * (1 if adds else gpus), "out", form == "direct_two_shot")
    parts = [[one[rank * n:(rank + 1) * n] if scatter else one for one in given] for rank in range(gpus)]
    expected = [np.concatenate(mine) if not adds else np.sum([one.astype(np.float32) for one in mine], 0, np.float32).astype(dtype)
                for mine in parts]
    kernel, grid, args, meta = arguments(collective, x, out, world, symmetric, FORMS[form])
    grid = (min(*grid, programs), ) if form != "flagged" else grid
    return (AGAIN.get(kernel, kernel) if again else kernel, grid, args, meta), expected, out


def same_bits(found, expected):
    return all((one.view(np.uint8) == other.view(np.uint8)).all() for one, other in zip(found, expected))
