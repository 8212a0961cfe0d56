"""The compiler on a page.

    record    a JIT function and its specialisation -> IR without layouts        frontend
    check     resources, protocol, captures; drop what is unused                 passes
    solve     a layout for every tile and buffer                                 constraints
    lower     TTGIR through Triton's Gluon builder                               lowering
    optimise  Triton's own passes, in our order                                  triton_port.passes
    finish    Triton's backend: LLVM, PTX or AMDGCN, cubin or hsaco              stock

`compile_kernel` runs all of it for any target from any machine; `MimwSource` is how `jit` hands a kernel to Triton's own
`compile`, so that its cache, dumps, overrides and listeners work as they always do.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from errno import EACCES, EDQUOT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Any

from .analysis import forms_clusters
from .analysis.order import may_pipeline, may_sink_reads
from .cluster import ALONE, Shape, canonical_keywords, check_cluster_target, check_mesh_target, cluster_shape
from .collector import resting_collector
from .compiled import Compiled, Stages
from .constraints.bank_conflicts import free_buffers, quiet_layouts
from .constraints.solution import Layouts
from .constraints.solver import solve_layouts
from .errors import AssemblerError, CacheError, GlobalChanged, KernelError, KernelWarning, LaunchError, TargetError
from .frontend import record_program
from .frontend.carries import DistinctCarries
from .frontend.record import compilation_error
from .frontend.words import uses_words
from .guard import optimise_in_order
from .ir import OPS, Program, Scalar, Told, listening, print_program
from .ir.layouts import PaddedShared
from .ir.site import Site
from .ir.wait_table import SLOT_BYTES
from .lowering import lower
from .lowering.descriptor_address import needs_slots
from .passes import check_padding, check_scratch, cut_copies, run_passes, stamp_time, stamp_waits, too_few_registers
from .passes.stamp_time import RECORD_BYTES, stamp_bytes
from .passes.stamp_waits import wait_table
from .target import Target
from .target import target as find_target
from .tensor_map import block_problem
from .triton_port.accesses import buffer_accesses, stored_layouts
from .triton_port.allocation import allocation
from .triton_port.assembler import FIXED, kept_operands, ptxas_path, ptxas_release
from .triton_port.cluster import add_metadata, launch_as_compiled, with_cluster
from .triton_port.codegen import mlir_context
from .triton_port.descriptor_slots import place_descriptors
from .triton_port.passes import amd_passes, nvidia_passes, optimise, unfit_copies
from .triton_port.plain import plain_ttir
from .triton_port.runtime import (
    ASTSource,
    GPUTarget,
    Language,
    PTXASError,
    content_key,
    keep_beside,
    kept_beside,
    knobs,
    make_backend,
    stock_compile,
)

Observer = Callable[[str, Any], None]
_UNSIGNED = re.compile(r"^u(?=\d)")
CLUSTER = ("ctas_per_cga", )  # paths that no argument has
STAMPS = ("time_stamps", )
WAITS = ("wait_stamps", )
_WARNED = "mimw_warned.json"
_UNWRITABLE = (EACCES, EDQUOT, ENOSPC, ENOTDIR, EPERM, EROFS)


def gpu_target(chip: Target) -> GPUTarget:
    """Triton's name for one of our targets."""
    return GPUTarget(chip.backend, chip.arch, chip.warp_size)


def chip_of(gpu: GPUTarget) -> Target:
    """Our facts about one of Triton's targets."""
    return find_target(f"sm_{gpu.arch}" if gpu.backend == "cuda" else str(gpu.arch))


def solve(program: Program, chip: Target, quiet: dict | None = None, told: dict | None = None) -> Layouts:
    """The layouts of a program on one of our targets; `quiet` and `told`, once its accesses to shared memory are known."""
    return solve_layouts(program, warp_size=chip.warp_size, wgmma=chip.has_wgmma, nvmma=chip.has_tma, quiet=quiet, told=told)


