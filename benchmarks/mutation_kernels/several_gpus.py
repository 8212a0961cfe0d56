"""Kernels for several GPUs that are mutated, small and ready to be checked on simulated ranks.

    next(case for case in CASES if case.name == "Tutorial 22").make()       (kernel, grid, args, meta)

Input: nothing. Output: `CASES`, and `NOT_JUDGED`, which take too long.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
from tests.kernels import carried_sums, collectives_of_ranks, cut_sequences, products_of_ranks, several_gpus, spread_experts

from .case import Case, numbers, tutorial

SUM_AROUND = tutorial("22_several_gpus").sum_around


@mimw.jit
def sum_around_twice(x, y, slots, ready, free, world, N: tl.constexpr, SLOTS: tl.constexpr):
    """Two launches to `mimw.check`, which sees all accesses of both: what one leaves to the next counts."""
    for _ in tl.static_range(2):
        SUM_AROUND(x, y, slots, ready, free, world, N, SLOTS)


def _sum_around() -> tuple:
    """Three ranks with one slot each, so that a slot is given back before the next number comes."""
    module, world = tutorial("22_several_gpus"), mimw.World(3)
    given = [one.astype(np.float32) for one in numbers(32, 32, 32)]
    x, y = world.each(given, "x"), world.each([np.zeros_like(one) for one in given], "y")
    return sum_around_twice, *module.arguments(world, x, y, 32, slots=1)


def _collective(collective: str, form: str, numbers: int) -> tuple:
    """Launches that follow each other, or more chunks than there are slots, by one program a rank."""
    return collectives_of_ranks.collecting(collective, form, numbers=numbers, again=True, programs=1)[0]


GPUS = "tests/kernels/several_gpus.py"
# Of these there are no runs without tile data, no samples and no smaller launches.
CASES = (
    Case("Two GPUs, stream", GPUS, several_gpus.streaming),
    Case("Two GPUs, exchange", GPUS, several_gpus.exchanging),
    Case("Four GPUs, all-gather", GPUS, several_gpus.gathering),
    Case("Tutorial 22", "tutorials/22_several_gpus.py", _sum_around),
    Case("Three GPUs, GEMM and reduce-scatter", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: products_of_ranks.scattering(3, m=192, n=128, bn=128, twice=True)[0]),
    Case("Two GPUs, GEMM and all-reduce", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: products_of_ranks.scattering(m=128, n=128, bn=128, everywhere=True, twice=True)[0]),
    Case("Two GPUs, GEMM and carried sums", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: carried_sums.carrying(m=128, n=128, bn=128, everywhere=True, launches=2)[0]),
    Case("Two GPUs, all-gather and GEMM", "src/mimw/kernels/all_gather_gemm/kernel.py",
         lambda: products_of_ranks.gathering(m=256, k=128, twice=True, longest=2048)[0]),
    Case("Two GPUs, keys of attention", "src/mimw/kernels/ring_attention/gather.py", cut_sequences.gathering),
    Case("Two GPUs, shares of attention's gradients", "src/mimw/kernels/ring_attention_backward/collect.py",
         cut_sequences.collecting),
    Case("Two GPUs, dispatch to experts", "src/mimw/kernels/moe_dispatch/kernel.py",
         lambda: spread_experts.dispatching(2, 6, 2, 2, 8, programs=1, times=2)[0]),
    Case("Two GPUs, dispatch by numbers", "src/mimw/kernels/moe_dispatch/rows.py",
         lambda: spread_experts.listing(2, 4, 2, 2, 8, programs=1, block=2, times=2, seed=3)[0]),
    Case("Two GPUs, combine from experts", "src/mimw/kernels/moe_combine/kernel.py",
         lambda: spread_experts.combining(2, 3, 2, 2, 16, chosen=spread_experts.ALONE, times=2)[0]),
    Case("Collectives with flags", "src/mimw/kernels/collectives/flagged.py", lambda: _collective("all_reduce", "flagged", 64)),
    Case("Collectives in slots", "src/mimw/kernels/collectives/ring.py", lambda: _collective("all_reduce", "ring", 270)),
    Case("Collectives in slots, ahead", "src/mimw/kernels/collectives/ring.py", lambda: _collective("all_gather", "ring-lag", 450)),
    Case("All-reduce in two hops", "src/mimw/kernels/collectives/two_shot.py", lambda: _collective("all_reduce", "two_shot", 400)),
    Case("All-reduce of symmetric tensors", "src/mimw/kernels/collectives/direct.py",
         lambda: _collective("all_reduce", "direct", 128)),
    Case("All-gather of symmetric tensors", "src/mimw/kernels/collectives/direct.py",
         lambda: _collective("all_gather", "direct", 128)),
)

# Their mutants have not been judged yet: a seed takes 3 to 4 seconds, so 200 seeds and all mutants take an hour. What ranks tell
# each other is in files of its own, gather.py and collect.py, whose cases are above. Dispatch of whole rows has not been timed, and
# may go again: of the 18 mutants of its own file 16 are caught and 2 argued for.
NOT_JUDGED = (
    Case("Two GPUs, attention", "src/mimw/kernels/ring_attention/kernel.py",
         lambda: cut_sequences.forward(2, True, heads=2, putters=2)[:4]),
    Case("Two GPUs, attention's gradients", "src/mimw/kernels/ring_attention_backward/kernel.py",
         lambda: cut_sequences.backward(2, True)[0][1]),
    Case("Two GPUs, dispatch of whole rows", "src/mimw/kernels/moe_dispatch/whole_rows.py", spread_experts.whole_rows),
    Case("Two GPUs, dispatch of few rows", "src/mimw/kernels/moe_dispatch/few.py", spread_experts.few_rows_there),
    Case("Two GPUs, dispatch of few rows by numbers", "src/mimw/kernels/moe_dispatch/few_rows.py",
         spread_experts.few_rows_that_stay),
    Case("Two GPUs, choices as words", "src/mimw/kernels/moe_dispatch/words.py", spread_experts.choices_as_words),
)
