"""Arithmetic that a chip's compiler has no code for: on floats of 8 bits, conversions, loops in reductions, PTX of AMD's chips.

Input: a program and its target. Output: nothing, or a `KernelError` with the line, the types and the mend. For example:

    x + x                           refused for fp8: Triton's backends have no addition of them, nor comparisons
    x.to(tl.float64)                refused for fp8: they convert to and from fp16, bf16 and fp32
    tl.reduce(x, 0, f)              refused where f has a `for` or a `while`: Triton's combiners are straight-line code

Such a kernel has a meaning, which the simulator would give it, and no binary: Triton 3.9 ends in "PassManager::run failed". What is
said here was tried op by op and type by type (tests/passes/test_compiled_elsewhere.py compiles a kernel of each kind).
"""

from __future__ import annotations

import re

from ...errors import KernelError
from ...ir import Op, Program, Scalar, Tensor, Value
from ...target import Target

_ARITHMETIC = frozenset(("float", "compare", "special", "approximate"))   # what rows say of their cost, of ops on floats
_PTX = re.compile(r"^\s*(?:\{|\.reg\b)|^\s*\w+\.[\w.:]+\s", re.MULTILINE)     # AMD's mnemonics have no dots
_TRUNCATE, _EXCHANGE = "RTZ", "XCHG"
_TRUNCATED = {      # what rounds towards zero on its way to 8 bits
    "cuda": {("fp32", "fp8e5")},
    "hip": {("fp32", "fp8e5"), ("fp16", "fp8e5"), ("fp16", "fp8e5b16")},
}


def check_elements(program: Program, target: Target) -> None:
    """Raise `KernelError` for the first op on elements for which the chip's compiler has no code."""
    if not target.binary:
        return
    for op in program.where(lambda row: row.cost in _ARITHMETIC and not row.elements_of or "maps" in row.traits):
        if op.name != "fabs" and (small := _small(op)):     # which clears the sign's bit
            raise KernelError(f"{small} has no arithmetic on {target}: elements of 8 bits are loaded, stored, moved and multiplied "
                              f"by tl.dot.", op.site, hint="compute in a type that has it: x.to(tl.float32); and convert back by "
                              f".to(tl.{_tritons(small)}) for the store.")
    for op in program.where(lambda row: row.cost == "convert"):
        _check_conversion(op, target)
    for op in program.where(lambda row: "combines" in row.traits):
        _check_combiner(op)
    for op in program.where(lambda row: "assembly" in row.places) if target.backend == "hip" else ():
        _check_assembly(op, target)
    for op in program.named("atomic_rmw") if target.backend == "hip" else ():
        _check_exchange(op, target)


def _small(op: Op) -> Scalar | None:
    """The first element type of 8 bits among the op's floats."""
    values = (*(value for value in op.operands if isinstance(value, Value)), *op.results)
    return next((element for value in values if _is_small(element := _element(value))), None)


def _check_conversion(op: Op, target: Target) -> None:
    source, result = _element(op.value), _element(op.result)
    truncates = str(dict(zip(op.row.params, op.args)).get("rounding")).endswith(_TRUNCATE)
    if (_is_small(source) and (result.name == "fp64" or _is_small(result) and result != source)
            or _is_small(result) and source.name == "fp64"):
        raise KernelError(f"{target} has no conversion from {source} to {result}.", op.site,
                          hint=f"convert by way of fp32: x.to(tl.float32).to(tl.{_tritons(result)}).")
    if truncates and (source.name == "fp64" or _is_small(result) and (source.name, result.name) not in _TRUNCATED[target.backend]):
        raise KernelError(f"{target} has no conversion from {source} to {result} that rounds towards zero.", op.site,
                          hint='round to nearest, fp_downcast_rounding="rtne", which is the default'
                          + (", or convert to fp32 first." if source.name == "fp64" else "."))


def _check_combiner(op: Op) -> None:
    """Triton lowers loops to branches before it lowers reductions, whose regions must be one block."""
    loop = next((one for one in op.walk() if "loop" in one.row.traits), None)
    if loop is not None:
        raise KernelError("the function that combines two elements has a loop, and Triton's are straight-line code.", loop.site,
                          hint="write its trips out: `for i in tl.static_range(n)` does that when compiling.")


def _check_assembly(op: Op, target: Target) -> None:
    if _PTX.search(op.assembly):
        raise KernelError(f"this assembly is PTX, which {target} does not have.", op.site,
                          hint="write it in `tl`, or choose by a compile-time parameter: if NVIDIA: ... else: ...")


def _check_exchange(op: Op, target: Target) -> None:
    """LLVM's backend of AMD has no such instruction on buffers, which Triton makes of tiles of pointers, and ends the process."""
    if str(op.kind).endswith(_EXCHANGE) and isinstance(op.value.type, Tensor) and op.value.type.element.name == "fp64":
        raise KernelError(f"{target} has no exchange of fp64 tiles.", op.site,
                          hint="exchange the bits: pointers.to(tl.pointer_type(tl.int64)), value.to(tl.int64, bitcast=True).")


def _is_small(element) -> bool:
    return isinstance(element, Scalar) and element.is_float and element.bits == 8


def _element(value: Value):
    return value.type.element if isinstance(value.type, Tensor) else value.type


def _tritons(element: Scalar) -> str:
    """The type as an author writes it: float8e5 for fp8e5."""
    return element.name.replace("fp", "float")
