"""`mimw.export`: a kernel as a cubin with a header and a launcher in C, for programs without Python, and as an operator of torch.

Input: a kernel and a launch of it, as for `mimw.simulate`; no GPU. Output: an `Exported`, whose files are text and one binary:

    files = export(double, (2, ), x, y, 256, BLOCK=128, target="sm_90a").files
    files["double.h"], files["double.c"], files["double.cubin"], files["double.json"]

`Exported.write(folder)` writes them. A C compiler and CUDA's `cuda.h` make an object of them (docs/PACKAGE.md). With `torch=True`
there is also `double_torch.cpp`, an operator of torch around the launcher, for programs that torch.export and AOTInductor make.
`torch_op` registers the same operator in a Python process, where the CPU's tensors are simulated.
"""

from .made import Exported, export, export_compiled
from .torch_op import torch_op

__all__ = ["Exported", "export", "export_compiled", "torch_op"]
