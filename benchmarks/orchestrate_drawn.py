"""Is `mimw.orchestrate` slower than plain Triton anywhere? Random ordinary programs, at sizes that fill a GPU, plain and as given.

    python -m benchmarks.orchestrate_drawn 40                           40 programs of the fuzz family `ordinary`
    python -m benchmarks.orchestrate_drawn 40 --first 1000 --seconds 100        others, and no new one behind 100 s
    python -m benchmarks.orchestrate_drawn 4 --tiles 4 --trips 4        without a GPU: predicted, so take few tiles

Each program is drawn anew until some plan hands one of its loads over, and scaled up (drawn_launches.py). `mimw.orchestrate` gives
a launch: by measurement, of the plan that was the quickest, or of the plain kernel. It is timed in turn with the plain kernel, cold
L2, after their results have been compared; without a GPU the simulator's predictions stand in place of times. At the end stand the
programs whose launch is slower than 0.98 of plain, and those whose results differ: there are to be none, else the exit status is 1.
"""

from __future__ import annotations

import json
from statistics import geometric_mean
from time import monotonic
from typing import Any

import torch
import triton

import mimw
from mimw.compiler.triton_port.runtime import gpu_is_active
from mimw.errors import MimwError
from mimw.testing.benchmark import alternate
from mimw.tools.orchestrate import Orchestration
from mimw.tools.orchestrate.choose import every_plan
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.written import written
from tests.fuzz.ordinary.device import CLOSE, FLOOR
from tests.fuzz.ordinary.draw import Ordinary, drawn

from .drawn_launches import DrawnLaunch, launch_of, scaled
from .driver import append, command, machine
from .progress import each

SLOWER = 0.98       # of plain's speed
PROGRAMS = 132      # of a kernel whose programs take tiles in turn
PLANS = 4           # that are written to see whether any hands something over


class NoPlain(Exception):
    """Stock Triton has no binary for a program, or none that this GPU has room for."""


def handed_over(program: Ordinary) -> bool:
    """True if one of the first plans of a program hands a load over; asked of a few tiles."""
    try:
        launch = launch_of(scaled(program, 2, 2, 1))
        plain = plain_of(launch.kernel, launch.grid, launch.args, launch.meta, None)
        return any(written(plain, plan).kernel is not None for plan, _ in zip(every_plan(plain), range(PLANS)))
    except (MimwError, triton.CompilationError):        # no descriptor of such rows, or no such product
        return False


def measure(program: Ordinary, ms: float) -> dict[str, Any]:
    """A program's row."""
    launch, start = launch_of(program), monotonic()
    row = {"name": f"drawn-{program.seed}", "grid": launch.grid, "sizes": program.sizes, "constants": launch.meta}
    found = mimw.orchestrate(launch.kernel, launch.grid, *launch.args, **launch.meta)
    row |= {"seconds": round(monotonic() - start, 1), "is_used": found.is_used, "because": found.because,
            "plan": None if found.plan is None else json.loads(found.plan.text())}
    if not gpu_is_active():
        plain = found.search.plain
        ours = found.chosen.predicted if found.is_used and found.chosen is not None else plain
        return row | {"chip": "predicted", "plain_us": plain, "ours_us": ours, "differs": ""}
    if found.search.plain_measured is None:
        raise NoPlain(f"{row['name']}: the plain kernel does not run")
    differs = difference(launch, found)
    times = alternate({"plain": lambda: launch.kernel[launch.grid](*launch.args, **launch.meta),
                       "ours": lambda: found[launch.grid](*launch.args, **launch.meta)}, ms)
    micro = {f"{name}_us": round(time, 2) for name, time in times.items()}
    return row | {"chip": torch.cuda.get_device_name(), **micro, "differs": differs}


