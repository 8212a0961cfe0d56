"""A cluster shape on a module's kernel, and on the metadata of what was compiled from it.

Triton knows clusters only as one program over several CTAs. A kernel whose LLVM function carries `nvvm.cluster_dim` gets
`.explicitcluster` and `.reqnctapercluster` in its PTX, and then the ordinary launch forms clusters of CTAs that are each
a program of their own. The binding has no way to make an attribute of that kind, so the module goes through text.
Input: a module and a shape. Output: the module; `with_cluster(module, (2, 1, 1))` has, on its kernel,

    nvvm.cluster_dim = array<i32: 2, 1, 1>
"""

from __future__ import annotations

import ctypes
import re
from collections import namedtuple
from functools import cache
from math import prod

from .runtime import CompiledKernel
from .text import Rewrite, rewritten

_SHAPE = re.compile(r"\.reqnctapercluster (\d+)(?:, (\d+))?(?:, (\d+))?")
_NON_PORTABLE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED (CUDA driver API, CUfunction_attribute)
_KERNEL = re.compile(r"(  tt\.func public @.* attributes \{)(.*)")


def with_cluster(module, shape: tuple[int, int, int]):
    """The module with the attribute on its kernel."""
    attribute = f"nvvm.cluster_dim = array<i32: {', '.join(map(str, shape))}>, "
    return rewritten(module, (Rewrite(_KERNEL, lambda line: f"{line[1]}{attribute}{line[2]}", times=1), ))


def add_metadata(compiled, **fields) -> None:
    """More fields in a compiled kernel's `metadata`."""
    known = compiled.metadata._asdict() | fields
    compiled.metadata = _metadata(tuple(sorted(known)))(**known)


@cache
def _metadata(fields: tuple[str, ...]) -> type:
    """The class of metadata with these fields: Python compiles text for each."""
    return namedtuple("KernelMetadata", fields)


class ClusterKernel(CompiledKernel):
    """A compiled kernel of clusters that Triton's launcher does not know how to start, or not all of them."""

    def _init_handles(self):
        fresh = self.module is None
        super()._init_handles()
        if not fresh:
            return
        # A grid of clusters: the launcher takes each for one program of several CTAs, and sizes workspaces by this.
        self._run.num_ctas = self.packed_metadata[1]
        if prod(self.metadata.cluster_dims) > 8:
            self._allow_large_clusters()

    def _allow_large_clusters(self) -> None:
        """Triton's launcher asks the driver for that only for clusters of its own kind (`num_ctas == 16`)."""
        status = ctypes.CDLL("libcuda.so.1").cuFuncSetAttribute(ctypes.c_void_p(self.function), _NON_PORTABLE, 1)
        if status:
            raise RuntimeError(f"the driver refuses clusters of more than 8 CTAs for {self.name} (CUresult {status})")


def launch_as_compiled(compiled, asked: tuple[int, int, int] | None, portable: int) -> None:
    """Have Triton's launcher start what the kernel was compiled for. Its PTX says it, also after a load from the cache.

    Clusters that the launch did not ask for are those of a mesh, whose grid counts clusters. A kernel that uses the workspace of
    cooperative launches is launched as one. Clusters of more than `portable` CTAs need the driver's leave.
    """
    ptx = compiled.asm.get("ptx", "")
    found = _SHAPE.search(ptx)
    shape = tuple(int(extent or 1) for extent in found.groups()) if found else (1, 1, 1)
    cooperative = {"launch_cooperative_grid": True} if "%envreg2" in ptx else {}
    add_metadata(compiled, cluster_dims=shape, **cooperative)
    if asked is None and shape != (1, 1, 1):
        warps, _, shared = compiled.packed_metadata
        compiled.packed_metadata = warps, shape[0], shared
        compiled.__class__ = ClusterKernel
    elif prod(shape) > portable:
        compiled.__class__ = ClusterKernel
