"""The error at the start of a chain of compilation errors, and its words.

Input: an error of Triton's code generator. Output: the error that it was made of, its message and its mend:

    origin(error)                   ValueError("...") of a word, of Python or of Triton's language
    complaint(error, root)          ("num must be positive, got -1", "")
"""

from __future__ import annotations

from ....errors import causes
from ...triton_port.codegen import CompilationError

_DEEP = ("this is nested too deep for Python to walk through: give parts of a long expression names of their own, or write a loop, "
         "`for i in tl.static_range(n)`")


def origin(error: BaseException) -> BaseException:
    """The error at the start of a chain: Triton's generator wraps an error statement by statement, and replaces an error that
    is not a compilation error by one with the `repr` of it."""
    while isinstance(error, CompilationError):
        replaced = error.__context__ if error.__suppress_context__ and error.error_message == repr(error.__context__) else None
        if (inner := error.__cause__ or replaced) is None:
            break
        error = inner
    return error


def complaint(error: BaseException, root: BaseException) -> tuple[str, str]:
    """(message, mend) of an error of Triton or of Python, without Python's quotes around it."""
    hint = getattr(root, "hint", "")
    return _message(error, root).removesuffix(f"\nMend: {hint}" if hint else ""), hint


def _message(error: BaseException, root: BaseException) -> str:
    if isinstance(root, RecursionError):
        return _DEEP
    if not isinstance(root, CompilationError):
        return f"{type(root).__name__}: {root}" if isinstance(root, KeyError) or not str(root) else str(root)
    message = ""
    for one in causes(error):
        if not isinstance(one, CompilationError):
            break
        message = one.error_message or message
    return message or "compilation failed"
