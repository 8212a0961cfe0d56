"""Where a text stands in the source of a kernel, for tests of what findings, traces and bounds name. No kernel.

    line_of(pipeline, "tlx.barrier_wait(full[slot]")        32, the only line that holds it
"""

import inspect


def lines_with(kernel, text: str) -> set[int]:
    """The lines of the kernel's source that hold `text`; there is at least one."""
    source, first = inspect.getsourcelines(kernel.fn)
    found = {first + index for index, line in enumerate(source) if text in line}
    assert found, text
    return found


def line_of(kernel, text: str) -> int:
    """The only line of the kernel's source that holds `text`."""
    (line, ) = lines_with(kernel, text)
    return line