def difference(launch: DrawnLaunch, found: Orchestration) -> str:
    """What differs between the plain kernel's results and those of the launch that was given; "" if no more than rounding does."""
    before = [tensor.clone() for tensor in launch.tensors]

    def results(kernel: Any) -> list[torch.Tensor]:
        for tensor, kept in zip(launch.tensors, before):
            tensor.copy_(kept)
        kernel[launch.grid](*launch.args, **launch.meta)
        return [tensor.clone() for tensor in launch.tensors]

    plain, ours = results(launch.kernel), results(found)
    for at, (one, other) in enumerate(zip(ours, plain)):
        if not torch.equal(one.view(torch.uint8), other.view(torch.uint8)) and (what := _apart(one, other)):
            return f"tensor {at}: {what}"
    wrote = any(not torch.equal(one.view(torch.uint8), kept.view(torch.uint8)) for one, kept in zip(plain, before))
    return "" if wrote else "nothing was written"


def _apart(got: torch.Tensor, want: torch.Tensor) -> str:
    """What differs between results of sums in different orders; "" if no more than rounding does: the fuzz family's rule."""
    if not got.is_floating_point():
        return f"{int((got != want).sum())} of {got.numel()} integers differ"
    one, other = got.double(), want.double()
    finite = other.isfinite()
    strange = (torch.where(each.isfinite(), 0.0, each).nan_to_num(nan=2.0, posinf=1.0, neginf=-1.0) for each in (one, other))
    if not torch.equal(*strange):
        return "infinities or NaN elsewhere"
    far = (one - other)[finite].norm().item()
    near = max(other[finite].norm().item(), FLOOR * other.numel() ** 0.5)
    return "" if far <= CLOSE * near else f"differs by {far / near:.3g} of its norm"


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    how = row["because"] if not row["is_used"] else f"taken: {row['because']}"
    return (f"{row['name']:<14} plain {row['plain_us']:9.1f} us   ours {row['ours_us']:9.1f} us   "
            f"{row['plain_us'] / row['ours_us']:6.3f}   {how}{'   DIFFERS: ' * bool(row['differs'])}{row['differs']}")


def main() -> None:
    parser = command(__doc__, ms=60.0)
    parser.add_argument("count", type=int, nargs="?", default=40, help="programs")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first program")
    parser.add_argument("--tiles", type=int, default=2 * PROGRAMS, help="of a program's output, about")
    parser.add_argument("--trips", type=int, default=24, help="of its loops along K, 64 at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="behind which no other program begins")
    options = parser.parse_args()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    rows, failed, start = [], [], monotonic()
    for program in each(some(options.first, options.count), lambda program: f"drawn-{program.seed}"):
        if monotonic() - start > options.seconds:
            break
        try:
            rows.append(measure(scaled(program, options.tiles, options.trips, PROGRAMS), options.ms))
        except NoPlain as error:
            print(error, flush=True)
            continue
        except Exception as error:      # a promise that is broken: it is said, and the next program comes
            failed.append(f"drawn-{program.seed}: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}")
            continue
        append(rows[-1] | machine(), options.results / "orchestrate_drawn.jsonl")
        print(line(rows[-1]), flush=True)
    if wrong := summary(rows) + failed:
        raise SystemExit("\n".join(wrong))


def some(first: int, count: int) -> list[Ordinary]:
    """The first programs from that of a seed on of which something is handed over."""
    found: list[Ordinary] = []
    while len(found) < count:
        program = drawn(first, None, True)[0]
        found += [program] if handed_over(program) else []
        first += 1
    return found


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Prints what the rows say together; the programs that are slower than they may be, and those that differ."""
    ratios = [row["plain_us"] / row["ours_us"] for row in rows]
    if ratios:
        taken = sum(row["is_used"] for row in rows)
        print(f"{len(rows)} programs, {taken} orchestrated: {geometric_mean(ratios):.3f} of plain, "
              f"{min(ratios):.3f} to {max(ratios):.3f}")
    return [f"slower than {SLOWER} of plain: {line(row)}" for row, ratio in zip(rows, ratios) if ratio < SLOWER] + [
        f"differs: {line(row)}" for row in rows if row["differs"]]


if __name__ == "__main__":
    main()
