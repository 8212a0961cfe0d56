"""Write a kernel as a cubin with a C header and a launcher in C, for programs without Python. No GPU is needed.

Input: a function that returns the launch, or a kernel with the types of its arguments; a chip; a folder. Output: files:

    mimw export gemm.py:case --target sm_90a -o build
    build/gemm.h, build/gemm.c, build/gemm.cubin, build/gemm.json

docs/PACKAGE.md shows how to build and call them. With --torch there is also gemm_torch.cpp, an operator of torch for programs that
AOTInductor has compiled. With --hf-kernel the files are a package for Hugging Face's kernels instead (docs/HUB_KERNELS.md).
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from .errors import CommandError
from .kernel import add_kernel_arguments, alignment_note, compile_named
from .load import called, is_launch, launch_named, load, names_launch
from .output import writing
from .progress import working

HELP = "write a kernel as cubin, C header and launcher"
EXAMPLES = """\
  mimw export gemm.py:case --target sm_90a -o build          case() returns (kernel, grid, args, meta)
  mimw export gemm.py:case -o build --name gemm_bf16 --torch
  mimw export gemm.py:case -o build --hf-kernel              build/gemm, for get_local_kernel
  mimw export mimw.integrations.hub:swiglu --hf-kernel -o build
  mimw export add.py:kernel --signature '*fp32:16, *fp32:16, i32' --constexpr BLOCK=128 -o build
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_kernel_arguments(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True,
                        help="the folder for the files; it is made if it is not there")
    parser.add_argument("--name", help="of the functions in C (default: the kernel's)")
    parser.add_argument("--torch", action="store_true", help="also write NAME_torch.cpp, the operator mimw_export::NAME of torch")
    parser.add_argument("--writes", metavar="NAMES", help=(
        "arrays that the kernel writes, with commas between, for torch's schema (default: found in the kernel)"))
    parser.add_argument("--hf-kernel", action="store_true", help=(
        "write a package for Hugging Face's kernels; the function gives a launch, a list of them, or a mimw.export.Plan"))
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def execute(options: Namespace) -> int:
    from ..runtime.export import export, export_compiled
    from ..target import wanted

    writes = None if options.writes is None else [name.strip() for name in options.writes.split(",")]
    if Path(options.output).exists() and not Path(options.output).is_dir():
        raise CommandError(f"cannot write into {options.output}: it is no folder.")
    named, note = load(options.kernel), ""
    if options.hf_kernel:
        return _package(named, options, writes)
    with working(f"compiling {options.kernel}"):
        if names_launch(named) and not options.signature and not options.constexpr:
            kernel, grid, args, meta = launch_named(named, options.kernel)
            found = export(kernel, grid, *args, target=wanted(options.target).name, name=options.name, writes=writes,
                           torch=options.torch, **meta)
        else:
            compiled = compile_named(options)
            note = alignment_note(compiled)
            found = export_compiled(compiled, options.name, writes=writes, torch=options.torch)
    with writing(options.output):
        files = found.write(options.output)
    if options.json:
        print(json.dumps({"files": [str(path) for path in files], **json.loads(found.files[f"{found.facts.name}.json"])}, indent=2))
        return 0
    facts = found.facts
    print(f"{options.kernel} for {facts.chip}, {facts.threads} threads and {facts.shared} bytes of shared memory a CTA:")
    for path in files:
        print(f"  {path}  {path.stat().st_size} bytes")
    if note:
        print(note)
    return 0


def _package(named: Any, options: Namespace, writes: list[str] | None) -> int:
    """Write a package for `kernels`."""
    from ..runtime.export import Plan, hub_package
    from ..target import wanted

    if options.torch or options.signature or options.constexpr:
        raise CommandError("--hf-kernel writes a package of launches, whose arguments have types: leave out --torch, --signature "
                           "and --constexpr.")
    plan = called(named, options.kernel)
    if not isinstance(plan, Plan):
        launches = plan if isinstance(plan, list) and plan else [plan]
        for one in launches:
            if not is_launch(one):
                raise CommandError(f"{options.kernel} should return (kernel, grid, args, meta), a list of such, or a "
                                   f"mimw.export.Plan, and returned a {type(one).__name__}.")
        plan = Plan(launches[0][0].__name__.replace("_", "-"), launches)
    plan = replace(plan, name=options.name or plan.name, writes=plan.writes if writes is None else writes)
    with working(f"compiling {len(plan.launches)} launches of {options.kernel}"):
        found = hub_package(plan, wanted(options.target).name)
    with writing(options.output):
        files = found.write(options.output)
    if options.json:
        print(json.dumps({"name": found.name, "id": found.id, "files": [str(path) for path in files]}, indent=2))
        return 0
    count = len(plan.launches)
    print(f"{found.name}: {count} form{'s' * (count != 1)} of {options.kernel}, for kernels.get_local_kernel:")
    for path in files:
        print(f"  {path}  {path.stat().st_size} bytes")
    return 0