@dataclass
class Kernel:
    """One specialisation of a JIT function on its way through the compiler."""

    fn: Any
    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attrs: dict
    cluster: Shape = ALONE
    stamps: tuple[int, int] | None = None  # (records a lane, one CTA of so many), if a timeline is wanted
    waits: bool = False  # stamps for a watchdog
    program: Program | None = None
    layouts: Layouts | None = None
    quiet: dict = field(default_factory=dict)
    told: dict = field(default_factory=dict)
    warned: list[Told] | None = None  # what was said of the kernel's lines, once it was compiled or found compiled

    @resting_collector()
    def record(self, chip: Target, options, backend, observer: Observer | None = None) -> Program:
        """Stages record and check. What they warn of is said once for a kernel, also if its binary was there before."""
        with listening(aloud=self.warned is None) as self.warned:
            return self._recorded(chip, options, backend, observer)

    def _recorded(self, chip: Target, options, backend, observer: Observer | None) -> Program:
        check_descriptor_types(self.fn, self.signature, chip)
        program = record_program(self.fn, self.signature, self.constants, self.attrs, options,
                                 backend.get_codegen_implementation(options), backend.get_module_map(), self.cluster)
        if observer:
            observer("record", program)
        if program.launch_facts.grid_of_clusters:
            check_mesh_target(program.cluster_size, chip)
        if not program.orchestrates():
            self.program = program
            return program
        try:
            program = run_passes(program, chip, observer)
            self.program = program if self.stamps is None else stamp_time(program, chip, *self.stamps)
            if self.waits:
                self.program = stamp_waits(program, chip)
        except (KernelError, TargetError) as error:
            raise compilation_error(self.fn, error) from error
        return self.program

    def lower(self, chip: Target, options, backend, context, observer: Observer | None = None,
              by_registers: frozenset = frozenset(), trial: bool = False):
        """Stages record to lower: a TTGIR module on which none of Triton's passes has run."""
        program = self.program or self.record(chip, options, backend, observer)
        cuda = chip.backend == "cuda"
        try:
            if getattr(options, "num_ctas", 1) > 1:
                _check_plain(program, options.num_ctas)
            self.layouts = solve(program, chip, self.quiet, self.told)
            module = lower(program, self.layouts, context, backend.get_target_name(options) if cuda else f"hip:{chip.arch}",
                           options, chip, by_registers | cut_copies(program), trial)
        except (KernelError, TargetError) as error:
            raise compilation_error(self.fn, error) from error
        if observer:
            observer("lower", module)
        return module

    @resting_collector()
    def to_ttgir(self, chip: Target, options, backend, context, observer: Observer | None = None):
        """Stages record to optimise: a TTGIR module. Only the optimised one shows in which layout a masked tile is best stored,
        which copies the chip cannot do, and which lanes meet in a bank of shared memory; then lowering starts again, knowing
        that."""
        self.quiet, self.told = {}, {}
        program = self.program or self.record(chip, options, backend, observer)
        masked = {number: op for number, op in enumerate(program.walk()) if op.name == "local_store" and op.mask is not None}
        if masked:
            found = stored_layouts(self._optimised(chip, options, backend, context, observer, trial=True))  # not kept: unguarded
            self.told = {op: found[number] for number, op in masked.items() if found.get(number)}
        module, copies = self._optimised(chip, options, backend, context, observer), frozenset()
        if unfit := unfit_copies(module, chip.arch):
            copies = frozenset(op for number, op in enumerate(self.program.walk()) if op.name == "async_load" and number in unfit)
            module = self._optimised(chip, options, backend, context, observer, copies)
        if chip.backend == "cuda" and free_buffers(self.program):
            self.quiet = quiet_layouts(self.program, self.layouts.shared, self._accesses(module))
            if self.quiet:
                module = self._optimised(chip, options, backend, context, observer, copies)
        if chip.backend == "cuda" and any(isinstance(layout, PaddedShared) for layout in self.layouts.shared.values()):
            try:
                check_padding(self.program, self.layouts.shared, self._accesses(module))
            except KernelError as error:
                raise compilation_error(self.fn, error) from error
        return module

    def _accesses(self, module) -> dict:
        """The accesses of a finished module to each buffer of which it tells all."""
        found = buffer_accesses(module)
        return {op.result: [(access.layout, access.turned) for access in found[number]]
                for number, op in enumerate(self.program.walk()) if op.name == "local_alloc" and number in found}

    def _optimised(self, chip: Target, options, backend, context, observer, by_registers: frozenset = frozenset(),
                   trial: bool = False):
        def lowered():
            module = self.lower(chip, options, backend, context, observer, by_registers, trial)
            if needs_slots(self.program):  # before any pass, which would not know the stand-ins
                module = place_descriptors(module)
                if observer:
                    observer("place_descriptors", module)
            return module

        def listed():
            return (nvidia_passes(chip.arch, options.num_stages, may_pipeline(self.program), may_sink_reads(self.program))
                    if chip.backend == "cuda" else amd_passes(chip.arch))

        self.program = self.program or self.record(chip, options, backend, observer)
        return optimise(lowered(), listed(), observer) if trial else optimise_in_order(self.program, lowered, listed, observer)


