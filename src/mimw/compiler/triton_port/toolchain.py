"""Tools of CUDA and LLVM that Triton brings, for native code of an author.

Input: a chip's capability, or LLVM IR. Output: the release of PTX that the assembler takes, the folder of CUDA's headers, PTX:

    ptx_release(90)                          "9.4"
    ptx_of_llvm("define void @f() ..", ["f"], 90)      what Triton's backend makes of such a text
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton._C import libtriton
from triton.backends.nvidia.compiler import (
    CUDAOptions,
    get_features,
    get_ptxas,
    ptx_get_version,
    sm_arch_from_capability,
)

from . import llvm_child
from .differences import layout_arguments, llvm_flags

_TRIPLE = "nvptx64-nvidia-cuda"
KEPT = "raw_keep_"      # names of variables that hold the functions which stay
_KEEP = f"""llvm.func @{{name}}()
llvm.mlir.global external @{KEPT}{{number}}() : !llvm.ptr {{{{
  %0 = llvm.mlir.addressof @{{name}} : !llvm.ptr
  llvm.return %0 : !llvm.ptr
}}}}
"""


def ptx_release(arch: int) -> str:
    """The newest release of PTX that ptxas takes for the chip."""
    number = ptx_get_version(get_ptxas(arch).version)
    return f"{number // 10}.{number % 10}"


def cuda_include() -> str:
    """The folder with CUDA's headers."""
    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "include")


def libdevice() -> str:
    """The file of NVIDIA's mathematical functions."""
    return dict(CUDAOptions().extern_libs)["libdevice"]


def ptx_of_llvm(text: str, functions: list[str], arch: int) -> tuple[str | None, str]:
    """(PTX of a text in LLVM IR, optimised, with NVIDIA's mathematical functions linked in; what LLVM says); the PTX is None if
    LLVM does not take the text. `functions` are those that it defines and that stay. In a process of its own (`llvm_child`)."""
    with tempfile.TemporaryDirectory() as folder:
        source, keep, request = (Path(folder, name) for name in ("raw.ll", "keep.mlir", "request.json"))
        source.write_text(text)
        keep.write_text("".join(_KEEP.format(name=name, number=number) for number, name in enumerate(functions)))
        work = {"source": str(source), "keep": str(keep), "links": [libdevice()] if "@__nv_" in text else [], "triple": _TRIPLE,
                "chip": sm_arch_from_capability(arch), "features": get_features(CUDAOptions(arch=f"sm{arch}"), arch),
                "flags": llvm_flags(), "layout": layout_arguments()}
        request.write_text(json.dumps({"library": libtriton.__file__, "work": work}))
        run = subprocess.run([sys.executable, llvm_child.__file__, str(request)], capture_output=True, text=True)
    made = re.sub(rf"^.*\b{KEPT}\d+\b.*$", "", run.stdout, flags=re.MULTILINE)
    return (None, run.stderr) if run.returncode else (made, run.stderr)
