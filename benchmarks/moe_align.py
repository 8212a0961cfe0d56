"""MoE align-block-size against stock Triton (four launches) and torch on one GPU.

    python -m benchmarks.moe_align               every token count at E = 64, and 163840 tokens at E = 512; blocks of 16
    python -m benchmarks.moe_align 256 65536     some token counts
    python -m benchmarks.moe_align --tune        try every candidate configuration and write configs.json

Expert ids follow a Zipf law with exponent 1.2. Both forms and the baselines alternate with a cold L2
(`mimw.testing.benchmark.alternate`), each launch with the zeroing of its scratch; everything timed is checked first, exactly.
Figures that the TLE design page gives for an H800 stand beside ours; times of different machines are no ratios.
"""

from __future__ import annotations

from mimw.kernels import moe_align
from mimw.kernels.moe_align import Configuration
from mimw.kernels.moe_align.configs import as_row
from mimw.testing.benchmark import Row, alternate

from . import plain_moe_align
from .driver import command, some_of
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch, write_configurations
from .progress import each

BLOCK_SIZE = 16
TOKENS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 163840)
PROBLEMS = [(tokens, 64) for tokens in TOKENS] + [(163840, 512)]
# (tokens, experts) -> microseconds on an H800: plain Triton, fused atomic, cluster, SGLang's CUDA kernel
PUBLISHED = {
    (256, 64): (26.0, 44.5, 13.3, 16.0), (512, 64): (26.2, 31.5, 14.0, 16.2), (1024, 64): (27.4, 23.9, 15.8, 16.3),
    (2048, 64): (50.9, 22.6, 16.9, 17.3), (4096, 64): (26.5, 20.0, 17.7, 18.7), (8192, 64): (47.6, 19.2, 21.1, 23.0),
    (16384, 64): (54.8, 21.9, 25.6, 28.6), (32768, 64): (44.3, 22.1, 35.8, 40.1), (65536, 64): (36.1, 27.3, 56.1, 64.5),
    (163840, 64): (50.9, 45.1, 117.7, 132.3), (163840, 512): (47.1, 38.7, 75.0, 146.7),
}
CANDIDATES = {
    "grid": [Configuration("grid", block, warps) for block, warps in
             ((128, 4), (256, 8), (512, 8), (512, 16), (1024, 8), (1024, 16), (2048, 16))],
    "cluster": [Configuration("cluster", block, warps, pull) for pull in (False, True) for block, warps in
                ((128, 4), (256, 8), (512, 16), (1024, 16), (2048, 16), (4096, 16), (4096, 32), (8192, 32))],
}


def zipf(tokens: int, experts: int) -> torch.Tensor:
    """Expert ids; expert e with probability proportional to (e + 1) ** -1.2."""
    torch.manual_seed(0)
    weights = torch.arange(1, experts + 1, device="cuda", dtype=torch.float64) ** -1.2
    return torch.multinomial(weights / weights.sum(), tokens, replacement=True).int()


def buffers(tokens: int, experts: int) -> list[torch.Tensor]:
    """The three outputs and the counters, with contents that none of them should keep."""
    return [torch.full((size, ), -7, dtype=torch.int32, device="cuda")
            for size in (*moe_align.outputs(tokens, experts, BLOCK_SIZE), experts)]


def by_torch(ids, experts: int):
    """The three outputs by a stable sort; no synchronisation with the host."""
    length, blocks, _ = moe_align.outputs(ids.numel(), experts, BLOCK_SIZE)
    ones = torch.ones(ids.numel(), dtype=torch.int64, device=ids.device)
    counts = torch.zeros(experts, dtype=torch.int64, device=ids.device).scatter_add_(0, ids.long(), ones)
    ends = (counts + BLOCK_SIZE - 1).div(BLOCK_SIZE, rounding_mode="floor").mul(BLOCK_SIZE).cumsum(0)
    shift = torch.cat([ends.new_zeros(1), ends[:-1]]) - (counts.cumsum(0) - counts)
    found, order = ids.sort(stable=True)
    sorted_ids = torch.full((length, ), ids.numel(), dtype=torch.int32, device=ids.device)
    sorted_ids[torch.arange(ids.numel(), device=ids.device) + shift[found.long()]] = order.int()
    owner = torch.searchsorted(ends, torch.arange(blocks, device=ids.device) * BLOCK_SIZE, right=True)
    return sorted_ids, torch.where(owner < experts, owner, 0).int(), ends[-1:].int()


