"""Which of the two releases of Triton is installed that this package runs on.

Input: nothing. Output: a flag, by what the builder has; versions of builds between releases say less:

    OLDER       True on Triton 3.8, False on 3.9
"""

from triton._C.libtriton.gluon_ir import GluonOpBuilder

OLDER = not hasattr(GluonOpBuilder, "get_cache_policy")
