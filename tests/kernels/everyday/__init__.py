"""Kernels as a stranger writes them, with tiles whose extents are no powers of two: what each file here holds, its name says.

    kernel, args, meta, want, result = arguments(rows.CASES["softmax"])

Input: a case. Output: what `mimw.simulate` takes, what comes out, and where: in the last array, or in that of the last descriptor.
"""

import numpy as np

from mimw import TensorDescriptor


def arguments(case):
    """(kernel, arguments, compile-time values, the numbers that are wanted, the array that becomes them)."""
    kernel, args, meta, want = case()
    arrays = [one.base.array if isinstance(one, TensorDescriptor) else one for one in args]
    return kernel, args, meta, want, [one for one in arrays if isinstance(one, np.ndarray)][-1]
