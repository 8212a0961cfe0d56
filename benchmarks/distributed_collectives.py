"""All-reduce, all-gather and reduce-scatter on the GPUs of one host against NCCL and torch's operators on symmetric memory.

    python -m benchmarks.distributed_collectives                        every collective, 1 KB to 256 MB, bf16; two GPUs
    python -m benchmarks.distributed_collectives all_reduce --sizes 1K 1M --dtype fp32
    python -m benchmarks.distributed_collectives --check                every form, type and odd length against fp64; no times
    python -m benchmarks.distributed_collectives --tune --configs FILE  every candidate, the best to the file; rows with them

Bytes are those of a rank's larger tensor: x of all-reduce and reduce-scatter, the result of all-gather. Inputs are standard normal.
Each side is a CUDA graph of several calls, NCCL as well, and the graphs take turns (benchmarks/distributed.py): a call is in step
with the one before it, and small tensors stay in L2, for all sides alike. `symmetric` is ours on tensors of the symmetric heap,
which are read where they are; torch's `one-shot` and `two-shot` are its operators on its symmetric memory, `copy engine` copies of
the driver between two barriers. NCCL's and the two-shot all-reduce are in place, so their numbers grow. Results are compared with
sums in fp64, and all ranks' bits with each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from mimw.kernels.collectives import COLLECTIVES, Configuration, arguments, configuration
from mimw.kernels.collectives.configs import PROGRAMS, measured, room_of
from mimw.testing.benchmark import Row

from .distributed import alternate, compiled_ahead, ended, graphed, keep_row, meet, of_all, started, together, worst
from .driver import command, some_of
from .gpu import row_of, summary, torch, write_configurations
from .progress import each

TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
SIZES = ("1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M")
TOLERANCE = {"bf16": 4e-3, "fp16": 5e-4, "fp32": 1e-6}
TUNED = ("64K", "256K", "1M", "4M", "64M")      # sizes of a search
FLAGGED = ((1024, 4), (2048, 8), (8192, 16))    # (bytes, warps) of a chunk
RING = tuple(itertools.product((16384, 32768), (0, 1), (64, 132, 256)))         # (bytes, lag, programs)
DIRECT = ((8192, 64), (32768, 264))             # (bytes, programs)


def bytes_of(size: str) -> int:
    """"64K" in bytes."""
    return int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]


def calls_of(size: int) -> int:
    """Calls of a graph: few of what takes long."""
    return 20 if size <= 1 << 20 else 6 if size <= 1 << 24 else 2


def candidates(collective: str, ranks: int, part: int, symmetric: bool) -> Iterator[Configuration]:
    """What a search tries of a collective of `part` bytes; `symmetric` for those that read x where it is."""
    if symmetric:
        for chunk, programs in DIRECT if part >= 1 << 20 else ():
            for form in ("direct", "direct_two_shot") if collective == "all_reduce" else ("direct", ):
                yield Configuration(form, programs, chunk, 16)
        return
    for chunk, warps in FLAGGED if part <= 1 << 20 else ():
        if chunk * 8 <= max(part, 4096) <= chunk * PROGRAMS["flagged"]:
            yield Configuration("flagged", PROGRAMS["flagged"], chunk, warps)
    for chunk, lag, programs in RING if part >= 1 << 18 else ():
        if chunk <= room_of("ring", ranks) and lag == (part > chunk * programs) and (
                programs == 64 if part <= 1 << 20 else programs // 2 * chunk < part <= 32 * programs * chunk):
            yield Configuration("ring", programs, chunk, 16, lag)
    if collective == "all_reduce" and part >= 1 << 20:
        for programs in (64, 132, 256):
            for chunk in {min(size, room_of("two_shot", ranks)) for size in (4096, 8192, 32768)}:
                if chunk * programs <= part <= 128 * chunk * programs:
                    yield Configuration("two_shot", programs, chunk, 16)


class Problem:
    """Tensors of one collective, and calls on them."""

    def __init__(self, world, collective: str, dtype: str, size: int, numbers: int | None = None, shift: int = 0):
        self.world, self.collective, self.kind = world, collective, dtype
        self.dtype = getattr(torch, TYPES[dtype])
        ranks = world.size
        numbers = numbers or size // self.dtype.itemsize // (1 if collective == "all_reduce" else ranks)
        self.part = numbers
        given = numbers * (ranks if collective == "reduce_scatter" else 1)
        made = numbers * (ranks if collective == "all_gather" else 1)
        torch.manual_seed(world.rank)
        self.x = torch.randn(given + shift, device="cuda", dtype=torch.float32).to(self.dtype)[shift:]
        self.out = torch.full((made + shift, ), float("nan"), device="cuda", dtype=self.dtype)[shift:]
        self._symmetric: tuple = ()

    def on_heap(self) -> tuple:
        """(x, out) in symmetric memory; all ranks ask."""
        if not self._symmetric:
            x, out = (self.world.symmetric(one.shape, self.dtype) for one in (self.x, self.out))
            self._symmetric = x.copy_(self.x), out
        return self._symmetric

    def free(self) -> None:
        for tensor in self._symmetric:
            self.world.free(tensor)
        self._symmetric = ()

    def run(self, symmetric: bool = False, chosen: Configuration | None = None, in_place: bool = False) -> Callable[[], None]:
        """A call that launches."""
        x, out = self.on_heap() if symmetric else (self.x, self.out)
        out = x if in_place else out
        kernel, grid, args, meta = arguments(self.collective, x, out, self.world, symmetric, chosen)
        return lambda: kernel[grid](*args, **meta)

    def engine(self) -> Callable[[], None]:
        """All-gather by the driver's copies."""
        x, _ = self.on_heap()
        peers = [self.world.peer(x, rank) for rank in range(self.world.size)]
        places = self.out.chunk(self.world.size)

        def run():
            meet[(1, )](self.world, num_warps=1)
            for step in range(self.world.size):
                rank = (self.world.rank + step) % self.world.size
                places[rank].copy_(peers[rank])
            meet[(1, )](self.world, num_warps=1)

        return run

    def baselines(self) -> dict[str, Callable[[], None]]:
        """NCCL, and what torch has on symmetric memory."""
        dist, group = torch.distributed, self.world.group
        if self.collective == "all_gather":
            out = torch.empty_like(self.out)
            return {"NCCL": lambda: dist.all_gather_into_tensor(out, self.x, group=group), "copy engine": self.engine()}
        if self.collective == "reduce_scatter":
            out = torch.empty_like(self.out)
            return {"NCCL": lambda: dist.reduce_scatter_tensor(out, self.x, group=group)}
        import torch.distributed._symmetric_memory as symm_mem
        mine = self.x.clone()
        theirs = [symm_mem.empty(self.x.shape, dtype=self.dtype, device="cuda").copy_(self.x) for _ in range(2)]
        for one in theirs:
            symm_mem.rendezvous(one, group)
        name = group.group_name
        return {"NCCL": lambda: dist.all_reduce(mine, group=group),
                "one-shot": lambda: torch.ops.symm_mem.one_shot_all_reduce(theirs[0], "sum", name),
                "two-shot": lambda: torch.ops.symm_mem.two_shot_all_reduce_(theirs[1], "sum", name)}

    def expected(self):
        """In fp64, of this rank."""
        ranks, rank = self.world.size, self.world.rank
        everyone = torch.empty(ranks * self.x.numel(), device="cuda", dtype=self.dtype)
        torch.distributed.all_gather_into_tensor(everyone, self.x.contiguous(), group=self.world.group)
        if self.collective == "all_gather":
            return everyone.double()
        everyone = everyone.view(ranks, -1)
        mine = slice(rank * self.part, (rank + 1) * self.part) if self.collective == "reduce_scatter" else slice(None)
        return sum(one[mine].double() for one in everyone)

    def error(self, found) -> float:
        """||found - expected|| / ||expected||, the largest of all ranks; no number where bits should be the same and are not."""
        expected = self.expected()
        error = ((found.double() - expected).norm() / expected.norm()).item()
        if self.collective != "reduce_scatter":
            bits = found.view(torch.int32 if self.kind == "fp32" else torch.int16).long()
            sums = (bits.sum().item(), (bits * torch.arange(1, len(bits) + 1, device="cuda")).sum().item())
            if len(set(of_all(self.world, sums))) > 1:
                return float("nan")
        return worst(self.world, error)

    def checked(self, what: str, run: Callable[[], None], found) -> float:
        """The error of a call; an AssertionError if it is too large."""
        found.fill_(float("nan"))
        together(self.world)
        run()
        torch.cuda.synchronize()
        error = self.error(found)
        if not error < TOLERANCE[self.kind]:
            raise AssertionError(f"{self.collective} {self.kind}, parts of {self.part}, {what}: error {error}")
        return error