def check(outs, expected, ids, experts: int) -> None:
    """Exact: the total, the experts of blocks, and each expert's set of tokens with its sentinels."""
    sorted_ids, expert_ids, total = outs
    if not (torch.equal(total, expected[2]) and torch.equal(expert_ids, expected[1])):
        raise AssertionError("wrong total or wrong experts of blocks")
    inside = torch.repeat_interleave(expected[1].long(), BLOCK_SIZE)[:sorted_ids.numel()]
    inside[int(total):] = experts
    ours, theirs = (torch.sort(inside * (ids.numel() + 1) + found).values for found in (sorted_ids, expected[0]))
    if not torch.equal(ours, theirs) or not torch.equal(sorted_ids == ids.numel(), expected[0] == ids.numel()):
        raise AssertionError("wrong tokens")


def launcher(ids, outs, experts: int, chosen: Configuration | None):
    """(a call without arguments that fills `outs`, the configuration that it uses)."""
    kernel, grid, args, meta = moe_align.arguments(ids, *outs, experts, BLOCK_SIZE, multiprocessors(), chosen)
    launch = kernel[grid]
    return lambda: launch(*args, **meta)


def fits(chosen: Configuration, tokens: int) -> bool:
    """Whether the candidate's tiles are not far too large for so many tokens."""
    return chosen.block <= max(128, 2 * tokens // (8 if chosen.form == "cluster" else 4))


def best_of_form(form: str, tokens: int, experts: int) -> Configuration:
    """The candidate that `configs.json` has for this form and problem, or the chosen one if it is of this form."""
    chosen = moe_align.configuration(tokens, experts)
    if chosen.form == form:
        return chosen
    block = 1 << max(7, min(12, (tokens // (8 if form == "cluster" else 128) - 1).bit_length()))
    return Configuration(form, block, max(4, min(16, block // 32)))


def measure(tokens: int, experts: int, candidates: list[Configuration], at_least_ms: float) -> list[Row]:
    """A row for each candidate, all of them and the baselines measured in turn."""
    ids = zipf(tokens, experts)
    expected = by_torch(ids, experts)
    runs = {}
    for chosen in candidates:
        outs = buffers(tokens, experts)
        runs[chosen] = launcher(ids, outs, experts, chosen)
        for _ in range(3):  # the second launch finds what the first has left
            runs[chosen]()
        torch.cuda.synchronize()
        check(outs[:3], expected, ids, experts)
    outs = buffers(tokens, experts)[:3]
    runs["triton"] = plain_moe_align.launcher(ids, *outs, experts, BLOCK_SIZE)
    runs["triton"]()
    check(outs, expected, ids, experts)
    runs["torch"] = lambda: by_torch(ids, experts)
    times = alternate(runs, at_least_ms)
    baselines = {name: times.pop(name) for name in ("triton", "torch")}
    shape = dict(tokens=tokens, experts=experts, block_size=BLOCK_SIZE)
    return [row_of(f"moe_align-{chosen.form}", shape, vars(chosen), {"mimw": time, **baselines}, 0.0, "Zipf 1.2")
            for chosen, time in times.items()]


def line(row: Row) -> str:
    """A row for people."""
    key = row.shape["tokens"], row.shape["experts"]
    form = row.configuration["form"]
    published = PUBLISHED[key][1 if form == "grid" else 2]
    return (f"{key[0]:>6} E={key[1]:<3} {form:<7} {row.configuration['block']:>4}/{row.configuration['num_warps']:<2} "
            f"{'pull' if row.configuration['pull'] else '':<4} "
            f"{row.microseconds:7.1f} us  triton {row.baselines['triton']:6.1f} ratio {row.ratios()['triton']:5.2f}  "
            f"torch {row.baselines['torch']:6.1f} ratio {row.ratios()['torch']:5.2f}  H800 {published:5.1f}, "
            f"its triton {PUBLISHED[key][0]:.1f}, SGLang {PUBLISHED[key][3]:.1f}")


def main() -> None:
    parser = command(__doc__, tune=True, ms=20.0)
    some_of(parser, "tokens", TOKENS, int)
    options = parsed(parser)
    ratios, best = [], []
    for tokens, experts in each(one for one in PROBLEMS if not options.tokens or one[0] in options.tokens):
        candidates = [one for form in CANDIDATES for one in CANDIDATES[form] if fits(one, tokens)] if options.tune else [
            best_of_form(form, tokens, experts) for form in CANDIDATES]
        rows = measure(tokens, experts, candidates, options.ms)
        for row in rows:
            keep(row, options.results / "moe_align.jsonl")
        for form in CANDIDATES:
            of_form = [row for row in rows if row.configuration["form"] == form]
            print(line(min(of_form, key=lambda row: row.microseconds)), flush=True)
        fastest = min(rows, key=lambda row: row.microseconds)
        ratios.append(fastest.ratios()["triton"])
        best.append(as_row(tokens, experts, Configuration(**fastest.configuration)))
    print(summary(ratios, "stock Triton"))
    if options.tune:
        write_configurations(options.results / "configs-moe_align.json", "python -m benchmarks.moe_align --tune", best)


if __name__ == "__main__":
    main()
