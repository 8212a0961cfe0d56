"""The library's kernels as packages for Hugging Face's `kernels`: GEMM, RMSNorm, SwiGLU, attention, each with the code of its host.

Input: nothing; no GPU. Output: plans, which `mimw export` and `mimw.export.hub_package` make packages of. For example:

    mimw export mimw.integrations.hub:swiglu --hf-kernel -o build
    kernels.get_local_kernel(Path("build/swiglu")).swiglu(gate, up)

docs/HUB_KERNELS.md has the operators, the types and extents that they take, and how to add to them.
"""

from .plans import attention, gemm, rms_norm, swiglu

__all__ = ["attention", "gemm", "rms_norm", "swiglu"]
