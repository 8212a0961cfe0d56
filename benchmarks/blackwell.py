"""What is known of each kernel for Blackwell without a chip: its result, its interleavings, its resources, its predicted time.

    python -m benchmarks.blackwell [TEXT...] [--seeds 200] [--results DIR]     those whose names hold one of the texts
    python -m benchmarks.blackwell --table                                  the table of the rows

A small launch is simulated and compared with numpy, then checked on `--seeds` seeds and, by the systematic search, on some
more interleavings. A launch at full size is compiled to a cubin, of which ptxas says registers and spills, and predicted for a
B200. The rows of kernels that are measured again replace the old ones.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from triton import knobs

import mimw
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.simulate import prepare

from .blackwell_kernels import KERNELS, Kernel
from .driver import RESULTS, command, machine, read_rows
from .progress import each

CHIP = "sm_100a"
FILE = RESULTS / "blackwell.jsonl"
COLUMNS = ("kernel", "error / largest number", "findings in runs", "registers", "bytes spilled, stores + loads", "shared memory",
           "columns", "predicted: what", "us", "TFLOP/s", "bound by")


def simulated(kernel: Kernel, seeds: int) -> dict:
    """How far a small launch is from numpy, and what is found over many interleavings."""
    (function, grid, args, meta), found, wanted = kernel.small()
    mimw.simulate(function, grid, *args, target=CHIP, races=True, **meta)
    error = max(np.abs(one.astype(np.float64) - other).max() / np.abs(other).max() for one, other in zip(found(), wanted))
    assert error < 1e-2, error
    (function, grid, args, meta), *_ = kernel.small()
    start = time.perf_counter()
    report = mimw.check(function, grid, *args, seeds=seeds, search="both", limit=8, shrink=False, rounds=False, target=CHIP,
                        **meta)
    return dict(error=float(f"{error:.1e}"), seeds=seeds, runs=report.runs, findings=sorted({one.kind for one in report.findings}),
                check_seconds=round(time.perf_counter() - start, 1))


def compiled(kernel: Kernel) -> dict:
    """Registers, spills, shared memory and columns of the full launch."""
    function, grid, args, meta = kernel.full()
    found = prepare(function, grid, args, dict(meta), CHIP).specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    done = compile_kernel(found.fn, found.signature, constants, target=CHIP, options=found.options, attrs=found.attrs)
    ptx = done.stage("ptx")
    columns = re.search(r"tcgen05\.alloc\S+ \[%r\d+\], (\d+);", ptx)
    return dict(cubin_bytes=len(done.stage("cubin")), shared=done.metadata.shared, columns=int(columns[1]) if columns else 0,
                **resources(ptx))


def resources(ptx: str) -> dict:
    """What `ptxas -v` says of PTX: registers a thread, bytes spilled."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        assemble = [knobs.nvidia.ptxas_blackwell.path, "-v", f"--gpu-name={CHIP}", str(source), "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(assemble, capture_output=True, text=True, check=True).stderr
    stores, loads = map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said).groups())
    return dict(registers=int(re.search(r"Used (\d+) registers", said)[1]), spill_stores=stores, spill_loads=loads)


def predicted(kernel: Kernel) -> dict:
    """The time of the full launch by the cost model, and what bounds it."""
    function, grid, args, meta = kernel.full()
    found = mimw.predict(function, grid, *args, target=CHIP, **meta)
    teraflops = round(kernel.operations / found.microseconds / 1e6) if kernel.operations else None
    bound = re.sub(r" at \S*/(\S+:\d+)", r" (\1)", found.bound)
    return dict(microseconds=round(found.microseconds, 1), tflops=teraflops, bound=bound, size=kernel.size)


def table(rows: list[dict]) -> str:
    """The rows as a table, in the order of KERNELS."""
    found = {row["kernel"]: row for row in rows}
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(_cells(found[name]) for name in KERNELS if name in found)]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


def _cells(row: dict) -> tuple:
    return (row["kernel"], f"{row['error']:.0e}", f"{', '.join(row['findings']) or 'none'} in {row['runs']}", row["registers"],
            f"{row['spill_stores']} + {row['spill_loads']}", row["shared"], row["columns"], row["size"], row["microseconds"],
            row["tflops"] or "", re.sub(r";.*| of the time|busy ", "", row["bound"]))


def main() -> None:
    options = command(__doc__)
    options.add_argument("kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--table", action="store_true")
    options = options.parse_args()
    file = options.results / FILE.name
    file.parent.mkdir(parents=True, exist_ok=True)
    chosen = [] if options.table else [name for name in KERNELS if any(text.lower() in name.lower() for text in options.kernels)]
    for name in each(chosen):
        kernel = KERNELS[name]
        row = dict(name="blackwell", kernel=name, file=kernel.file, **simulated(kernel, options.seeds), **compiled(kernel),
                   **predicted(kernel), **machine())
        kept = [old for old in read_rows(file) if old["kernel"] != name]
        file.write_text("".join(json.dumps(one, sort_keys=True) + "\n" for one in (*kept, row)))
        print(json.dumps(row, sort_keys=True), flush=True)
    print(table(read_rows(file)))


if __name__ == "__main__":
    main()
