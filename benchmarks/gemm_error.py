"""How large the error of a GEMM may be: `allowed` of `mimw.testing.gemm_error`, which the tuner of the package asks, too."""

from mimw.testing.gemm_error import allowed

__all__ = ["allowed"]
