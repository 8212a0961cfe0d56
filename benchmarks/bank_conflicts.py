"""What the layouts found for free buffers are worth: a transpose through shared memory, against two pinned layouts.

    python benchmarks/bank_conflicts.py [--out benchmarks/results/bank_conflicts.jsonl]

Each program transposes one block again and again, through shared memory alone, so that shared memory is what takes the time.
Baselines: plain rows, and the NV-MMA layout that is the default of such a tile. Needs a GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing.benchmark import Row, alternate

HERE = Path(__file__).parent
ROUNDS = 256
DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.int8: tl.int8}


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


def measure(dtype: torch.dtype, shape: tuple[int, int]) -> Row:
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.randint(-8, 8, (programs, *shape), device="cuda").to(dtype)
    layouts = {"found": None, "plain": tlx.swizzled_layout.make_default(2),
               "nvmma": tlx.nv_mma_shared_layout_encoding.make_default(shape, DTYPES[dtype])}
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
    return Row("transpose through shared memory", {"M": shape[0], "N": shape[1], "rounds": ROUNDS}, {"dtype": str(dtype)},
               times.pop("found"), times, error, "integers", torch.cuda.get_device_name())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "bank_conflicts.jsonl")
    options = parser.parse_args()
    for dtype in DTYPES:
        for shape in ((64, 64), (128, 32), (32, 128)):
            row = measure(dtype, shape)
            row.write(options.out)
            ratios = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in row.ratios().items())
            print(f"{dtype} {shape}: {row.microseconds:.1f} us, {ratios}")


if __name__ == "__main__":
    main()
