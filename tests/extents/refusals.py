"""Refusals of tiles of odd extents: each names the author's line and a mend.

    check_refused(kernel, "multiple of 8", "any_columns.py", BN=180)

Input: a kernel with one argument, an array of fp32. Output: nothing; an AssertionError if it compiles, or if the message lacks
something.
"""

import numpy as np
import pytest
from triton import CompilationError

import mimw
from mimw.errors import MimwError
from tests.compiling import stopping


def check_refused(kernel, said: str, file: str, target: str = "sm_90a", **meta) -> None:
    with pytest.raises((MimwError, CompilationError), match=said) as refused, stopping(("ttgir", )):
        mimw.compile(kernel, (1, ), np.zeros(1 << 16, np.float32), target=target, **meta)
    assert file in str(refused.value) and "Mend:" in str(refused.value)
