"""The C header of an exported kernel: what a program calls, and what each argument has to be.

Input: the facts of a kernel, its arguments, and a launch's grid if there is one. Output: the text of NAME.h:

    CUresult double_launch(const double_kernel *kernel, CUstream stream, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           CUdeviceptr x, int32_t n);
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .arguments import Argument, Described, Number, Pointer
from .contracts import Said
from .facts import Facts

_HEADER = """\
/* {name}: a kernel for {chip}, with its launcher. {origin} wrote this file; do not edit it.
 *
 *     {name}_kernel kernel;
 *     CUresult status = {name}_load(&kernel);                          in a CUDA context, once
 *     if (!status) status = {name}_launch(&kernel, stream, {call});    as often as needed, by any thread
 *     if (!status) status = {name}_unload(&kernel);
 *
 * Link {name}.c, and CUDA's driver (-lcuda, of CUDA 12 or newer). Nothing else is needed: no Python, no Triton, no CUDA runtime.
 * A kernel that is loaded belongs to the context that was current; threads may share it.
 *
 * The grid counts {unit}{example}.
{arguments} */
#ifndef MIMW_EXPORTED_{upper}_H
#define MIMW_EXPORTED_{upper}_H

#include <stddef.h>
#include <stdint.h>
#include <cuda.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {name}_CHIP "{chip}"
#define {name}_THREADS {threads}
#define {name}_SHARED_BYTES {shared}
{defines}
typedef struct {{
  CUmodule module;
  CUfunction function;
}} {name}_kernel;
{tensors}
/* Load the kernel into the current context. */
CUresult {name}_load({name}_kernel *kernel);

/* What is wrong with these arguments, as a text; NULL if nothing is. Needs no GPU. */
const char *{name}_problem({parameters});

/* Launch, and return at once. CUDA_ERROR_INVALID_VALUE where {name}_problem has something to say. */
CUresult {name}_launch(const {name}_kernel *kernel, CUstream stream, unsigned grid_x, unsigned grid_y, unsigned grid_z{scratch},
{indent}{parameters});

/* Unload what {name}_load has loaded. */
CUresult {name}_unload({name}_kernel *kernel);

#ifdef __cplusplus
}}
#endif

#endif
"""


def header(facts: Facts, arguments: Sequence[Argument], origin: str, grid: tuple[int, ...] | None = None,
           constants: Sequence[str] = (), said: Said = Said()) -> str:
    """The text of the header. `origin` names the program that wrote it, `constants` are the compile-time arguments as text, and
    what the kernel's contract says is `said`."""
    x, y, z = (*(grid or ("grid_x", 1, 1)), 1, 1)[:3]
    lines = [line for one in arguments for line in _wrapped(_described(one, said.of.get(one.name)))]
    if facts.scratch:
        lines += [f"scratch: memory of the launch alone while it runs, as much as {facts.name}_scratch_bytes says, at a",
                  f"    multiple of {facts.scratch_align} bytes"]
    lines += ["", "By the kernel's contract, extents of one name are equal; and:" if said.rules else
              "By the kernel's contract, extents of one name are equal."] if said.of else []
    lines += [line for rule in said.rules for line in _wrapped(rule)]
    lines += ["", *_wrapped(f"Compiled for {', '.join(constants)}")] if constants else []
    defines = "".join(f"#define {facts.name}_GRID_{axis} {extent}\n" for axis, extent in zip("XYZ", (x, y, z))) if grid else ""
    unit = f"clusters of {facts.ctas} CTAs" if facts.ctas > 1 else "CTAs"
    if facts.ctas == 1 and facts.cluster != (1, 1, 1):
        unit += f", and clusters of {' x '.join(map(str, facts.cluster))} have to divide it"
    return _HEADER.format(
        name=facts.name, upper=facts.name.upper(), chip=facts.chip, threads=facts.threads, shared=facts.shared, origin=origin,
        unit=unit,
        example=f"; the launch that was exported had {x} x {y} x {z}" if grid else "", defines=defines,
        call=", ".join(["x", "y", "z", *(["scratch"] if facts.scratch else []), *(one.name for one in arguments)]),
        arguments="".join(f" * {line}".rstrip() + "\n" for line in ["", *lines]) if lines else "",
        tensors=_tensors(facts, arguments), parameters=parameters(facts, arguments),
        scratch=", CUdeviceptr scratch" if facts.scratch else "",
        indent=" " * len(f"CUresult {facts.name}_launch("))


def parameters(facts: Facts, arguments: Sequence[Argument]) -> str:
    """The arguments as parameters of a function in C."""
    return ", ".join(f"{_c_type(facts, one)} {one.name}" for one in arguments) or "void"


def _c_type(facts: Facts, one: Argument) -> str:
    match one:
        case Pointer():
            return "CUdeviceptr"
        case Described(rank=rank):
            return f"{facts.name}_tensor{rank}"
        case Number():
            return one.c_type


def _tensors(facts: Facts, arguments: Sequence[Argument]) -> str:
    ranks = sorted({one.rank for one in arguments if isinstance(one, Described)})
    scratch = (f"\n/* Bytes of scratch memory that a launch of this grid needs. */\n"
               f"size_t {facts.name}_scratch_bytes(unsigned grid_x, unsigned grid_y, unsigned grid_z);\n" if facts.scratch else "")
    return "".join(f"\n/* A tensor: its address, its extents and its strides in elements, outermost dimension first. */\n"
                   f"typedef struct {{\n  CUdeviceptr data;\n  int64_t shape[{rank}];\n  int64_t strides[{rank}];\n"
                   f"}} {facts.name}_tensor{rank};\n" for rank in ranks) + scratch


def _described(one: Argument, said: str | None) -> str:
    """An argument, with what the contract says of it."""
    more = f", {said}" if said else ""
    match one:
        case Pointer():
            return f"{one.name}: the address of {one.element} elements{more}{', a multiple of 16' if one.aligned else ''}"
        case Number():
            bits = ", as its bits" if one.kind in ("fp16", "bf16") else ""
            return f"{one.name}: a number of type {one.kind}{bits}{more}{', a multiple of 16' if one.aligned else ''}"
        case Described():
            return (f"{one.name}: a tensor of {one.element} with {one.rank} dimensions{more}; its address and its strides in bytes "
                    "are multiples of 16, the innermost stride is 1 element")


def _wrapped(text: str, width: int = 110) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + len(word) >= width:
            yield line
            line = "   "
        line += f" {word}" if line else word
    yield line
