"""A kernel as a package for Hugging Face's `kernels`: binaries, and operators of torch over them, without mimw at run time.

Input: launches of one kernel, and perhaps a file of host code that computes their arguments. Output: a folder that `get_kernel` and
`get_local_kernel` load, on any version of torch from 2.4. For example:

    package("scale-rows", [case()]).write("build")                          build/scale-rows/build/torch-universal/...
    kernels.get_local_kernel(Path("build/scale-rows")).scale_rows(x, y, 2.5, 80, 3)

docs/HUB_KERNELS.md shows it. `mimw.integrations.hub` has packages of the library's kernels.
"""

from .package import Package, hub_package
from .plan import Plan

__all__ = ["Package", "Plan", "hub_package"]
