"""Bank conflicts of shared-memory accesses, as Triton counts them.

Input: the layouts of a tile and of a buffer, the shape, the bits of an element. Output: the excess accesses of one wavefront:

    bank_conflicts([(tile, plain_rows, (32, 32), 32)], target)        [31] if all lanes of a warp read one bank
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.layouts import PaddedShared, RegisterLayout, SharedLayout
from .builder import new_module, to_gluon
from .codegen import mlir_context
from .runtime import GPUTarget, make_backend

SharedAccess = tuple[RegisterLayout, SharedLayout, tuple[int, ...], int]


def bank_conflicts(accesses: Iterable[SharedAccess], target: GPUTarget) -> list[int | None]:
    """The excess accesses of one wavefront, 0 at best, for each (tile's layout, buffer's layout, shape, bits of an element).

    None for padded buffers, for which Triton has no answer.
    """
    backend, context = make_backend(target), mlir_context()
    backend.load_dialects(context)
    builder, module = new_module(context, f"cuda:{target.arch}", backend.parse_options({"enable_fp_fusion": True}))
    # Triton looks for the target in the module around the builder, so it must stand in one.
    function = builder.get_or_insert_function(module, "accesses", builder.get_function_ty([], []), "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())

    def count(tile: RegisterLayout, buffer: SharedLayout, shape: tuple[int, ...], bits: int) -> int | None:
        if isinstance(buffer, PaddedShared):
            return None
        attributes = (to_gluon(layout)._to_ir(builder) for layout in (tile, buffer))
        return builder.get_shared_bank_conflicts(*attributes, list(shape), bits)

    return [count(*access) for access in accesses]
