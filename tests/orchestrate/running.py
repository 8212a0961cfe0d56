"""Kernels whose recorded program a test changes before it is run: no source has the program that is run then.

    run(None, kernel, grid, args, meta)                                 as the author wrote it
    run(lambda program: delayed(program).program, kernel, grid, args, meta)
    with changed(kernel, change): mimw.check(kernel, grid, *args, **meta)       any tool that records the kernel in this process

The program that is changed is the recorder's own, before any pass. Nothing changed is kept: the next launch of the kernel runs what
its author wrote. Compiling is not for `changed`: the key of a binary knows nothing of the change.
"""

from contextlib import contextmanager
from unittest.mock import patch

from mimw.compiler.passes import run_passes
from mimw.compiler.pipeline import stages
from mimw.ir import verify
from mimw.runtime.simulate import prepare
from mimw.simulator import run as run_program
from mimw.target import wanted


def recorded(kernel, grid, args, meta):
    """The program of a launch as it was recorded."""
    return prepare(kernel, grid, args, meta).recorded


def run(program_change, kernel, grid, args, meta, **options):
    """Simulate a launch of the changed program, after all passes; arrays are written. `options` go to `mimw.simulator.run`.

    returns:    the changed program, and the run
    """
    launch = prepare(kernel, grid, args, meta)
    program = program_change(launch.recorded) if program_change else launch.recorded
    verify(program)
    checked = run_passes(program, wanted(None))
    return program, run_program(checked, launch.grid, launch.values, memory=launch.memory, gpus=launch.gpus, **options)


@contextmanager
def changed(kernel, program_change):
    """While it is open, recording the kernel gives the changed program, to the simulator and its tools."""
    fn = getattr(kernel, "fn", kernel)
    first, *others = stages.FRONT

    def change(_, setting, program):
        program = program_change(program)
        verify(program)
        return setting.show("change", program)

    keepers = [one.__dict__ for one in {id(one): one for one in (kernel, fn)}.values() if hasattr(one, "__dict__")]
    kept = [holder.pop("_simulated_programs", None) for holder in keepers]
    with patch.object(stages, "FRONT", (first, change, *others)):
        try:
            yield
        finally:
            for holder, programs in zip(keepers, kept):
                holder.pop("_simulated_programs", None)
                if programs is not None:
                    holder["_simulated_programs"] = programs
