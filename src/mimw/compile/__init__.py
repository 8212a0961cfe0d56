"""The compiler on a page.

    record    a JIT function and its specialisation -> IR without layouts        frontend              compile.pipeline
    check     resources, protocol, captures; drop what is unused                 passes                compile.pipeline
    solve     a layout for every tile and buffer                                 constraints           compile.pipeline
    lower     TTGIR through Triton's Gluon builder                               lowering              compile.pipeline
    optimise  Triton's own passes, in our order                                  triton_port.passes    compile.pipeline
    learn     what only the optimised module shows, and back to solve            compile.feedback
    finish    Triton's backend: LLVM, PTX or AMDGCN, cubin or hsaco              stock                 compile.source, compile.cache

Input: a kernel, one specialisation of it and a target; no GPU. Output: `Compiled`, every stage's text or binary. An example:

    compiled = compile_kernel(gemm, {"a": "*bf16", "b": "*bf16", "K": "i32"}, {"BM": 128}, "sm_90a")
    compiled.stages["ptx"]

`compile_kernel` runs all of it for any target from any machine; `MimwSource` is how `jit` hands a kernel to Triton's own
`compile`, so that its cache, dumps, overrides and listeners work as they always do.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..collector import resting_collector
from ..depth import deep
from ..errors import StructError
from ..frontend.record import compilation_error, origin
from ..ir import Program, print_program
from ..ir.wait_table import SLOT_BYTES
from ..launch import canonical_keywords, check_cluster_target, check_numbers
from ..passes import too_few_registers
from ..passes.stamp_time import RECORD_BYTES, stamp_bytes
from ..passes.stamp_waits import wait_table
from ..target import asking, wanted
from ..triton_port.cluster import add_metadata, launch_as_compiled
from ..triton_port.codegen import CompilationError
from ..triton_port.runtime import GPUTarget, PTXASError, stock_compile
from .cache import compiler_hash, keep_warnings, unkept
from .compiled import Compiled, Stages
from .pipeline import Kernel
from .refusals import check_assembler, check_binary, check_shared_memory, refusing
from .seen import Rebind, check_seen, content_key, key_of_values, launch_key, seen_by
from .source import CLUSTER, PREFERRED, STAMPS, WAITS, MimwSource
from .targets import chip_of, device_numbers, gpu_target
from .whole import whole

__all__ = [
    "CLUSTER", "Compiled", "Kernel", "MimwSource", "PREFERRED", "Rebind", "STAMPS", "WAITS", "check_seen", "chip_of",
    "compile_kernel",
    "check_binary", "compile_source", "compiler_hash", "content_key", "device_numbers", "gpu_target", "key_of_values", "launch_key",
    "record_kernel", "refusing", "seen_by",
]


@resting_collector()
@deep()
def compile_source(src: MimwSource, target: GPUTarget, options: dict, **keywords):
    """Triton's `compile`, told which target and options the source is for."""
    check_binary(chip_of(target))
    src.target, src.options = target, options
    if src.cluster is not None:
        check_cluster_target(src.cluster, None, chip_of(target))
    try:
        compiled = whole(lambda: stock_compile(src, target=target, options=options, **keywords))
        keep_warnings(src, compiled)
    except OSError as error:
        if (refusal := unkept(error)) is None:
            raise
        raise refusal from error
    except CompilationError as error:
        if isinstance(origin(error), StructError) and not isinstance(error, StructError):
            src.recorded()      # refuses it in our words and with its line; Triton's generator has refused a kernel without words
        raise
    except RuntimeError:
        if not src.orchestrates():
            src.check_what_triton_refused()
        raise
    except PTXASError as error:
        refusal = too_few_registers(src.kernel.program, chip_of(target), str(error)) if src.orchestrates() else None
        if refusal is None:
            raise
        raise compilation_error(src.fn, refusal) from refusal
    check_shared_memory(src, compiled.metadata.shared, compiled.asm["ttgir"], chip_of(target))
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


