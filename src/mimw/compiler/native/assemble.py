"""PTX of the author, assembled alone before a kernel takes it in.

Input: a `RawCode` whose text is PTX, and a chip. Output: the same text; or a `CompilerError` with the line that ptxas refuses. For
example, without a directive of its own the text gets, ahead of its first line,

    .version 9.4 .target sm_90a .address_size 64
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from ...ir.raw_code import RawCode
from ...target import Target
from ..triton_port.assembler import ptxas_path
from ..triton_port.toolchain import ptx_release
from .kept import kept
from .messages import CompilerError, refused_by
from .ptx import parse


def assembled(code: RawCode, chip: Target) -> str:
    """The text, which ptxas takes."""
    parse(code.text)        # what is not allowed is said before what ptxas says of it
    return kept(("ptx", code.text, chip.name, ptxas_path(chip.arch)), lambda: _assembled(code, chip))


def _assembled(code: RawCode, chip: Target) -> str:
    header = "" if re.search(r"^\s*\.version\b", code.text, re.M) else \
        f".version {ptx_release(chip.arch)} .target {chip.name} .address_size 64 "
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "raw.ptx")
        source.write_text(header + code.text)
        command = [ptxas_path(chip.arch), "--compile-only", f"--gpu-name={chip.name}", str(source), "-o", str(source) + ".o"]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        found = refused_by("ptxas", run.stderr + run.stdout)
        raise CompilerError(found.message, code.file, code.line + found.line - 1 if found.line else 0)
    return code.text
