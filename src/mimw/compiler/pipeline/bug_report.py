"""A bug of ours, told as one: which line of ours it is, and a file that holds what a report of it takes.

    with reporting(kernel, chip, options):      a KeyError of a pass, or of the simulator, becomes an InternalError
        stage(...)

Input: a kernel on its way through the compiler, and an exception that is no refusal. Output: the InternalError, and the file:
versions, chip, options, the text of the kernel, its program, and Python's traceback.
"""

from __future__ import annotations

import platform
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import triton

from ...errors import InternalError, MimwError
from ...ir import print_program
from ...ir.site import site_of
from ...target import Target
from ..triton_port.codegen import CompilationError, OutOfResources
from .seen import Rebind

_HOME = Path(__file__).parents[3]
_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
_REFUSALS = (CompilationError, OutOfResources, Rebind, Warning)


@contextmanager
def reporting(kernel: Any, chip: Target, options: Any) -> Iterator[None]:
    """Convert what no stage raises on purpose to an InternalError with a file to report."""
    try:
        yield
    except InternalError as error:
        if not getattr(error, "reported", False):
            mend, error.reported = _mend(kernel, chip, options, error)
            error.args = (f"{error}\n{mend}", )
        raise
    except _BUGS as error:
        if isinstance(error, (MimwError, *_REFUSALS)):
            raise
        raise _told(kernel, chip, options, error) from error


def _told(kernel, chip: Target, options, error: Exception) -> InternalError:
    message = " ".join(str(error).split()) or "no message"
    mend, reported = _mend(kernel, chip, options, error)
    told = InternalError(f"InternalError: this is a bug in mimw, not in your kernel: {type(error).__name__}: {message[:300]} at "
                         f"{_line_of_ours(error)}\n{mend}")
    told.reported, told.sites = reported, (site_of(kernel.fn.fn), )
    return told


def _mend(kernel, chip: Target, options, error: Exception) -> tuple[str, bool]:
    """(what to do with the file, True if it could be written)."""
    start = f"Kernel {kernel.fn.__name__!r} of {site_of(kernel.fn.fn)} was compiled for {chip.name} by mimw {_version()} over " \
            f"Triton {triton.__version__}."
    with suppress(OSError):
        with tempfile.NamedTemporaryFile("w", prefix="mimw-report-", suffix=".txt", delete=False) as file:
            file.write(_report(kernel, chip, options, error))
        return (f"{start}\nMend: report it, and attach {file.name}: it holds the versions, the kernel, its program and the "
                "traceback."), True
    return f"{start}\nMend: report it with the kernel's text and the traceback.", False


def _report(kernel, chip: Target, options, error: Exception) -> str:
    program = kernel.program or kernel.reached
    parts = {
        "versions": f"mimw {_version()}, Triton {triton.__version__}, Python {platform.python_version()}, {platform.platform()}",
        "chip": chip.name,
        "options": "\n".join(f"{name} = {value!r}" for name, value in sorted(_items(options))),
        "specialisation": f"{kernel.signature}\n{kernel.constants}\n{kernel.attrs}",
        "kernel": kernel.fn.src,
        "program": "not recorded" if program is None else print_program(program),
        "traceback": "".join(traceback.format_exception(error)),
    }
    return "\n\n".join(f"== {name}\n{text}" for name, text in parts.items()) + "\n"


def _items(options: Any) -> list[tuple[str, Any]]:
    return list((options if isinstance(options, dict) else vars(options)).items())


def _line_of_ours(error: Exception) -> str:
    """The innermost line of this package in the traceback."""
    lines = [f"{Path(frame.filename).relative_to(_HOME)}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
             if Path(frame.filename).is_relative_to(_HOME)]
    return lines[-1] if lines else "a line that is not known"


def _version() -> str:
    return import_module(__name__.partition(".")[0]).__version__
