"""The machine code of a compiled kernel, for tests of what ptxas makes of PTX."""

from __future__ import annotations

import re

from triton.tools.disasm import get_sass

from mimw.compile import Compiled


def instructions(compiled: Compiled, pattern: str) -> list[str]:
    """The instructions of the SASS that match, without addresses."""
    lines = (re.sub(r"/\*.*?\*/", "", line).strip() for line in get_sass(compiled.stage("cubin")).splitlines())
    return [line for line in lines if re.search(pattern, line)]
