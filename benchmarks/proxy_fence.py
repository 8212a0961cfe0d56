"""The fence before a hand-over: can leaving it out be seen, and what does it cost? On an NVIDIA GPU with TMA.

    python -m benchmarks.proxy_fence [--rounds 200] [--results DIR]

Input: the ring kernel below, compiled as it is and with the compiler's fences taken out
(`src/mimw/compiler/passes/fence_handovers.py`). Output: a line of JSON for each variant: how many words of how many were
not what the slot held when it was read (the hazard of rule 20 in docs/MEMORY_MODEL.md), and the time of the same ring with little
work a slot, with and without the fence.

The hazard: readers load a slot into registers and arrive at once, before any use of the loads; the filler waits for nothing
else and its copies hit L2. Every tile of the source holds its own number, so a word of another tile is a slot overwritten early.
"""

from __future__ import annotations

import contextlib

import triton.language as tl

import mimw
import mimw.compiler.passes.pipeline as pipeline
import mimw.tlx as tlx
from mimw.testing.benchmark import alternate

from .driver import command, keep_row
from .gpu import multiprocessors, parsed, torch
from .progress import each

TILES = 64      # of the source, each filled with its own number
SHAPES = [dict(R=64, C=32, STAGES=2, READERS=1), dict(R=64, C=32, STAGES=1, READERS=2), dict(R=128, C=64, STAGES=2, READERS=2),
          dict(R=128, C=64, STAGES=4, READERS=2)]


@mimw.jit
def ring(x_desc, wrong_ptr, out_ptr, steps, R: tl.constexpr, C: tl.constexpr, STAGES: tl.constexpr, READERS: tl.constexpr,
         CHECK: tl.constexpr, FENCED: tl.constexpr):
    """READERS tasks read every slot by ordinary loads; CHECK counts the words that are of another tile, else their sum is kept.
    FENCED changes nothing here: it tells the variants apart in every cache."""
    tiles = tlx.local_alloc((R, C), tl.float32, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=READERS)
    with tlx.async_tasks():
        with tlx.async_task("default", replicate=READERS):
            me: tl.constexpr = tlx.async_task_replica_id()
            at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
            kept = tl.zeros((R, C), tl.float32)
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(full[slot], phase)
                value = tlx.local_load(tiles[slot])
                tlx.barrier_arrive(free[slot])
                kept += tl.where(value == (step % 64).to(tl.float32), 0.0, 1.0) if CHECK else value
            if CHECK:
                tl.atomic_add(wrong_ptr, tl.sum(tl.sum(kept, 1), 0).to(tl.int32))
            else:
                tl.store(out_ptr + (tl.program_id(0) * READERS + me) * R * C + at, kept)
        with tlx.async_task(num_warps=1):  # filler
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], R * C * 4)
                tlx.async_descriptor_load(x_desc, tiles[slot], [(step % 64) * R, 0], full[slot])


@contextlib.contextmanager
def variant(fenced: bool):
    """While it is open, kernels are compiled with or without the compiler's fences at hand-overs."""
    saved = pipeline.PASSES
    pipeline.PASSES = tuple(step for step in saved if fenced or step.name != "fence_handovers")
    try:
        yield
    finally:
        pipeline.PASSES = saved


def launcher(x, wrong, out, steps: int, programs: int, check: bool, fenced: bool, shape: dict):
    """A function that launches the variant, which is compiled by the first call."""
    describe = mimw.TensorDescriptor.from_tensor(x, [shape["R"], shape["C"]])

    def launch():
        with variant(fenced):
            ring[(programs, )](describe, wrong, out, steps, CHECK=check, FENCED=fenced, num_warps=4, **shape)

    return launch


def main() -> None:
    parser = command(__doc__, rounds=200)  # launches that look for the hazard, of each variant
    parser.add_argument("--steps", type=int, default=4096, help="slots read by each task in a launch")
    options = parsed(parser)
    programs = multiprocessors()
    facts = {"chip": torch.cuda.get_device_name()}
    file = options.results / "proxy_fence.jsonl"
    for shape in each(SHAPES):
        rows, columns, readers = shape["R"], shape["C"], shape["READERS"]
        numbers = torch.arange(TILES, device="cuda", dtype=torch.float32)
        x = numbers.repeat_interleave(rows)[:, None].expand(-1, columns).contiguous()
        wrong = torch.zeros(1, device="cuda", dtype=torch.int32)
        out = torch.empty(programs * readers * rows * columns, device="cuda", dtype=torch.float32)
        words = rows * columns * readers * options.steps * programs * options.rounds
        for fenced in (False, True):
            launch = launcher(x, wrong, out, options.steps, programs, True, fenced, shape)
            wrong.zero_()
            for _ in range(options.rounds):
                launch()
            torch.cuda.synchronize()
            keep_row({"name": "proxy_fence hazard", "fenced": fenced, **shape, "steps": options.steps, "wrong": int(wrong.item()),
                      "words": words, **facts}, file)
        times = alternate({name: launcher(x, wrong, out, options.steps, programs, False, name == "fenced", shape)
                           for name in ("fenced", "unfenced")})
        keep_row({"name": "proxy_fence price", **shape, "steps": options.steps, "microseconds": times,
                  "price": round(times["fenced"] / times["unfenced"] - 1, 4), **facts}, file)


if __name__ == "__main__":
    main()
