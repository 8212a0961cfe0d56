"""A cluster shape on a module's kernel, and on the metadata of what was compiled from it.

Triton knows clusters only as one program over several CTAs. A kernel whose LLVM function carries `nvvm.cluster_dim` gets
`.explicitcluster` and `.reqnctapercluster` in its PTX, and then the ordinary launch forms clusters of CTAs that are each
a program of their own. The binding has no way to make an attribute of that kind, so the module goes through text.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections import namedtuple

from triton._C.libtriton import ir as mlir

from .runtime import CompiledKernel

_NON_PORTABLE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED (CUDA driver API, CUfunction_attribute)
_KERNEL = re.compile(r"^  tt\.func public @.* attributes \{", re.MULTILINE)


def with_cluster(module, shape: tuple[int, int, int]):
    """The module with the attribute on its kernel."""
    attribute = f"nvvm.cluster_dim = array<i32: {', '.join(map(str, shape))}>, "
    text, found = _KERNEL.subn(lambda match: match[0] + attribute, str(module))
    if found != 1:
        raise RuntimeError(f"expected one kernel with attributes in the module, found {found}")
    file, path = tempfile.mkstemp(suffix=".mlir")
    try:
        with os.fdopen(file, "w") as handle:
            handle.write(text)
        parsed = mlir.parse_mlir_module(path, module.context)
    finally:
        os.unlink(path)
    parsed.context = module.context
    return parsed


def add_metadata(compiled, **fields) -> None:
    """More fields in a compiled kernel's `metadata`."""
    known = compiled.metadata._asdict() | fields
    compiled.metadata = namedtuple("KernelMetadata", sorted(known))(**known)


class LargeClusterKernel(CompiledKernel):
    """A compiled kernel whose clusters exceed the portable size. Triton's launcher asks the driver for that only for clusters
    of its own kind (`num_ctas == 16`), so the function is told once it is loaded."""

    def _init_handles(self):
        fresh = self.module is None
        super()._init_handles()
        if fresh:
            driver = ctypes.CDLL("libcuda.so.1")
            status = driver.cuFuncSetAttribute(ctypes.c_void_p(self.function), _NON_PORTABLE, 1)
            if status:
                raise RuntimeError(f"the driver refuses clusters of more than 8 CTAs for {self.name} (CUresult {status})")


def allow_large_clusters(compiled: CompiledKernel) -> None:
    """Let the launches of a kernel have clusters of a size that not every chip can run."""
    compiled.__class__ = LargeClusterKernel
