"""Reports of errors on the terminal: in the fewest words that say all, and never with a traceback through our own files.

Input: an exception of a command. Output: text for stderr:

    one_line(error)             'gemm.py: Permission denied'; None for what is neither a refusal of ours nor of the system
    of_script(error, "a.py")    Python's traceback of a script, from the script's own first line on
    unforeseen(error)           'this should not have happened (KeyError: 'x' at .../load.py:40). It is a bug of mimw ...'

MIMW_TRACEBACK=full (or 1) shows everything, in place of all this.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path

from ..errors import MimwError, causes
from .errors import CommandError

_PACKAGE = str(Path(__file__).parent.parent)


def wanted_whole() -> bool:
    """True if the environment asks for Python's own tracebacks."""
    return bool(os.environ.get("MIMW_TRACEBACK"))


def one_line(error: Exception, of_a_script: bool = False) -> str | None:
    """The message of a refusal: ours, Triton's of a kernel, or the system's of a file that is not the script's own; None for
    other errors."""
    ours = refusal(error)
    if ours is not None:
        return str(ours)
    if isinstance(error, OSError) and not of_a_script:
        return f"{error.filename}: {error.strerror}" if error.filename else f"cannot write the output: {error.strerror}"
    return None


def refusal(error: BaseException | None) -> Exception | None:
    """The refusal in `error`: ours, also where Triton's CompilationError was raised from it, or Triton's own. Of ours that were
    raised from each other it is the first; it has the kernel's line, which Triton's own, further down, has not."""
    triton = sys.modules.get("triton")
    refusals = (MimwError, CommandError, triton.CompilationError) if triton else (MimwError, CommandError)
    recording = sys.modules.get("mimw.compiler.frontend.record")
    settled = (MimwError, recording.KernelCompilationError) if recording else MimwError
    found = None
    for one in causes(error):
        if isinstance(one, refusals) and not isinstance(found, settled):
            found = one
    return found


def of_script(error: BaseException) -> str:
    """A traceback without what runs the script: it begins with the first line that is neither ours nor Python's machinery."""
    told = traceback.TracebackException.from_exception(error)
    one = told
    while one is not None:
        behind = _behind(list(one.stack))
        if behind:
            one.stack = traceback.StackSummary.from_list(behind)
        elif hasattr(one, "offset"):        # of a script that does not parse: it names file and line itself
            one.stack = None
        one = one.__cause__ or one.__context__
    lines = "".join(told.format())
    frames = traceback.extract_tb(error.__traceback__)
    meant = _meant(error, frames[-1].line or "") if frames else ""
    return f"{lines}mimw: {meant.removeprefix('. ')}\n" if meant else lines


def _behind(frames: list) -> list:
    """The frames from the first on that is a user's; none if there is no such frame."""
    for index, frame in enumerate(frames):
        if not frame.filename.startswith((_PACKAGE, "<frozen ")) and Path(frame.filename).name not in ("mimw", "runpy.py"):
            return frames[index:]
    return []


def unforeseen(error: Exception) -> str:
    """One line about an unforeseen error: of the user's line that raised it, else of our own, which is a bug of ours."""
    message = " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not _is_a_library(frame.filename) and frame.name != "__getattr__"      # of a name that a module does not have
              and frame.filename != f"{_PACKAGE}/ir/callers.py"]    # of arguments that a function does not take
    if frames and not frames[-1].filename.startswith(_PACKAGE):
        here = frames[-1]
        return f"{type(error).__name__}: {message} ({here.filename}:{here.lineno} in {here.name}){_meant(error, here.line or '')}"
    where = f" at {Path(frames[-1].filename).relative_to(Path(_PACKAGE).parent)}:{frames[-1].lineno}" if frames else ""
    return (f"this should not have happened ({type(error).__name__}: {message}{where}). It is a bug of mimw {_version()}, not a "
            "mistake of yours: report this line, the file of the kernel and what `mimw doctor` prints; MIMW_TRACEBACK=full shows "
            "the whole traceback.")


def _is_a_library(file: str) -> bool:
    """True for files of Python and of installed packages that are not ours."""
    return file.startswith(("<frozen ", "<string>")) or not file.startswith(_PACKAGE) and file.startswith(
        tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}))


def _meant(error: BaseException, line: str) -> str:
    """A guess at what the user's line was to do, after a message of Python that does not say it."""
    launched = re.search(r"(\w+)\s*\[.*\]\s*\(", line)
    if isinstance(error, TypeError) and "'function' object is not subscriptable" in str(error) and launched:
        return f". {launched[1]!r} is a function of Python and no kernel: write `@mimw.jit` above `def {launched[1]}`"
    return ""


def _version() -> str:
    return sys.modules[__name__.partition(".")[0]].__version__
