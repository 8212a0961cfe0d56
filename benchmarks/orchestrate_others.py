"""Published kernels of other packages, unchanged, through `mimw.orchestrate`: what becomes of each, or why it stays as it is.

    python -m benchmarks.orchestrate_others                             all kernels
    python -m benchmarks.orchestrate_others liger-swiglu fla-chunk-o --packages /tmp/packages

Packages are fetched by pip into the folder, in the versions that others_launches.py names, and unpacked there; nothing is
installed. Without a GPU times are predicted; with one they are measured. What plain Triton compiles is never an error here:
such a kernel is orchestrated, or refused with its lines.
"""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

import mimw
from mimw.tools.orchestrate import Orchestration

from .driver import command, keep_row, some_of
from .others_launches import KERNELS
from .others_sources import NotFetched, kernel_of, pack
from .progress import each


def report(name: str, packages: Path) -> dict[str, Any]:
    """A kernel's row; what is printed besides is the report of `mimw.orchestrate`."""
    one, start = KERNELS[name], perf_counter()
    row = {"name": f"others-{name}", "package": one.source.package, "version": one.source.version, "file": one.source.path,
           "function": one.source.function}
    try:
        kernel = kernel_of(one.source, packages)
    except NotFetched as error:
        return row | {"not_fetched": str(error)}
    grid, given = one.launch()
    found = mimw.orchestrate(kernel, grid, **given)
    print(found, flush=True)
    return row | _figures(found) | {"seconds": round(perf_counter() - start, 1)}


def _figures(found: Orchestration) -> dict[str, Any]:
    """What a row has of the result."""
    best = found.chosen
    figures = {"orchestrated": best is not None, "is_used": found.is_used, "because": found.because, "plain_us": found.search.plain,
               "plain_measured_us": found.search.plain_measured, "refused": found.refused}
    if best is not None:
        figures |= {"plan": json.loads(best.plan.text()), "predicted_us": best.predicted, "measured_us": best.measured,
                    "proof": str(found.certificate)}
    return figures


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "kernels", KERNELS)
    parser.add_argument("--packages", type=Path, default=Path("packages-of-others"), metavar="DIR",
                        help="where packages are unpacked")
    parser.add_argument("--pack", type=Path, metavar="DIR",
                        help="run nothing: copy the files of the kernels to this folder, which is --packages elsewhere")
    options = parser.parse_args()
    if options.pack is not None:
        for name in options.kernels or KERNELS:
            try:
                pack(KERNELS[name].source, options.packages, options.pack)
            except NotFetched as error:
                print(error)
        return
    failed = []
    for name in each(options.kernels or KERNELS):
        print(f"\n== {name}: {KERNELS[name].source.function} of {KERNELS[name].source.folder}", flush=True)
        try:
            keep_row(report(name, options.packages), options.results / "orchestrate_others.jsonl")
        except Exception:       # a promise that is broken: it is printed, and the next kernel comes
            traceback.print_exc()
            failed.append(name)
    if failed:
        raise SystemExit(f"raised an exception: {', '.join(failed)}")


if __name__ == "__main__":
    main()
