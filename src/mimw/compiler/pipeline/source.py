"""The source that `jit` gives to Triton's `compile`, so that its cache, dumps, overrides and listeners work as they always do.

    source = MimwSource(fn, {"x": "*fp32", "N": "constexpr"}, {(1, ): 64}, {CLUSTER: (2, 1, 1)})
    source.language         GLUON for a kernel of ours, whose `make_ir` gives finished TTGIR; TRITON for any other
    source.program()        the program, recorded now if that was not done yet

Input: one specialisation of a JIT function. Output: the answers that Triton asks of a source (a key, a language, IR), and
besides the program and its layouts for readers of a compiled kernel.
"""

from __future__ import annotations

import functools
import hashlib

from ...errors import MimwError
from ...ir import ALONE, Program
from ...target import Target
from ..analysis import forms_clusters
from ..constraints.solution import Layouts
from ..frontend.displays import PlainKernel
from ..frontend.seen import Seen
from ..frontend.words import uses_words
from ..launch import cluster_shape
from ..native import module_text
from ..passes import check_copies, run_passes
from ..triton_port.cluster import with_cluster
from ..triton_port.codegen import CompilationError, mlir_context
from ..triton_port.differences import FIRST_STAGE
from ..triton_port.module_assembly import with_module_assembly
from ..triton_port.plain import plain_ttir
from ..triton_port.runtime import ASTSource, GPUTarget, Language, make_backend
from .cache import compiler_hash
from .feedback import layouts_need_feedback
from .recorded import content_of_constants, recorded_digest
from .refusals import check_descriptor_types, check_scratch_early, check_stages, refusing
from .seen import check_seen, seen_by
from .stages import Kernel, Observer, Setting, pad, record, solve
from .targets import chip_of

# What is not an argument comes among the attributes, which Triton hands on unread, under paths that no argument has.
CLUSTER = ("ctas_per_cga", )
PREFERRED = ("preferred_ctas_per_cga", )
STAMPS = ("time_stamps", )
WAITS = ("wait_stamps", )


