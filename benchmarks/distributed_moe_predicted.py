"""What the cost model makes of tokens that go to experts on another GPU and back: no GPU needed, and a quarter of a minute a row.

    python -m benchmarks.distributed_moe_predicted                              every shape, with what was measured
    python -m benchmarks.distributed_moe_predicted decode --what combine sent   combine of weights that came, and that are sent
    python -m benchmarks.distributed_moe_predicted deepseek --changed whole=2   a configuration with another number
    python -m benchmarks.distributed_moe_predicted deepseek --tasks             and what the tasks of a program wait for

Input: the shapes of benchmarks/distributed_moe.py, and its rows. Output: microseconds of a launch, predicted and last measured. All
132 programs of two GPUs are ten minutes' work, so PROGRAMS of them are run, with as many tokens each, on a chip that has their
share of the memory and of the links. What a program does with the choices of all is shorter there.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

import numpy as np

import mimw
from mimw.kernels import moe_combine, moe_dispatch
from mimw.simulator.costs import Model, model
from mimw.tools.timing.predict import Prediction

from .driver import RESULTS

MULTIPROCESSORS = 132
WHAT = ("dispatch", "rows", "combine", "sent")
PROGRAMS = 4
# shape -> tokens, columns, experts of a token, experts, bytes of a number, numbers to a scale; as in distributed_moe.SHAPES
SHAPES = {"deepseek": (4096, 7168, 8, 256, 2, 0), "mixtral": (4096, 4096, 2, 8, 2, 0), "decode": (128, 7168, 8, 256, 2, 0),
          "deepseek-fp8": (4096, 7168, 8, 256, 1, 128), "decode-fp8": (128, 7168, 8, 256, 1, 128)}
SHARED_OUT = ("chip.l2_bytes", "memory.l2_gb_per_s", "memory.l2_store_gb_per_s", "memory.dram_gb_per_s", "link.put_gb_per_s",
              "link.get_gb_per_s")


def part_of(chip: Model, programs: int) -> Model:
    """A chip of so many SMs, each with what an SM of the whole one has."""
    share = programs / chip["chip.sms"]
    figures = dict(chip.figures)
    for name in (*SHARED_OUT, "chip.sms"):
        figures[name] = replace(figures[name], value=figures[name].value * share)
    return replace(chip, figures=figures)


class Ranks:
    """A world of two GPUs with so many programs, each of which has as many tokens as one of a launch of the whole chip."""

    def __init__(self, name: str, programs: int = PROGRAMS):
        self.tokens, self.hidden, self.k, self.experts, self.bytes, self.step = SHAPES[name]
        self.programs, self.world, self.ranks = programs, mimw.World(2), 2
        self.most = round(self.tokens * programs / model("sm_90a")["chip.sms"])
        random = np.random.default_rng(17)
        self.ids = self.world.each([random.random((self.most, self.experts)).argsort(1)[:, :self.k].astype(np.int32)
                                    for _ in range(self.ranks)], "ids")
        self.words, self.scales = self.hidden * self.bytes // 4, self.hidden // self.step if self.step else 0

    def empty(self, *shape: int, dtype=np.int32):
        return self.world.each([np.empty(shape, dtype) for _ in range(self.ranks)])

    def room(self, sizes: dict) -> dict:
        return {name: self.world.symmetric(*one, name) for name, one in sizes.items()}

    def scaled(self, rows: int) -> dict:
        """The arguments that scales are, where there are any."""
        given = dict(x_scales=self.most, row_scales=rows) if self.scales else {}
        return {name: self.empty(count, self.scales) for name, count in given.items() if count}

    def chosen(self, what: str):
        """The configuration that the library takes for the whole launch."""
        row = 4 * (self.words + self.scales)
        if what in ("combine", "sent"):
            return moe_combine.configuration(self.hidden, self.tokens, MULTIPROCESSORS, self.ranks, what == "combine")
        if what == "rows":
            return moe_dispatch.rows_chosen_for(self.tokens, row, MULTIPROCESSORS, self.ranks, self.k)
        return moe_dispatch.chosen_for(self.tokens, self.k, row, MULTIPROCESSORS, self.ranks)

    def dispatch(self, chosen=None) -> tuple:
        """A launch that brings rows to their experts' places."""
        rows, chosen = moe_dispatch.listed(self.most, self.k, self.experts, self.ranks), chosen or self.chosen("dispatch")
        room = self.room(moe_dispatch.room_for(self.most, self.k, self.experts, 4 * self.words, self.programs, self.ranks,
                                               4 * self.scales, chosen))
        return moe_dispatch.kernel, *moe_dispatch.arguments(
            self.empty(self.most, self.words), self.ids, self.empty(rows, self.words), self.empty(self.experts // self.ranks),
            self.empty(self.ranks, self.most, self.k), room, self.world, self.programs, chosen=chosen, **self.scaled(rows))

    def rows(self, chosen=None) -> tuple:
        """A launch whose rows stay where they come."""
        numbers, chosen = moe_dispatch.listed(self.most, self.k, self.experts, self.ranks, 128), chosen or self.chosen("rows")
        room = self.room(moe_dispatch.rows_room_for(self.most, self.k, self.experts, 4 * self.words, self.programs, self.ranks,
                                                    4 * self.scales, chosen))
        return moe_dispatch.rows_kernel, *moe_dispatch.rows_arguments(
            self.empty(self.most, self.words), self.ids, self.empty(numbers), self.empty(self.experts // self.ranks),
            self.empty(self.ranks, self.most, self.k), room, self.world, self.programs, 128, chosen=chosen,
            generation=chosen.generations - 1, **self.scaled(0))

    def combine(self, chosen=None, came: bool = True) -> tuple:
        """A launch that brings rows back; a row of each choice, by token."""
        chosen = chosen or self.chosen("combine" if came else "sent")
        local = self.experts // self.ranks
        places = [np.where(np.stack([self.ids[source] // local == rank for source in range(self.ranks)]),
                           np.arange(self.ranks * self.most * self.k, dtype=np.int32).reshape(self.ranks, self.most, self.k), -1)
                  for rank in range(self.ranks)]
        room = self.room(moe_combine.room_for(self.most, self.k, self.hidden, self.programs, self.ranks, chosen=chosen, came=came))
        weights = (self.ranks, self.most, self.k)[not came:]
        return moe_combine.kernel, *moe_combine.arguments(
            self.empty(self.ranks * self.most * self.k, self.hidden, dtype=np.float16),
            self.world.each([one.astype(np.int32) for one in places], "places"), self.ids, self.empty(*weights, dtype=np.float32),
            self.empty(self.most, self.hidden, dtype=np.float16), room, self.world, self.experts, self.programs, chosen=chosen)

    def sent(self, chosen=None) -> tuple:
        """`combine`, which sends weights first."""
        return self.combine(chosen, False)


def predicted(launch: tuple, programs: int = PROGRAMS) -> Prediction:
    """The prediction of a launch of `Ranks` for its part of the chip."""
    kernel, grid, args, meta = launch
    chip = part_of(model("sm_90a"), programs)
    with patch.object(import_module("mimw.tools.timing.predict"), "model", lambda target: chip):
        return mimw.predict(kernel, grid, *args, target="sm_90a", **meta)


def measured(what: str, name: str) -> float | None:
    """Microseconds of the last row of that shape, if there is one."""
    wanted = f"moe_{'dispatch_rows' if what == 'rows' else what}-{name}"
    rows = map(json.loads, (RESULTS / "distributed_moe.jsonl").read_text().splitlines())
    return next((row["microseconds"] for row in reversed(list(rows)) if row["name"] == wanted), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT[:2])
    parser.add_argument("--changed", nargs="*", default=[], metavar="NAME=NUMBER", help="numbers of the configuration")
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--tasks", action="store_true")
    options = parser.parse_args()
    changed = {name: int(number) for name, number in (one.split("=") for one in options.changed)}
    for name in options.names or SHAPES:
        for what in options.what:
            if what in ("combine", "sent") and SHAPES[name][4] == 1:
                continue
            ranks = Ranks(name, options.programs)
            chosen = replace(ranks.chosen(what), **changed)
            found, before = predicted(getattr(ranks, what)(chosen), options.programs), measured(what, name)
            told = "" if before is None else f"  measured {before:.1f} us ({found.microseconds / before:.3f})"
            print(f"{what:<10}{name:<16}{found.microseconds:8.1f} us predicted{told}  {chosen}", flush=True)
            if options.tasks:
                print(found)


if __name__ == "__main__":
    main()
