"""Where the shared memory of a compiled kernel lies, as Triton's allocator decided.

Input: a `Compiled`. Output: rows by offset, of the author's allocations and of scratch. For example:

    places(compiled)        [Row("tile", "buffer", 0, 32768, ...), Row("convert_layout of a.py:9", "scratch", 32768, 36864, ...)]
"""

from __future__ import annotations

from typing import Any

from ..compiler.storage import Row, compiled_rows, shared_plan


def places(compiled: Any) -> list[Row]:
    """The rows of a kernel with words of ours."""
    from ..compiler.triton_port.allocation import allocation

    pieces = allocation(compiled.stage("ttgir"), compiled.target.arch).pieces
    return compiled_rows(compiled.program, shared_plan(compiled.program), pieces)
