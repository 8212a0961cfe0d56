"""`mimw.orchestrate`: record, write every plan, predict or measure, prove the best one.

Input: a kernel, a grid and arguments. Output: an `Orchestration`. For example:

    orchestrate(gemm, (1024, ), a, b, c, 4096, BM=128, num_warps=8).because       "predicted 200.9 us, plain 203.3: 1.01 x, ..."
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.orchestrate.plan import Plan
from ...runtime.call import resolve, tool
from .choose import Search, candidates, finished
from .found import Orchestration, verdict
from .measure import may_measure, measured
from .plain import plain_of
from .prove import prove as proof_of


@tool
def orchestrate(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
                plan: Plan | Any = None, measure: bool | Any = None, seeds: int | Any = 8, limit: int | Any = 200,
                memory: Sequence[Any] | Any = (), reassociate: bool | Any = False, **meta: Any) -> Orchestration:
    """Orchestrate `kernel` for launches like this one. Arrays are left as they were.

    args:      kernel, grid, args, num_warps, num_stages, meta   as for `mimw.simulate`; an autotuned kernel in its first
                         configuration unless `meta` says more
               target    the chip, by default MIMW_TARGET or sm_90a
               plan      the one plan to carry out; by default all that fit are tried, and the best one is taken
               measure   time the plain kernel and all plans on the GPU, and take what is quicker; by default where the
                         arguments lie on a GPU. Else nothing is launched, and a plan is taken if it is predicted 10 % quicker
               seeds, limit   interleavings that the proof tries: by seeds, and at most so many systematically
               memory    arrays and tensors that the kernel reaches by addresses that it loads, as from a table of `data_ptr()`s. To
                         name them is a promise: at every launch of the result, what the addresses of one argument lead to is apart
                         from what those of others do, and from the arguments. Nothing could ask that of a launch, so without it
                         loads through such addresses stay where they are
               reassociate   allow other bits than the plain kernel's: scales by which a product is multiplied one after the other
                         are multiplied with each other first, where that is less work and a bound of the difference is known. The
                         proof compares with the program that was rewritten so, and that one with the plain kernel by the bound
    returns:   Orchestration. A plan is only part of it if it is proved: equal to the plain kernel to the last bit at all
               launches that were compared (with `reassociate`: to what that makes of it), and clean under `mimw.check`. `refused`
               has what stays plain, with line and reason
    errors:    triton.CompilationError where the plain kernel is wrong; CannotOrchestrate for launches over clusters or on
               several GPUs
    """
    kernel, args, meta = resolve(kernel, args, meta)
    plain = plain_of(kernel, grid, args, meta, target, memory, reassociate)
    if plain.program.orchestrates():
        return Orchestration(plain, Search(), None, None, False, "its author has orchestrated it already")
    on_gpu = may_measure(args, meta) if measure is None else measure
    search = candidates(plain, plan, predict=not on_gpu)
    if on_gpu:
        search = measured(search, kernel, grid, args, meta)
    failed = ""
    for at, best in enumerate(search.candidates):
        if best.out or (best := finished(best, search.spent)).out:
            continue
        search.candidates[at] = best
        with search.spent.on("prove"):
            certificate = proof_of(best.written, seeds, limit)
        if certificate.ok:
            used, because = verdict(best, search)
            return Orchestration(plain, search, best, certificate, used, because)
        failed = failed or f"a plan was not proved: {best.name}: {certificate.wrong}"
    refused = next((f"{one.name}: {one.out}" for one in search.candidates if one.out), "")
    return Orchestration(plain, search, None, None, False, failed or refused or "nothing is to be handed over")
