"""Writes docs/tle.md: each TLE name, its parameters, and where it works, found out by compiling a probe for each chip.

    python docs/support/tle.py            write the table
    python docs/support/tle.py --check    exit with 1 if it is stale
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import page  # noqa: E402
import tle_probes  # noqa: E402
from reflow import reflow  # noqa: E402

import mimw.tle as tle  # noqa: E402

TARGETS = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950", "ascend_910b")
PREFACE = """# TLE: the functions of each chip

`yes`: the call compiles, or runs on the simulator (as an sm_90a; the column of ascend_910b is about the simulator, too:
docs/SPACES.md). `-`: the chip, or this release on it, cannot do it, and mimw refuses the call with its line.

`python docs/support/tle.py` makes this page: it compiles a probe of each function (docs/support/tle_probes.py) to a binary for
each chip, and runs it on the simulator. Do not edit it by hand; a test compares.

One kernel may call functions of TLE and of TLX; docs/THREE_WAYS.md writes one pipeline in three ways. For the places where a copy
by a tensor descriptor may begin (`tle.gpu.copy`) see docs/tlx.md, "Rules and exceptions".
"""
STRUCTS = """## Structs

A struct gives values that belong together one name: `@tle.struct` over a class of annotated fields. The class is called in a
kernel; its values go to helpers and back, through loops and branches, into tasks and partitions, and into other structs. The
compiled kernel has no trace of them.

```python
@tle.struct
class Stage:
    a: tle.gpu.buffered_tensor
    b: tle.gpu.buffered_tensor
    SIZE: tl.constexpr

    @mimw.jit
    def fill(self, x, chunk):
        at = tl.arange(0, self.SIZE)
        tl.store(tle.gpu.local_ptr(self.a), tl.load(x + chunk * self.SIZE + at))
        tl.store(tle.gpu.local_ptr(self.b), tl.load(x + chunk * self.SIZE + at) * 2)


@tle.struct
class Sums:
    total: tl.tensor
    chunks: tl.tensor = 0

    @mimw.jit
    def add(self, stage):
        tile = tl.load(tle.gpu.local_ptr(stage.a)) + tl.load(tle.gpu.local_ptr(stage.b))
        return Sums(self.total + tile, self.chunks + 1)


@mimw.jit
def kernel(x, y, chunks, SIZE: tl.constexpr):
    stages = Stage(tle.gpu.alloc([2, SIZE], tl.float32), tle.gpu.alloc([2, SIZE], tl.float32), SIZE)
    pipe = tle.pipe(stages, capacity=2)
    writer, reader = pipe.writer(), pipe.reader()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            sums = Sums(tl.zeros((SIZE, ), tl.float32))
            for chunk in range(chunks):
                sums = sums.add(reader.wait(chunk).slot)
                reader.release(chunk)
            tl.store(y + tl.arange(0, SIZE), sums.total / sums.chunks)
        with tlx.async_task(num_warps=4):
            for chunk in range(chunks):
                writer.acquire(chunk).fill(x, chunk)
                writer.commit(chunk)


x, y = np.arange(4 * 128, dtype=np.float32), np.zeros(128, np.float32)
mimw.simulate(kernel, (1, ), x, y, 4, 128)
assert np.allclose(y, 3 * x.reshape(4, 128).mean(0))
```

* A pipe that is given a struct of buffers, `tle.pipe(stages, capacity=2)`, has the struct's fields, and its slots are such structs
  of one stage each: `acquire(i)` and `wait(i).slot` have the methods. Constants among the fields are every slot's.
* `tl.tensor` is a tile, a scalar or a pointer; a number that is given for it becomes a run-time value, as in `n = 0`, so a loop
  may carry it. `tl.constexpr` stays known when compiling; a loop cannot change it. `tl.tensor | tl.constexpr` and `Any` keep
  a number as it is: a launch's argument 1 is a constant. `A | None` takes None. Any other class takes its values.
* Methods are functions of `@mimw.jit` (`__add__` and the like among them) or of `@triton.constexpr_function`. Structs have no
  `__init__`: let a function make a value that needs some work. They may inherit from structs.
* A field is never assigned: `sums = sums.replace(chunks=0)` is a copy with another field. `a if c else b` between structs takes
  a `c` that is known when compiling; write `if c: sums = ..`.
* A launch takes no struct, only the fields, from which the kernel makes one; or Python's named tuples of numbers and
  arrays, whose fields the kernel reads by name. You may make a struct of constants outside of kernels: a kernel names it
  as a global, or takes it for a parameter `TILES: tl.constexpr`. Launches with equal structs share one binary, also in
  caches and in other processes; `Tiles(4, 8).replace(M=2)` is another configuration to tune.
"""


def cells_of(name: str) -> list[str]:
    """What the table says of a probe: one cell for each chip, and the simulator's."""
    kernel = tle_probes.PROBES[name]
    signature = {parameter: tle_probes.SIGNATURE[parameter] for parameter in kernel.arg_names}
    grid = (2, ) if name.endswith("grid") else (1, )
    return [page.works(name, kernel, signature, target) for target in TARGETS] + [page.simulates(name, kernel, grid)]


def _first_line(item) -> str:
    text = (inspect.getdoc(item) or "").split("\n")[0]
    return text.replace("|", "\\|")


def _call(item) -> str:
    try:
        shown = [p for p in inspect.signature(item).parameters.values() if p.name not in ("_semantic", "_generator", "self")]
    except (TypeError, ValueError):
        return ""
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in shown]))


def table(cells_of=cells_of) -> str:
    """The whole page; `cells_of(probe)` are the cells of its row."""
    lines = [PREFACE, "## Functions and chips", "", f"| Function | {' | '.join(TARGETS)} | simulator |"]
    lines.append("|---" * (len(TARGETS) + 2) + "|")
    lines += [f"| `{name}` | {' | '.join(cells_of(name))} |" for name in tle_probes.PROBES]
    lines += ["", *STRUCTS.splitlines()]
    for title, room in (("`tle`", tle), ("`tle.gpu`", tle.gpu), ("`tle.dsa`", tle.dsa), ("`tle.raw`", tle.raw)):
        lines += ["", f"## Names of {title}", "", "| Name | |", "|---|---|"]
        for name in sorted(room.__all__, key=str.lower):
            item = getattr(room, name)
            if inspect.ismodule(item):
                lines.append(f"| `{name}` | {_first_line(item)} |")
            else:
                call = _call(item) if callable(item) else ""
                lines.append(f"| `{name}{call}` | {_first_line(item) if callable(item) else f'`{item}`'} |")
    return reflow("\n".join([*lines, ""]))


def main(arguments: list[str]) -> int:
    return page.write_or_check(page.PAGES / "tle.md", table, "tle.py", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
