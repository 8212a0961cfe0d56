"""The source lines of a kernel at which its warps were found, and what they waited for: sampled by Nsight Compute (`ncu`) on a GPU.

    python -m benchmarks.hot_lines linear-gradients-8x8192          a case of counter_cases.py: its launches, 20 lines of each
    python -m benchmarks.hot_lines latents-packed-128x1x8192 --kernel mla_decode_bytes --lines 40 --sass
    python -m benchmarks.hot_lines linear-kda-65536 --kept source.csv.gz    keep what ncu printed; `--read` it where the cache is

ncu stops a warp of each scheduler now and then, and notes its instruction and why it does not go on. Triton's cubins, which lie in
its cache, have a line for each instruction (`nvdisasm --print-line-info`). A share is of the samples of a kernel, all of its warps:
a warp that has nothing to do counts as well. What the reasons mean: `long_sb` waits for memory, also for spilled registers
(an LDL in front of it); `short_sb` for shared memory and shuffles; `barrier` for other warps; `no_inst` for code, which the
instruction cache does not hold; `wait` for a fixed latency; `selected` goes on. (Nsight Compute's Kernel Profiling Guide, Warp
Stall Reasons.)
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mimw.compiler.triton_port.ptxas_files import nvdisasm_path
from mimw.tools.sass.code import opcode

from .counter_cases import CASES
from .counters import MARK, ncu, started
from .driver import some_of

LEAST = 0.01        # of a kernel's samples, that an instruction or a reason has to be shown
_FILE = re.compile(r'//## File "([^"]+)", line (\d+)')
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


@dataclass(frozen=True)
class Sampled:
    """An instruction: its text, samples of warps that were there, how often a warp executed it, and samples by reason."""

    text: str
    samples: int
    executed: int
    reasons: Counter[str]


@dataclass
class Line:
    """The sums of a source line's instructions."""

    samples: int = 0
    executed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def kernels_of(text: str) -> list[tuple[str, list[Sampled]]]:
    """(name, instructions) of each launch, of what ncu prints with `--page source --csv`."""
    found: list[tuple[str, list[Sampled]]] = []
    head: list[str] = []
    for row in csv.reader(text.splitlines()):
        if row[:1] == ["Kernel Name"]:
            found.append((row[1], []))
        elif row[:1] == ["Address"]:
            head = row
        elif found and len(row) == len(head):
            one = dict(zip(head, row))
            reasons = {name.removeprefix("stall_"): int(value or 0) for name, value in one.items()
                       if name.startswith("stall_") and not name.endswith("(Not Issued)")}
            found[-1][1].append(Sampled(one["Source"].strip(), int(one["# Samples"] or 0), int(one["Instructions Executed"] or 0),
                                        Counter(reasons)))
    return [(name, code) for name, code in found if MARK not in name]


def lines_of(disassembled: str) -> list[tuple[str, str]]:
    """(instruction, `file:line`) in the order of the code, of what nvdisasm prints with line information."""
    found, place = [], ""
    for line in disassembled.splitlines():
        if mark := _FILE.search(line):
            place = f"{Path(mark[1]).name}:{mark[2]}"
        elif one := _INSTRUCTION.search(line):
            found.append((one[1], place))
    return found


def places(name: str, code: list[Sampled]) -> list[str]:
    """The source line of each instruction, from the cubin in Triton's cache that has this code; "" each where there is none."""
    cache = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    wanted = [opcode(one.text) for one in code]
    for file in sorted(cache.glob(f"*/{name}.cubin"), key=lambda file: -file.stat().st_mtime):
        words = [nvdisasm_path(), "--print-line-info", "--print-code", str(file)]
        lines = lines_of(subprocess.run(words, capture_output=True, text=True).stdout)
        if [opcode(text) for text, _ in lines][:len(wanted)] == wanted:
            return [place for _, place in lines[:len(wanted)]]
    return [""] * len(code)


def by_line(code: list[Sampled], lines: list[str]) -> dict[str, Line]:
    """The sums of each line, the most samples first."""
    found: dict[str, Line] = {}
    for one, place in zip(code, lines):
        line = found.setdefault(place, Line())
        line.samples += one.samples
        line.executed += one.executed
        line.reasons += one.reasons
    return dict(sorted(found.items(), key=lambda item: -item[1].samples))


def told(what: str, samples: int, executed: int, reasons: Counter[str], whole: int) -> str:
    """A line or an instruction for people."""
    why = ", ".join(f"{name} {count / whole:.1%}" for name, count in reasons.most_common(3) if count >= LEAST * samples)
    return f"{samples / whole:6.1%}  {executed:>11,} x  {what:<44} {why}"


def report(name: str, code: list[Sampled], most: int, sass: bool) -> Iterator[str]:
    """What is printed of a launch."""
    whole = sum(one.samples for one in code) or 1
    reasons = sum((one.reasons for one in code), Counter())
    spills = sum(one.executed for one in code if opcode(one.text).partition(".")[0] in ("LDL", "STL"))
    yield (f"{name}: {len(code)} instructions, {sum(one.executed for one in code):,} executed by warps, {spills:,} of them of "
           f"spilled registers; " + ", ".join(f"{reason} {count / whole:.0%}" for reason, count in reasons.most_common(6)))
    for place, line in list(by_line(code, places(name, code)).items())[:most]:
        yield told(place or "(no cubin in the cache has this code)", line.samples, line.executed, line.reasons, whole)
    for number, one in enumerate(code) if sass else ():
        if one.samples >= LEAST * whole:
            yield told(f"{number:5} {one.text}", one.samples, one.executed, one.reasons, whole)


def sampled(names: list[str], seconds: float) -> str:
    """What ncu prints of the cases' launches."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report"
        print(started(names, seconds, ncu(), "--clock-control", "none", "--profile-from-start", "off", "--import-source", "no",
                      "--section", "SourceCounters", "-o", str(file)), flush=True)
        return subprocess.run([ncu(), "--import", f"{file}.ncu-rep", "--page", "source", "--csv", "--print-source", "sass"],
                              capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    some_of(parser, "cases", CASES)
    parser.add_argument("--kernel", help="of this name alone")
    parser.add_argument("--lines", type=int, default=20, help="of each launch")
    parser.add_argument("--sass", action="store_true", help="instructions, too")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which no further case is begun")
    parser.add_argument("--kept", type=Path, help="a file, gzip, for what ncu printed")
    parser.add_argument("--read", type=Path, help="such a file, in place of a run")
    options = parser.parse_args()
    text = gzip.open(options.read, "rt").read() if options.read else sampled(options.cases or list(CASES), options.seconds)
    if options.kept:
        options.kept.write_bytes(gzip.compress(text.encode()))
    for name, code in kernels_of(text):
        if options.kernel in (None, name):
            print("\n".join(report(name, code, options.lines, options.sass)), flush=True)


if __name__ == "__main__":
    main()
