"""Calls of an author's MLIR functions: a call for now, whose place the body takes when the module is whole.

Input: a `raw_mlir`. Output: a call of a function that is only declared; `spliced_calls` puts the bodies in:

    %y = raw_mlir 'twice' [%x] [fp32[128]]          %y = tt.call @raw.7(%x);  then  %y = arith.addf %x, %x

Tiles come and go in the layouts that the text writes, or else in the defaults of their shapes; what lies between these and the
layouts of the kernel is a conversion, of which Triton's passes keep what is needed.
"""

from __future__ import annotations

from ....errors import RawCodeError
from ....ir import Op, Site, Tensor
from ....ir.mlir_text import MlirText
from ....ir.mlir_types import buffer_alias
from ....ir.raw_code import code_of
from ...triton_port.mlir_complaints import MlirProblem
from ...triton_port.mlir_functions import Machine, MlirSource, body, declared_function
from ...triton_port.mlir_splice import Splice, spliced
from ..emitter import Emitter, emits


@emits("mlir_reads", "mlir_writes", "mlir_loads", "mlir_stores")
def declaration(emitter: Emitter, op: Op) -> None:
    """Emit nothing: declared effects are for those who read the program; Triton takes them from the function's ops."""


@emits("raw_mlir", "pure_mlir")
def raw_mlir(emitter: Emitter, op: Op):
    code, number = code_of(op), emitter.numbers[op]
    text = MlirText(code.text)
    function = text.called(code.symbol, code.name)
    values = emitter.operands(op, "values")
    types = {value.type: str(given.get_type()) for value, given in zip(op.values, values)}
    source = MlirSource(text.aliases, text.bodies, function.name, tuple((buffer_alias(one), types[one]) for one in text.buffers),
                        Machine(emitter.num_warps, emitter.target.warp_size, emitter.target_name, emitter.builder.options.num_ctas))
    try:
        made = body(source, emitter.module.context)
    except MlirProblem as problem:
        line, column = text.position(problem.line, problem.column)
        site = Site(code.file, code.line + line - 1, column - 1, code.name, op.site)
        raise RawCodeError(f"the MLIR text of {code.name} cannot be compiled for {emitter.target}: {problem.what}.", site) from None

    def position(line: int, column: int) -> tuple[str, int, int]:
        line, column = text.position(*source.position(line, column))
        return code.file, code.line + line - 1, column

    name = f"raw.{number}"
    emitter.splices[name] = Splice(made.text, number, position)
    declared = declared_function(emitter.module, name, made)
    called = emitter.builder.call(declared, [_as(emitter, *pair) for pair in zip(values, made.parameters, strict=True)])
    return [_back(emitter, value, called.get_result(index)) for index, value in enumerate(op.results)]


def spliced_calls(emitter: Emitter, module):
    """The module with the body of each function in the place of its call."""
    return spliced(module, emitter.splices) if emitter.splices else module


def _as(emitter: Emitter, value, wanted):
    """A tile in the layout of the parameter that takes it."""
    same = str(value.get_type()) == str(wanted)
    return value if same else emitter.builder.create_convert_layout(wanted, value)


def _back(emitter: Emitter, value, given):
    """A result in the layout that the solver has for it."""
    if not isinstance(value.type, Tensor):
        return given
    wanted = emitter.mlir_type(value)
    return given if str(given.get_type()) == str(wanted) else emitter.builder.create_convert_layout(wanted, given)