class MimwSource(ASTSource):
    """The source that `jit` gives to Triton's `compile`. Plain kernels are Triton sources; ours arrive as finished TTGIR.

    The cluster's shape comes in among the attributes, under `CLUSTER`, and the one that is preferred under `PREFERRED`.
    Triton asks for the language only after its cache has missed, so a cached kernel is never recorded again.
    """

    def __init__(self, fn, signature, constexprs=None, attrs=None) -> None:
        attrs = dict(attrs or {})
        self.cluster, self.stamps = cluster_shape(attrs.pop(CLUSTER, None)), attrs.pop(STAMPS, None)
        self.preferred = cluster_shape(attrs.pop(PREFERRED, None), PREFERRED[0])   # a hint: nothing else is compiled for it
        self.waits = bool(attrs.pop(WAITS, None)) and self.stamps is None
        super().__init__(fn, signature, constexprs, attrs)
        del self.language, self.ext  # the base class's own: these follow from the kernel, once Triton asks
        self.kernel = Kernel(fn, self.signature, self.constants, self.attrs, self.cluster or ALONE, self.stamps, self.waits)
        self.target: GPUTarget | None = None
        self.options: dict = {}
        self.observer: Observer | None = None
        self._hash: str | None = None

    @functools.cached_property
    def language(self):
        """The Triton language of the output of `make_ir`: for a kernel of ours finished TTGIR, as Gluon's."""
        return Language.GLUON if self.orchestrates() else Language.TRITON

    @functools.cached_property
    def ext(self) -> str:
        """The first stage of that language."""
        return FIRST_STAGE if self.orchestrates() else "ttir"

    @functools.cached_property
    def seen(self) -> Seen:
        """The inputs of recording the kernel at the first read of this property, which is when its key was made."""
        seen = seen_by(self.fn, self.constants)
        self._native_key = seen.native_key()
        return seen.kept()

    def hash(self) -> str:
        """The key of a binary: the recorded program, its positions in the author's files, and its specialisation."""
        if self._hash is None:
            stamps = "-waits" if self.waits else "" if self.stamps is None else f"-{self.stamps}"
            key = (self.name, sorted(self.signature.items()), content_of_constants(self.constants), sorted(self.attrs.items()),
                   self.cluster, stamps, self.seen.places, self._native_key, compiler_hash())
            given = hashlib.sha256(repr(key).encode()).hexdigest()
            if self.target is None:     # asked before `compile_source`, by Triton's compilations in the background
                return hashlib.sha256(f"{given}-{self.seen.digest}".encode()).hexdigest()
            self._hash = hashlib.sha256(f"{given}-{recorded_digest(self, given)}".encode()).hexdigest()
        return self._hash

    @functools.cached_property
    def _uses_words(self) -> bool:
        return uses_words(self.fn, self.constants)

    def has_program(self) -> bool:
        """True if the kernel names one of our words, or has tiles that Triton lacks; one that does not is Triton's alone."""
        return self.kernel.program is not None or self._uses_words

    def is_ours(self) -> None:
        """Compile the kernel from a program: Triton's generator has refused the extents of its tiles."""
        for known in ("language", "ext"):
            self.__dict__.pop(known, None)
        self._hash, self._uses_words = None, True

    def program(self) -> Program | None:
        """The program, recorded now if that was not done yet; None for a kernel without our words."""
        return self.recorded() if self.kernel.program is None and self._uses_words else self.kernel.program

    def recorded(self) -> Program:
        """The program, recorded now."""
        check_seen(self.fn, self.seen, self.constants)  # this may be long after the compile
        backend = make_backend(self.target)
        setting = Setting(chip_of(self.target), backend.parse_options(dict(self.options)), backend, observer=self.observer)
        self.kernel.program = pad(self.kernel, setting, None)
        return self.kernel.program

    def pads(self) -> bool:
        """True if the author's tiles have other extents than those of the program that was compiled."""
        program = self.program()
        return program is not None and self.kernel.padded

    def authored(self) -> Program:
        """The program as the author wrote it, before any pass: recorded once more."""
        check_seen(self.fn, self.seen, self.constants)
        seen: list[Program] = []
        backend = make_backend(self.target)
        fresh = Kernel(self.fn, self.signature, self.constants, self.attrs, self.cluster or ALONE, warned=[])
        fresh.record(chip_of(self.target), backend.parse_options(dict(self.options)), backend,
                     lambda name, stage: seen.append(stage) if name == "record" else None)
        return seen[0]

    def check_what_triton_refused(self) -> None:
        """A kernel without our words that Triton failed to compile is refused by our checks, if they know why, with line and mend;
        Triton's own error may be the name of a pass."""
        chip, backend = chip_of(self.target), make_backend(self.target)
        kernel = Kernel(self.fn, self.signature, self.constants, self.attrs, self.cluster or ALONE, warned=[])
        program = kernel.record(chip, backend.parse_options(dict(self.options)), backend)
        with refusing(self.fn):
            run_passes(program, chip, remark=lambda _: None)

    def layouts(self) -> Layouts | None:
        """The layouts of a program of ours; found now if its binary came from the cache."""
        if self.kernel.layouts is None and self.orchestrates():
            if layouts_need_feedback(self.kernel.program, chip_of(self.target)):
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
            chip, backend = chip_of(target), make_backend(target)
            module = self.kernel.to_ttgir(chip, options, backend, context, self.observer)
            check_scratch_early(self, module, chip, options, backend)
            check_stages(self, module, chip, options, backend)
            if self.kernel.program.named("raw_call") and (text := module_text(self.kernel.program, chip)):
                module = with_module_assembly(module, text)
        else:
            check_descriptor_types(self.fn, self.signature, chip_of(target))
            module = self.ttir(options, codegen_fns, module_map, context)
            self.check_plain_copies(chip_of(target), options, module)
        program = self.kernel.program
        cluster = program.cluster if program else self.kernel.cluster
        alone = cluster == ALONE and not (program and forms_clusters(program))
        return module if alone else with_cluster(module, cluster)

    def ttir(self, options, codegen_fns, module_map, context):
        """The TTIR that Triton's generator makes of a kernel without ops of ours."""
        return plain_ttir(PlainKernel, self.fn, self, context, options, codegen_fns, module_map)

    def check_plain_copies(self, chip: Target, options, module) -> None:
        """IllegalCopy for a kernel that is Triton's alone and copies by a tensor descriptor where the chip's TMA cannot: Triton
        makes the instruction, and the launch ends in a fault. A kernel that cannot be recorded is left to Triton."""
        if not chip.has("tma") or "tt.descriptor_" not in str(module):
            return
        backend = make_backend(self.target)
        fresh = Kernel(self.fn, self.signature, self.constants, self.attrs, self.cluster or ALONE, warned=[])
        try:
            program = record(fresh, Setting(chip, options, backend), None)
        except (MimwError, CompilationError):
            return
        with refusing(self.fn):
            check_copies(program, chip)

    def repeat_lowering(self) -> None:
        """Lower once more, for the observer, a kernel whose binary came from the cache."""
        backend = make_backend(self.target)
        context = mlir_context()
        backend.load_dialects(context)
        self.kernel.to_ttgir(chip_of(self.target), backend.parse_options(dict(self.options)), backend, context, self.observer)
