"""The compiler on a page.

    record    a JIT function and its specialisation -> IR without layouts        frontend              pipeline.stages
    check     resources, protocol, captures; drop what is unused                 passes                pipeline.stages
    solve     a layout for every tile and buffer                                 constraints           pipeline.stages
    lower     TTGIR through Triton's Gluon builder                               lowering              pipeline.stages
    optimise  Triton's own passes, in our order                                  triton_port.passes    pipeline.stages
    learn     what only the optimised module shows, and back to solve            pipeline.feedback
    finish    Triton's backend: LLVM, PTX or AMDGCN, cubin or hsaco              stock                 pipeline.source, .cache

Input: a source, which is a kernel with one specialisation of it, and a target; no GPU. Output: what Triton's `compile` gives, its
cache, dumps, overrides and listeners at work as always. An example:

    compiled = compile_source(MimwSource(gemm, signature, constants, attrs), gpu_target(chip), options)
    compiled.asm["ptx"]

`mimw.jit` hands a kernel to it, and so does `runtime.compile_kernel`, from any machine for any target.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

from ...errors import AssemblerError, InternalError, MimwError
from ...ir.site import site_of
from ...ir.wait_table import SLOT_BYTES
from ..collector import resting_collector
from ..depth import deep
from ..frontend.diagnostics import origin
from ..frontend.record import compilation_error
from ..launch import check_cluster_target
from ..passes import too_few_registers
from ..passes.stamp_time import RECORD_BYTES, stamp_bytes
from ..passes.stamp_waits import wait_table
from ..triton_port.amd_stage import our_amd_stage
from ..triton_port.any_shapes import refuses_extents
from ..triton_port.cluster import add_metadata, launch_as_compiled
from ..triton_port.codegen import CompilationError
from ..triton_port.nvidia_stage import our_nvidia_stage
from ..triton_port.reproducer import reproducer
from ..triton_port.runtime import GPUTarget, PTXASError, stock_compile
from .binary import kept_by_amdgcn
from .bug_report import reporting
from .cache import compiler_hash, keep_warnings, not_run, unkept
from .refusals import check_assembler, check_binary, check_shared_memory, refusing
from .seen import Rebind, check_seen, content_key, key_of_values, launch_key, seen_by
from .source import CLUSTER, PREFERRED, STAMPS, WAITS, MimwSource
from .stages import Kernel
from .targets import chip_of, device_numbers, gpu_target
from .whole import whole

__all__ = [
    "CLUSTER", "Kernel", "MimwSource", "PREFERRED", "Rebind", "STAMPS", "WAITS", "check_binary", "check_seen", "chip_of",
    "compile_source", "compiler_hash", "content_key", "device_numbers", "gpu_target", "key_of_values", "launch_key", "refusing",
    "reporting", "seen_by",
]

_OUR_STAGES = {"hip": our_amd_stage, "cuda": our_nvidia_stage}


@resting_collector()
@deep()
def compile_source(src: MimwSource, target: GPUTarget, options: dict, **keywords):
    """Triton's `compile`, with the target and options of the source."""
    check_binary(chip_of(target))
    src.target, src.options = target, options
    if src.cluster is not None:
        check_cluster_target(src.cluster, None, chip_of(target))
    try:
        with _OUR_STAGES.get(target.backend, nullcontext)(), reproducer() as said:
            compiled = whole(lambda: stock_compile(src, target=target, options=options, **keywords))
        keep_warnings(src, compiled)
    except OSError as error:
        if (refusal := unkept(error) or not_run(error)) is None:
            raise
        raise refusal from error
    except (CompilationError, ValueError) as error:      # a ValueError is about the block of a descriptor's type
        if refuses_extents(origin(error)) and not src.has_program():
            src.is_ours()
            return compile_source(src, target, options, **keywords)
        if not isinstance(error, CompilationError) or isinstance(error, MimwError):
            raise
        _refuse_in_our_words(src)       # Triton's generator has refused a kernel without words
        raise compilation_error(src.fn, error) from origin(error)
    except RuntimeError as error:
        if (missing := not_run(error)) is not None:
            raise missing from error
        if not isinstance(error, MimwError) and not src.orchestrates():
            src.check_what_triton_refused()
        raise
    except PTXASError as error:
        known = too_few_registers(src.kernel.program, chip_of(target), str(error)) if src.orchestrates() else None
        for text in said if known is None else ():
            print(text)
        raise compilation_error(src.fn, known or _refused_by_ptxas(src, str(error))) from (known or error)
    check_shared_memory(src, compiled.metadata.shared + kept_by_amdgcn(compiled.asm.get("amdgcn", "")), compiled.asm["ttgir"],
                        chip_of(target))
    check_assembler(src, compiled.asm.get("ptx"), target.arch)
    add_metadata(compiled, ctas_per_cga=src.cluster, preferred_ctas_per_cga=src.preferred)
    if src.stamps is not None and src.orchestrates():  # asked for on a cache hit, too: the program says what the records mean
        compiled.stamped = src.kernel.program
        add_metadata(compiled, profile_scratch_size=stamp_bytes(compiled.stamped), profile_scratch_align=RECORD_BYTES)
    if src.waits and src.orchestrates():
        compiled.stamped = src.kernel.program
        add_metadata(compiled, profile_scratch_size=wait_table(compiled.stamped).cta_bytes, profile_scratch_align=SLOT_BYTES)
    launch_as_compiled(compiled, src.cluster, chip_of(target).portable_cluster)
    return compiled


def _refuse_in_our_words(src: MimwSource) -> None:
    """Raise what recording says of a kernel that Triton's generator has refused: with the line, the facts and the mend."""
    with suppress(InternalError):
        src.recorded()


def _refused_by_ptxas(src: MimwSource, text: str) -> AssemblerError:
    """The error of a kernel whose PTX the assembler does not take."""
    said = [line.strip() for line in text.splitlines() if "error" in line.lower() or "fatal" in line.lower()]
    return AssemblerError(f"ptxas does not take the code of {src.fn.__name__!r}: {' '.join(said[:3]) or text.strip()[:300]}",
                          site_of(src.fn.fn), hint="a kernel with inline assembly or raw code of its own may have the mistake "
                          "there; any other is a bug of mimw or Triton: report the kernel, the chip and `mimw doctor`")
