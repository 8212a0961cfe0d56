"""The tools that tests and users share: compare results, compare texts, find a GPU, measure times.

Input: results, texts or kernels. Output: nothing, or an AssertionError that says where the difference is. For example:

    compare(c, a @ b, rtol=2**-8)        AssertionError: 3 of 4096 elements differ by more than ...
"""

from .compare import compare
from .golden import Golden
from .gpus import gpu_available

__all__ = ["Golden", "compare", "gpu_available"]
