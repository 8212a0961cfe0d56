"""Small kernels that measure what one thing costs on a GPU: the figures of src/mimw/simulator/costs/sm_90a.toml.

    python -m benchmarks.microbench [--results DIR] [NAME...]     one JSON row a measurement; needs torch and a CUDA device

Every kernel times itself with %clock64 around a loop, in SM cycles; rates over many SMs are bytes over the time by CUDA events.
Inputs are standard normal. Each row is the smallest of several launches: what the hardware can, not what the clock did.
"""

from __future__ import annotations

import datetime
import statistics
from pathlib import Path

import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing.benchmark import versions

from .driver import append, command, some_of
from .gpu import multiprocessors, parsed, torch
from .progress import each


@mimw.jit
def dots(a_desc, b_desc, out, clocks, ITER, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B_IS_NK: tl.constexpr,
         A_IN_REGISTERS: tl.constexpr, PENDING: tl.constexpr):
    """`ITER` dependent async_dots of M x N x K, at most PENDING unfinished after each; `out` gets the sums of the rows."""
    a_tile = tlx.local_alloc((M, K), tlx.dtype_of(a_desc), 1)
    b_tile = tlx.local_alloc((N, K) if B_IS_NK else (K, N), tlx.dtype_of(b_desc), 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], (M + N) * K * tlx.size_of(tlx.dtype_of(a_desc)))
    tlx.async_descriptor_load(a_desc, a_tile[0], [0, 0], full[0])
    tlx.async_descriptor_load(b_desc, b_tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    b = tlx.local_trans(b_tile[0]) if B_IS_NK else b_tile[0]
    a = tlx.local_load(a_tile[0]) if A_IN_REGISTERS else a_tile[0]
    acc = tlx.async_dot(a, b, tl.zeros((M, N), tl.float32))
    acc = tlx.async_dot_wait(0, acc)
    start = tlx.clock64()
    for _ in range(ITER):
        acc = tlx.async_dot(a, b, acc)
        acc = tlx.async_dot_wait(PENDING, acc)
    acc = tlx.async_dot_wait(0, acc)
    taken = tlx.clock64() - start
    tl.store(out + tl.arange(0, M), tl.sum(acc, 1))
    tl.store(clocks + tl.program_id(0), taken)


@mimw.jit
def elementwise(x_in, out, clocks, ITER, M: tl.constexpr, N: tl.constexpr, WHAT: tl.constexpr):
    """`ITER` times one operation on an M x N tile in registers."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_in + at)
    other = tl.load(x_in + M * N + at)
    row = tl.max(x, 1)
    number = (x * 1000).to(tl.int32)
    start = tlx.clock64()
    for _ in range(ITER):
        if WHAT == "fma":
            x = x * other + other
        elif WHAT == "add":
            x = x + other
        elif WHAT == "exp2":
            x = tl.exp2(x)
        elif WHAT == "max":
            x = tl.maximum(x, other) * other
        elif WHAT == "convert":
            x = (x + other).to(tl.bfloat16).to(tl.float32)
        elif WHAT == "int":
            number = number * 3 + 7
        elif WHAT == "div":
            x = x / other
        elif WHAT == "reduce":
            row = tl.max(x - row[:, None], 1)
        elif WHAT == "sum":
            row = tl.sum(x - row[:, None], 1)
    taken = tlx.clock64() - start
    tl.store(out + tl.arange(0, M), tl.sum(x + number.to(tl.float32), 1) + row)
    tl.store(clocks + tl.program_id(0), taken)


@mimw.jit
def shared(x_in, out, clocks, ITER, M: tl.constexpr, N: tl.constexpr):
    """`ITER` times a tile into shared memory and back."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tlx.local_alloc((M, N), tlx.dtype_of(x_in), 1)
    x = tl.load(x_in + at)
    start = tlx.clock64()
    for _ in range(ITER):
        tlx.local_store(tile[0], x)
        x = tlx.local_load(tile[0])
    taken = tlx.clock64() - start
    tl.store(out + at, x)
    tl.store(clocks + tl.program_id(0), taken)


@mimw.jit
def ping(clocks, ITER, WARPS: tl.constexpr, NAMED: tl.constexpr):
    """`ITER` round trips between two tasks over two mbarriers, or over one named barrier."""
    there, back = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            start = tlx.clock64()
            for i in range(ITER):
                if NAMED:
                    tlx.named_barrier_wait(9, 128 + 32 * WARPS)
                else:
                    tlx.barrier_arrive(there[0])
                    tlx.barrier_wait(back[0], i & 1)
            tl.store(clocks + tl.program_id(0), tlx.clock64() - start)
        with tlx.async_task(num_warps=WARPS):
            for i in range(ITER):
                if NAMED:
                    tlx.named_barrier_wait(9, 128 + 32 * WARPS)
                else:
                    tlx.barrier_wait(there[0], i & 1)
                    tlx.barrier_arrive(back[0])


@mimw.jit
def tma_loads(desc, clocks, tiles, stride, ITER, M: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr):
    """`ITER` tiles through a ring of STAGES slots: one is a latency, many a bandwidth. Tile t of a CTA starts at row
    ((program + t * stride) % tiles) * M."""
    ring = tlx.local_alloc((M, N), tlx.dtype_of(desc), STAGES)
    full = tlx.alloc_barriers(STAGES)
    BYTES: tl.constexpr = M * N * tlx.size_of(tlx.dtype_of(desc))
    start = tlx.clock64()
    for t in tl.static_range(STAGES):
        tlx.barrier_expect_bytes(full[t], BYTES)
        tlx.async_descriptor_load(desc, ring[t], [((tl.program_id(0) + t * stride) % tiles) * M, 0], full[t])
    for t in range(ITER):
        slot = t % STAGES
        tlx.barrier_wait(full[slot], (t // STAGES) & 1)
        more = t + STAGES < ITER
        if more:
            tlx.barrier_expect_bytes(full[slot], BYTES)
            tlx.async_descriptor_load(desc, ring[slot], [((tl.program_id(0) + (t + STAGES) * stride) % tiles) * M, 0], full[slot])
    tl.store(clocks + tl.program_id(0), tlx.clock64() - start)


@mimw.jit
def tma_stores(desc, clocks, tiles, stride, ITER, M: tl.constexpr, N: tl.constexpr, PENDING: tl.constexpr):
    """`ITER` tile stores, at most PENDING unfinished after each."""
    tile = tlx.local_alloc((M, N), tlx.dtype_of(desc), 1)
    tlx.local_store(tile[0], tl.zeros((M, N), tlx.dtype_of(desc)))
    tlx.fence("async_shared")
    start = tlx.clock64()
    for t in range(ITER):
        tlx.async_descriptor_store(desc, tile[0], [((tl.program_id(0) + t * stride) % tiles) * M, 0])
        tlx.async_descriptor_store_wait(PENDING)
    tlx.async_descriptor_store_wait(0)
    tl.store(clocks + tl.program_id(0), tlx.clock64() - start)


@mimw.jit
def chain(links, clocks, ITER):
    """`ITER` loads, each from where the one before points."""
    at = tl.program_id(0)
    start = tlx.clock64()
    for _ in range(ITER):
        at = tl.load(links + at)
    tl.store(clocks + 2048, at.to(tl.int64))  # or nothing would need the loads; before the last look at the clock
    tl.store(clocks + tl.program_id(0), tlx.clock64() - start)


@mimw.jit
def loads(x_in, out, clocks, ITER, SIZE: tl.constexpr, stride):
    """`ITER` independent tile loads of SIZE elements, added up; the last sum is stored."""
    at = tl.arange(0, SIZE)
    total = tl.zeros((SIZE, ), tl.float32)
    start = tlx.clock64()
    for i in range(ITER):
        total += tl.load(x_in + (tl.program_id(0) + i * stride) * SIZE + at)
    taken = tlx.clock64() - start
    tl.store(out + tl.program_id(0) * SIZE + at, total)
    tl.store(clocks + tl.program_id(0), taken)


@mimw.jit
def stores(out, clocks, ITER, SIZE: tl.constexpr, stride):
    """`ITER` tile stores of SIZE elements."""
    at = tl.arange(0, SIZE)
    start = tlx.clock64()
    for i in range(ITER):
        tl.store(out + (tl.program_id(0) + i * stride) * SIZE + at, tl.full((SIZE, ), 1.0, tl.float32))
    tl.store(clocks + tl.program_id(0), tlx.clock64() - start)


@mimw.jit
def cp_async(x_in, clocks, ITER, M: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr, stride):
    """`ITER` cp.async tiles, STAGES in flight."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    ring = tlx.local_alloc((M, N), tlx.dtype_of(x_in), STAGES)
    start = tlx.clock64()
    for t in range(ITER):
        tlx.async_load(x_in + (tl.program_id(0) + t * stride) * M * N + at, ring[t % STAGES])
        tlx.async_load_commit_group()
        tlx.async_load_wait_group(STAGES - 1)
    tlx.async_load_wait_group(0)
    tl.store(clocks + tl.program_id(0), tlx.clock64() - start)


@mimw.jit
def empty(clocks):
    """Nothing but one store: what a launch costs."""
    tl.store(clocks + tl.program_id(0), tlx.clock64())


@mimw.jit
def regions(clocks, WARPS: tl.constexpr):
    """From before a task region to inside a worker, and from there back to behind it."""
    began = tlx.alloc_barriers(1)
    start = tlx.clock64()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(began[0], 0)
        with tlx.async_task(num_warps=WARPS):
            tl.store(clocks + 1, tlx.clock64() - start)
            tlx.barrier_arrive(began[0])
    tl.store(clocks, tlx.clock64() - start)


class Bench:
    """Launches, takes the best of a few, and keeps rows."""

    def __init__(self, names: list[str], results: Path):
        self.names, self.results = names, results
        self.sms = multiprocessors()
        self.clocks = torch.zeros(4096, dtype=torch.int64, device="cuda")

    def wanted(self, name: str) -> bool:
        return not self.names or name in self.names

    def run(self, kernel, grid: int, *args, **meta) -> tuple[float, float]:
        """(SM cycles of the slowest program, microseconds by events), the smallest of seven launches each."""
        cycles, times = [], []
        for _ in range(7):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.clocks.zero_()
            begin.record()
            kernel[(grid, )](*args, **meta)
            end.record()
            torch.cuda.synchronize()
            cycles.append(self.clocks[:grid].max().item())
            times.append(begin.elapsed_time(end) * 1000)
        return min(cycles), min(times[2:])

    def note(self, name: str, **figures) -> None:
        row = {"name": name, **{key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}}
        print(append(row, self.results, sort_keys=False), flush=True)

    def dots(self) -> None:
        wide, narrow = (torch.bfloat16, 256, 64), (torch.bfloat16, 64, 64)
        cases = [(*wide, 1, False), (*wide, 2, False), (*wide, 1, True), (torch.bfloat16, 128, 64, 1, False),
                 (torch.bfloat16, 128, 64, 2, False), (*narrow, 1, False), (*narrow, 2, False), (torch.bfloat16, 32, 64, 2, False),
                 (torch.bfloat16, 128, 128, 2, True), (torch.float16, 256, 64, 2, False),
                 (torch.float8_e4m3fn, 256, 128, 2, False), (torch.float32, 128, 32, 2, False)]
        for dtype, n, k, groups, registers in cases:
            m, nk = 64 * groups, dtype.itemsize != 2
            a, b = (torch.randn(rows, k, device="cuda").to(dtype) for rows in (m, n))
            b_as_stored = b if nk else b.T.contiguous()
            out = torch.empty(m, device="cuda")
            describe, figures = mimw.TensorDescriptor.from_tensor, {}
            for pending in (1, 0):
                cycles, _ = self.run(dots, 1, describe(a, [m, k]), describe(b_as_stored, list(b_as_stored.shape)), out, self.clocks,
                                     ITER=256, M=m, N=n, K=k, B_IS_NK=nk, A_IN_REGISTERS=registers, PENDING=pending,
                                     num_warps=4 * groups)
                figures["cycles" if pending else "waited_cycles"] = cycles / 256
            expected = 257 * (a.double() @ b.double().T).sum(1)
            error = ((out - expected).norm() / expected.norm()).item()
            self.note("dots", dtype=str(dtype)[6:], m=m, n=n, k=k, warpgroups=groups, a_in_registers=registers,
                      macs_per_cycle=m * n * k / figures["cycles"], error=error, **figures)

    def elementwise(self) -> None:
        x = torch.randn(2 * 64 * 128, device="cuda") * 0.01 + 1
        out = torch.empty(64, device="cuda")
        for what in ("fma", "add", "exp2", "max", "convert", "int", "div", "reduce", "sum"):
            for warps in (4, 8):
                cycles, _ = self.run(elementwise, 1, x, out, self.clocks, ITER=64, M=64, N=128, WHAT=what, num_warps=warps)
                self.note("elementwise", what=what, warps=warps, elements=64 * 128, cycles=cycles / 64,
                          elements_per_cycle=64 * 128 * 64 / cycles)

    def shared(self) -> None:
        for dtype, m, n in ((torch.bfloat16, 64, 64), (torch.bfloat16, 128, 64), (torch.float32, 128, 64)):
            x = torch.randn(m * n, device="cuda").to(dtype)
            for warps in (4, 8):
                cycles, _ = self.run(shared, 1, x, torch.empty_like(x), self.clocks, ITER=64, M=m, N=n, num_warps=warps)
                self.note("shared", dtype=str(dtype)[6:], m=m, n=n, warps=warps, cycles_there_and_back=cycles / 64)

    def barriers(self) -> None:
        for named in (False, True):
            for warps in (1, 4):
                cycles, _ = self.run(ping, 1, self.clocks, ITER=256, WARPS=warps, NAMED=named, num_warps=4)
                self.note("ping", named=named, warps=warps, cycles=cycles / 256)
        for warps in (1, 4):
            self.run(regions, 1, self.clocks, WARPS=warps, num_warps=4)
            self.note("regions", warps=warps, cycles_in=self.clocks[1].item(), cycles_in_and_out=self.clocks[0].item())

    def tma(self) -> None:
        m, n = 128, 64
        big = torch.randn(2 << 30 >> 7, 64, device="cuda", dtype=torch.bfloat16)        # 2 GiB
        far = big.shape[0] // m
        for name, tiles in (("L2", 512), ("DRAM", far)):                    # 512 tiles of 16 KiB are 8 MiB
            desc = mimw.TensorDescriptor.from_tensor(big[:tiles * m], [m, n])
            for grid in (1, self.sms):
                for stages in (1, 2, 4, 8, 12):
                    each = 256 if name == "L2" or grid > 1 else 128
                    each = min(each, tiles // grid) if name == "DRAM" else each
                    stride = grid if name == "DRAM" else 7
                    cycles, micro = self.run(tma_loads, grid, desc, self.clocks, tiles, stride, ITER=each, M=m, N=n, STAGES=stages,
                                             num_warps=4)
                    self.note("tma_loads", memory=name, programs=grid, stages=stages, tile_bytes=m * n * 2, cycles=cycles / each,
                              bytes_per_cycle=m * n * 2 * each / cycles, gb_per_s=m * n * 2 * each * grid / micro / 1e3)
            for grid in (1, self.sms):
                for pending in (0, 1, 3):
                    stride = grid if name == "DRAM" else 7
                    cycles, micro = self.run(tma_stores, grid, desc, self.clocks, tiles, stride, ITER=64, M=m, N=n,
                                             PENDING=pending, num_warps=4)
                    self.note("tma_stores", memory=name, programs=grid, pending=pending, tile_bytes=m * n * 2, cycles=cycles / 64,
                              gb_per_s=m * n * 2 * 64 * grid / micro / 1e3)

    def pointers(self) -> None:
        for name, elements in (("L1", 1024), ("L2", 1 << 20), ("DRAM", 1 << 28)):
            stride = 32 if name == "L1" else 4099 * 8
            links = ((torch.arange(elements, device="cuda") + stride) % elements).to(torch.int32)
            cycles, _ = self.run(chain, 1, links, self.clocks, ITER=512, num_warps=1)
            self.note("chain", memory=name, cycles=cycles / 512)
        x = torch.randn(1 << 28, device="cuda")
        out = torch.empty(1 << 20, device="cuda")
        for grid in (1, self.sms, 4 * self.sms):
            for warps in (4, 8):
                size, each = 4096, 64
                cycles, micro = self.run(loads, grid, x, out, self.clocks, ITER=each, SIZE=size, stride=grid, num_warps=warps)
                self.note("loads", programs=grid, warps=warps, tile_bytes=4 * size, cycles=cycles / each,
                          gb_per_s=4 * size * each * grid / micro / 1e3)
                cycles, micro = self.run(stores, grid, x, self.clocks, ITER=each, SIZE=size, stride=grid, num_warps=warps)
                self.note("stores", programs=grid, warps=warps, tile_bytes=4 * size, cycles=cycles / each,
                          gb_per_s=4 * size * each * grid / micro / 1e3)
        half = x.view(torch.bfloat16)
        for grid in (1, self.sms):
            for stages in (1, 4):
                cycles, micro = self.run(cp_async, grid, half, self.clocks, ITER=64, M=128, N=64, STAGES=stages, stride=grid,
                                         num_warps=4)
                self.note("cp_async", programs=grid, stages=stages, tile_bytes=16384, cycles=cycles / 64,
                          gb_per_s=16384 * 64 * grid / micro / 1e3)
        _, micro = self.run(empty, 1, self.clocks, num_warps=4)
        _, full = self.run(empty, self.sms, self.clocks, num_warps=4)
        _, many = self.run(empty, 32 * self.sms, self.clocks, num_warps=4)
        self.note("empty", microseconds=micro, one_a_sm=full, thirty_two_a_sm=many)
        source, target = torch.randn(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")
        times = []
        for _ in range(7):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        self.note("device_copy", gb_per_s=2 * 4 * (1 << 28) / statistics.median(times) / 1e6)


GROUPS = ("dots", "elementwise", "shared", "barriers", "tma", "pointers")


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "names", GROUPS)
    options = parsed(parser)
    bench = Bench(options.names, options.results / "microbench.jsonl")
    bench.note("machine", chip=torch.cuda.get_device_name(), date=datetime.date.today().isoformat(), **versions())
    for group in each(filter(bench.wanted, GROUPS)):
        try:
            getattr(bench, group)()
        except Exception as error:  # one word that fails must not cost the other figures
            bench.note("failed", group=group, error=str(error)[:400])


if __name__ == "__main__":
    main()
