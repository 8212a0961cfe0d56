"""Say what is installed and what works on this machine.

Input: nothing. Output: a row for each package, tool and ability; every "yes" was tried just now:

    compile for sm_90a   yes, a cubin of 5576 bytes (0.5 s)
    tools for gfx942     yes: simulate, check, predict; not run on a chip yet (0.1 s)
    simulate ascend_910b yes; no binary is made for it (0.0 s)
    launch               no: needs a GPU

Exit status 1 if anything does not work that needs no GPU.
"""

from __future__ import annotations

import json
import os
import platform
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from tempfile import TemporaryDirectory

from ..errors import CacheError, TargetError, causes
from .progress import working

HELP = "show the installed packages, and try what works here"
EXAMPLES = """\
  mimw doctor
  mimw doctor --json
  mimw doctor --triton             which private names of Triton are missing, or have other parameters
  mimw doctor --assembler          what each ptxas here is known to get wrong; status 1 if that reaches a kernel
  mimw doctor --assembler /usr/local/cuda/bin/ptxas --json         the same of one file, for programs
  MIMW_TRACEBACK=1 mimw doctor     stop at the first thing that does not work, with its traceback
"""
_PACKAGES = ("triton", "numpy", "ml_dtypes", "rich", "torch")
_TARGETS = ("sm_90a", "sm_100a", "gfx942", "gfx950", "gfx1250")
_NEVER_RUN = ("gfx942", "gfx950", "gfx1250")    # chips of which nobody had one: what their kernels do is known without one
_SIMULATED = ("ascend_910b", )      # chips that are simulated, and for which nothing here makes a binary


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--triton", action="store_true", help=(
        "compare the names of Triton that this package stands on with the Triton that is installed; try nothing else"))
    parser.add_argument("--assembler", nargs="?", const="", metavar="PTXAS", help=(
        "find every ptxas that Triton could use, or take the one given, and say which known faults it has; try nothing else"))


def execute(options: Namespace) -> int:
    if options.triton:
        return _of_triton(options.json)
    if options.assembler is not None:
        from .doctor_assembler import of_assemblers
        return of_assemblers(options.assembler, options.json)
    rows, failed = {}, []

    def tell(name: str, text: str) -> None:
        rows[name.strip()] = text
        if not options.json:
            _row(name, text)

    def attempt(name: str, probe: Callable[[], str], whose: str = "") -> None:
        with working(f"doctor: {name.strip()}"):
            text, works = _tried(probe)
        if not works:
            failed.append(whose or name)
        if options.json:
            name = whose or name
        tell(name, text)

    for name, text in _installed():
        tell(name, text)
    if not options.json:
        print()
    attempt("simulate", _simulate)
    for chip in _TARGETS:
        attempt(f"compile for {chip}", lambda chip=chip: _compile(chip, "copy_plain"))
        attempt("  with async tasks", lambda chip=chip: _compile(chip, "copy_between_tasks"),
                f"compile for {chip}, with async tasks")
    for chip in _NEVER_RUN:
        attempt(f"tools for {chip}", lambda chip=chip: _tools(chip))
    for chip in _SIMULATED:
        attempt(f"simulate {chip}", lambda chip=chip: f"{_simulate('copy_plain', chip)}; no binary is made for it")
    tell("launch", _launch())
    if options.json:
        print(json.dumps({"rows": rows, "failed": failed}, indent=2))
    return 1 if failed else 0


def _of_triton(as_json: bool) -> int:
    """Say what of the borrowed names is missing or has other parameters."""
    from ..compiler.triton_port.borrowed import broken, names

    wrong, version = broken(), _version("triton")
    if as_json:
        print(json.dumps({"triton": version, "names": len(names()), "broken": wrong}, indent=2))
    else:
        for name, what in wrong.items():
            print(f"{name}: {what}")
        print(f"triton {version}: {len(names()) - len(wrong)} of {len(names())} names are as this release of mimw needs them"
              + ("" if wrong else "; `make test ARGS=tests/triton_port` asks more"))
    return 1 if wrong else 0


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
    from ..compiler.triton_port.assembler import FIXED

    try:
        tool = getattr(tools, name)
        old = name == "ptxas_blackwell" and tuple(map(int, tool.version.split(".")[:2])) < FIXED
        known = f"; before {FIXED[0]}.{FIXED[1]} it gets some dots of Hopper wrong, which are refused" if old else ""
        return f"{tool.version} at {tool.path}{known}"
    except RuntimeError as error:  # Triton's wheel brings these; a stripped one may not
        return f"not found ({error})"


def _writable(folder: str) -> bool:
    """True if a file can be written in the folder, or in the existing part of its path: tried, since root has all permissions
    in /proc."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    try:
        with TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False


def _simulate(kernel: str = "copy_between_tasks", chip: str | None = None) -> str:
    import numpy as np

    import mimw

    from . import probes
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    mimw.simulate(getattr(probes, kernel), (1, ), source, target, target=chip)
    if not (source == target).all():
        raise AssertionError("the simulated copy is not the original")
    return "yes"


def _tools(chip: str) -> str:
    """The tools that work for a chip that nobody has."""
    import numpy as np

    import mimw

    from . import probes
    launch = probes.copy_plain, (1, ), np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    _simulate("copy_plain", chip)
    if not mimw.check(*launch, target=chip).ok:
        raise AssertionError("the check of a copy finds something")
    try:
        mimw.predict(*launch, target=chip)
        predicts = "predict"
    except TargetError:
        predicts = "no predictions, as AMD has published no rates"
    return f"yes: simulate, check, {predicts}; not run on a chip yet"


def _compile(chip: str, kernel: str) -> str:
    from ..runtime.compile_kernel import compile_kernel
    from . import probes

    stages = compile_kernel(getattr(probes, kernel), probes.SIGNATURE, {}, target=chip).stages
    binary = "cubin" if "cubin" in stages else "hsaco"
    return f"yes, a {binary} of {len(stages[binary])} bytes"


def _launch() -> str:
    from ..testing.gpus import gpu_available, gpus

    if not gpus():
        return "no: needs a GPU"
    return "yes" if gpu_available() else "no: needs a torch that sees the GPU (pip install 'mimw[torch]')"


def _tried(probe: Callable[[], str]) -> tuple[str, bool]:
    """The report of a probe, and True if it works."""
    start = time.perf_counter()
    try:
        text = probe()
    except Exception as error:
        if os.environ.get("MIMW_TRACEBACK"):
            raise
        chain = list(causes(error))
        root = next((one for one in chain if isinstance(one, CacheError)), chain[-1])
        # What a chip has not is no fault of this machine.
        return f"no: {(str(root).splitlines() or [type(root).__name__])[0]}", isinstance(root, TargetError)
    return f"{text} ({time.perf_counter() - start:.1f} s)", True


def _row(name: str, text: str) -> None:
    print(f"{name:<20} {text}")