def row(world, collective: str, dtype: str, size: str, ms: float) -> Row:
    """One row, checked."""
    problem = Problem(world, collective, dtype, bytes_of(size))
    part = problem.part * problem.dtype.itemsize
    sides = {"mimw": problem.run(), "symmetric": problem.run(symmetric=True)}
    errors = [problem.checked("mimw", sides["mimw"], problem.out),
              problem.checked("symmetric", sides["symmetric"], problem.on_heap()[1])]
    sides |= problem.baselines()
    calls = calls_of(bytes_of(size))
    times = alternate(world, {side: graphed(world, run, calls) for side, run in sides.items()}, ms, calls, flushed=False)
    problem.free()
    used = asdict(configuration(collective, world.size, part, False))
    used["symmetric"] = asdict(configuration(collective, world.size, part, True))
    return row_of(f"{collective}-{dtype}-{size}", dict(bytes=bytes_of(size), ranks=world.size), used, times, max(errors),
                  "standard normal")


def tuned(world, collective: str, dtype: str, size: str, ms: float) -> dict[bool, tuple[float, Configuration]]:
    """The quickest candidate and its microseconds, of any tensors and of symmetric ones, for which all candidates count; every one
    is checked."""
    problem, times = Problem(world, collective, dtype, bytes_of(size)), {False: {}, True: {}}
    part, calls = problem.part * problem.dtype.itemsize, calls_of(bytes_of(size))
    for symmetric in (False, True):
        found = problem.on_heap()[1] if symmetric else problem.out
        for chosen in candidates(collective, world.size, part, symmetric):
            run = problem.run(symmetric, chosen)
            problem.checked(str(chosen), run, found)
            (time, ) = alternate(world, {"mimw": graphed(world, run, calls)}, ms, calls, flushed=False).values()
            times[symmetric][chosen] = time
            if world.rank == 0:
                print(f"{collective} {dtype} {size} {time:9.2f} us  {chosen}", flush=True)
    problem.free()
    every = {False: times[False], True: times[False] | times[True]}
    return {symmetric: min((time, str(one), one) for one, time in found.items())[::2] for symmetric, found in every.items()}


