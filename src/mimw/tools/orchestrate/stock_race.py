"""A race that stock Triton puts into the plain kernel: whether this launch has it.

Input: a launch of a plain kernel. Output: a sentence for the report, "" without that race. For example:

    remark(plain)       "the plain kernel has a race, as Triton 3.9 compiles it for Hopper: ..."

docs/BUGS.md, "Bugs of Triton 3.9 found here": wrong numbers on an H200. What `mimw.jit` compiles is mended, the orchestrated
kernel too; so Triton's TTGIR is compared with the mended one. Both are made without a GPU, and no binary of either.
"""

from __future__ import annotations

from ...compiler.pipeline.targets import gpu_target
from ...compiler.triton_port.codegen import CompilationError
from ...compiler.triton_port.mlir_complaints import MlirProblem, complaints
from ...compiler.triton_port.runtime import compiled_ttgir
from ...runtime.jit import MimwFunction
from .plain import Plain


def remark(plain: Plain) -> str:
    """The mistake in the plain kernel as stock Triton compiles it, and the mend; "" if none is known."""
    one = plain.launch.specialisation
    if plain.chip.arch != 90 or isinstance(one.fn, MimwFunction) or not plain.program.named("dot"):
        return ""
    options = {"enable_fp_fusion": True, **one.options}
    try:
        with complaints():
            stock, mended = (compiled_ttgir(one.fn, one.signature, one.constants, one.attrs, gpu_target(plain.chip), options, ours)
                             for ours in (False, True))
    except (CompilationError, MlirProblem, ValueError):
        return ""       # Triton does not compile it at all, which its launch says
    if stock == mended:
        return ""
    return ("the plain kernel has a race, as Triton 3.9 compiles it for Hopper: a copy may begin while a product still reads the "
            "memory it goes to, and sums are wrong then (docs/BUGS.md, \"Bugs of Triton 3.9 found here\"). Launch it as "
            "mimw.jit, which waits for the product, or with num_stages=1")
