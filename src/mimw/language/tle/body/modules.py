"""The modules that raw bodies name, and under which names published programs import them.

Input: nothing. Output: modules by name. For example:

    MODULES["arith"].addi           the op
    PUBLISHED["mlir.dialects.scf"]  the module that answers `from mlir.dialects import scf`, where MLIR's bindings are not installed
"""

from __future__ import annotations

from types import ModuleType

from . import ir
from . import walker as walker  # fills the dialects
from .dialect import DIALECTS

MODULES: dict[str, ModuleType] = {"ir": ir.MODULE, **DIALECTS}
_dialects = ModuleType("mlir.dialects", "The dialects that raw bodies have.")
_package = ModuleType("mlir", "What raw bodies need of MLIR's bindings.")
_package.ir, _package.dialects, _package.__path__, _dialects.__path__ = ir.MODULE, _dialects, [], []
for _name, _module in DIALECTS.items():
    if _name != "mlir":
        setattr(_dialects, _name, _module)
PUBLISHED: dict[str, ModuleType] = {"mlir": _package, "mlir.ir": ir.MODULE, "mlir.dialects": _dialects,
                                    **{f"mlir.dialects.{name}": module for name, module in DIALECTS.items() if name != "mlir"}}
