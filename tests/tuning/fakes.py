"""An operator whose candidates do what their names say, on a device that is none.

    tune(Fake(["good", "hangs"]), ["8"])        "good" is measured, "hangs" is not

Input: names of ways. Output: an `Operator`; what its processes do besides is written down in `Fake.seen`, a file, a word a line.
"""

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from mimw.errors import SimulatorMisuse
from mimw.tuning import Operator, Trial
from mimw.tuning.store import write

TIMES = {"good": 90.0, "better": 80.0, "used": 100.0}     # microseconds, of a baseline's 100
PREDICTED = TIMES | {"slow": 500.0, "slower": 600.0}


@dataclass(frozen=True)
class Way:
    """`kind` says what happens, `n` is there to be set."""

    kind: str
    n: int = 0


class Device:
    """A device that believes what a candidate says of its time."""

    def __init__(self, name):
        self.name = name

    def describe(self):
        return self.name and {"name": self.name, "sms": 4, "target": "sm_90a"}

    def wait(self):
        pass

    def time(self, candidates, at_least_ms):
        return {name: run() for name, run in candidates.items()}


class Fake(Operator):
    """Numbers of one extent, the candidates named."""

    name, names, dtypes, words = "fake", ("N", ), ("bf16", "fp16"), ("causal", )
    configuration_type = Way

    def __init__(self, kinds, folder: Path, device="a chip", today=None):
        self.kinds, self.device, self.today = kinds, Device(device), today
        self.seen, self.file = folder / "seen", folder / "configs.json"
        self.source = "one"     # what a kernel's sources hash to

    def used(self, problem, sms):
        return self.today and Way(self.today)

    def candidates(self, problem, sms):
        return [Way(kind) for kind in self.kinds]

    def launches(self, problem, chosen, sms):
        if chosen.kind == "impossible":
            raise ValueError("n must be even")
        return [(SimpleNamespace(cache_key=self.source), (1, ), (), {})]

    def note(self, what, chosen):
        with self.seen.open("a") as file:
            file.write(f"{what} {chosen.kind}\n")

    def noted(self, what):
        text = self.seen.read_text() if self.seen.exists() else ""
        return [line.split()[1] for line in text.splitlines() if line.split()[0] == what]

    def trial(self, problem, chosen):
        self.note("measured", chosen)
        if chosen.kind == "hangs":
            time.sleep(100)
        if chosen.kind == "crashes":
            print("an illegal instruction was met", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if chosen.kind == "fails":
            raise RuntimeError("no such layout")

        def check():
            if chosen.kind == "wrong":
                raise AssertionError("wrong: error 1.0e+00")
            return 0.001

        return Trial(lambda: 2 * TIMES.get(chosen.kind, 95.0), check, {"baseline": lambda: 200.0}, calls=2)

    def row(self, problem, chosen):
        return {"n": problem.extents[0], "configuration": {"kind": chosen.kind, "n": chosen.n}}


def predicted(operator, problem, chosen, chip, sms):
    """In place of `work.predicted`: by name."""
    operator.note("predicted", chosen)
    if chosen.kind == "large":
        return {"refused": "300000 bytes of shared memory, 67552 more than the 232448 that there are"}
    if chosen.kind == "unpredicted":
        return {"shared": 8, "unpredicted": "the bounds of a loop depend on data"}
    if chosen.kind == "raises":
        raise SimulatorMisuse("no")
    return {"shared": 1000, "microseconds": PREDICTED.get(chosen.kind, 95.0), "bound": ""}


def compiled(operator, problem, chosen, chip, sms):
    """In place of `work.compiled`: what spills says so."""
    operator.note("compiled", chosen)
    return {"registers": 168, "local": 64 if chosen.kind == "spills" else 0, "shared": 1000, "seconds": 0.1}


def rows_in(file):
    return json.loads(file.read_text())


__all__ = ["Fake", "Way", "compiled", "predicted", "rows_in", "write"]
