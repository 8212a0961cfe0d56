"""The shared memory of a CTA with the scratch of Triton's ops, and whether it suffices, found out without making a binary.

Input: how a launch specialises a kernel. Output: the bytes that the compiled kernel takes, or the `OutOfSharedMemory` that
compiling it would end in:

    launch = Specialisation(fn, {"x": "*fp16"}, {}, {(0, ): [["tt.divisibility", 16]]}, {"num_warps": 4}, "sm_90a")
    check_fits(launch, program)
    as_compiled(launch, program).total      90172

A kernel that fits whatever the layouts turn out to be (`passes.may_not_fit`) is not lowered: most are small. Any other goes
through all stages up to Triton's allocator, a small part of a compilation, once for each specialisation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..compiler.analysis import counter_bytes
from ..compiler.launch import ALONE
from ..compiler.passes import check_scratch, may_not_fit
from ..compiler.pipeline import Kernel, gpu_target, seen_by
from ..compiler.storage import Row, SharedEntry, compiled_rows, shared_plan
from ..compiler.triton_port.allocation import Piece, allocation
from ..compiler.triton_port.codegen import CompilationError, mlir_context
from ..compiler.triton_port.runtime import final_ttgir, is_gluons, make_backend
from ..errors import KernelError, MimwError, NotYet, TargetError
from ..ir import Program
from ..target import Target
from ..target import target as find_target


@dataclass(frozen=True)
class Specialisation:
    """A JIT function as one launch specialises it. `attrs`: path of a parameter -> what is known of its value; `options`:
    the launch's, with the cluster under `ctas_per_cga`; `target`: the chip's name."""

    fn: Any
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    attrs: dict[tuple[int, ...], list]
    options: dict[str, Any]
    target: str

    @property
    def key(self) -> tuple:
        """A key that tells specialisations of the function apart by content."""
        constants = sorted((path, getattr(value, "cache_key", None) or repr(value)) for path, value in self.constants.items())
        options, seen = sorted(self.options.items(), key=str), seen_by(self.fn, self.constants)
        return (repr(self.signature), repr(constants), repr(sorted(self.attrs.items())), repr(options), self.target,
                seen.digest, seen.native_key())


@dataclass(frozen=True)
class AsCompiled:
    """The shared memory of a kernel as Triton's allocator gives it: the `total` that a launch asks for, and what the bytes hold."""

    total: int
    rows: tuple[Row, ...]


def as_compiled(launch: Specialisation, program: Program) -> AsCompiled | None:
    """The shared memory of the launch's binary, with rows whose entries are those of `program`. None for kernels without words
    of ours, those of Gluon's, chips without a compiler here, and what does not compile."""
    chip = find_target(launch.target)
    if is_gluons(launch.fn) or not chip.binary or not program.orchestrates():
        return None
    try:
        compiled, total, pieces = _allocated(launch, chip)
    except (CompilationError, MimwError, RuntimeError):
        return None
    return AsCompiled(total, tuple(_entries_of(program, compiled_rows(compiled, shared_plan(compiled), pieces))))


def _entries_of(program: Program, rows: list[Row]) -> Iterator[Row]:
    """The rows with the entries of another recording of the same kernel: those of the same name and line, in order."""
    own: dict[tuple, list[SharedEntry]] = {}
    for entry in shared_plan(program).entries:
        own.setdefault((entry.name, entry.site), []).append(entry)
    for row in rows:
        same = own.get((row.entry.name, row.entry.site), []) if row.entry else []
        yield replace(row, entry=same.pop(0) if same else None)


def check_fits(launch: Specialisation, program: Program) -> None:
    """Raise what compiling the launch would: `OutOfSharedMemory`, or another refusal of the layouts. `program` is the launch's
    after all checks."""
    chip = find_target(launch.target)
    # Of a chip without a compiler the passes have added memory up; a kernel of Gluon's was compiled when it was made ready.
    if not chip.binary or is_gluons(launch.fn):
        return
    _, parsed, _ = _options(launch, chip)
    if not program.orchestrates() or not may_not_fit(program, chip, parsed.num_stages):
        return
    known = launch.fn.__dict__.setdefault("_fitting", {})
    if launch.key not in known:
        known[launch.key] = _refusal(launch, chip)
    if known[launch.key] is not None:
        raise known[launch.key]


def _refusal(launch: Specialisation, chip: Target) -> KernelError | None:
    try:
        compiled, total, pieces = _allocated(launch, chip)
    except CompilationError as error:
        if isinstance(error.__cause__, (NotYet, TargetError)):  # not to be compiled, so not to be launched either
            return None
        raise
    total += counter_bytes(compiled, chip)
    if total <= chip.shared_bytes:
        return None
    try:
        check_scratch(compiled, chip, total, pieces)
    except KernelError as error:
        return error
    return None


def _allocated(launch: Specialisation, chip: Target) -> tuple[Program, int, tuple[Piece, ...]]:
    """The program as it is compiled, and what Triton's allocator finds behind all stages up to it: the bytes and their pieces. Once
    for each specialisation."""
    known = launch.fn.__dict__.setdefault("_allocated", {})
    if launch.key not in known:
        program, module = finished(launch, chip)
        found = allocation(module, chip.arch)
        known[launch.key] = program, found.total, found.pieces
    return known[launch.key]


def finished(launch: Specialisation, chip: Target) -> tuple[Program, Any]:
    """The program as it is compiled, and its module after all passes that run over TTGIR; no binary is made."""
    backend, options, cluster = _options(launch, chip)
    kernel = Kernel(launch.fn, launch.signature, launch.constants, launch.attrs, cluster or ALONE)
    context = mlir_context()
    backend.load_dialects(context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the remarks have been made when the launch was recorded
        module = kernel.to_ttgir(chip, options, backend, context)
    return kernel.program, final_ttgir(module, backend, options)


def _options(launch: Specialisation, chip: Target) -> tuple[Any, Any, Any]:
    """(Triton's backend, its options for the launch, the shape of the cluster)."""
    backend, options = make_backend(gpu_target(chip)), dict(launch.options)
    cluster = options.pop("ctas_per_cga", None)
    options.pop("preferred_ctas_per_cga", None)
    return backend, backend.parse_options({"enable_fp_fusion": True, **options}), cluster
