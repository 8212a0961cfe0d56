"""Files of ptxas, and of the disassembler, that Triton brings or is told of.

Input: nothing, or a file. Output: where they lie, by which variable Triton takes another one, and which version a file is:

    bundled()                       {"TRITON_PTXAS_PATH": ".../bin/ptxas", "TRITON_PTXAS_BLACKWELL_PATH": ".../bin/ptxas-blackwell"}
    variable_of(90)                 "TRITON_PTXAS_BLACKWELL_PATH", by which this Triton takes another one for sm_90a
    ptxas_version(path)             (13, 4, 59); None of what is no ptxas
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import triton
from triton import knobs

from .assembler import ptxas_path

VARIABLES = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
_FULL = re.compile(r"\bV(\d+)\.(\d+)\.(\d+)")


def bundled() -> dict[str, str]:
    """The files of Triton's own wheel, by the variable that names another one instead."""
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return {variable: str(folder / name) for variable, name in VARIABLES.items() if (folder / name).exists()}


def variable_of(arch: int) -> str:
    """The variable by which this Triton takes another ptxas for a chip: 3.8 has another one for Hopper than 3.9."""
    try:
        newer = ptxas_path(arch) == knobs.nvidia.ptxas_blackwell.path
    except RuntimeError:        # a wheel without any
        newer = arch >= 90
    return "TRITON_PTXAS_BLACKWELL_PATH" if newer else "TRITON_PTXAS_PATH"


def ptxas_version(path: str) -> tuple[int, int, int] | None:
    """The version that `ptxas --version` says; None if the file cannot be run or is something else."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _FULL.search(said)
    return (int(found[1]), int(found[2]), int(found[3])) if found and "Ptx" in said else None


def nvdisasm_path() -> str:
    """Triton's disassembler, or the one that TRITON_NVDISASM_PATH names. Raises RuntimeError if there is none."""
    return knobs.nvidia.nvdisasm.path