def check_descriptor_types(fn, signature: dict, chip: Target) -> None:
    """LaunchError for the first tensor-descriptor argument with a block that the chip's TMA cannot copy."""
    if not chip.has_tma:
        return
    for name, type_ in signature.items():
        for element, block in re.findall(r"tensordesc<(\w+)\[([\d, ]+)\]", str(type_)):
            if element == "i1":
                problem = "its elements are of type i1, which TMA cannot copy", "describe them as int8"
            else:
                problem = block_problem(tuple(map(int, block.split(","))), Scalar(_UNSIGNED.sub("i", element)).bytes)
            if problem:
                raise LaunchError(f"the tensor descriptor given as {name!r} to kernel {fn.__name__!r}, {element}[{block}], "
                                  f"cannot be on {chip}: {problem[0]}.", hint=f"{problem[1]}.")


def _check_plain(program: Program, num_ctas: int) -> None:
    """Tasks of plain `tl` ops may be one program over several CTAs; our words mean one CTA each."""
    for op in program.walk():
        if OPS[op.name].ours and op.name != "warp_specialize":
            raise KernelError(f"num_ctas={num_ctas} makes one program of several CTAs, and '{op.name}' is about one CTA", op.site,
                              hint=f"launch with ctas_per_cga=({num_ctas}, 1, 1): each CTA is then a program of its own")


class MimwSource(ASTSource):
    """What `jit` gives to Triton's `compile`. Plain kernels are Triton sources; ours arrive as finished TTGIR.

    The cluster's shape comes in among the attributes, under `CLUSTER`: Triton hands these on and knows nothing of it.
    Triton asks for the language only after its cache has missed, so a cached kernel is never recorded again.
    """

    def __init__(self, fn, signature, constexprs=None, attrs=None) -> None:
        attrs = dict(attrs or {})
        self.cluster, self.stamps = cluster_shape(attrs.pop(CLUSTER, None)), attrs.pop(STAMPS, None)
        self.waits = bool(attrs.pop(WAITS, None)) and self.stamps is None
        super().__init__(fn, signature, constexprs, attrs)
        self.kernel = Kernel(fn, self.signature, self.constants, self.attrs, self.cluster or ALONE, self.stamps, self.waits)
        self.target: GPUTarget | None = None
        self.options: dict = {}
        self.observer: Observer | None = None

    @property
    def language(self):
        return Language.GLUON if self.orchestrates() else Language.TRITON

    @language.setter
    def language(self, value):
        """Set by the base class; ours is derived."""

    @property
    def ext(self) -> str:
        return "glir" if self.orchestrates() else "ttir"

    @ext.setter
    def ext(self, value):
        """Set by the base class; ours is derived."""

    def hash(self) -> str:
        stamps = "-waits" if self.waits else "" if self.stamps is None else f"-{self.stamps}"
        return hashlib.sha256(
            f"{super().hash()}-{compiler_hash()}-{self.cluster}{stamps}-{globals_key(self.fn)}".encode()).hexdigest()

    @functools.cached_property
    def _uses_words(self) -> bool:
        return uses_words(self.fn, self.constants)

    def has_program(self) -> bool:
        """True if the kernel names one of our words; one that does not is Triton's alone."""
        return self.kernel.program is not None or self._uses_words

    def program(self) -> Program | None:
        """The program, recorded now if that was not done yet; None for a kernel without our words."""
        if self.kernel.program is None and self._uses_words:
            check_globals(self.fn)  # this may be long after the compile
            backend = make_backend(self.target)
            self.kernel.record(chip_of(self.target), backend.parse_options(dict(self.options)), backend, self.observer)
        return self.kernel.program

    def layouts(self) -> Layouts | None:
        """The layouts of a program of ours; found now if its binary came from the cache."""
        if self.kernel.layouts is None and self.orchestrates():
            if free_buffers(self.kernel.program):
                self.repeat_lowering()
            else:
                self.kernel.layouts = solve(self.kernel.program, chip_of(self.target))
        return self.kernel.layouts

    def orchestrates(self) -> bool:
        """True if the kernel uses our words when specialised like this."""
        program = self.program()
        return program is not None and program.orchestrates()

    def make_ir(self, target, options, codegen_fns, module_map, context):
        if self.orchestrates():
            module = self.kernel.to_ttgir(chip_of(target), options, make_backend(target), context, self.observer)
        else:
            check_descriptor_types(self.fn, self.signature, chip_of(target))
            module = plain_ttir(DistinctCarries, self.fn, self, context, options, codegen_fns, module_map)
        program = self.kernel.program
        cluster = program.cluster if program else self.kernel.cluster
        alone = cluster == ALONE and not (program and forms_clusters(program))
        return module if alone else with_cluster(module, cluster)

    def repeat_lowering(self) -> None:
        """Lower once more, for the observer, a kernel whose binary came from the cache."""
        backend = make_backend(self.target)
        context = mlir_context()
        backend.load_dialects(context)
        self.kernel.to_ttgir(chip_of(self.target), backend.parse_options(dict(self.options)), backend, context, self.observer)


