"""MLIR modules through their text, for what the binding has no way to change.

Input: the text of a module, and a context that knows its dialects. Output: the module. An example:

    module = module_of(str(module).replace("@old", "@new"), module.context)
"""

from __future__ import annotations

import os
import tempfile

from triton._C.libtriton import ir as mlir


def module_of(text: str, context):
    """The module that a text describes. The binding parses files only."""
    file, path = tempfile.mkstemp(suffix=".mlir")
    try:
        with os.fdopen(file, "w") as handle:
            handle.write(text)
        parsed = mlir.parse_mlir_module(path, context)
    finally:
        os.unlink(path)
    parsed.context = context
    return parsed
