"""Registers and shared memory of a kernel whose tasks ask for none, or of Gluon's, for its prediction: only its binary tells them.

Input: how a launch specialises a kernel, and a chip. Output: registers of a thread and bytes of a CTA, or None. For example:

    taken_by_binary(launch.specialisation, chip)        (207, 98304), of a second, or of Triton's cache

They say how many CTAs an SM holds, so nobody asks where a launch has no more CTAs than there are SMs.
"""

from __future__ import annotations

import warnings

from ...compiler.pipeline import gpu_target
from ...compiler.pipeline.binary import taken_by_cubin
from ...compiler.triton_port.codegen import CompilationError
from ...compiler.triton_port.runtime import gluon_compile, is_gluons
from ...errors import MimwError
from ...runtime.compile_kernel import compile_kernel
from ...runtime.fits import Specialisation
from ...target import Target


def taken_by_binary(launch: Specialisation, chip: Target) -> tuple[int, int] | None:
    """None of chips but NVIDIA's, and where the kernel does not compile."""
    if chip.backend != "cuda" or not chip.binary:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # the remarks have been made when the launch was recorded
            if is_gluons(launch.fn):
                return _taken_by_gluons(launch, chip)
            made = compile_kernel(launch.fn, launch.signature, launch.constants, chip.name, launch.options, launch.attrs)
    except (CompilationError, MimwError, RuntimeError):
        return None
    return made.registers, made.shared_bytes


def _taken_by_gluons(launch: Specialisation, chip: Target) -> tuple[int, int]:
    made = gluon_compile(launch.fn, launch.signature, launch.constants, launch.attrs, gpu_target(chip),
                         {"enable_fp_fusion": True, **launch.options})
    return taken_by_cubin(made.asm["cubin"]).registers, made.metadata.shared
