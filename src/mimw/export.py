"""Exports, under the name by which users import them: `from mimw.export import export`. All of it is in `mimw.runtime.export`.

Input: a kernel and a launch of it. Output: an `Exported`, which writes a cubin, a C header and a launcher. For example:

    export(gemm, grid, a, b, c).write("build")
"""

from .runtime.export import Exported, Package, Plan, export, export_compiled, hub_package, torch_op

__all__ = ["Exported", "Package", "Plan", "export", "export_compiled", "hub_package", "torch_op"]
