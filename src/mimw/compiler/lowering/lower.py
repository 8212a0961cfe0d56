"""Entry of the folder: a solved program to a TTGIR module.

Input: a program after all passes, the layouts that `constraints` chose, a chip. Output: a module that Triton's passes take. An
example, in which `load` is an op of Triton's and `barrier_wait` one of ours:

    barrier_wait %full, 0        ttng.wait_barrier %full, %c0_i32, %true          words/barriers.py
    %x = load %pointers          %x = tt.load %pointers : tensor<128x!tt.ptr<f32>, #blocked>       words/tiles.py

Every emission is registered by the import of its module: `words` holds those that Triton's builder has methods for, the folders
of chips those that are assembly of ours, `nvidia` on every chip of NVIDIA, `hopper` from sm_90 on, `blackwell` from sm_100 on,
`cdna` on AMD's.
"""

from __future__ import annotations

from ...ir import Op, Program
from ...target import Target
from ..constraints.solution import Layouts
from ..triton_port.builder import new_module
from ..triton_port.numbers import as_debug_file
from . import blackwell, cdna, hopper, nvidia, words  # noqa: F401
from .emitter import Emitter
from .words.raw_mlir import spliced_calls


def lower(program: Program, layouts: Layouts, context, target_name: str, options, target: Target,
          by_registers: frozenset[Op] = frozenset(), trial: bool = False):
    """A TTGIR module for `program`.

    args:      layouts      what `constraints` chose
               target_name  "cuda:90", "hip:gfx942"
               target       for what differs from chip to chip
               by_registers the `async_load`s that go through registers, because cp.async cannot do them
               trial        a module to be looked at and thrown away (`Emitter`)
    """
    builder, module = new_module(context, target_name, options)
    builder.set_loc(as_debug_file(program.site.file), program.site.line, program.site.column + 1)
    module.context = context
    emitter = Emitter(builder, layouts, target, program, by_registers, trial, module, target_name)
    types = [emitter.mlir_type(param.value) for param in program.params]
    function = builder.get_or_insert_function(module, program.name, builder.get_function_ty(types, []), "public", False)
    module.push_back(function)
    entry = function.add_entry_block()
    for index, param in enumerate(program.params):
        emitter.values[param.value] = function.args(index)
        for name, value in param.attrs:
            function.set_arg_attr(index, name, value)
    builder.set_insertion_point_to_start(entry)
    emitter.frame(entry, program.body)
    builder.ret([])
    if program.in_pairs:     # tensor memory is taken, given back and filled for the pair: .cta_group::2
        module.set_attr("ttng.two-ctas", builder.get_bool_attr(True))
    return spliced_calls(emitter, module)
