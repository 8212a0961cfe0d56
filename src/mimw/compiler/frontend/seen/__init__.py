"""Inputs of recording a kernel besides its arguments: the texts of functions, and the values that they name, by content.

    names.py      what a function's text, or its code, names: chains such as `("consts", "C")`
    settled.py    what is the same wherever the versions are: Python's own modules, Triton, numpy, this package
    contents.py   the content of values
    walk.py       from a kernel to everything that it reaches
    found.py      what was found, as data
    still.py      whether all of it is as it was, asked at every launch in nanoseconds

Input: a JIT function, and its compile-time arguments. Output: `Seen`. For example, of a kernel that says `consts.C`:

    seen = look([kernel])
    seen.digest                 another one in a process where consts.C is another one
    seen.still()                False as soon as consts.C is another one in this process
    seen.shown["consts.C"]      "3.0"

The frontend runs Python, so what it looks at cannot be known in general. `look` follows names, attributes, closures, defaults and
the code of functions that are called, into every module that is not settled; where it cannot follow (a file, the environment, a
name that is put together, an object without content) it says so in `unknown`, and then nothing may rely on the digest.
"""

from .contents import content_of
from .found import Seen
from .walk import look

__all__ = ["Seen", "content_of", "look"]
