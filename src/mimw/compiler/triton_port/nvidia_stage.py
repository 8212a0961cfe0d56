"""The stage of NVIDIA's backend that makes TTGIR, for kernels without words of ours: Triton's, and behind it a mend.

Input: a compilation by Triton's `compile`. Output: the same, with products waited for before a copy to what they read:

    with our_nvidia_stage():
        stock_compile(src, target=GPUTarget("cuda", 90, 32), options=options)

`pending_products` says what Triton's pipeline does wrong there. Kernels with words of ours come as finished TTGIR, and have had the
mend among their passes (`passes.nvidia_passes`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from triton.backends.compiler import Language
from triton.backends.nvidia import compiler as stock

from .pending_products import settle_products
from .stage_hook import changed_stages


def our_nvidia_stage() -> AbstractContextManager[None]:
    """Inside, the TTGIR that Triton makes for NVIDIA's chips is mended."""
    return changed_stages(_change)


def _change(backend, stages, options, language) -> None:
    if language == Language.TRITON:
        mend(backend, stages)


def mend(backend, stages: dict) -> None:
    """Put the mend behind the stage that makes TTGIR, for an NVIDIA chip."""
    if isinstance(backend, stock.CUDABackend):
        stages["ttgir"] = _mended(stages["ttgir"])


def _mended(stage):
    def make_ttgir(module, metadata):
        module = stage(module, metadata)
        settle_products(module)
        return module

    return make_ttgir
