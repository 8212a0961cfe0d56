"""`{key: value}` in a kernel: a display of pairs, for words that take one.

Input: a dictionary in the text of a kernel, also of one in which words of ours leave nothing behind but compile-time values, and
which Triton compiles. Output: a `Display`. For example:

    mesh: tl.constexpr = tle.device_mesh({"grid": [("row", ROWS), ("column", 2)]})
    tl.store(out, mesh.size)            compiled by Triton's own path
"""

from __future__ import annotations

from ...language.displays import Display
from ...language.tle.compile_time import CompileTimeValue
from .annotated import AnnotatedOnce
from .carries import DistinctCarries
from .known import known
from .python_calls import PythonCalls
from .structs import Structs


class Displays:
    """Mixin over Triton's `CodeGenerator`, which has no dictionaries."""

    def visit_Dict(self, node):
        if None in node.keys:
            raise self._unsupported(node, "`**` in a display of pairs is not supported in kernels")
        return Display([(self.visit(key), self.visit(value)) for key, value in zip(node.keys, node.values)])


class PlainKernel(Displays, PythonCalls, Structs, AnnotatedOnce, DistinctCarries):
    """Triton's generator with the extensions for a kernel without ops of ours."""

    def get_Attribute(self, lhs, attr):
        found = super().get_Attribute(lhs, attr)
        return known(found) if isinstance(getattr(lhs, "value", lhs), CompileTimeValue) else found