def globals_key(fn) -> str:
    """What of ours `fn` and its helpers name as globals: Triton's key of a function holds only those in a `tl.constexpr`."""
    fn.cache_key  # noqa: B018  finds them
    return "".join(f"{name}={key}" for (name, _), (value, _) in fn.used_global_vals.items() if (key := content_key(value)))


def check_globals(fn) -> None:
    """Refuse a kernel whose globals have changed since its first compilation: every cache still holds the old values.

    Triton's own launch asks the same; a simulated launch and a `warmup` without a GPU do not go through it.
    """
    missing = object()
    fn.cache_key  # noqa: B018  finds them; those of a helper are as they were when the helper was first compiled
    for (name, _), (value, scope) in fn.used_global_vals.items():
        now = scope.get(name, missing)
        if now is missing or now != value:
            shown = "no longer defined" if now is missing else f"{_shown(now)} now"
            raise GlobalChanged(f"{fn.__name__} was first compiled with the global {name} = {_shown(value)}, which is {shown}",
                                hint=f"give what changes to the kernel as a parameter `{name}: tl.constexpr`")


def _shown(value) -> str:
    return str(getattr(value, "value", value))


@functools.cache
def compiler_hash() -> str:
    """A hash of this package's own source, so that a new release never meets an old one's cache."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _check_scratch(src: MimwSource, total: int, ttgir, chip: Target) -> None:
    """Refuse a kernel of ours that needs more shared memory than a CTA has. A plain kernel is Triton's, and so is its refusal."""
    if total > chip.shared_bytes and src.orchestrates():
        try:
            check_scratch(src.kernel.program, chip, total, allocation(ttgir, chip.arch).pieces)
        except KernelError as error:
            raise compilation_error(src.fn, error) from error


def _check_assembler(src: MimwSource, ptx: str | None, arch: int | str) -> None:
    """Refuse a kernel that the ptxas in use is known to get wrong; of a plain one, which is Triton's, say it."""
    if arch != 90 or not ptx or (release := ptxas_release(arch)) is None or release >= FIXED or not (kept := kept_operands(ptx)):
        return
    error = AssemblerError(
        f"ptxas {release[0]}.{release[1]} may overwrite the registers of a dot's first operand that is needed again after the dot, "
        f"in the next trip of a loop for instance; the product would then be wrong in silence. Fixed in {FIXED[0]}.{FIXED[1]}",
        *(Site(one.file, one.line, one.column - 1) for one in kept),
        hint=f"Triton takes {ptxas_path(arch)}: unset TRITON_PTXAS_BLACKWELL_PATH for the one that comes with Triton, or name one "
             f"of CUDA {FIXED[0]}.{FIXED[1]} or newer there. With this one, keep the operand in a buffer, or load it in every trip")
    if src.orchestrates():
        raise compilation_error(src.fn, error) from error
    warnings.warn(str(error), KernelWarning, stacklevel=2)


@resting_collector()
def compile_source(src: MimwSource, target: GPUTarget, options: dict, **keywords):
    """Triton's `compile`, told which target and options the source is for."""
    src.target, src.options = target, options
    if src.cluster is not None:
        check_cluster_target(src.cluster, None, chip_of(target))
    try:
        compiled = stock_compile(src, target=target, options=options, **keywords)
        _warn_as_compiled(src, compiled)
    except OSError as error:
        raise _unkept(error) from error
    except PTXASError as error:
        refusal = too_few_registers(src.kernel.program, chip_of(target), str(error)) if src.orchestrates() else None
        if refusal is None:
            raise
        raise compilation_error(src.fn, refusal) from refusal
    _check_scratch(src, compiled.metadata.shared, compiled.asm["ttgir"], chip_of(target))
    _check_assembler(src, compiled.asm.get("ptx"), target.arch)
    add_metadata(compiled, ctas_per_cga=src.cluster)
    if src.stamps is not None and src.orchestrates():  # asked for on a cache hit, too: the program says what the records mean
        compiled.stamped = src.kernel.program
        add_metadata(compiled, profile_scratch_size=stamp_bytes(compiled.stamped), profile_scratch_align=RECORD_BYTES)
    if src.waits and src.orchestrates():
        compiled.stamped = src.kernel.program
        add_metadata(compiled, profile_scratch_size=wait_table(compiled.stamped).cta_bytes, profile_scratch_align=SLOT_BYTES)
    launch_as_compiled(compiled, src.cluster, chip_of(target).portable_cluster)
    return compiled


