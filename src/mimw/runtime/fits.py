"""Whether a launch fits into the shared memory of a CTA with the scratch of Triton's ops, found out without making a binary.

Input: how a launch specialises a kernel. Output: nothing, or the `OutOfSharedMemory` that compiling it would end in:

    check_fits(Specialisation(fn, {"x": "*fp16"}, {}, {(0, ): [["tt.divisibility", 16]]}, {"num_warps": 4}, "sm_90a"), program)

A kernel that fits whatever the layouts turn out to be (`passes.may_not_fit`) is not lowered: most are small. Any other goes
through all stages up to Triton's allocator, a small part of a compilation, once for each specialisation.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from ..compiler.analysis import counter_bytes
from ..compiler.launch import ALONE
from ..compiler.passes import check_scratch, may_not_fit
from ..compiler.pipeline import Kernel, gpu_target, seen_by
from ..compiler.triton_port.allocation import allocation
from ..compiler.triton_port.codegen import CompilationError, mlir_context
from ..compiler.triton_port.runtime import final_ttgir, make_backend
from ..errors import KernelError, NotYet, TargetError
from ..ir import Program
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


def check_fits(launch: Specialisation, program: Program) -> None:
    """Raise what compiling the launch would: `OutOfSharedMemory`, or another refusal of the layouts. `program` is the launch's
    after all checks."""
    chip = find_target(launch.target)
    if not chip.binary:     # its memory was added up by the passes, and there is no compiler that would need more
        return
    backend = make_backend(gpu_target(chip))
    options = dict(launch.options)
    cluster = options.pop("ctas_per_cga", None)
    options.pop("preferred_ctas_per_cga", None)
    parsed = backend.parse_options({"enable_fp_fusion": True, **options})
    if not program.orchestrates() or not may_not_fit(program, chip, parsed.num_stages):
        return
    known = launch.fn.__dict__.setdefault("_fitting", {})
    if launch.key not in known:
        kernel = Kernel(launch.fn, launch.signature, launch.constants, launch.attrs, cluster or ALONE)
        known[launch.key] = _refusal(kernel, chip, parsed, backend)
    if known[launch.key] is not None:
        raise known[launch.key]


def _refusal(kernel: Kernel, chip, options, backend) -> KernelError | None:
    context = mlir_context()
    backend.load_dialects(context)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the remarks have been made when the launch was recorded
            module = kernel.to_ttgir(chip, options, backend, context)
    except CompilationError as error:
        if isinstance(error.__cause__, (NotYet, TargetError)):  # not to be compiled, so not to be launched either
            return None
        raise
    found = allocation(final_ttgir(module, backend, options), chip.arch)
    total = found.total + counter_bytes(kernel.program, chip)
    if total <= chip.shared_bytes:
        return None
    try:
        check_scratch(kernel.program, chip, total, found.pieces)
    except KernelError as error:
        return error
    return None
