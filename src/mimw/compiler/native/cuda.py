"""CUDA C++ to PTX, by whichever compiler this machine has.

Input: a `RawCode` whose text is CUDA C++, and a chip. Output: PTX with every `__device__` function of the text. The compilers, in
the order in which they are looked for (TLE_CUDA_COMPILER=nvcc, nvrtc or clang names one):

    clang     the one in CLANG, if that is set
    nvcc      in CUDA_HOME/bin or CUDA_PATH/bin, or on the PATH
    NVRTC     libnvrtc of `pip install nvidia-cuda-nvrtc` (also torch's), with the headers that Triton brings
    clang++   on the PATH, with CUDA_HOME

TLE_CUDA_ARCH replaces the chip's name, CLANG_FLAGS are handed to clang. A line directive ahead of the text makes every compiler
name the author's file and line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...ir.raw_code import RawCode
from ...target import Target
from . import nvrtc
from .kept import kept
from .messages import CompilerError, refused_by

_STANDARD = "-std=c++17"
MEND = ("install one: pip install nvidia-cuda-nvrtc (NVRTC, nothing else needed), or a CUDA toolkit whose nvcc is on the PATH or "
        "in CUDA_HOME, or clang, named by CLANG. Or compile elsewhere and give the PTX: tle.raw.dialect(name=\"ptx\", file=..)")


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found: `kind` is nvcc, nvrtc or clang; `version` differs between releases."""

    kind: str
    path: str
    version: str


def cuda_to_ptx(code: RawCode, chip: Target) -> str:
    """PTX of the text. CompilerError with the author's line, or if there is no compiler."""
    compiler = found_compiler()
    arch = os.environ.get("TLE_CUDA_ARCH") or chip.name
    flags = (*code.flags, *(shlex.split(os.environ.get("CLANG_FLAGS", "")) if compiler.kind == "clang" else ()))
    depends_on = "cuda", code.text, code.included, code.file, code.line, arch, flags, compiler
    return kept(depends_on, lambda: _COMPILE[compiler.kind](compiler, _marked(code), arch, flags, _folder(code)))


def found_compiler() -> Compiler:
    """The compiler that will be used. CompilerError if there is none."""
    wanted = os.environ.get("TLE_CUDA_COMPILER", "")
    if wanted not in ("", *_FIND):
        raise CompilerError(f"TLE_CUDA_COMPILER={wanted} names none of {', '.join(_FIND)}")
    order = (wanted, ) if wanted else ("clang", "nvcc", "nvrtc") if os.environ.get("CLANG") else ("nvcc", "nvrtc", "clang")
    for kind in order:
        if (path := _FIND[kind]()) is not None:
            return Compiler(kind, path, nvrtc.version(path) if kind == "nvrtc" else _stamp(path))
    raise CompilerError(f"there is no compiler of CUDA C++ on this machine (looked for {', '.join(order)})", mend=MEND)


def _find_nvcc() -> str | None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        path = Path(os.environ.get(name) or "/nowhere", "bin", "nvcc")
        if path.is_file():
            return str(path)
    return shutil.which("nvcc")


def _find_clang() -> str | None:
    return shutil.which(os.environ.get("CLANG") or "clang++")


_FIND = {"nvcc": _find_nvcc, "nvrtc": nvrtc.find, "clang": _find_clang}


def _stamp(path: str) -> str:
    """A text that changes when a program on this machine does: path, size and time of change. The program is not run."""
    real = os.path.realpath(path)
    found = os.stat(real)
    return f"{real} {found.st_size} {found.st_mtime_ns}"


def _folder(code: RawCode) -> str:
    """The folder in which files that the text includes are looked for."""
    return str(Path(code.file or ".").parent)


def _marked(code: RawCode) -> str:
    """The text behind a line that says where the text is from."""
    return f'#include <stdint.h>\n#line {code.line} "{code.file or code.name}"\n{code.text}'


def _by_program(command: list[str], name: str, text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "raw.cu"), Path(folder, "raw.ptx")
        source.write_text(text)
        run = subprocess.run([*command, str(source), "-o", str(made)], capture_output=True, text=True)
        if run.returncode:
            raise refused_by(name, run.stderr + run.stdout)
        return made.read_text()


def _nvcc(compiler: Compiler, text: str, arch: str, flags: tuple[str, ...], folder: str) -> str:
    return _by_program([compiler.path, "-ptx", "-rdc=true", f"-arch={arch}", "-O3", _STANDARD, f"-I{folder}", *flags], "nvcc", text)


def _nvrtc(compiler: Compiler, text: str, arch: str, flags: tuple[str, ...], folder: str) -> str:
    options = [f"--gpu-architecture={arch}", "--relocatable-device-code=true", _STANDARD, f"-I{folder}", *flags]
    made, said = nvrtc.compiled(compiler.path, text, options)
    if made is None:
        raise refused_by("NVRTC", said)
    return made


def _clang(compiler: Compiler, text: str, arch: str, flags: tuple[str, ...], folder: str) -> str:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    short = ["-Xclang", "-fcuda-short-ptr", "-mllvm", "--nvptx-short-ptr"]     # pointers into shared memory of 32 bits, as Triton's
    command = [compiler.path, "-x", "cuda", "--cuda-device-only", f"--cuda-gpu-arch={arch}", "-fgpu-rdc", "-O3", _STANDARD, "-S",
               *short, f"-I{folder}", *([f"--cuda-path={home}"] if home else []), *flags]
    return _by_program(command, "clang", text)


_COMPILE = {"nvcc": _nvcc, "nvrtc": _nvrtc, "clang": _clang}
