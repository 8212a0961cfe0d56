"""The table of docs/AMD.md: how long products in microscaling formats are predicted to take on gfx950. Nothing was measured.

    python docs/support/amd_scaled_products.py [--extent 4096]

Input: M = N = K. Output: a row for each format, order of scales and main loop, with what bounds it; a result of fp16.
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
from mimw.kernels import mfma_scaled_gemm


def row(form: str, is_fp4: bool, in_order: bool, extent: int) -> str:
    """One row."""
    a = np.zeros((extent, extent // 2), np.uint8) if is_fp4 else np.zeros((extent, extent), ml_dtypes.float8_e4m3fn)
    scales = np.zeros((extent, extent // 32), np.uint8)
    if in_order:
        scales = mfma_scaled_gemm.shuffled(scales)
    grid, args, meta = mfma_scaled_gemm.arguments(a, a, np.zeros((extent, extent), np.float16), scales, scales,
                                                  mfma_scaled_gemm.Configuration(form), are_shuffled=in_order)
    found = mimw.predict(mfma_scaled_gemm.kernel, grid, *args, target="gfx950", **meta)
    inside = found.microseconds - found.launch
    bound = found.bound.partition(";")[0].replace(" of the time", "")
    return (f"| {'mxfp4' if is_fp4 else 'mxfp8'} | {'shuffled' if in_order else 'by rows'} | {form} | {inside:.1f} | "
            f"{2 * extent**3 / inside / 1e6:,.0f} | {bound} |")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--extent", type=int, default=4096)
    extent = parser.parse_args(argv).extent
    print("| Format | Scales | Main loop | us, without the launch | TFLOP/s | Bound by |\n| --- | --- | --- | --- | --- | --- |")
    for is_fp4, in_order in ((True, False), (True, True), (False, False)):
        for form in ("ping-pong", "interleave"):
            print(row(form, is_fp4, in_order, extent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
