"""What a package is to hold: the launches to compile, and the host code that a user calls.

Input: a name, launches, a file. Output: a `Plan`, which a function may return to `mimw export FILE:FUNCTION --hf-kernel`:

    def packaged():
        return Plan("swiglu", [swiglu.arguments(*arrays) for arrays in several], host="host_swiglu.py")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Form:
    """A launch to compile, (kernel, grid, args, meta), and what host code may ask of it: `select`, of names and plain values."""

    launch: tuple
    select: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A package to make.

    args:      name      lower case, digits and dashes: "rms-norm"
               launches  (kernel, grid, args, meta) each, or `(launch, select)` with facts that the host code asks for. A call takes
                         the first that it fits, so what fits fewest calls stands first
               host      a Python file with SCHEMA, `outputs(...)` and `call(forms, results, ...)` (docs/HUB_KERNELS.md); by
                         default the operator is the launch itself
               writes    parameters that the kernel writes, where no host code is given; by default found in the kernel
               about     a sentence for the package's page
    """

    name: str
    launches: Sequence[tuple]
    host: str | Path | None = None
    writes: Sequence[str] | None = None
    about: str = ""

    @property
    def forms(self) -> list[Form]:
        """The launches, each with what it says of itself."""
        return [Form(*one) if len(one) == 2 else Form(tuple(one)) for one in self.launches]
