"""A kernel compiled from types instead of arguments, for any chip, without a GPU.

Input: a kernel, one specialisation of it and a target. Output: `Compiled`, every stage's text or binary. An example:

    compiled = compile_kernel(gemm, {"a": "*bf16", "b": "*bf16", "K": "i32"}, {"BM": 128}, "sm_90a")
    compiled.stages["ptx"]

`mimw.compile` calls it with the types of a launch's arguments; users reach it as `mimw.compile.compile_kernel`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..compiler.depth import deep
from ..compiler.launch import canonical_keywords, check_cluster_target, check_numbers
from ..compiler.pipeline import CLUSTER, PREFERRED, STAMPS, WAITS, MimwSource, check_binary, compile_source, gpu_target
from ..ir import Program, print_program
from ..target import asking, wanted
from .compiled import Compiled, Stages
from .gluons import refuse_gluons


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
    """Record a kernel, with the arguments of `compile_kernel`, and go no further than the checks: for chips without a compiler
    here. Of the stages there is `ir`; there are no layouts, and no metadata but `num_warps`."""
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
    refuse_gluons(fn, "mimw's compiler takes kernels of triton.jit and mimw.jit",
                  "Triton compiles it: triton.compile, or kernel.warmup(...); mimw.simulate and mimw.check take it")
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
