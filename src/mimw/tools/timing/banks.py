"""Bank conflicts of a launch, for its prediction: in how many turns LDS serves each read and write, as Triton's passes leave them.

Input: a launch and its chip. Output: turns for one, of each op that reads or writes a whole buffer with conflicts. For example:

    bank_turns(launch, chip)        {local_load %turned: 32.0}: a column of words, of which all lanes of a phase meet in one bank

The launch is compiled up to its layouts (without LLVM), on AMD's chips only: `constraints.banks` knows their phases. A kernel that
does not get so far has no conflicts here, nor has one of Gluon's; nor have reads that are not followed (`constraints.bank_counts`).
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

from ...compiler.constraints.bank_counts import bank_access, conflicts
from ...compiler.constraints.views import find_views
from ...compiler.launch import ALONE
from ...compiler.pipeline import Kernel, gpu_target
from ...compiler.pipeline.feedback import accesses_of
from ...compiler.triton_port.codegen import CompilationError, mlir_context
from ...compiler.triton_port.runtime import is_gluons, make_backend
from ...errors import KernelError
from ...ir import Op, Program, Value
from ...runtime.fits import Specialisation
from ...target import Target

Turns = dict[tuple[int, bool], float]       # (number of an allocation, whether it is written) -> turns for one


def bank_turns(program: Program, launch: Specialisation, chip: Target) -> dict[Op, float]:
    """`program` is the launch's after all checks."""
    if chip.backend != "hip" or not program.orchestrates() or is_gluons(launch.fn):
        return {}
    found, views = _turns(launch, chip), find_views(program)
    numbers = {value: number for number, value in enumerate(_allocations(program))}
    turns = {}
    for op in program.walk():
        seen = views.get(op.buffer, ()) if op.row.moves_whole_buffers else ()
        if len(seen) == 1 and seen[0].alloc in numbers:
            times = found.get((numbers[seen[0].alloc], bool(op.row.writes)), 1.0)
            turns |= {op: times} if times > 1 else {}
    return turns


def _allocations(program: Program) -> list[Value]:
    return [op.result for op in program.named("local_alloc")]


def _turns(launch: Specialisation, chip: Target) -> Turns:
    """Of each buffer's reads, and of its writes, the mean over all of them."""
    kernel = _laid_out(launch, chip)
    if kernel is None:
        return {}
    (kernel, module), counted = kernel, defaultdict(list)
    numbers = {value: number for number, value in enumerate(_allocations(kernel.program))}
    for alloc, accesses in accesses_of(kernel.program, module).items():
        shape, element = alloc.type.shape, alloc.type.element.bytes
        for access in accesses:
            followed = bank_access(access, shape, element, chip)
            cost = followed and conflicts(followed, kernel.layouts.shared[alloc], shape, element, chip)
            if cost:
                counted[numbers[alloc], access.writes].append(cost)
    return {key: sum(turns for turns, _ in costs) / sum(least for _, least in costs) for key, costs in counted.items()}


def _laid_out(launch: Specialisation, chip: Target) -> tuple[Kernel, Any] | None:
    """The kernel with its layouts, and the module after Triton's passes; None if it has none on that chip."""
    options = dict(launch.options)
    cluster = options.pop("ctas_per_cga", None)
    options.pop("preferred_ctas_per_cga", None)
    backend, context = make_backend(gpu_target(chip)), mlir_context()
    backend.load_dialects(context)
    parsed = backend.parse_options({"enable_fp_fusion": True, **options})
    kernel = Kernel(launch.fn, launch.signature, launch.constants, launch.attrs, cluster or ALONE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # the remarks have been made when the launch was recorded
            return kernel, kernel.to_ttgir(chip, parsed, backend, context)
    except (CompilationError, KernelError):
        return None
