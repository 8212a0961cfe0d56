"""`mimw.export`: a kernel as a cubin with a header and a launcher in C, for programs without Python, and as an operator of torch.

Input: a kernel and a launch of it, as for `mimw.simulate`; no GPU. Output: an `Exported`, whose files are text and one binary:

    files = export(double, (2, ), x, y, 256, BLOCK=128, target="sm_90a").files
    files["double.h"], files["double.c"], files["double.cubin"], files["double.json"]

`Exported.write(folder)` writes them. A C compiler and CUDA's `cuda.h` make an object of them (docs/PACKAGE.md). With `torch=True`
there is also `double_torch.cpp`, an operator of torch around the launcher, for programs that torch.export and AOTInductor make.
`torch_op` registers the same operator in a Python process, where the CPU's tensors are simulated. `hub_package` makes a package for
Hugging Face's `kernels` of several launches (docs/HUB_KERNELS.md).
"""

from .hub import Package, Plan, hub_package
from .made import Exported, export, export_compiled
from .torch_op import torch_op

__all__ = ["Exported", "Package", "Plan", "export", "export_compiled", "hub_package", "torch_op"]
