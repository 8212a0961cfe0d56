"""Say what is installed and what works on this machine.

Input: nothing. Output: a row for each package, tool and ability; every "yes" was tried a moment ago:

    compile for sm_90a   yes, a cubin of 5576 bytes (0.5 s)
    simulate ascend_910b yes; no binary is made for it (0.0 s)
    launch               no: needs a GPU
"""

from __future__ import annotations

import os
import platform
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

HELP = "what is installed and what works here"
EXAMPLES = """\
  mimw doctor
  MIMW_TRACEBACK=1 mimw doctor     stop at the first thing that does not work, with its traceback
"""
_PACKAGES = ("triton", "numpy", "ml_dtypes", "rich", "torch")
_TARGETS = ("sm_90a", "sm_100a", "gfx942", "gfx950")
_SIMULATED = ("ascend_910b", )      # chips that are simulated, and for which nothing here makes a binary


def add_arguments(parser: ArgumentParser) -> None:
    """`doctor` has no options."""


def execute(options: Namespace) -> int:
    for name, text in _installed():
        _row(name, text)
    print()
    _try("simulate", _simulate)
    for chip in _TARGETS:
        _try(f"compile for {chip}", lambda chip=chip: _compile(chip, "copy_plain"))
        _try("  with async tasks", lambda chip=chip: _compile(chip, "copy_between_tasks"))
    for chip in _SIMULATED:
        _try(f"simulate {chip}", lambda chip=chip: f"{_simulate('copy_plain', chip)}; no binary is made for it")
    _row("launch", _launch())
    return 0


def _installed() -> list[tuple[str, str]]:
    from triton import knobs

    from .. import __version__
    from ..testing.gpus import gpus

    rows = [("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    rows += [("mimw", __version__)]
    rows += [(package, _version(package)) for package in _PACKAGES]
    rows += [("gpu", ", ".join(map(str, gpus())) or "none found")]
    rows += [(tool, _tool(knobs.nvidia, tool)) for tool in ("ptxas", "ptxas_blackwell", "nvdisasm")]
    rows += [("cache", f"{knobs.cache.dir} ({'writable' if _writable(knobs.cache.dir) else 'NOT writable'})")]
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(("MIMW_", "TRITON_")))
    return [*rows, ("environment", " ".join(variables) or "no MIMW_ or TRITON_ variable is set")]


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed" + (" (only launching needs it)" if package == "torch" else "")


def _tool(tools, name: str) -> str:
    from ..triton_port.assembler import FIXED

    try:
        tool = getattr(tools, name)
        old = name == "ptxas_blackwell" and tuple(map(int, tool.version.split(".")[:2])) < FIXED
        known = f"; before {FIXED[0]}.{FIXED[1]} it gets some dots of Hopper wrong, which are refused" if old else ""
        return f"{tool.version} at {tool.path}{known}"
    except RuntimeError as error:  # Triton's wheel brings these; a stripped one may not
        return f"not found ({error})"


def _writable(folder: str) -> bool:
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK)


def _simulate(kernel: str = "copy_between_tasks", chip: str | None = None) -> str:
    import numpy as np

    import mimw

    from . import probes
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    mimw.simulate(getattr(probes, kernel), (1, ), source, target, target=chip)
    if not (source == target).all():
        raise AssertionError("the simulated copy is not the original")
    return "yes"


def _compile(chip: str, kernel: str) -> str:
    from ..compile import compile_kernel
    from . import probes

    stages = compile_kernel(getattr(probes, kernel), probes.SIGNATURE, {}, target=chip).stages
    binary = "cubin" if "cubin" in stages else "hsaco"
    return f"yes, a {binary} of {len(stages[binary])} bytes"


def _launch() -> str:
    from ..testing.gpus import gpu_available, gpus

    if not gpus():
        return "no: needs a GPU"
    return "yes" if gpu_available() else "no: needs a torch that sees the GPU (pip install 'mimw[torch]')"


def _try(name: str, probe: Callable[[], str]) -> None:
    start = time.perf_counter()
    try:
        text = probe()
    except Exception as error:
        if os.environ.get("MIMW_TRACEBACK"):
            raise
        text = f"no: {(str(_root(error)).splitlines() or [type(error).__name__])[0]}"
    else:
        text += f" ({time.perf_counter() - start:.1f} s)"
    _row(name, text)


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _row(name: str, text: str) -> None:
    print(f"{name:<20} {text}")
