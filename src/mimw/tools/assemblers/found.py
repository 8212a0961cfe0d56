"""Every ptxas that Triton could use on this machine.

Input: the environment. Output: an `Assembler` for each file, in the order of what Triton uses first. For example:

    for one in assemblers(): print(one)
        ptxas 13.4.59 at .../bin/ptxas-blackwell, for sm_90a sm_100a sm_103a sm_120a: comes with Triton

Looked for: Triton's own, those that TRITON_PTXAS_PATH and TRITON_PTXAS_BLACKWELL_PATH name, and those that one might name there: of
CUDA_HOME, CUDA_PATH and PATH. Two names of one file are one.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ...compiler.triton_port.assembler import ptxas_path
from ...compiler.triton_port.ptxas_files import VARIABLES, bundled, ptxas_version
from ...errors import AssemblerMissing
from ...target import TARGETS
from .table import CHIPS, Version

CUDA_FOLDERS = ("CUDA_HOME", "CUDA_PATH")


@dataclass(frozen=True)
class Assembler:
    """A file of ptxas: its version, None if it does not say one; how it is found; the chips for which Triton would use it."""

    path: str
    version: Version | None
    named: tuple[str, ...]
    chips: tuple[str, ...]

    @property
    def number(self) -> str:
        return ".".join(map(str, self.version)) if self.version else "of no version"

    def __str__(self) -> str:
        whom = f"for {' '.join(self.chips)}" if self.chips else "for no chip"
        return f"ptxas {self.number} at {self.path}, {whom}: {', '.join(self.named)}"


def assemblers(path: str = "") -> list[Assembler]:
    """All that are found, or the one at `path` as if Triton used it for every chip of Hopper and Blackwell. Raises AssemblerMissing
    if that is no ptxas."""
    if path:
        version = ptxas_version(path)
        if version is None:
            raise AssemblerMissing(f"AssemblerMissing: {path} is no ptxas that runs here\nMend: name a file, as "
                                   "/usr/local/cuda/bin/ptxas, for this machine")
        return [Assembler(path, version, ("named", ), CHIPS)]
    named, used = _named(), _used()
    found = [Assembler(one, ptxas_version(one), tuple(names), tuple(used.get(one, ()))) for one, names in named.items()]
    return sorted(found, key=lambda one: -len(one.chips))


def _named() -> dict[str, list[str]]:
    """By file, how it is found."""
    ways = [(path, "comes with Triton") for path in bundled().values()]
    ways += [(os.environ[name], f"{name} names it") for name in VARIABLES if os.environ.get(name)]
    ways += [(str(Path(os.environ[name], "bin", "ptxas")), f"of {name}") for name in CUDA_FOLDERS if os.environ.get(name)]
    ways += [(path, "of PATH") for path in [shutil.which("ptxas")] if path]
    found: dict[str, list[str]] = {}
    files: dict[str, str] = {}
    for path, how in ways:
        if "names it" in how or os.path.exists(path):
            first = files.setdefault(os.path.realpath(path), path)
            found.setdefault(first, []).append(how)
    return found


def _used() -> dict[str, list[str]]:
    """By file, the chips for which Triton takes it."""
    own = {os.path.realpath(path): path for path in _named()}
    found: dict[str, list[str]] = {}
    for chip in TARGETS.values():
        if chip.name.startswith("sm_"):
            try:
                path = ptxas_path(chip.arch)
            except RuntimeError:        # there is none
                continue
            found.setdefault(own.get(os.path.realpath(path), path), []).append(chip.name)
    return found
