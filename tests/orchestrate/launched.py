"""One launch of a kernel, plain and by the descriptors that stand in place of its loads and stores.

Input: a kernel and a launch of it. Output: a `Launched`. For example:

    launched = Launched(kernel, grid, args, meta, loads="all")
    launched.made, launched.fault(K=0)              what was lifted; what the host's module says of a launch with another argument
    launched.run_plain(), launched.run_lifted()     both simulated, after all passes; arrays are written
"""

from __future__ import annotations

from mimw.compiler.orchestrate.box_host import host_source
from mimw.compiler.orchestrate.boxes import lifted
from mimw.compiler.passes import run_passes
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.target import wanted

HOPPER = wanted("sm_90a")


class Launched:
    """One launch of a kernel, plain and by descriptors."""

    def __init__(self, kernel, grid, args, meta, **options):
        self.launch = prepare(kernel, grid, args, dict(meta))
        self.made = lifted(self.launch.recorded, HOPPER, **options)
        self.paths = list(dict.fromkeys(param.path for param in self.launch.recorded.params))
        self.host: dict = {}
        if self.made.descriptors or self.made.assumed:
            exec(compile(host_source(self.made), "host.py", "exec"), self.host)

    @property
    def values(self):
        return [self.launch.values[path] for path in self.paths]

    def fault(self, grid=None, **changed) -> str:
        """What `fits` says, with other arguments by their names."""
        names = [param.name for param in self.launch.recorded.params]
        values = [changed.get(name, value) for name, value in zip(names, self.values, strict=True)]
        return self.host["fits"](grid or self.launch.grid, *values)

    def run_plain(self, **options) -> None:
        run(run_passes(self.launch.recorded, HOPPER), self.launch.grid, self.launch.values, **options)

    def run_lifted(self, **options) -> None:
        program = run_passes(self.made.program, HOPPER)
        paths = dict.fromkeys(param.path for param in program.params)
        given = self.host["arguments"](self.launch.grid, *self.values)
        run(program, self.launch.grid, dict(zip(paths, given, strict=True)), **options)
