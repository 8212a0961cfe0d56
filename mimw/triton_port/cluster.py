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
