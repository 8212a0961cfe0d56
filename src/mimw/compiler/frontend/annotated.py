"""`name: kind = value` in a kernel: the value is worked out once.

Input: an annotated assignment. Output: the assignment without its annotation, unless that is `tl.constexpr`. For example:

    slot: Stage = writer.acquire(i)         one acquire; Triton's generator visits the value once more when it assigns it
"""

from __future__ import annotations

from ..triton_port.codegen import constexpr


class AnnotatedOnce:
    """Mixin over Triton's `CodeGenerator`."""

    def visit_AnnAssign(self, node):
        if node.value is None or self.visit(node.annotation) is constexpr:
            return super().visit_AnnAssign(node)
        return self.visit_Assign(node)
