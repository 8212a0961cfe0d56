"""Reader of an author's MLIR text while the kernel is recorded: a refusal by MLIR's parser reaches the author at once.

Input: a text, the function that is called, the warps that call it. Output: what the function does to the memory of each parameter,
and whether it only computes:

    read_mlir(MlirText(text), function, 4)          ((frozenset({"read"}), frozenset()), False)
"""

from __future__ import annotations

from ...ir.mlir_text import MlirError, MlirFunction, MlirText
from ...ir.mlir_types import buffer_alias, in_some_layout, spelled
from ..triton_port.mlir_complaints import MlirProblem
from ..triton_port.mlir_effects import facts
from ..triton_port.mlir_functions import Machine, MlirSource


def read_mlir(text: MlirText, function: MlirFunction, num_warps: int, warp_size: int = 32
              ) -> tuple[tuple[frozenset[str], ...], bool]:
    """Implement `Recording.read_mlir`. Raises `MlirError` with the author's line and column.

    The layouts of buffers are not solved yet: here each buffer has some valid layout.
    """
    given = {parameter.type for parameter in function.parameters}
    if unknown := [one for one in text.buffers if one not in given]:
        raise MlirError(f"{spelled(unknown[0])} is no parameter's type, so nobody knows how it lies: write its layout and "
                        f"memory, as in {spelled(unknown[0])[:-1]}, #shared, #ttg.shared_memory, mutable>", function.line)
    types = tuple((buffer_alias(one), in_some_layout(one)) for one in text.buffers)
    try:
        return facts(MlirSource(text.aliases, text.bodies, function.name, types, Machine(num_warps, warp_size)))
    except MlirProblem as problem:
        raise MlirError(problem.what, *text.position(problem.line, problem.column)) from None
