"""Work of the processes of a search, each for one candidate: test its fit, predict it, compile it, measure it.

Input: an operator, a problem, a configuration. Output: figures as plain data, or a refusal with its reason. For example:

    predicted(gemm, problem, chosen, "sm_90a", 132)     {"microseconds": 190.9, "bound": "tensor cores, ...", "shared": 229608}
    measured(gemm, problem, chosen, 60.0)               {"microseconds": 188.2, "baselines": {"cuBLAS": 193.0}, "error": 0.0017}
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator
from math import prod

from ..compiler.analysis import register_plan
from ..compiler.analysis.registers import own_regions
from ..compiler.storage import shared_plan
from ..compiler.triton_port.codegen import CompilationError
from ..errors import MimwError, OutOfSharedMemory, ResourceError, TuningError
from ..ir import Block, Op, Program, Tensor
from ..ir.types import element_of
from ..runtime.jit import without_a_gpu
from ..runtime.simulate import prepare
from ..target import Target, target
from ..tools.timing import predict
from .binary import resources
from .operator import Operator, Problem

MOST_REGISTERS = 255        # of a thread
MOST_WORDS = 60             # of an error


def imported() -> None:
    """Import the modules that every step needs, so that processes forked from this one need not: torch, which Triton asks for
    a device, takes longer than a prediction. Importing it starts no driver."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401


def described(operator: Operator) -> dict | None:
    """The device that the operator is measured on."""
    return operator.device.describe()


def predicted(operator: Operator, problem: Problem, chosen, chip: str, sms: int) -> dict:
    """The predicted microseconds of the first launch, or under `refused` the reason for which a launch does not fit the chip;
    `unpredicted` gives the reason for which there is no prediction."""
    _without_a_gpu(chip)
    found = {}
    try:
        launches = operator.launches(problem, chosen, sms)
        for number, (kernel, grid, args, meta) in enumerate(launches):
            program = prepare(kernel, grid, args, dict(meta), chip).program
            if refused := too_many_registers(program, target(chip)):
                return {"refused": refused}
            if number == 0:
                found["shared"] = shared_plan(program).peak
    except (MimwError, CompilationError, ValueError) as error:
        return {"refused": reason(error)}
    kernel, grid, args, meta = launches[0]
    try:
        told = predict(kernel, grid, *args, target=chip, **meta)
    except MimwError as error:
        return found | {"unpredicted": reason(error)}
    return found | {"microseconds": told.microseconds, "bound": told.bound.split(";")[0]}


def compiled(operator: Operator, problem: Problem, chosen, chip: str, sms: int) -> dict:
    """The launches compiled into Triton's cache, where a launch finds them; the most registers, bytes of local memory (spills) and
    of shared memory of any."""
    _without_a_gpu(chip)
    registers = local = shared = 0
    begun = time.perf_counter()
    try:
        for kernel, grid, args, meta in operator.launches(problem, chosen, sms):
            made = kernel.warmup(*args, grid=grid, **meta)
            shared = max(shared, made.metadata.shared)
            if "cubin" in made.asm:
                used = resources(made.asm["cubin"])
                registers, local = max(registers, used[0]), max(local, used[1])
    except (MimwError, CompilationError) as error:
        return {"refused": reason(error)}
    return {"registers": registers, "local": local, "shared": shared, "seconds": round(time.perf_counter() - begun, 2)}


def measured(operator: Operator, problem: Problem, chosen, at_least_ms: float) -> dict:
    """The result checked, then the microseconds of a call beside the baselines'; `wrong` says how far a result is off."""
    device = operator.device
    begun = time.perf_counter()
    trial = operator.trial(problem, chosen)
    trial.run()
    device.wait()
    first = time.perf_counter() - begun
    try:
        error = trial.check()
    except AssertionError as complaint:
        return {"wrong": str(complaint)}
    times = device.time({"mimw": trial.run, **trial.baselines}, at_least_ms)
    times = {name: taken / trial.calls for name, taken in times.items()}
    return {"microseconds": times.pop("mimw"), "baselines": times, "error": error, "first_seconds": round(first, 2)}


def too_many_registers(program: Program, chip: Target) -> str | None:
    """The task whose products hold more registers than the chip gives a thread of the task, with the sum; None if none does."""
    for number, region in enumerate(own_regions(program)):
        rows = [row for row in register_plan(program, chip) if row.region == number]
        for row, task, block in zip(rows, region.attrs["tasks"], region.blocks, strict=True):
            threads, most = task.num_warps * chip.warp_size, min(row.granted, MOST_REGISTERS)
            if task.is_default:
                threads = program.num_warps * chip.warp_size
            for op in _ops(block):
                sum_ = op.results[0].type if "dot" in op.row.traits and op.results else None
                if isinstance(sum_, Tensor) and (held := prod(sum_.shape) * element_of(sum_).bits // 32 // threads) >= most:
                    return (f"a product of task {row.name!r} has a sum of {' x '.join(map(str, sum_.shape))}, {held} registers for "
                            f"each of {threads} threads, which have {most}")
    return None


def reason(error: Exception) -> str:
    """The error in one line."""
    cause = error.__cause__ if isinstance(error.__cause__, MimwError) else error
    if isinstance(cause, ResourceError) and getattr(cause, "required", None) and getattr(cause, "limit", None):
        what = "bytes of shared memory" if isinstance(cause, OutOfSharedMemory) else type(cause).__name__
        return f"{cause.required} {what}, {cause.required - cause.limit} more than the {cause.limit} that there are"
    said = getattr(cause, "message", None) or str(cause)
    return f"{type(cause).__name__}: {' '.join(str(said).split()[:MOST_WORDS])}"


def _ops(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from _ops(inner)


def _without_a_gpu(chip: str) -> None:
    """This process compiles for `chip`, and knows of no device: it takes no memory of the GPU that others measure on."""
    if not chip:
        raise TuningError("no chip to compile for")
    os.environ["CUDA_VISIBLE_DEVICES"], os.environ["MIMW_TARGET"] = "", chip
    without_a_gpu(even_beside_one=True)
    warnings.simplefilter("ignore")     # remarks of checks: the report of a search has no place for them
