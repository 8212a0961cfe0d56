"""Each launch of linear attention's forward on one GPU, by itself and in sequence, beside flash-linear-attention where it is
installed.

    python -m benchmarks.linear_attention_forward               the cases below
    python -m benchmarks.linear_attention_forward gdn-16 --ms 50

Inputs are normal, keys of length 1, beta between 0 and 1. Gates are `random`, logsigmoid of normal numbers as in fla's benchmarks:
most parts of a sequence forget what was before them, and are not computed twice (src/mimw/kernels/linear_attention/forgotten.py);
or `slow`, a sum of -0.5 a chunk on average, so that none does. With `norms` q and k are divided by theirs, in the same launches;
with `bounded` and `softplus` gates and betas are made there, of raw ones in bf16.
Before anything is timed o and the last states of a head are checked against the recurrence in fp64. A line has the parts that a
sequence is cut into, the time of all launches one behind the other, of each of them, and fla's.
"""

from __future__ import annotations

from functools import partial

from mimw.kernels import linear_attention as kernels
from mimw.testing.benchmark import alternate

from .driver import command, some_of
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, torch
from .progress import each

#        batch, rows, heads of q and k, heads of v, columns of both, gates, how they are drawn, delta rule, parts or None
CASES = {"gdn-16": (1, 65536, 16, 16, 128, "head", "random", True, None),
         "gdn-16-slow": (1, 65536, 16, 16, 128, "head", "slow", True, None),
         "gdn-16-whole": (1, 65536, 16, 16, 128, "head", "slow", True, 1),
         "gdn-32": (1, 65536, 16, 32, 128, "head", "slow", True, None),
         "gdn-8x8192": (8, 8192, 16, 16, 128, "head", "slow", True, None),
         "gdn-256": (1, 65536, 8, 8, 256, "head", "slow", True, None),
         "kda-256": (1, 65536, 8, 8, 256, "key", "slow", True, None),
         "gdn-64": (4, 16384, 32, 32, 64, "head", "slow", True, None),
         "delta-8x8192": (8, 8192, 16, 16, 128, "none", "none", True, None),
         "simple-8x8192": (8, 8192, 16, 16, 128, "head", "slow", False, None),
         "kda-16": (1, 65536, 16, 16, 128, "key", "random", True, None),
         "kda-16-slow": (1, 65536, 16, 16, 128, "key", "slow", True, None),
         "gla-8x8192": (8, 8192, 16, 16, 128, "key", "slow", False, None)}
NORMS = {f"{name}-norms": name for name in ("gdn-16", "gdn-256", "gdn-64", "kda-16")}
BOUNDS = {"bounded": -5.0, "softplus": None}
RAW = {f"{name}-{kind}": name for name in ("gdn-16", "kda-16") for kind in BOUNDS}
ALLOWED = 2e-2


def inputs(batch, rows, heads, of_values, columns, gates, drawn, delta):
    """q, k, v, g, beta, the first states."""
    torch.manual_seed(1)
    normal = lambda *shape: torch.randn(shape, device="cuda")           # noqa: E731
    q, k, v = normal(batch, rows, heads, columns), normal(batch, rows, heads, columns), normal(batch, rows, of_values, columns)
    k = torch.nn.functional.normalize(k, dim=-1)
    shape = {"none": None, "head": (batch, rows, of_values), "key": (batch, rows, of_values, columns)}[gates]
    g = None if shape is None else -torch.rand(shape, device="cuda") / 64 if drawn == "slow" else \
        torch.nn.functional.logsigmoid(normal(*shape))
    beta = torch.rand(batch, rows, of_values, device="cuda") if delta else None
    return *(one.bfloat16() for one in (q, k, v)), g, beta, normal(batch, of_values, columns, columns)


def raw_of(name: str, g, beta, heads: int, columns: int):
    """(raw gates and betas in bf16, what makes gates and betas of them, the gates and betas), of a case."""
    from tests.kernels.linear_attention_reference import gates_of_raw
    bound = BOUNDS[name.rpartition("-")[2]]
    biases = (heads, columns) if g.dim() == 4 else (heads, )
    raw = kernels.Raw(torch.randn(heads, device="cuda"), torch.randn(biases, device="cuda"), True, bound, True)
    g, beta = torch.randn_like(g).bfloat16(), torch.randn_like(beta).bfloat16()
    return g, beta, raw, gates_of_raw(g, raw.A_log, raw.dt_bias, bound), beta.double().sigmoid()


def launches(q, k, v, g, beta, initial, parts, l2norm=False, raw=kernels.Raw()):
    """(the launches, o, final, the parts)."""
    batch, rows, _, K = q.shape
    of_values, columns = v.shape[2:]
    parts = parts or kernels.parts_for(batch, rows, of_values, columns, multiprocessors(), K)
    made = kernels.tables(batch, rows, None, parts).map(lambda one: torch.from_numpy(one).cuda())
    work = kernels.workspace(k, v, g, beta, made,
                             lambda shape, kind: torch.empty(shape, device="cuda", dtype=torch.float32 if kind else k.dtype),
                             l2norm=l2norm)
    o, final = torch.empty_like(v), torch.empty_like(initial)
    return kernels.forward(q, k, v, g, beta, made, work, o=o, initial=initial, final=final, l2norm=l2norm, raw=raw), o, final, parts


