"""Linear attention forward and backward on one GPU, each launch of the backward by itself, beside flash-linear-attention.

    python -m benchmarks.linear_attention_backward                  the cases below
    python -m benchmarks.linear_attention_backward gdn-16 --ms 50

Inputs are those of `linear_attention_forward`. First every gradient of a small call of the same gates and rule is compared with the
chunked form in fp64. A line has the time of all launches forward and backward, of those of the backward alone, which computes
anew what the forward had, of each of its launches, and fla's forward and backward in the same run.
"""

from __future__ import annotations

from mimw.kernels import linear_attention as forward
from mimw.kernels import linear_attention_backward as backward
from mimw.testing.benchmark import alternate

from .driver import command, some_of
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, torch
from .linear_attention_forward import CASES, inputs, peer
from .progress import each

SMALL = 549         # rows of the call whose gradients are compared
ALLOWED = 2e-2


def empty_like(q):
    return lambda shape, kind: torch.empty(shape, device="cuda", dtype=torch.float32 if kind else q.dtype)


def launches(q, k, v, g, beta, initial, do, dfinal, parts):
    """(launches of the forward, those of the backward, the gradients by name)."""
    batch, rows, _, K = q.shape
    of_values, columns = v.shape[2:]
    parts = parts or forward.parts_for(batch, rows, of_values, columns, multiprocessors(), K)
    on_gpu = lambda one: torch.from_numpy(one).cuda()                               # noqa: E731
    on_host = forward.tables(batch, rows, None, parts)
    tables, turned = on_host.map(on_gpu), backward.tables(on_host).map(on_gpu)
    work = forward.workspace(k, v, g, beta, tables, empty_like(k))
    o, final, new = torch.empty_like(v), torch.empty_like(initial), torch.empty_like(v)
    states = torch.empty(tables.chunks.shape[0], of_values, columns, K, device="cuda", dtype=k.dtype)
    ours = forward.forward(q, k, v, g, beta, tables, work, o=o, initial=initial, final=final)
    back = forward.forward(q, k, v, g, beta, tables, work, new=new, states=states, initial=initial)
    given = backward.Given(q, k, v, g, beta, new, states, do)
    results = backward.Results(*(None if one is None else torch.empty_like(one) for one in (q, k, v, g, beta)))
    dinitial = torch.empty_like(initial)
    of_call = backward.workspace(given, turned, empty_like(q), work)
    back += backward.launches(given, of_call, results, turned, work, dfinal, dinitial, programs=multiprocessors())
    return ours, back, dict(zip(("q", "k", "v", "g", "beta"), results), initial_state=dinitial)


def small_error(heads, of_values, columns, gates, drawn, delta) -> dict[str, float]:
    """The relative error of every gradient of a small call, in two parts."""
    from tests.kernels.linear_attention_gradients import chunked_gradients
    group = of_values // heads
    given = inputs(1, SMALL, 1, group, columns, gates, drawn, delta)
    do, dfinal = torch.randn_like(given[2]), torch.randn_like(given[-1])
    _, back, found = launches(*given, do, dfinal, 2)
    for kernel, grid, args, meta in back:
        kernel[grid](*args, **meta)
    names = ("q", "k", "v", "g", "beta", "initial_state")
    on_cpu = {name: None if one is None else one.cpu() for name, one in zip(names, given)}
    exact = chunked_gradients(do.cpu(), dfinal.cpu(), **on_cpu, cu_seqlens=None)
    return {name: ((one.cpu().double() - getattr(exact, name)).norm() / getattr(exact, name).norm()).item()
            for name, one in found.items() if one is not None}


def of_fla(given, gates, do, dfinal):
    """fla's forward and backward, or None."""
    call = peer(*(None if one is None else one.detach().requires_grad_() for one in given), gates)
    if call is None:
        return None

    def run():
        o, final = call()
        torch.autograd.backward((o, final), (do, dfinal))
    return run


def measure(name: str, at_least_ms: float):
    *sizes, gates, drawn, delta, parts = CASES[name]
    given = inputs(*sizes, gates, drawn, delta)
    do, dfinal = torch.randn_like(given[2]), torch.randn_like(given[-1])
    ours, back, _ = launches(*given, do, dfinal, parts)

    def run(steps):
        def all_of():
            for kernel, grid, args, meta in steps:
                kernel[grid](*args, **meta)
        return all_of

    run(ours + back)()
    errors = small_error(*sizes[2:], gates, drawn, delta)
    if not max(errors.values()) <= ALLOWED:
        raise AssertionError(f"{name}: relative errors are {errors}; at most {ALLOWED:.1e} is allowed")
    candidates = {"mimw": run(ours + back), "forward": run(ours), "backward": run(back)}
    candidates |= {f"{number} {step[0].__name__}": run([step]) for number, step in enumerate(back)}
    baseline = of_fla(given, gates, do, dfinal)
    if baseline is not None:
        candidates["fla"] = baseline
    times = alternate(candidates, at_least_ms)
    shape = dict(zip(("batch", "rows", "heads", "value_heads", "columns"), sizes))
    return row_of(f"linear-attention-backward-{name}", shape, {"gates": gates, "drawn": drawn, "delta": delta}, times,
                  max(errors.values()), "normal; keys of length 1"), errors


def main() -> None:
    parser = command(__doc__, ms=50.0, jobs=True)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    names = options.cases or list(CASES)
    compiled_before(options.jobs, measure, [(name, options.ms) for name in names])
    for name in each(names, lambda name: name):
        row, errors = measure(name, options.ms)
        keep(row, options.results / "linear-attention-backward.jsonl")
        parts = ", ".join(f"{one} {time:.0f}" for one, time in row.baselines.items())
        worst = ", ".join(f"{one} {error:.1e}" for one, error in errors.items())
        print(f"{name:16} {row.microseconds:7.0f} us ({parts}); errors {worst}", flush=True)


if __name__ == "__main__":
    main()
