"""Tokens to the GPUs of their experts and back, against NCCL with the sorting that it needs, and against the link.

    python -m benchmarks.distributed_moe                        dispatch and combine of every shape; two GPUs
    python -m benchmarks.distributed_moe decode --what combine  one shape, one direction
    python -m benchmarks.distributed_moe --check                results of all shapes and of odd ones, and of every candidate of
                                                                dispatch and combine, against torch's; no times
    python -m benchmarks.distributed_moe deepseek --tune        every candidate's result compared, then its time: a row of each

Combine has weights that came with the tokens; beside it, `weights sent`, which sends them itself.
`rows` is the dispatch whose rows stay where they come, with lists of their numbers by expert, in blocks of 128. `layer` is the
whole of dispatch, experts and combine: as the library has it, with rows read by number, and with products that know no blocks.
Each token has k experts, drawn without preference, half of them at the peer if there are two GPUs. `link` is one copy by the copy
engine of the bytes that have to go over the link, a row for each token and peer that has experts of it, of the rank that has most;
both directions at once. `NCCL` sorts by torch's operators and moves rows by all_to_all_single, a row for each choice, since that is
what it can; how many go where it is told beforehand, on the host, which in earnest it would have to wait for. Each side is a CUDA
graph of several calls, and the graphs take turns (benchmarks/distributed.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import asdict

from mimw.kernels import moe_combine, moe_dispatch
from mimw.testing.benchmark import Row

from .distributed import alternate, compiled_ahead, ended, graphed, keep_row, of_all, started, together, worst
from .distributed_moe_candidates import candidates
from .driver import command, some_of
from .gpu import multiprocessors, row_of, summary, torch
from .progress import each

# name -> tokens, columns, experts of a token, experts, bytes of a number, numbers to a scale; of CHECKED the experts of two GPUs
SHAPES = {"deepseek": (4096, 7168, 8, 256, 2, 0), "mixtral": (4096, 4096, 2, 8, 2, 0), "decode": (128, 7168, 8, 256, 2, 0),
          "deepseek-fp8": (4096, 7168, 8, 256, 1, 128), "decode-fp8": (128, 7168, 8, 256, 1, 128)}
CHECKED = {"few": (5, 512, 3, 6, 2, 0), "skewed": (300, 1024, 4, 16, 2, 0), "none at one": (257, 2048, 2, 4, 2, 0),
           "one expert each": (64, 128, 1, 2, 2, 0)}
WHAT = ("dispatch", "rows", "combine", "layer")
INNER = {"deepseek": 2048, "mixtral": 14336, "decode": 2048}
CALLS = 4
HEAP = 4 << 30          # bytes of the symmetric heap: four ranks receive more than two, and operators keep theirs
BLOCK = 128             # of the lists of numbers of rows


class Problem:
    """Tokens of this rank, and what both kernels make of them."""

    def __init__(self, world, name: str, shape: tuple):
        self.world, self.name = world, name
        self.most, self.hidden, self.k, self.experts, self.bytes, self.step = shape
        self.tokens = 0 if name == "none at one" and world.rank == 0 else self.most
        torch.manual_seed(17 + world.rank)
        self.local, self.sms = self.experts // world.size, multiprocessors()
        like = torch.rand(self.tokens, self.experts, device="cuda")
        if name == "skewed":        # nearly all to the first expert, and choices that are none, and experts twice
            like[:, 0] += 0.9
        self.ids = like.topk(self.k, 1).indices.int() if self.tokens else torch.zeros(0, self.k, device="cuda", dtype=torch.int32)
        if name == "skewed":
            self.ids[::3, 1], self.ids[::5, 2] = -1, self.ids[::5, 0]
        self.dtype = torch.bfloat16 if self.bytes == 2 else torch.float8_e4m3fn
        self.x = torch.randn(self.tokens, self.hidden, device="cuda").to(self.dtype)
        self.scale = torch.rand(self.tokens, self.hidden // self.step, device="cuda") + 0.5 if self.step else None
        self.weights = torch.rand(self.tokens, self.k, device="cuda")
        rows = world.size * self.most * self.k
        self.rows = torch.empty(rows, self.hidden, device="cuda", dtype=self.dtype)
        self.row_scale = torch.empty(rows, self.hidden // self.step, device="cuda") if self.step else None
        self.ends = torch.empty(self.local, device="cuda", dtype=torch.int32)
        self.places = torch.empty(world.size, self.most, self.k, device="cuda", dtype=torch.int32)
        self.y = torch.empty(rows, self.hidden, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty(self.tokens, self.hidden, device="cuda", dtype=torch.bfloat16)
        self.symmetric: list = []
        self.turn = 0       # the generation of the last result that stays where it comes

    @property
    def row_bytes(self) -> int:
        return self.hidden * self.bytes + (4 * self.hidden // self.step if self.step else 0)

    def room(self, sizes: dict) -> dict:
        """Symmetric memory, given back by `free`."""
        made = {name: self.world.symmetric(shape, getattr(torch, dtype), name) for name, (shape, dtype) in sizes.items()}
        self.symmetric += made.values()
        return made

    def free(self, kept: int = 0) -> None:
        """Give symmetric memory back, but for the first `kept` tensors."""
        while len(self.symmetric) > kept:
            self.world.free(self.symmetric.pop())

    def forget(self) -> None:
        """No result of a dispatch is there any more, by which the next one might seem right."""
        for tensor in (self.rows, self.row_scale, self.ends, self.places):
            if tensor is not None:
                tensor.view(torch.uint8).fill_(0xF9)

    def dispatch(self, chosen=None, programs: int | None = None) -> Callable[[], None]:
        programs = programs or self.sms
        scaled = dict(x_scales=self.scale.view(torch.int32), row_scales=self.row_scale.view(torch.int32)) if self.step else {}
        room = self.room(moe_dispatch.room_for(self.most, self.k, self.experts, self.hidden * self.bytes, programs, self.world.size,
                                               4 * self.hidden // self.step if self.step else 0, chosen))
        x, rows = self.x.view(torch.int32), self.rows.view(torch.int32)
        grid, args, meta = moe_dispatch.arguments(x, self.ids, rows, self.ends, self.places, room, self.world, programs,
                                                  chosen=chosen, **scaled)
        return lambda: moe_dispatch.kernel[grid](*args, **meta)

    def dispatch_rows(self, chosen=None, programs: int | None = None) -> Callable[[], None]:
        """The dispatch whose rows stay where they come; results of calls that follow each other in turn, where there are two."""
        programs, scales = programs or self.sms, 4 * self.hidden // self.step if self.step else 0
        chosen = chosen or self.chosen("rows")
        self.received = self.room(moe_dispatch.rows_room_for(self.most, self.k, self.experts, self.hidden * self.bytes, programs,
                                                             self.world.size, scales, chosen))
        size = moe_dispatch.listed(self.most, self.k, self.experts, self.world.size, BLOCK)
        self.sources = torch.full((size, ), -7, device="cuda", dtype=torch.int32)
        self.list_ends, self.list_places = torch.empty_like(self.ends), torch.empty_like(self.places)
        scaled = dict(x_scales=self.scale.view(torch.int32)) if self.step else {}
        turns = [moe_dispatch.rows_arguments(self.x.view(torch.int32), self.ids, self.sources, self.list_ends, self.list_places,
                                             self.received, self.world, programs, BLOCK, chosen=chosen, generation=generation,
                                             **scaled) for generation in range(chosen.generations)]

        def run() -> None:
            self.turn = (self.turn + 1) % len(turns)
            grid, args, meta = turns[self.turn]
            moe_dispatch.rows_kernel[grid](*args, **meta)

        return run

    def combine(self, chosen=None, came: bool = True) -> Callable[[], None]:
        """Of weights that came, which here gloo brings, or that are sent."""
        room = self.room(moe_combine.room_for(self.most, self.k, self.hidden, self.sms, self.world.size, chosen=chosen, came=came))
        weights = self.gathered(self.weights).view(self.world.size, self.most, self.k) if came else self.weights
        grid, args, meta = moe_combine.arguments(self.y, self.places, self.ids, weights, self.out, room, self.world, self.experts,
                                                 self.sms, chosen=chosen)
        return lambda: moe_combine.kernel[grid](*args, **meta)

    def sent(self, chosen=None) -> Callable[[], None]:
        return self.combine(chosen, False)

    def makes(self) -> dict[str, Callable]:
        """What makes a launch of each kind, of a configuration."""
        return {"dispatch": self.dispatch, "rows": self.dispatch_rows, "combine": self.combine, "sent": self.sent}

    def chosen(self, what: str):
        """The configuration that the library takes."""
        if what in ("combine", "sent"):
            return moe_combine.configuration(self.hidden, self.most, self.sms, self.world.size, what == "combine")
        if what == "rows":
            return moe_dispatch.rows_chosen_for(self.most, self.row_bytes, self.sms, self.world.size, self.k)
        return moe_dispatch.chosen_for(self.most, self.k, self.row_bytes, self.sms, self.world.size)

    def layers(self) -> dict[str, Callable[[], torch.Tensor]]:
        """The whole layer by the operators: as the library has it, of rows by number, and by products that know no blocks."""
        from mimw import ops
        from mimw.ops.distributed import moe, moe_combine, moe_dispatch, moe_dispatch_rows, moe_experts
        inner, group = INNER[self.name], self.world.group
        gate_up = torch.randn(self.local, 2 * inner, self.hidden, device="cuda", dtype=self.dtype) / self.hidden ** 0.5
        down = torch.randn(self.local, self.hidden, inner, device="cuda", dtype=self.dtype) / inner ** 0.5

        def grouped():
            rows, ends, _, handle = moe_dispatch(self.x, self.ids, self.experts, group=group)
            gate, up = ops.grouped_matmul(rows, gate_up.mT, ends).chunk(2, 1)
            return moe_combine(ops.grouped_matmul(ops.swiglu(gate, up), down.mT, ends), handle, self.weights, group)

        def by_number():
            rows, _, sources, ends, handle = moe_dispatch_rows(self.x, self.ids, self.experts, block=BLOCK, group=group)
            return moe_combine(moe_experts(rows, ends, gate_up, down, BLOCK, sources), handle, self.weights, group)

        return {"mimw": lambda: moe(self.x, gate_up, down, self.ids, self.weights, group=group), "rows by number": by_number,
                "grouped_matmul": grouped}

    # ---- what is right ----------------------------------------------------------------------------------------------

    def gathered(self, mine, value=0):
        """What all ranks have of their tokens, in order, `value` for tokens that there are not."""
        mine = torch.nn.functional.pad(mine, (0, 0, 0, self.most - len(mine)), value=value)
        mine = mine.cpu()       # by gloo, which ranks that share a GPU have, too
        found = [torch.empty_like(mine) for _ in range(self.world.size)]
        torch.distributed.all_gather(found, mine, group=self.world.group)
        return torch.cat(found).cuda()

    def everyone(self):
        """(x, scale, ids) of all ranks, in order; ids of tokens that there are not are -1."""
        x = self.gathered(self.x.view(torch.uint8)).view(self.dtype)
        scale, ids = None if self.scale is None else self.gathered(self.scale), self.gathered(self.ids, -1)
        return x, scale, ids

    def routed(self, ids):
        """(whether each choice of all ranks is of an expert here, those that are in the order of rows, rows of each expert)."""
        own = (ids.flatten() // self.local).where(ids.flatten() >= 0, torch.tensor(-1, device="cuda")) == self.world.rank
        slots = own.nonzero().flatten()
        slots = slots[torch.sort(ids.flatten()[slots], stable=True).indices]
        return own, slots, torch.bincount(ids.flatten()[slots] - self.world.rank * self.local, minlength=self.local)

    def check_rows(self) -> None:
        """To the bit: what stays where it comes, and its lists."""
        x, scale, ids = self.everyone()
        own, slots, counts = self.routed(ids)
        blocks = -(-counts // BLOCK)
        ends = (blocks * BLOCK).cumsum(0)
        begins = (ends - blocks * BLOCK).repeat_interleave(counts) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        at = torch.arange(len(slots), device="cuda") + begins
        places = torch.full((len(own), ), -1, device="cuda", dtype=torch.int32)
        places[slots] = at.int()
        sources = torch.full((int(ends[-1]), ), len(x), device="cuda", dtype=torch.int32)
        sources[at] = (slots // self.k).int()
        assert torch.equal(self.list_ends.long(), ends) and torch.equal(self.list_places.flatten(), places), "ends, places"
        assert torch.equal(self.sources[:len(sources)], sources), "sources"
        has = own.view(-1, self.k).any(1)
        for name, given in (("received", x), ("received_scales", scale)):
            if given is not None:
                found = self.received[name].flatten(0, 1)[self.turn * len(x):][:len(x)]
                assert torch.equal(found[has], given.view(torch.int32)[has]), name

    def check_dispatch(self) -> None:
        """To the bit."""
        x, scale, ids = self.everyone()
        own, slots, counts = self.routed(ids)
        ends = counts.cumsum(0)
        places = torch.full((len(own), ), -1, device="cuda", dtype=torch.int32)
        places[slots] = torch.arange(len(slots), device="cuda", dtype=torch.int32)
        assert torch.equal(self.ends.long(), ends), (self.ends, ends)
        assert torch.equal(self.places.flatten(), places), "places"
        for start in range(0, len(slots), 8192):
            part = slots[start:start + 8192] // self.k
            found = self.rows[start:start + len(part)]
            assert torch.equal(found.view(torch.uint8), x.view(torch.uint8)[part]), "rows"
            if scale is not None:
                assert torch.equal(self.row_scale[start:start + len(part)], scale[part]), "scales"

    def fill(self) -> None:
        """y, as experts might make it: their numbers times their rows."""
        counts = torch.diff(self.ends.long(), prepend=torch.zeros(1, device="cuda", dtype=torch.long))
        used = int(self.ends[-1])
        number = torch.repeat_interleave(torch.arange(self.local, device="cuda"), counts) + self.world.rank * self.local
        self.y.fill_(float("nan"))
        for start in range(0, used, 8192):
            rows = slice(start, min(start + 8192, used))
            self.y[rows] = (self.rows[rows].float() * ((number[rows] % 7 + 1.0) / 4)[:, None]).bfloat16()

    def error(self) -> float:
        """||out - expected|| / ||expected|| of `combine`, of all ranks the largest."""
        factor = torch.where(self.ids >= 0, (self.ids % 7 + 1.0) / 4, 0.0)
        expected = self.x.float().double() * (factor * self.weights).double().sum(1, keepdim=True)
        error = ((self.out.double() - expected).norm() / expected.norm()).item() if self.tokens else 0.0
        return worst(self.world, error)

    # ---- baselines --------------------------------------------------------------------------------------------------

    def link(self) -> Callable[[], None]:
        """One copy to the next rank, by the copy engine."""
        ranks, me = self.world.size, self.world.rank
        goes = sum(int((self.ids // self.local == peer).any(1).sum()) for peer in range(ranks) if peer != me)
        self.pairs = max(of_all(self.world, goes))
        size, peer = max(16, self.pairs * self.row_bytes), (me + 1) % ranks
        target = self.world.symmetric((size, ), torch.uint8, "link")
        self.symmetric.append(target)
        source, there = torch.randint(0, 255, (size, ), device="cuda", dtype=torch.uint8), self.world.peer(target, peer)
        driver = ctypes.CDLL("libcuda.so.1")

        def run(kept=(source, there)) -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            failed = driver.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(there.data_ptr()), ctypes.c_uint64(source.data_ptr()),
                                                 ctypes.c_size_t(size), stream)
            if failed:
                raise OSError(f"cuMemcpyDtoDAsync of {size} bytes between ranks gives the driver's error {failed}")

        return run

    def nccl(self, what: str) -> Callable[[], None]:
        """The same by all_to_all_single and torch's operators; rows without scales beside them."""
        dist, group, ranks, k = torch.distributed, self.world.group, self.world.size, self.k
        x = self.x.view(torch.uint8) if self.bytes == 1 else self.x
        order = torch.sort(self.ids.flatten(), stable=True).indices
        counts = torch.bincount(self.ids.flatten(), minlength=self.experts)
        out_splits = counts.view(ranks, -1).sum(1).tolist()
        came = torch.empty_like(counts)
        dist.all_to_all_single(came, counts, group=group)
        in_splits = came.view(ranks, -1).sum(1).tolist()
        got = x.new_empty(sum(in_splits), self.hidden)

        def sorted_by_expert(came):
            experts = torch.arange(self.local, device="cuda").repeat(ranks)
            return torch.sort(torch.repeat_interleave(experts, came, output_size=sum(in_splits)), stable=True).indices

        back = sorted_by_expert(came)
        self.nccl_rows = x.new_empty(sum(in_splits), self.hidden)

        def dispatch():
            flat = self.ids.flatten()
            order = torch.sort(flat, stable=True).indices
            counts = torch.zeros_like(came).scatter_add_(0, flat.long(), torch.ones_like(flat, dtype=torch.long))
            dist.all_to_all_single(came, counts, group=group)
            dist.all_to_all_single(got, x.index_select(0, order // k), in_splits, out_splits, group=group)
            torch.index_select(got, 0, sorted_by_expert(came), out=self.nccl_rows)

        def combine():
            y = torch.empty_like(got).index_copy_(0, back, self.y[:len(got)])
            home = y.new_empty(sum(out_splits), self.hidden)
            dist.all_to_all_single(home, y, out_splits, in_splits, group=group)
            mine = torch.empty_like(home).index_copy_(0, order, home).view(-1, k, self.hidden)
            self.nccl_out = (mine.float() * self.weights[..., None]).sum(1).bfloat16()

        return combine if what == "combine" else dispatch


def checked(world, name: str, shape: tuple, what: tuple[str, ...] = WHAT) -> tuple[Problem, dict[str, Callable], float]:
    """A problem, the calls of `what` and of dispatch, and the error of combine; an AssertionError where something is wrong."""
    problem = Problem(world, name, shape)
    what = (*what, "sent") if "combine" in what else what
    sides = {side: make() for side, make in problem.makes().items() if side == "dispatch" or side in what}
    outs = []
    for _ in range(3):
        together(world)
        sides["dispatch"]()
        torch.cuda.synchronize()
        problem.check_dispatch()
        if "rows" in what:
            together(world)
            sides["rows"]()
            torch.cuda.synchronize()
            problem.check_rows()
        for side in ("combine", "sent") if "combine" in what else ():
            problem.fill()
            problem.out.zero_()
            together(world)
            sides[side]()
            torch.cuda.synchronize()
            outs.append(problem.out.clone())
    error = problem.error() if "combine" in what else 0.0
    if not error < 1e-2 or not all(torch.equal(one, outs[0]) for one in outs):
        raise AssertionError(f"{name}: error {error}, the same bits each time: {[torch.equal(one, outs[0]) for one in outs]}")
    return problem, sides, error


def check_combine(world, problem: Problem, run: Callable[[], None], name: str) -> float:
    """The error of several launches of combine, of all ranks and launches the largest; an AssertionError where one is wrong."""
    problem.fill()
    errors = []
    for _ in range(3):          # both generations of sums, and the first again
        problem.out.fill_(float("nan"))
        together(world)
        run()
        torch.cuda.synchronize()
        errors.append(problem.error())
        if not errors[-1] < 1e-2:
            raise AssertionError(f"{name}: error {errors[-1]}")
    together(world)
    return max(errors)


def repeated(world, side: str, run: Callable[[], None], calls: int) -> Callable[[], None]:
    """So many calls in a graph; copies by the driver one behind the other, as they are."""
    if side == "link":
        return lambda: [run() for _ in range(calls)]
    return graphed(world, run, calls)


def rows(world, name: str, what: tuple[str, ...], ms: float):
    """The rows of one shape."""
    problem, calls, error = checked(world, name, SHAPES[name], what)
    link = problem.link()
    for one in what:
        if one in ("combine", "layer") and problem.bytes == 1:
            continue
        if one == "layer":
            yield layer(world, problem, ms)
            continue
        before = {"weights sent": calls["sent"]} if one == "combine" else {}
        sides = {"mimw": calls[one], **before, "NCCL": problem.nccl(one), "link": link}
        yield timed(world, problem, one, sides, problem.chosen(one), error if one == "combine" else 0.0, ms)
    problem.free()


def timed(world, problem: Problem, what: str, sides: dict[str, Callable], chosen, error: float, ms: float) -> Row:
    """The row of `sides`, of which ours has the configuration `chosen`."""
    count = CALLS if problem.most > 1000 else 5 * CALLS
    times = alternate(world, {side: repeated(world, side, run, count) for side, run in sides.items()}, ms, count, flushed=False)
    shape = dict(tokens=problem.most, hidden=problem.hidden, k=problem.k, experts=problem.experts, ranks=world.size,
                 bytes=problem.pairs * problem.row_bytes)
    label = f"moe_{dict(rows='dispatch_rows', sent='combine_sent').get(what, what)}-{problem.name}"
    return row_of(label, shape, asdict(chosen), times, error, "standard normal")


def layer(world, problem: Problem, ms: float) -> Row:
    """The row of the whole layer; an AssertionError where its forms differ."""
    sides = problem.layers()
    found = {side: run().double() for side, run in sides.items()}
    errors = {side: worst(world, ((one - found["grouped_matmul"]).norm() / found["grouped_matmul"].norm()).item())
              for side, one in found.items()}
    error = errors["mimw"]
    if not max(errors.values()) < 1e-2:
        raise AssertionError(f"layer of {problem.name}: its forms differ by {errors}")
    times = alternate(world, {side: graphed(world, run, 1) for side, run in sides.items()}, ms, 1, flushed=False)
    shape = dict(tokens=problem.most, hidden=problem.hidden, k=problem.k, experts=problem.experts, ranks=world.size,
                 inner=INNER[problem.name])
    return row_of(f"moe_layer-{problem.name}", shape, {}, times, error, "standard normal")


def launches(world, name: str, what: tuple[str, ...], tune: bool) -> Iterator[Callable[[], None]]:
    """What `rows` or `tuned` will launch of a shape, with its memory."""
    problem = Problem(world, name, SHAPES[name])
    for one in dict.fromkeys(("dispatch", *what)):
        if one in ("combine", "layer") and problem.bytes == 1:
            continue
        if one == "layer":
            yield from problem.layers().values()
            continue
        for side in ("combine", "sent") if one == "combine" else (one, ):
            for chosen in candidates(side, problem.chosen(side)) if tune else [None]:
                yield problem.makes()[side](chosen)
                problem.free()


def line(row: Row) -> str:
    rate = row.shape.get("bytes", 0) / row.microseconds / 1e3
    told = "  ".join(f"{name} {time:.1f} us ({time / row.microseconds:.3f})" for name, time in row.baselines.items())
    return f"{row.name:<24} {row.microseconds:8.1f} us  {rate:6.1f} GB/s over the link  {told}  error {row.error:.1e}"


def tuned(world, name: str, what: tuple[str, ...], ms: float):
    """The rows of candidates, each right before it is timed."""
    problem, _, _ = checked(world, name, SHAPES[name])
    link, kept = problem.link(), len(problem.symmetric)
    makes = problem.makes()
    for one in (side for one in what for side in ((one, "sent") if one == "combine" else (one, ))):
        if one not in makes or one in ("combine", "sent") and problem.bytes == 1:
            continue
        for chosen in each(candidates(one, problem.chosen(one)), lambda chosen: f"{one} {chosen}", world.rank > 0):
            run, error = makes[one](chosen), 0.0
            if one in ("combine", "sent"):
                error = check_combine(world, problem, run, f"{name}, {one}, {chosen}")
            else:
                if one == "dispatch":
                    problem.forget()
                for _ in range(2):
                    together(world)
                    run()
                    torch.cuda.synchronize()
                problem.check_dispatch() if one == "dispatch" else problem.check_rows()
            yield timed(world, problem, one, {"mimw": run, "link": link}, chosen, error, ms)
            together(world)
            problem.free(kept)
    problem.free()


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0)
    some_of(parser, "names", SHAPES)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--check", action="store_true", help="results only")
    options, world = started(parser, "benchmarks.distributed_moe", HEAP)
    names = options.names or list(SHAPES)
    if options.check:
        small = {name: (*shape[:3], shape[3] * world.size // 2, *shape[4:]) for name, shape in CHECKED.items()}
        for name, shape in {**small, **{name: SHAPES[name] for name in names}}.items():
            problem, _, error = checked(world, name, shape)
            kept = len(problem.symmetric)
            for chosen in candidates("dispatch", problem.chosen("dispatch")):
                run = problem.dispatch(chosen)
                problem.forget()
                together(world)
                run()
                torch.cuda.synchronize()
                problem.check_dispatch()
                together(world)
                problem.free(kept)
            for side in ("combine", "sent"):
                for chosen in candidates(side, problem.chosen(side)):
                    check_combine(world, problem, problem.makes()[side](chosen), f"{name}, {side}, {chosen}")
                    problem.free(kept)
            problem.free()
            if world.rank == 0:
                print(f"right  {name}: error of combine {error:.1e}", flush=True)
    elif options.tune:
        compiled_ahead(world, (call for name in names for call in launches(world, name, options.what, True)))
        for name in each(names, quiet=world.rank > 0):
            for row in tuned(world, name, options.what, options.ms):
                keep_row(world, row, options.results / "distributed_moe.jsonl",
                         lambda row: f"{line(row)}  {dict(row.configuration)}")
    else:
        ratios = []
        compiled_ahead(world, (call for name in names for call in launches(world, name, options.what, False)))
        for name in each(names, quiet=world.rank > 0):
            for row in rows(world, name, options.what, options.ms):
                layer = "" if "link" in row.baselines else "_layer"
                keep_row(world, row, options.results / f"distributed_moe{layer}.jsonl", line)
                ratios += [ratio for side, ratio in row.ratios().items() if side == "link"]
        if world.rank == 0 and ratios:
            print(summary(ratios, "the link"))
    ended()


if __name__ == "__main__":
    main()
