"""Refusals of the compiler beyond the checks of a program, each in the user's words and at the user's lines.

    check_binary(target("ascend_910b"))             TargetError: ascend_910b is a target of the simulator: ..
    with refusing(fn):                              a refusal of passes, solver or lowering becomes a `triton.CompilationError`
        layouts = solve(program, chip)
    check_descriptor_types(fn, {"x": "tensordesc<bf16[3,64]>"}, chip)       LaunchError: .. cannot be on sm_90a: ..
    check_scratch_early(source, module, ...)        OutOfSharedMemory, before LLVM IR and a binary are made
    check_assembler(source, ptx, 90)                AssemblerError, if the ptxas in use is known to get this PTX wrong

Input: the function, and what is known of it before recording (types), after recording (the program) or in the end (the finished
text, and how much shared memory a launch takes). Output: nothing, or the refusal.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import AssemblerError, KernelError, KernelWarning, LaunchError, TargetError
from ...ir import OPS, Program, Scalar
from ...ir.site import Site
from ...ir.tensor_map import block_problem
from ...target import TARGETS, Target
from ..analysis import counter_bytes
from ..frontend.record import compilation_error
from ..passes import check_exchanges, check_scratch, may_not_fit, no_pipeline
from ..triton_port.allocation import allocation, surely_fits
from ..triton_port.assembler import FIXED, another_ptxas, kept_operands, ptxas_release
from ..triton_port.codegen import CompilationError
from ..triton_port.runtime import final_ttgir
from ..triton_port.text import copied
from ..triton_port.warp_pipeline import unended_stages
from .source_protocol import KernelSource

_UNSIGNED = re.compile(r"^u(?=\d)")


def check_binary(chip: Target, what: str = "a binary") -> None:
    """TargetError for a chip for which nothing here makes code."""
    if not chip.binary:
        raise TargetError(f"{chip} is a target of the simulator: {what} of a kernel for it would take its vendor's compiler, which "
                          f"is not part of this package.\nMend: mimw.simulate, mimw.check and mimw.predict, and `mimw simulate`, "
                          f"`check`, `explain` and `timeline`, take target={chip.name!r}; a binary of the same source is made for "
                          f"a GPU such as {TARGETS['sm_90a']}, where the spaces of tle.dsa lie in shared memory (docs/SPACES.md).")


@contextmanager
def refusing(fn) -> Iterator[None]:
    """Convert errors that refuse the kernel `fn` in the block to the user's form, with file, line and call chain."""
    try:
        yield
    except (KernelError, TargetError) as error:
        if isinstance(error, CompilationError):     # it is in that form already
            raise
        raise compilation_error(fn, error) from error


def check_descriptor_types(fn, signature: dict, chip: Target) -> None:
    """LaunchError for the first tensor-descriptor argument with a block that the chip's TMA cannot copy."""
    if not chip.has("tma"):
        return
    for name, type_ in signature.items():
        for element, block in re.findall(r"tensordesc<(\w+)\[([\d, ]+)\]", str(type_)):
            if element == "i1":
                problem = "its elements are of type i1, which TMA cannot copy", "describe them as int8"
            else:
                problem = block_problem(tuple(map(int, block.split(","))), Scalar(_UNSIGNED.sub("i", element)).bytes)
            if problem:
                raise LaunchError(f"the tensor descriptor given as {name!r} to kernel {fn.__name__!r}, {element}[{block}], "
                                  f"is invalid on {chip}: {problem[0]}.", hint=f"{problem[1]}.")


def check_plain(program: Program, num_ctas: int, chip: Target) -> None:
    """Tasks of plain `tl` ops may be one program over several CTAs; our words mean one CTA each, and so do our copies of rows."""
    for op in program.walk():
        row_by_row = {"descriptor", "rows"} <= op.row.places.keys() and not chip.has("gather4")
        if OPS[op.name].ours and op.name != "warp_specialize" or row_by_row:
            raise KernelError(f"num_ctas={num_ctas} makes one program of several CTAs, and '{op.name}' is about one CTA", op.site,
                              hint=f"launch with ctas_per_cga=({num_ctas}, 1, 1): each CTA is then a program of its own")


def check_scratch_early(src: KernelSource, module, chip: Target, options, backend) -> None:
    """Do the check of `check_shared_memory` on the TTGIR, before the kernel is finished: LLVM and ptxas take most of a
    compilation, and a search for the largest tiles that fit ends in refusals. A kernel that surely fits, by its program or by
    a look at the ops of `module`, costs nothing here; for any other one, Triton's passes up to the allocator run over a copy
    of `module`: 40 ms where a GEMM's whole compilation takes two seconds."""
    program, counters = src.kernel.program, counter_bytes(src.kernel.program, chip)
    if may_not_fit(program, chip, options.num_stages) and not surely_fits(module, chip.shared_bytes - counters):
        found = allocation(final_ttgir(copied(module), backend, options), chip.arch)
        if found.total + counters > chip.shared_bytes:
            with refusing(src.fn):
                check_scratch(program, chip, found.total + counters, found.pieces)


def check_stages(src: KernelSource, module, chip: Target, options, backend) -> None:
    """Refuse a kernel with stages of which Triton would make no pipeline, or a longer one, and one with a stage in which waves
    exchange elements. Of the first Triton says the name of a pass, of the others nothing."""
    program = src.kernel.program
    if not program.named("halves_part"):
        return
    with refusing(src.fn):
        try:
            final = final_ttgir(copied(module), backend, options)
        except RuntimeError as error:
            raise no_pipeline(program) from error
        check_exchanges(program, unended_stages(final), allocation(final, chip.arch).pieces)


def check_shared_memory(src: KernelSource, total: int, ttgir, chip: Target) -> None:
    """Refuse a kernel of ours that needs more shared memory than a CTA has, by the number that a launch would ask for. A plain
    kernel is Triton's, and so is its refusal."""
    if total > chip.shared_bytes and src.orchestrates():
        with refusing(src.fn):
            check_scratch(src.kernel.program, chip, total, allocation(ttgir, chip.arch).pieces)


def check_assembler(src: KernelSource, ptx: str | None, arch: int | str) -> None:
    """Refuse a kernel that the ptxas in use is known to get wrong; of a plain one, which is Triton's, say it."""
    if arch != 90 or not ptx or (release := ptxas_release(arch)) is None or release >= FIXED or not (kept := kept_operands(ptx)):
        return
    error = AssemblerError(
        f"ptxas {release[0]}.{release[1]} may overwrite the registers of a dot's first operand that is needed again after the dot, "
        f"in the next trip of a loop for instance; the product would then be wrong in silence. Fixed in {FIXED[0]}.{FIXED[1]}",
        *(Site(one.file, one.line, one.column - 1) for one in kept),
        hint=f"{another_ptxas(arch)}. With this one, keep the operand in a buffer, or load it in every trip")
    if src.orchestrates():
        raise compilation_error(src.fn, error) from error
    warnings.warn(str(error), KernelWarning, stacklevel=2)