def compile_kernel(kernel, signature: dict[str, Any], constexprs: dict[Any, Any] | None = None, target: str | None = None,
                   options: dict[str, Any] | None = None, attrs: dict | None = None, dump: bool = False) -> Compiled:
    """Compile one specialisation of a kernel for any target; needs no GPU.

    args:      kernel      a function decorated with `mimw.jit` or `triton.jit` (autotuned ones: their `.fn`)
               signature   parameter name -> "*bf16", "i32", "tensordesc<bf16[128,64]>", ... ; constexpr parameters may be left out
                           and tuples of them for parameters that are tuples
               constexprs  parameter name, or path of it or of an item of a tuple -> value
               target      "sm_90a", "sm_100a", "gfx942", ...; by default MIMW_TARGET or sm_90a. Host code that the kernel calls
                           while it is compiled learns of this target, too
               options     num_warps, num_stages, maxnreg, ctas_per_cga, ...; time_stamps=(records a lane, one CTA of so many)
                           compiles in the time stamps of `mimw.profile`, wait_stamps=True those of a watchdog
               attrs       path -> [[attribute, value]], by default every pointer and integer divisible by nothing
               dump        keep the text after each of our stages and passes in `.after`
    errors:    triton.CompilationError naming the user's line; TargetError
    """
    check_binary(chip := wanted(target))
    source, options, unaligned = _source(kernel, signature, constexprs, chip, options, attrs)
    after: dict[str, str] = {}
    if dump:
        source.observer = _keeping(after)
    with asking(chip):
        compiled = compile_source(source, gpu_target(chip), options)
        if dump and source.orchestrates() and source.kernel.layouts is None:
            source.repeat_lowering()    # a cache hit: the binary is there, what comes between is not
    return Compiled(compiled.name, Stages(compiled.asm, source), compiled.metadata, chip, source, after, unaligned)


def record_kernel(kernel, signature: dict[str, Any], constexprs: dict[Any, Any] | None = None, target: str | None = None,
                  options: dict[str, Any] | None = None, attrs: dict | None = None, dump: bool = False) -> Compiled:
    """As `compile_kernel`, but no further than the checks: for chips without a compiler here. Of the stages there is `ir`; there
    are no layouts, and no metadata but `num_warps`."""
    chip = wanted(target)
    source, options, unaligned = _source(kernel, signature, constexprs, chip, options, attrs)
    after: dict[str, str] = {}
    if dump:
        source.observer = _keeping(after)
    source.target, source.options = gpu_target(chip), options
    with asking(chip):
        program = source.recorded()
    warps = SimpleNamespace(num_warps=program.num_warps)
    return Compiled(program.name, Stages({}, source), warps, chip, source, after, unaligned)


def _keeping(after: dict[str, str]):
    """An observer that keeps the text after each stage."""
    return lambda name, stage: after.__setitem__(
        f"{len(after):02d}-{name}", print_program(stage) if isinstance(stage, Program) else str(stage))


@deep()
def _source(kernel, signature, constexprs, chip, options, attrs) -> tuple[MimwSource, dict[str, Any], tuple[str, ...]]:
    """(the source for Triton, the options that are left for Triton's backend, the pointers of which nothing was said)."""
    fn = _jit_function(kernel)
    constexprs = {(fn.arg_names.index(at), ) if isinstance(at, str) else at: value for at, value in (constexprs or {}).items()}
    signature = {name: "constexpr" if (index, ) in constexprs else signature.get(name, "constexpr")
                 for index, name in enumerate(fn.arg_names)}
    for index, (name, parameter) in enumerate(fn.signature.parameters.items()):
        if signature[name] == "constexpr" and (index, ) not in constexprs:
            if parameter.default is parameter.empty:
                raise TypeError(f"parameter {name!r} of {fn.__name__} needs a type in `signature` or a value in `constexprs`")
            constexprs[index, ] = parameter.default
    options = canonical_keywords({"enable_fp_fusion": True, **(options or {})})
    cluster, preferred = options.pop("ctas_per_cga", None), options.pop("preferred_ctas_per_cga", None)
    check_cluster_target(cluster, preferred, chip)
    attrs = {**(attrs or {}), CLUSTER: cluster, PREFERRED: preferred, STAMPS: options.pop("time_stamps", None),
             WAITS: options.pop("wait_stamps", None)}
    check_numbers(options)
    unaligned = tuple(name for index, (name, type_) in enumerate(signature.items())
                      if isinstance(type_, str) and type_.startswith("*") and (index, ) not in attrs)
    return MimwSource(fn, signature, constexprs, attrs), options, unaligned


def _jit_function(kernel):
    while not hasattr(kernel, "arg_names") or not hasattr(kernel, "get_capture_scope"):
        kernel = kernel.fn
    return kernel
