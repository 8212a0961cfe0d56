"""NVRTC, NVIDIA's compiler of CUDA C++ as a library, as its wheel brings it.

Input: a text and options. Output: PTX, or what the compiler says. For example:

    path = find()           .../site-packages/nvidia/cu13/lib/libnvrtc.so.13; None without one
    compiled(path, "__device__ void f() {}", ["--gpu-architecture=sm_90a", "--relocatable-device-code=true"])

It knows no folders of the system: the headers are those that Triton brings, and the few of C that CUDA code includes by habit are
empty here, since their types are declared ahead.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from ..triton_port.toolchain import cuda_include

_TYPES = b"""#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t; typedef long long intptr_t;
"""
_HEADERS = {b"stdint.h": _TYPES, b"cstdint": b"#include <stdint.h>\n", b"math.h": b"", b"cmath": b"", b"stddef.h": b"",
            b"cstddef": b"", b"stdio.h": b"", b"cstdio": b"", b"assert.h": b"", b"cassert": b""}


@functools.cache
def find() -> str | None:
    """The library in the newest of NVIDIA's packages that has one; None if there is none."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(one) for one in (found.submodule_search_locations or ())] if found is not None else []
    libraries = [path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*") if path.name.count(".") == 2]
    return str(max(libraries, key=lambda path: int(path.name.rpartition(".")[2]))) if libraries else None


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    for builtins in Path(path).parent.glob("libnvrtc-builtins.so.*"):   # asked for by name, and found only if it is loaded
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(path)
    library.nvrtcCreateProgram.argtypes = [c_void_p, c_char_p, c_char_p, c_int, c_void_p, c_void_p]
    return library


def version(path: str) -> str:
    """The release, such as "13.0"."""
    major, minor = c_int(), c_int()
    _library(path).nvrtcVersion(byref(major), byref(minor))
    return f"{path} {major.value}.{minor.value}"


def compiled(path: str, text: str, options: list[str]) -> tuple[str | None, str]:
    """(PTX, the compiler's output); the PTX is None if the compiler refuses the text."""
    library, program = _library(path), c_void_p()
    contents, names = ((c_char_p * len(_HEADERS))(*part) for part in (_HEADERS.values(), _HEADERS.keys()))
    library.nvrtcCreateProgram(byref(program), text.encode(), b"raw.cu", len(_HEADERS), contents, names)
    given = [option.encode() for option in [*options, f"-I{cuda_include()}"]]
    try:
        status = library.nvrtcCompileProgram(program, len(given), (c_char_p * len(given))(*given))
        said = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
        return (None, said) if status else (_text(library.nvrtcGetPTXSize, library.nvrtcGetPTX, program), said)
    finally:
        library.nvrtcDestroyProgram(byref(program))


def _text(size_of, read, program) -> str:
    size = c_size_t()
    size_of(program, byref(size))
    buffer = ctypes.create_string_buffer(size.value + 1)
    read(program, buffer)
    return buffer.value.decode(errors="replace")
