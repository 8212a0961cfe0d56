"""Written by docs/support/stubs.py: the room tle.raw for type checkers. `Input[L["i32"]]` is an annotation there."""

from typing import Any, Generic, TypeVar

from . import arith as arith
from . import func as func
from . import gpu as gpu
from . import ir as ir
from . import llvm as llvm
from . import math as math
from . import memref as memref
from . import mlir as mlir
from . import nvvm as nvvm
from . import scf as scf
from . import tensor as tensor
from . import vector as vector

Type = TypeVar("Type")

class Input(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

class InOut(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

class Output(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