def _warn_as_compiled(src: MimwSource, compiled) -> None:
    """Keep what was said of the lines of a kernel that was compiled now, and say it of one that was compiled before."""
    if src.kernel.warned is not None:
        if src.kernel.warned:
            keep_beside(compiled, _WARNED, json.dumps([src.fn.file_name, *map(asdict, src.kernel.warned)]))
        return
    file, *told = json.loads(kept_beside(compiled, _WARNED) or "[null]")
    if told and file != src.fn.file_name:
        src.program()   # the lines are those of another file; recording finds them in this one
        return
    src.kernel.warned = [Told(**one) for one in told]
    for one in src.kernel.warned:
        one.again()


def _unkept(error: OSError) -> OSError:
    """`error` in the user's words, if it is about files that Triton writes."""
    if error.errno not in _UNWRITABLE:
        return error
    where = f"{error.filename}: " if error.filename else ""
    full = "free space there and in the folder for temporary files (TMPDIR)" if error.errno in (ENOSPC, EDQUOT) else \
        "make it writable"
    refusal = CacheError(f"the compiled kernel cannot be kept in {knobs.cache.dir}: {where}{error.strerror}; "
                         f"{full}, or name another folder by TRITON_CACHE_DIR")
    refusal.errno = error.errno
    return refusal


def compile_kernel(kernel, signature: dict[str, str], constexprs: dict[str, Any] | None = None, target: str = "sm_90a",
                   options: dict[str, Any] | None = None, attrs: dict | None = None, dump: bool = False) -> Compiled:
    """Compile one specialisation of a kernel for any target; needs no GPU.

    args:      kernel      a function decorated with `mimw.jit` or `triton.jit` (autotuned ones: their `.fn`)
               signature   parameter name -> "*bf16", "i32", "tensordesc<bf16[128,64]>", ... ; constexpr parameters may be left out
               constexprs  parameter name -> value
               target      "sm_90a", "sm_100a", "gfx942", ...
               options     num_warps, num_stages, maxnreg, ctas_per_cga, ...; time_stamps=(records a lane, one CTA of so many)
                           compiles in the time stamps of `mimw.profile`, wait_stamps=True those of a watchdog
               attrs       path -> [[attribute, value]], by default every pointer and integer divisible by nothing
               dump        keep the text after each of our stages and passes in `.after`
    errors:    triton.CompilationError naming the user's line; TargetError
    """
    fn = _jit_function(kernel)
    check_globals(fn)
    constexprs = dict(constexprs or {})
    signature = {name: "constexpr" if name in constexprs else signature.get(name, "constexpr") for name in fn.arg_names}
    for name, parameter in fn.signature.parameters.items():
        if signature[name] == "constexpr" and name not in constexprs:
            if parameter.default is parameter.empty:
                raise TypeError(f"parameter {name!r} of {fn.__name__} needs a type in `signature` or a value in `constexprs`")
            constexprs[name] = parameter.default
    chip = find_target(target)
    options = canonical_keywords({"enable_fp_fusion": True, **(options or {})})
    check_cluster_target(cluster := options.pop("ctas_per_cga", None), options.pop("preferred_ctas_per_cga", None), chip)
    attrs = {**(attrs or {}), CLUSTER: cluster, STAMPS: options.pop("time_stamps", None),
             WAITS: options.pop("wait_stamps", None)}
    unaligned = tuple(name for index, (name, type_) in enumerate(signature.items())
                      if isinstance(type_, str) and type_.startswith("*") and (index, ) not in attrs)
    source = MimwSource(fn, signature, {(fn.arg_names.index(name), ): value for name, value in constexprs.items()}, attrs)
    after: dict[str, str] = {}
    if dump:
        source.observer = lambda name, stage: after.__setitem__(
            f"{len(after):02d}-{name}", print_program(stage) if isinstance(stage, Program) else str(stage))
    compiled = compile_source(source, gpu_target(chip), options)
    if dump and source.orchestrates() and source.kernel.layouts is None:
        source.repeat_lowering()    # a cache hit: the binary is there, what comes between is not
    return Compiled(compiled.name, Stages(compiled.asm, source), compiled.metadata, chip, source, after, unaligned)


def _jit_function(kernel):
    while not hasattr(kernel, "arg_names") or not hasattr(kernel, "get_capture_scope"):
        kernel = kernel.fn
    return kernel
