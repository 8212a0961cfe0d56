"""One kernel in its three forms: as it is simulated, as its compiler takes it, and as what compiled is read back.

Input: a kernel, a grid, arguments, a chip. Output: `Forms`. For example:

    forms = forms_of(kernel, (2, ), (x, y, 64), {"BLOCK": 64}, "sm_90a")
    forms.simulated, forms.recorded, forms.compiled         launches of the same arrays

What is simulated holds the assertions that a launch may leave out; what is compiled has tiles of powers of two. Ops of `compiled`
name ops of `recorded` by their numbers (`forms.reading.numbers`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mimw.compiler.pipeline import gpu_target
from mimw.compiler.pipeline.stages import Kernel, Setting, pad
from mimw.compiler.triton_port.late_fences import with_late_fences
from mimw.compiler.triton_port.runtime import compiled_ttgir, make_backend
from mimw.compiler.ttgir import Reading, read_ttgir
from mimw.ir import ALONE, Program
from mimw.runtime.fits import finished
from mimw.runtime.simulate import Launch, prepare
from mimw.runtime.ttgir import launch_of
from mimw.target import Target, asking, wanted


@dataclass(frozen=True)
class Forms:
    """Launches of the same arrays. `text` is the compiled kernel's TTGIR; `is_ours` is true if mimw compiled it, and not Triton
    alone, so that its ops have numbers."""

    chip: Target
    simulated: Launch
    recorded: Launch
    text: str
    file: str
    is_ours: bool

    def read(self) -> tuple[Launch, Reading]:
        """The compiled form, with the fences of Triton's stage for LLVM; `NotYet` where it cannot be read."""
        text = with_late_fences(self.text, self.chip.arch) if self.chip.backend == "cuda" else self.text
        reading = read_ttgir(text, self.file, self.recorded.program.launch_facts)
        values = self.simulated.values
        return launch_of(reading, self.simulated.grid, [values[path] for path in sorted(values)], self.simulated.memory), reading


def forms_of(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any], target: str, kept: Path | None = None) -> Forms:
    """The forms of one launch. `kept` is a file for the TTGIR: written if it is not there, read if it is."""
    chip = wanted(target)
    launch = prepare(kernel, grid, args, dict(meta), target)
    one, is_ours = launch.specialisation, launch.program.orchestrates()
    with asking(chip):
        if kept is not None and kept.exists():
            text, program = kept.read_text(), _recorded(one, chip) if is_ours else launch.program
        elif is_ours:
            program, module = finished(one, chip)
            text = str(module)
        else:
            program = launch.program
            text = compiled_ttgir(one.fn, one.signature, one.constants, one.attrs, gpu_target(chip), one.options)
    if kept is not None and not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
    file = str(kept or f"<{launch.name}, compiled for {chip.name}>")
    return Forms(chip, launch, replace(launch, program=program), text, file, is_ours)


def _recorded(one: Any, chip: Any) -> Program:
    """The program as its compiler takes it, without compiling."""
    backend, options = make_backend(gpu_target(chip)), dict(one.options)
    cluster = options.pop("ctas_per_cga", None)
    options.pop("preferred_ctas_per_cga", None)
    parsed = backend.parse_options({"enable_fp_fusion": True, **options})
    kernel = Kernel(one.fn, one.signature, one.constants, one.attrs, cluster or ALONE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pad(kernel, Setting(chip, parsed, backend), kernel.record(chip, parsed, backend))