def tune(world, options) -> None:
    """The best of all sizes as rows of configs.json: each counts up to twice its bytes, or what its slots hold; the last for all
    that are more."""
    rows = []
    for collective, size in each(itertools.product(options.collectives or COLLECTIVES, TUNED), quiet=world.rank > 0):
        for symmetric, (time, chosen) in tuned(world, collective, options.dtype, size, 3.0).items():
            part = bytes_of(size) // (1 if collective == "all_reduce" else world.size)
            room = chosen.chunk * PROGRAMS["flagged"] if chosen.form == "flagged" else 2 * part
            rows.append(dict(collective=collective, ranks=world.size, symmetric=symmetric,
                             up_to=None if size == TUNED[-1] else min(2 * part, room), configuration=asdict(chosen)))
            if world.rank == 0:
                print(f"best {collective} {size} {'symmetric' if symmetric else ''} {time:.2f} us {chosen}", flush=True)
    if world.rank == 0:
        write_configurations(options.configs, "python -m benchmarks.distributed_collectives --tune", rows)
    together(world)


def launches(world, options) -> Iterator[Callable[[], None]]:
    """What a search will launch, or rows."""
    for collective, size in itertools.product(options.collectives or COLLECTIVES, TUNED if options.tune else options.sizes):
        problem = Problem(world, collective, options.dtype, bytes_of(size))
        part = problem.part * problem.dtype.itemsize
        for symmetric in (False, True):
            for chosen in candidates(collective, world.size, part, symmetric) if options.tune else [None]:
                yield problem.run(symmetric, chosen)
        problem.free()


def line(row: Row) -> str:
    """A row for people."""
    others = "  ".join(f"{name} {row.baselines[name]:.2f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    form = f"{row.configuration['form']}/{row.configuration['symmetric']['form']}"
    return (f"{row.name:<26} {row.microseconds:9.2f} us {row.shape['bytes'] / row.microseconds / 1e3:6.1f} GB/s  {others}  "
            f"error {row.error:.1e}  {form}")


def main() -> None:
    parser = command(__doc__, ms=50.0, tune=True)
    some_of(parser, "collectives", COLLECTIVES)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help=f"as {' '.join(SIZES)}")
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    parser.add_argument("--check", action="store_true", help="check every form, and time nothing")
    parser.add_argument("--configs", type=Path, help="configurations for the rows, which --tune writes; by default the library's")
    options, world = started(parser, "benchmarks.distributed_collectives")
    if not options.check:
        compiled_ahead(world, launches(world, options))
    if options.tune:
        options.configs = options.configs or options.results / "configs-collectives.json"
        tune(world, options)
    if options.configs is not None:
        measured.file = options.configs
        measured.cache_clear()
    if options.check:
        from .distributed_collectives_check import check, check_operators
        check_operators(world)
        check(world)
        return ended()
    ratios = []
    for collective, size in each(itertools.product(options.collectives or COLLECTIVES, options.sizes), quiet=world.rank > 0):
        found = row(world, collective, options.dtype, size, options.ms)
        keep_row(world, found, options.results / "distributed_collectives.jsonl", line)
        ratios.append(found.ratios()["NCCL"])
    if world.rank == 0:
        print(summary(ratios, "NCCL"))
    ended()


if __name__ == "__main__":
    main()
