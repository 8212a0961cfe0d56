"""Functions of the dialects `llvm` and `nvvm`, which say what one thread does, as LLVM IR.

Input: MLIR text. Output: a text of LLVM IR; or `MlirProblem` with the line and column. An example:

    llvm.func @scale(%p: !llvm.ptr<3>, %f: f32) { .. }          define void @scale(ptr addrspace(3) %0, float %1) { .. }
"""

from __future__ import annotations

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import llvm, passes

from .mlir_complaints import MlirProblem, complaints, ops_of, places_of
from .mlir_functions import new_context
from .text import module_of

_DIALECTS = ("llvm.", "nvvm.", "arith.", "scf.", "cf.", "ub.")


def llvm_of_mlir(text: str) -> str:
    """The LLVM IR of a text."""
    with complaints():
        module = module_of(text, new_context())
    for op, place in zip(ops_of(module), places_of(module), strict=True):
        if not op.get_name().startswith(_DIALECTS) and op.get_name() != "builtin.module":
            raise MlirProblem(f"{op.get_name()} may not stand beside llvm.func, which is the code of one thread", *place)
    manager = mlir.pass_manager(module.context)
    for add in (passes.convert.add_scf_to_cf, passes.convert.add_arith_to_llvmir, passes.convert.add_cf_to_llvmir,
                passes.convert.add_reconcile_unrealized_casts):
        add(manager)
    with complaints():
        manager.run(module, "mimw")
        llvm.init_targets()
        return str(llvm.to_module(module, llvm.context()))
