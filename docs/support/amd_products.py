"""The table of docs/AMD.md: how long the GEMM for matrix cores is predicted to take. Nothing of it was measured.

    python docs/support/amd_products.py [--extent 4096]

Input: M = N = K. Output: a row for each chip, type and main loop, with what bounds it; b by columns, a result of fp16.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

import mimw
from mimw.kernels import mfma_gemm

TYPES = {"gfx942": {2: np.float16, 1: ml_dtypes.float8_e4m3fnuz}, "gfx950": {2: np.float16, 1: ml_dtypes.float8_e4m3fn}}
NAMES = {2: "fp16", 1: "fp8 e4m3"}


def row(chip: str, size: int, chosen: mfma_gemm.Configuration, extent: int) -> str:
    """One row."""
    a, b = (np.zeros((extent, extent), TYPES[chip][size]) for _ in range(2))
    grid, args, meta = mfma_gemm.arguments(a, b.T, np.zeros((extent, extent), np.float16), chip, chosen)
    found = mimw.predict(mfma_gemm.kernel, grid, *args, target=chip, **meta)
    inside = found.microseconds - found.launch
    return (f"| {chip} | {NAMES[size]} | {chosen.form} | {chosen.bm} x {chosen.bn} x {chosen.bk} | {inside:.1f} | "
            f"{2 * extent**3 / inside / 1e6:,.0f} | {found.bound.replace(' of the time', '')} |")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--extent", type=int, default=4096)
    extent = parser.parse_args(argv).extent
    print("| Chip | Type | Main loop | Tile | us, without the launch | TFLOP/s | Bound by |\n" + 7 * "| --- " + "|")
    for chip in ("gfx950", "gfx942"):
        for size in (2, 1):
            for chosen in (mfma_gemm.CONFIGURATIONS[chip][size][0], mfma_gemm.INTERLEAVED[chip][size]):
                print(row(chip, size, chosen, extent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
