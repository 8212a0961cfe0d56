"""What the layouts found for free buffers are worth: a transpose through shared memory, against two pinned layouts.

    python -m benchmarks.bank_conflicts [--results DIR]
    python -m benchmarks.bank_conflicts --count gfx950      the wavefronts that the compiler counts for a chip; needs none

Each program transposes one block again and again, through shared memory alone, so that shared memory is what takes the time.
Baselines: plain rows, and the NV-MMA layout that is the default of such a tile. Measuring needs a GPU.
"""

from __future__ import annotations

from itertools import product

import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from mimw.testing.benchmark import Row, alternate

from .driver import command
from .gpu import keep, multiprocessors, parsed, row_of, torch
from .progress import each

ROUNDS = 256
SHAPES = ((64, 64), (128, 32), (32, 128))
DTYPES = {"float32": tl.float32, "float16": tl.float16, "int8": tl.int8}  # by their names in torch


@mimw.jit
def turn(x, y, rounds, M: tl.constexpr, N: tl.constexpr, LAYOUT: tl.constexpr):
    """An even number of times: there by rows and back by columns."""
    tile = tlx.local_alloc((M, N), tlx.dtype_of(x), 1, layout=LAYOUT)
    m, n = tl.arange(0, M), tl.arange(0, N)
    block = tl.program_id(0) * M * N
    value = tl.load(x + block + m[:, None] * N + n[None, :])
    for _ in range(rounds):
        tlx.local_store(tile[0], value)
        turned = tlx.local_load(tlx.local_trans(tile[0]))
        tl.store(y + block + n[:, None] * M + m[None, :], turned)
        value += 1


def measure(dtype_name: str, shape: tuple[int, int]) -> Row:
    """One row, checked: (M, N) tiles of a type, `found` beside both pinned layouts."""
    programs, dtype = multiprocessors(), getattr(torch, dtype_name)
    x = torch.randint(-8, 8, (programs, *shape), device="cuda").to(dtype)
    layouts = {"found": None, "plain": tlx.swizzled_layout.make_default(2),
               "nvmma": tlx.nv_mma_shared_layout_encoding.make_default(shape, DTYPES[dtype_name])}
    outputs, runs = {}, {}
    for name, layout in layouts.items():
        outputs[name] = torch.zeros(programs, *shape[::-1], device="cuda", dtype=dtype)
        runs[name] = lambda layout=layout, y=outputs[name]: turn[(programs, )](x, y, ROUNDS, *shape, layout)
    times = alternate(runs)
    expected = (x + (ROUNDS - 1) * torch.ones((), dtype=dtype, device="cuda")).transpose(1, 2) if dtype != torch.int8 else None
    error = 0.0
    for name, y in outputs.items():
        wanted = expected if expected is not None else ((x.int() + ROUNDS - 1 + 128) % 256 - 128).to(dtype).transpose(1, 2)
        error = max(error, (y.double() - wanted.double()).abs().max().item())
    assert error == 0, f"{dtype} {shape}: {error}"
    return row_of("transpose through shared memory", {"M": shape[0], "N": shape[1], "rounds": ROUNDS}, {"dtype": str(dtype)},
                  times, error, "integers", ours="found")


def count(dtype_name: str, shape: tuple[int, int], chip: str) -> tuple[int, int]:
    """(wavefronts of a warp for a block that is written and read once, in the layout that is found, and in the default)."""
    name = {"float32": "fp32", "float16": "fp16", "int8": "i8"}[dtype_name]
    aligned = {(at, ): [["tt.divisibility", 16]] for at in (0, 1)}
    compiled = compile_kernel(turn, {"x": f"*{name}", "y": f"*{name}", "rounds": "i32"},
                              {"M": shape[0], "N": shape[1], "LAYOUT": None}, chip, attrs=aligned)
    (found, ) = compiled.layouts.wavefronts.values()
    return found


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--count", metavar="CHIP", help="count for that chip, and measure nothing")
    if chip := parser.parse_known_args()[0].count:
        for dtype in DTYPES:
            for shape in SHAPES:
                now, before = count(dtype, shape, chip)
                print(f"{chip}, {dtype} {shape}: {now} wavefronts a warp, {before} in the default layout")
        return
    options = parsed(parser)
    for dtype, shape in each(product(DTYPES, SHAPES)):
        row = measure(dtype, shape)
        keep(row, options.results / "bank_conflicts.jsonl")
        ratios = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in row.ratios().items())
        print(f"{row.configuration['dtype']} {shape}: {row.microseconds:.1f} us, {ratios}", flush=True)


if __name__ == "__main__":
    main()
