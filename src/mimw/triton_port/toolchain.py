"""What of CUDA's tools and LLVM Triton brings, for native code of an author.

Input: a chip's capability, or LLVM IR. Output: the release of PTX that the assembler takes, the folder of CUDA's headers, PTX:

    ptx_release(90)                          "9.4"
    ptx_of_llvm("define void @f() ..", 90)   what Triton's backend makes of such a text
"""

from __future__ import annotations

from pathlib import Path

import triton
from triton._C.libtriton import llvm
from triton.backends.nvidia.compiler import (
    CUDAOptions,
    get_features,
    get_llvm_flags,
    get_ptxas,
    ptx_get_version,
    sm_arch_from_capability,
)

_TRIPLE = "nvptx64-nvidia-cuda"


def ptx_release(arch: int) -> str:
    """The newest release of PTX that ptxas takes for the chip."""
    number = ptx_get_version(get_ptxas(arch).version)
    return f"{number // 10}.{number % 10}"


def cuda_include() -> str:
    """The folder with CUDA's headers."""
    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "include")


def ptx_of_llvm(text: str, arch: int) -> str:
    """PTX of a text in LLVM IR. RuntimeError with LLVM's message for one that it does not take."""
    llvm.init_targets()
    return llvm.translate_to_asm(text, _TRIPLE, sm_arch_from_capability(arch), get_features(CUDAOptions(arch=f"sm{arch}"), arch),
                                 get_llvm_flags(), True, False, False)
