"""A cluster shape on a module's kernel, and on the metadata of what was compiled from it.

Triton knows clusters only as one program over several CTAs. A kernel whose LLVM function carries `nvvm.cluster_dim` gets
`.explicitcluster` and `.reqnctapercluster` in its PTX, and then the ordinary launch forms clusters of CTAs that are each
a program of their own. The binding has no way to make an attribute of that kind, so the module goes through text.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import namedtuple

from triton._C.libtriton import ir as mlir

from .runtime import CompiledKernel

_SHAPE = re.compile(r"\.reqnctapercluster (\d+)(?:, (\d+))?(?:, (\d+))?")
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


class ClusterKernel(CompiledKernel):
    """A compiled kernel whose launches count clusters: Triton's launcher takes it for a program of several CTAs."""

    def _init_handles(self):
        super()._init_handles()
        self._run.num_ctas = self.metadata.cluster_dims[0]  # by which it sizes scratch memory


def launch_as_compiled(compiled, asked: tuple[int, int, int] | None) -> None:
    """Have Triton's launcher start what the kernel was compiled for. Its PTX says it, also after a load from the cache.

    Clusters that the launch did not ask for are those of a mesh, whose grid counts clusters. A kernel that uses the workspace of
    cooperative launches is launched as one.
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
