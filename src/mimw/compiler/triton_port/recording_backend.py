"""Triton's backend for a chip for which there is none here: the part that recording needs, and no more.

Input: the `GPUTarget` of a chip that Triton knows nothing of. Output: an object that takes launch options, specialises arguments
and answers Triton's semantics as a backend does, so that kernels for the chip are recorded and simulated. For example:

    backend = RecordingBackend(GPUTarget("ascend", "ascend_910b", 1))
    backend.parse_options({"num_warps": 4}).arch            "ascend_910b"
    backend.add_stages({}, options, language)               TargetError: there is no compiler for ascend_910b here

Options and arguments are those of Triton's oldest NVIDIA chip: it has no special cases for words. What differs is said here: no
8-bit floats (Ascend C, "Data types": the 220x cores compute on half, bfloat16, float and integers), and products of any shape.
"""

from __future__ import annotations

from dataclasses import replace

from triton.backends.compiler import BaseBackend, GPUTarget
from triton.compiler.compiler import make_backend

from ...errors import TargetError

_LIKE = GPUTarget("cuda", 80, 32)


class RecordingBackend(BaseBackend):
    """A backend that ends where code would be made."""

    def __init__(self, target: GPUTarget):
        super().__init__(target)
        self._like = make_backend(_LIKE)

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend not in ("cuda", "hip")

    def hash(self) -> str:
        return f"recording-{self.target}"

    def parse_options(self, options: dict):
        return replace(self._like.parse_options(options), arch=str(self.target.arch), supported_fp8_dtypes=())

    def get_codegen_implementation(self, options) -> dict:
        like = self._like.get_codegen_implementation(replace(options, arch=f"sm{_LIKE.arch}"))
        return like | {"min_dot_size": lambda left, right: (1, 1, 1)}

    def get_module_map(self) -> dict:
        return self._like.get_module_map()

    def load_dialects(self, context) -> None:
        self._like.load_dialects(context)

    def add_stages(self, stages: dict, options, language) -> None:
        raise TargetError(f"there is no compiler for {self.target.arch} here")
