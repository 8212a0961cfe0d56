"""Python AST to IR: Triton's own code generator, driving our recorder.

Input: a JIT function and its specialisation. Output: an IR `Program`. For example:

    record_program(fn, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2, ): 128}, {}, options, codegen_fns)
"""

from .record import record_program

__all__ = ["record_program"]
