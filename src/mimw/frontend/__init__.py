"""Python AST to IR: Triton's own code generator, driving our recorder."""

from .record import record_program

__all__ = ["record_program"]
