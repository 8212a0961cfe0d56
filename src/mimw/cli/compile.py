"""Compile one kernel for a chip and print any stage of the result. No GPU is needed.

Input: a kernel, the types of its arguments, its constants and a chip. Output: one stage, on the terminal or in a file:

    mimw compile add.py:kernel --signature '*fp32:16, i32' --emit ptx        the PTX of `kernel` for sm_90a
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from .errors import CommandError
from .kernel import add_kernel_arguments, alignment_note, compile_named
from .output import check_output, writing
from .progress import working

HELP = "compile a kernel and print any stage"
EXAMPLES = """\
  mimw compile gemm.py:kernel --signature '*bf16, *bf16, *bf16, i32, i32, i32' --constexpr BM=128 --constexpr BN=256
  mimw compile gemm.py:kernel --signature a='tensordesc<bf16[128,64]>' --signature c='*bf16' --emit ptx
  mimw compile add.py:kernel --signature '*fp32:16, *fp32:16, i32:16' --target gfx942 --emit amdgcn
  mimw compile add.py:kernel --signature '*fp32, *fp32, i32' --target sm_100a --emit cubin -o add.cubin
"""
_COMMENTS = {"llir": ";", "amdgcn": ";"}
STAGES = ("recorded", "ir", "ttgir", "llir", "ptx", "sass", "cubin", "amdgcn", "hsaco")


def add_arguments(parser: ArgumentParser) -> None:
    add_kernel_arguments(parser)
    parser.add_argument("--emit", choices=STAGES, default="ttgir", help="the stage to print (default ttgir)")
    parser.add_argument("-o", "--output", metavar="PATH",
                        help="write there instead of to the terminal; cubin and hsaco need it")
    parser.add_argument("--json", action="store_true", help="print the stage, or where it was written, with the figures, as JSON")


def execute(options: Namespace) -> int:
    if options.emit in ("cubin", "hsaco") and not options.output:
        raise CommandError(f"a {options.emit} is binary: name a file with -o PATH.")
    if options.output:
        check_output(options.output)
    from ..target import wanted

    recorded = options.emit == "recorded"
    chip = wanted(options.target)
    if not chip.binary and options.emit not in ("recorded", "ir"):      # what comes before a compiler is there for every chip
        from ..compiler.pipeline import check_binary
        check_binary(chip, f"the stage {options.emit!r}")
    with working(f"compiling {options.kernel}"):
        compiled = compile_named(options, **({"dump": True} if recorded else {}))
    stages, note = compiled.stages, alignment_note(compiled)
    try:
        code = compiled.after["00-record"] if recorded else stages[options.emit]  # sass is made by this look-up
    except KeyError:
        raise CommandError(f"{options.target} has no stage {options.emit!r}. It has: {', '.join(stages)}.") from None
    if not options.output and options.json:
        print(json.dumps(_told(options, compiled, note) | {"text": code}, indent=2))
        return 0
    if not options.output:
        comment = f"{_COMMENTS.get(options.emit, '//')} {note}\n" if note else ""
        sys.stdout.write(comment + code + "\n" * (not code.endswith("\n")))
        return 0
    data = code if isinstance(code, bytes) else code.encode()
    with writing(options.output):
        Path(options.output).write_bytes(data)
    if options.json:
        print(json.dumps(_told(options, compiled, note) | {"path": options.output, "bytes": len(data)}, indent=2))
        return 0
    print(f"{options.emit} of {options.kernel} for {options.target}: {len(data)} bytes in {options.output}")
    if note:
        print(note)
    return 0


def _told(options: Namespace, compiled: Any, note: str) -> dict[str, Any]:
    """The facts that are printed of a compiled kernel besides the stage."""
    told = {"kernel": options.kernel, "target": options.target, "stage": options.emit, "note": note}
    if compiled.target.binary:
        told |= {"warps": compiled.warps, "registers": compiled.registers, "stack_bytes": compiled.stack_bytes,
                 "shared_bytes": compiled.shared_bytes}
    return told