def error_of(o, final, q, k, v, g, beta, initial, l2norm) -> float:
    """The largest relative error of o and final of the first head of q and its heads of v, of the last sequence, against fp64,
    token by token."""
    from tests.kernels.linear_attention_reference import recurrence

    def some(one, heads):
        return None if one is None else one[-1:, :, :heads]

    heads = v.shape[2] // q.shape[2]
    exact = recurrence(some(q, 1), some(k, 1), some(v, heads), some(g, heads), some(beta, heads),
                       initial_state=initial[-1:, :heads], use_qk_l2norm=l2norm)
    found = some(o, heads), final[-1:, :heads]
    return max(((one.double() - other).norm() / other.norm()).item() for one, other in zip(found, exact))


def peer(q, k, v, g, beta, initial, gates, l2norm=False):
    """fla's call, or None where it is not installed or has no such operator."""
    try:
        if beta is None:
            from fla.ops.gla import chunk_gla
            from fla.ops.simple_gla import chunk_simple_gla
            call = chunk_gla if gates == "key" else chunk_simple_gla
            return lambda: call(q, k, v, g, initial_state=initial, output_final_state=True)
        if g is None:
            from fla.ops.delta_rule import chunk_delta_rule
            return lambda: chunk_delta_rule(q, k, v, beta.bfloat16(), initial_state=initial, output_final_state=True)
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        from fla.ops.kda import chunk_kda
        call = chunk_kda if gates == "key" else chunk_gated_delta_rule
        return lambda: call(q, k, v, g, beta.bfloat16(), initial_state=initial, output_final_state=True,
                            use_qk_l2norm_in_kernel=l2norm)
    except ImportError:
        return None


def case(name: str):
    """(the arguments of a case, its launches as calls without arguments, their kernels' names, o, final, the parts)."""
    *sizes, gates, drawn, delta, parts = CASES[(NORMS | RAW).get(name, name)]
    q, k, v, g, beta, initial = inputs(*sizes, gates, drawn, delta)
    raw, made = kernels.Raw(), (g, beta)
    if name in RAW:
        g, beta, raw, *made = raw_of(name, g, beta, *v.shape[2:])
    steps, o, final, parts = launches(q, k, v, g, beta, initial, parts, name in NORMS, raw)
    given = q, k, v, *made, initial
    alone = [partial(kernel[grid], *args, **meta) for kernel, grid, args, meta in steps]
    for one in alone:
        one()
    return given, alone, [kernel.__name__ for kernel, *_ in steps], o, final, parts


def measure(name: str, at_least_ms: float, with_fla: bool = True):
    """The row of a case; its baselines are each launch by itself, and fla, whose kernels are tuned at their first call, for
    minutes."""
    *sizes, gates, drawn, delta, _ = CASES[(NORMS | RAW).get(name, name)]
    given, alone, kernels_of, o, final, parts = case(name)

    def run():
        for one in alone:
            one()

    if not (error := error_of(o, final, *given, name in NORMS)) <= ALLOWED:
        raise AssertionError(f"{name}: the relative error is {error:.1e}; at most {ALLOWED:.1e} is allowed")
    candidates = {"mimw": run} | {f"{number} {kernel}": one for number, (kernel, one) in enumerate(zip(kernels_of, alone))}
    baseline = peer(*given, gates, name in NORMS) if with_fla and name not in RAW else None
    if baseline is not None:
        with torch.no_grad():
            baseline()
        candidates["fla"] = baseline
    with torch.no_grad():
        times = alternate(candidates, at_least_ms)
    shape = dict(zip(("batch", "rows", "heads", "value_heads", "columns"), sizes))
    configuration = {"gates": gates, "drawn": drawn, "delta": delta, "parts": parts, "norms": name in NORMS, "raw": name in RAW}
    return row_of(f"linear-attention-forward-{name}", shape, configuration, times, error,
                  f"normal; keys of length 1; gates {drawn}")


def main() -> None:
    parser = command(__doc__, ms=50.0, jobs=True)
    some_of(parser, "cases", CASES | NORMS | RAW)
    parser.add_argument("--alone", action="store_true", help="without fla, which tunes its kernels for minutes")
    options = parsed(parser)
    names = options.cases or [*CASES, *NORMS, *RAW]
    compiled_before(options.jobs, case, [(name, ) for name in names])
    for name in each(names, lambda name: name):
        row = measure(name, options.ms, not options.alone)
        keep(row, options.results / "linear-attention-forward.jsonl")
        parts = ", ".join(f"{one} {time:.0f}" for one, time in row.baselines.items())
        print(f"{name:16} gates {row.configuration['drawn']}, parts {row.configuration['parts']}, error {row.error:.1e}: "
              f"{row.microseconds:7.0f} us ({parts})", flush=True)


if __name__ == "__main__":
    main()
