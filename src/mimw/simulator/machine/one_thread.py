"""One thread for numpy's matrix products while a launch is simulated.

Input: nothing. Output: OpenBLAS limited to one thread, inside a `with`. For example:

    with one_thread():
        a @ b

The products are small, so a second thread gains next to nothing, and on a busy machine the threads of OpenBLAS wait for each
other by spinning: ten times the time was measured. Wheels of numpy bring an OpenBLAS of their own; other libraries are left
alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np


@cache
def _openblas():
    """(get, set) of the number of threads of numpy's own OpenBLAS, or None."""
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    for path in folder.glob("libscipy_openblas*"):
        try:
            library = ctypes.CDLL(str(path))     # the one that numpy has loaded already
            suffix = "64_" if "openblas64" in path.name else ""
            return (getattr(library, f"scipy_openblas_get_num_threads{suffix}"),
                    getattr(library, f"scipy_openblas_set_num_threads{suffix}"))
        except (OSError, AttributeError):
            continue
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products of numpy take one thread inside, and as many as before outside."""
    found = _openblas()
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)
