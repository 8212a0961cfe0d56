"""A mixture of experts in fp8 over several GPUs: micro-batches whose tokens travel while the experts compute others, and without.

    python -m benchmarks.distributed_layer                      every shape on two GPUs
    python -m benchmarks.distributed_layer 4096 --gpus 4        one of them, on four
    python -m benchmarks.distributed_layer 4096 --check         results alone
    python -m benchmarks.distributed_layer 4096 --parts         dispatch, experts and combine by themselves as well, with all
                                                                multiprocessors and with few
    python -m benchmarks.distributed_layer 4096 --tune          every candidate, compared and then timed

A shape is tokens of a rank, of DeepSeek's layer: 7168 columns, 8 of 256 experts, inner 2048, e4m3 with scales for 1 x 128 and
128 x 128. `mimw` is `moe` with as many micro-batches as PARTS says, `one batch` is it with one, `in turn` the same micro-batches
one behind the other on one stream: what overlap alone brings. All three have the same bits, which are compared first; tokens of
each rank are compared with fp32 sums of all ranks' experts, of numbers that are quantised as in the layer, and of ones that are
not. A row's time is that of a CUDA graph of one call, at the slowest rank (benchmarks/distributed.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from mimw.testing.benchmark import Row

from .distributed import alternate, compiled_ahead, ended, graphed, keep_row, started, worst
from .driver import command, some_of
from .gpu import multiprocessors, row_of, torch
from .progress import each

if torch is not None:
    from mimw.ops.distributed import moe, moe_combine, moe_dispatch, moe_experts
    from mimw.ops.distributed.moe_experts import block_of
    from mimw.ops.distributed.moe_experts_scaled import MOE_EXPERTS_SCALED, MOE_QUANTISED
    from mimw.ops.distributed.moe_overlap import Overlap, chosen_for, overlapped

    FP8 = torch.float8_e4m3fn

HIDDEN, INNER, K, EXPERTS, STEP = 7168, 2048, 8, 256, 128
PARTS = {"4096": 2, "8192": 2, "16384": 4}      # of so many tokens a rank
HEAP = 8 << 30
COMPARED = 48               # tokens of a rank that are computed once more


class Layer:
    """Tokens and experts of this rank."""

    def __init__(self, world, tokens: int, parts: int):
        self.world, self.tokens, self.parts, self.local = world, tokens, parts, EXPERTS // world.size
        torch.manual_seed(17 + world.rank)
        self.x = torch.randn(tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.ids = torch.rand(tokens, EXPERTS, device="cuda").topk(K, 1).indices.int()
        self.weights = torch.rand(tokens, K, device="cuda").softmax(1)
        self.gate_up, self.of_gate_up = self.matrices(2 * INNER, HIDDEN)
        self.down, self.of_down = self.matrices(HIDDEN, INNER)
        self.block, self.step = block_of(tokens * K, self.local), -(-tokens // parts)
        self.scales = dict(w_gate_up_scale=self.of_gate_up, w_down_scale=self.of_down)

    def matrices(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each expert a matrix of e4m3, and its scales."""
        found = torch.empty(self.local, rows, columns, device="cuda", dtype=FP8)
        for one in found:
            one.copy_(torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16))
        return found, (torch.rand(self.local, rows // STEP, columns // STEP, device="cuda") + 0.5) / columns**0.5

    # ---- calls ------------------------------------------------------------------------------------------------------

    def overlapped(self, chosen: Overlap | None = None) -> torch.Tensor:
        return overlapped(self.x, self.gate_up, self.down, self.ids, self.weights, self.of_gate_up, self.of_down, self.tokens,
                          self.parts, self.block, self.world.name, chosen)

    def whole(self) -> torch.Tensor:
        return moe(self.x, self.gate_up, self.down, self.ids, self.weights, **self.scales, group=self.world.group)

    def in_turn(self) -> list[torch.Tensor]:
        """The micro-batches one behind the other, in blocks as large as those of `overlapped`: the rows of each."""
        outs, group = [], self.world.group
        narrow, scale = MOE_QUANTISED(self.x, "float8_e4m3fn")
        for first in range(0, self.tokens, self.step):
            part = slice(first, first + self.step)
            rows, ends, of_rows, handle = moe_dispatch(narrow[part], self.ids[part], EXPERTS, max_tokens=self.step,
                                                       scale=scale[part], block=self.block, group=group)
            y = moe_experts(rows, ends, self.gate_up, self.down, self.block, scale=of_rows, **self.scales)
            outs.append(moe_combine(y, handle, self.weights[part], group))
        return outs

    def alone(self, few: int) -> dict[str, Callable]:
        """Dispatch, experts and combine of all tokens, and of a micro-batch with all multiprocessors, with `few`, and with the
        rest; experts of all tokens by tiles with such halves of weights."""
        group, sides = self.world.group, {"quantise": lambda: MOE_QUANTISED(self.x, "float8_e4m3fn")}
        narrow, scale = MOE_QUANTISED(self.x, "float8_e4m3fn")
        for name, count in (("all", self.tokens), ("part", self.step)):
            sent = narrow[:count], self.ids[:count], EXPERTS
            more = dict(max_tokens=count, scale=scale[:count], block=self.block, group=group)
            rows, ends, of_rows, handle = moe_dispatch(*sent, **more)
            given = rows, ends, self.gate_up, self.down, of_rows, self.of_gate_up, self.of_down, self.block, "bfloat16"
            y, weights = MOE_EXPERTS_SCALED.run(*given), self.weights[:count]
            sides[f"experts, {name}"] = lambda given=given: MOE_EXPERTS_SCALED.run(*given)
            sides[f"experts, {name}, drawn"] = lambda given=given: MOE_EXPERTS_SCALED.run(*given, 0, True)
            if count == self.tokens:
                for halves in ((64, 64), (128, 64), (64, 128)):
                    sides[f"experts, {name}, {halves}"] = lambda given=given, halves=halves: MOE_EXPERTS_SCALED.run(
                        *given, 0, False, halves)
            sides[f"dispatch, {name}"] = lambda sent=sent, more=more: moe_dispatch(*sent, **more)
            sides[f"combine, {name}"] = lambda y=y, handle=handle, weights=weights: moe_combine(y, handle, weights, group)
            if count == self.step:
                rest = multiprocessors() - few
                sides[f"experts, {name}, by {rest}"] = lambda given=given: MOE_EXPERTS_SCALED.run(*given, rest, False)
                sides[f"dispatch, {name}, by {few}"] = lambda sent=sent, more=more: moe_dispatch(*sent, **more, programs=few)
                sides[f"combine, {name}, by {few}"] = lambda y=y, handle=handle, weights=weights: moe_combine(
                    y, handle, weights, group, programs=few)
        return sides

    # ---- what is right ----------------------------------------------------------------------------------------------

    def reference(self, quantised: bool) -> torch.Tensor:
        """The first tokens of each rank in fp32, by all ranks' experts; a row for each of this rank's."""
        dist, size, rank = torch.distributed, self.world.size, self.world.rank
        count = min(COMPARED, self.tokens)

        def of_all(mine: torch.Tensor) -> torch.Tensor:
            found = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(found, mine.contiguous(), group=self.world.group)
            return torch.cat(found)

        x, ids, weights = of_all(self.x[:count]).float(), of_all(self.ids[:count]), of_all(self.weights[:count])
        x, total = in_fp8(x) if quantised else x, torch.zeros(size * count, HIDDEN, device="cuda")
        for number in range(self.local):
            token, j = (ids == rank * self.local + number).nonzero(as_tuple=True)
            if len(token):
                gate, up = (x[token] @ wide(self.gate_up[number], self.of_gate_up[number]).T).chunk(2, 1)
                inner = torch.nn.functional.silu(gate) * up
                inner = in_fp8(inner.bfloat16().float()) if quantised else inner
                y = inner @ wide(self.down[number], self.of_down[number]).T
                total.index_add_(0, token, weights[token, j][:, None] * y)
        dist.all_reduce(total, group=self.world.group)
        return total[rank * count:(rank + 1) * count]

    def checked(self, chosen: Overlap | None = None) -> float:
        """The error against fp32 sums of quantised numbers; an AssertionError where that or anything else is wrong."""
        whole = self.whole()
        count = min(COMPARED, self.tokens)
        for name, found in (("overlapped", self.overlapped(chosen)), ("overlapped again", self.overlapped(chosen)),
                            ("in turn", torch.cat(self.in_turn()))):
            same = worst(self.world, float((found != whole).sum()))
            assert same == 0, f"{name}: {same:.0f} numbers of a rank are not those of one batch"
        error, of_types = (worst(self.world, float((whole[:count].float() - wanted).norm() / wanted.norm()))
                           for wanted in (self.reference(True), self.reference(False)))
        assert error < 1.5e-2 and of_types < 0.1, f"errors {error:.1e}, and {of_types:.1e} with quantisation"
        return error


def in_fp8(rows: torch.Tensor) -> torch.Tensor:
    """Through e4m3 and back, 128 numbers a scale. Torch multiplies by 1 / 448 where that is no tensor, and so rounds twice."""
    parts = rows.view(len(rows), -1, STEP)
    largest = parts.abs().amax(-1, keepdim=True).clamp(min=1e-12)
    scale = largest / torch.full_like(largest, 448)
    return ((parts / scale).to(FP8).float() * scale).view(rows.shape)


def wide(matrix: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return matrix.float() * scale.repeat_interleave(STEP, 0).repeat_interleave(STEP, 1)


def shape_of(layer: Layer) -> dict:
    return dict(tokens=layer.tokens, hidden=HIDDEN, inner=INNER, k=K, experts=EXPERTS, ranks=layer.world.size, parts=layer.parts)


def timed(world, layer: Layer, sides: dict[str, Callable], label: str, chosen: dict, error: float, ms: float,
          ours: str = "mimw") -> Row:
    torch.cuda.empty_cache()        # each graph has memory of its own
    times = alternate(world, {name: graphed(world, run, 1) for name, run in sides.items()}, ms, 1, flushed=False)
    return row_of(label, shape_of(layer), chosen, times, error, "standard normal", ours)


def candidates(taken: Overlap) -> list[Overlap]:
    """The library's, more and fewer multiprocessors that carry, evenly shared tiles on the rest, and what else may be chosen."""
    others = [replace(taken, programs=count) for count in (8, 12, 16, 24, 32)]
    others += [replace(taken, products=-1, drawn=False), replace(taken, tasks=4), replace(taken, out_first=True)]
    return list(dict.fromkeys([taken, *others]))


def line(row: Row) -> str:
    """Times, and those of the others divided by ours; how many TFLOP/s the experts' products are of the first."""
    work = row.shape["tokens"] * row.shape["k"] * 6 * row.shape["inner"] * row.shape["hidden"]
    told = "  ".join(f"{name} {time:.0f} us ({time / row.microseconds:.3f})" for name, time in row.baselines.items())
    return f"{row.name:<26} {row.microseconds:8.0f} us  {work / row.microseconds / 1e6:6.0f} TFLOP/s  {told}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, tune=True, ms=100.0)
    some_of(parser, "names", PARTS)
    parser.add_argument("--parts", action="store_true", help="what the layer is made of, each by itself")
    parser.add_argument("--check", action="store_true", help="results only")
    parser.add_argument("--micro-batches", type=int, help="in place of the shape's own number")
    options, world = started(parser, "benchmarks.distributed_layer", HEAP)
    names = options.names or PARTS
    compiled_ahead(world, (call for name in names for call in launches(world, name, options)))
    for name in each(names, quiet=world.rank > 0):
        rows(world, name, options)
    ended()


def launches(world, name: str, options) -> list[Callable]:
    """What `rows` will launch of a shape, but for references."""
    layer, taken = Layer(world, int(name), options.micro_batches or PARTS[name]), chosen_for(world.size)
    found = [partial(layer.overlapped, chosen) for chosen in (candidates(taken) if options.tune else [taken])]
    alone = layer.alone(taken.carrying(multiprocessors())).values() if options.parts else ()
    return [*found, layer.whole, layer.in_turn, *alone]


def rows(world, name: str, options) -> None:
    """The rows of one shape."""
    layer = Layer(world, int(name), options.micro_batches or PARTS[name])
    taken = chosen_for(world.size)
    error = layer.checked()
    if options.check:
        if world.rank == 0:
            print(f"right  {name}: {layer.parts} micro-batches as one batch, error {error:.1e}", flush=True)
        return
    every = candidates(taken) if options.tune else [taken]
    for chosen in each(every, quiet=world.rank > 0 or not options.tune):
        if chosen != taken:
            layer.checked(chosen)
        sides = {"mimw": partial(layer.overlapped, chosen), "one batch": layer.whole, "in turn": layer.in_turn}
        row = timed(world, layer, sides, f"moe_layer_fp8-{name}", asdict(chosen), error, options.ms)
        keep_row(world, row, options.results / "distributed_layer.jsonl",
                 lambda row: f"{line(row)}  {dict(row.configuration) if options.tune else ''}")
    if options.parts:
        sides = layer.alone(taken.carrying(multiprocessors()))
        row = timed(world, layer, sides, f"moe_layer_fp8_parts-{name}", {}, error, options.ms / 4, "experts, all")
        keep_row(world, row, options.results / "distributed_layer_parts.jsonl", parts_told)


def parts_told(row: Row) -> str:
    every = {"experts, all": row.microseconds, **row.baselines}
    return f"{row.name}: " + "; ".join(f"{name} {time:.0f} us" for name, time in every.items())


if __name__ == "__main__":
    main()
