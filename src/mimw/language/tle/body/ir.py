"""`ir`, as raw bodies and their annotations name it: types, attributes and insertion points of MLIR's bindings, without the
bindings.

Input: a name. Output: the class of that name. For example:

    from mimw.tle.raw import ir
    ir.IntegerType.get_signless(32)             the type i32
    Annotated[ir.RankedTensorType, "tensor<1024xf32>"]
"""

from __future__ import annotations

from types import ModuleType

from . import types
from .regions import InsertionPoint


class Attribute:
    """A constant with a type: `ir.IntegerAttr.get(type, 3)`."""

    def __init__(self, type_, value):
        self.type, self.value = type_, value

    @classmethod
    def get(cls, first, second=None, context=None) -> Attribute:
        """Make an attribute of a type and a value; of a value alone, where the type is clear."""
        return cls(None, first) if second is None else cls(first, second)

    @classmethod
    def parse(cls, text: str, context=None) -> Attribute:
        """The attribute that MLIR writes so, by its text."""
        return cls(None, text)


class IntegerAttr(Attribute):
    """An integer."""


class FloatAttr(Attribute):
    """A float."""


class StringAttr(Attribute):
    """A text."""


class BoolAttr(Attribute):
    """A truth value."""


class DenseI32ArrayAttr(Attribute):
    """A row of numbers, such as the constant indices of llvm.getelementptr."""

    def __iter__(self):
        return iter(self.value)


class ShapedType(types._Shaped):
    """The base of shaped types."""

    @staticmethod
    def get_dynamic_size() -> int:
        """The number that stands for an extent that is only known at run time."""
        return types.DYNAMIC


MODULE = ModuleType("mimw.tle.raw.ir", __doc__)
for _class in (Attribute, IntegerAttr, FloatAttr, StringAttr, BoolAttr, DenseI32ArrayAttr, ShapedType, InsertionPoint, types.Type,
               types.IntegerType, types.IndexType, types.FloatType, types.F16Type, types.BF16Type, types.F32Type, types.F64Type,
               types.MemRefType, types.RankedTensorType, types.VectorType):
    setattr(MODULE, _class.__name__, _class)
