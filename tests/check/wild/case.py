"""What each file of this folder gives: cases, each a public thread, the mistake told there, and a program with and without it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import mimw
from mimw.runtime.simulate import prepare
from mimw.tools.check import Search

describe = mimw.TensorDescriptor.from_tensor
CASES: list["Case"] = []


@dataclass(frozen=True)
class Case:
    """A bug. `launch(mended)` gives (kernel, grid, args, meta); `kind` is what `check` calls it, `lines` are texts of the source
    lines that the finding names. `by` says what shows it: "the launch" itself; "rounds", smaller launches that `check` tries by
    itself, the launch being right; or "the compiler", which puts in what was missing there, so that the mistake cannot be made:
    then `taken_out(op, program)` picks the ops that are removed to see it."""

    threads: tuple[str, ...]
    mistake: str
    launch: Callable
    kind: str
    lines: tuple[str, ...]
    by: str = "the launch"
    taken_out: Callable | None = None

    @property
    def name(self) -> str:
        return self.launch.__name__


def case(*threads, **fields):
    """Registers a function `launch(mended)`; its docstring is the mistake."""

    def register(launch):
        CASES.append(Case(threads, " ".join(launch.__doc__.split()), launch, **fields))
        return launch

    return register


def without(launch, taken_out):
    """The report on a launch whose compiled program lacks the ops that `taken_out` picks."""
    kernel, grid, args, meta = launch
    ready = prepare(kernel, grid, args, dict(meta))

    def block_of(block):
        kept = (op for op in block.ops if not taken_out(op, ready.program))
        return replace(block, ops=tuple(replace(op, blocks=tuple(map(block_of, op.blocks))) if op.blocks else op for op in kept))

    program = replace(ready.program, body=block_of(ready.program.body))
    return Search(replace(ready, program=program)).all(4, "random", 1, shrink=False, rounds=True)
