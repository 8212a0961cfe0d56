"""One token of linear attention for each sequence, states in place, beside fla's recurrent kernels, on one GPU.

    python -m benchmarks.linear_attention_step                  Gated DeltaNet and KDA, 1 to 256 sequences, also with raw gates
    python -m benchmarks.linear_attention_step gdn --ms 50

32 heads of values for 16 of keys, 128 columns, bf16, states in fp32. Ours writes the states in place; so does fla's kernel of KDA,
while its Gated DeltaNet makes new ones. Of `raw` families gates and betas are made in the call, by A_log and dt_bias. The bound is
the bytes of the states, read once and written once. o and the states of a call are checked against fp64 before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable

from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, parsed, row_of, summary, torch
from .progress import each

FAMILIES, SEQUENCES = ("gdn", "kda", "gdn-raw", "kda-raw"), (1, 16, 64, 256)
HEADS, OF_VALUES, COLUMNS, ALLOWED = 16, 32, 128, 1e-2
ROWS = "q", "k", "v", "g", "beta"


def inputs(family: str, sequences: int) -> dict:
    """q, k, v, g, beta with one row each, and states; of raw families A_log and dt_bias, too."""
    from tests.kernels.linear_attention_reference import draw
    given = draw(1, B=sequences, T=1, H=HEADS, HV=OF_VALUES, K=COLUMNS, V=COLUMNS, gates=_gates(family), delta=True)
    if family.endswith("raw"):
        given |= dict(A_log=torch.randn(OF_VALUES), dt_bias=torch.randn(given["g"].shape[2:]))
    return {name: None if one is None else one.cuda().to(torch.bfloat16 if name in "qkv" else one.dtype)
            for name, one in given.items()}


def _gates(family: str) -> str:
    return "head" if family.startswith("gdn") else "key"


def calls(family: str, given: dict) -> dict[str, Callable]:
    """Ours, and fla's if it is installed; each has states of its own, which it may write."""
    from mimw import ops
    state, rows, raw = given["initial_state"].clone(), [given[name][:, 0] for name in ROWS], "A_log" in given
    making = {name: given[name] for name in ("A_log", "dt_bias") if raw}
    ours = dict(use_qk_l2norm=True, use_gate=raw, use_beta_sigmoid=raw, **making)
    found = {"mimw": lambda: (ops.linear_attention_step(*rows[:3], state, *rows[3:], **ours), state)}
    theirs, named = given["initial_state"].clone(), {name: given[name] for name in ROWS} | making
    try:
        if _gates(family) == "head":
            from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as function
            options = dict(output_final_state=True, use_qk_l2norm_in_kernel=True)
        else:
            from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd as function
            options = dict(inplace_final_state=True, use_qk_l2norm_in_kernel=True)
    except ImportError:
        return found
    options |= dict(use_gate_in_kernel=raw, use_beta_sigmoid_in_kernel=raw)
    return found | {"fla": lambda: function(**named, initial_state=theirs, **options)}


def measure(family: str, sequences: int, at_least_ms: float = 20.0) -> Row:
    """A row, checked."""
    from tests.kernels.linear_attention_reference import gates_of_raw, recurrence
    given = inputs(family, sequences)
    few = {name: given[name][:2].cpu() for name in (*ROWS, "initial_state")}
    if "A_log" in given:
        few["g"] = gates_of_raw(few["g"], given["A_log"].cpu(), given["dt_bias"].cpu())
        few["beta"] = few["beta"].double().sigmoid()
    o, final = recurrence(**few, use_qk_l2norm=True)
    found, state = calls(family, given)["mimw"]()
    error = max(((one[:2].cpu().double() - exact).norm() / exact.norm()).item()
                for one, exact in ((found, o[:, 0]), (state, final)))
    if not error < ALLOWED:
        raise AssertionError(f"{family}: relative error {error:.2e} against fp64, {ALLOWED} is allowed")
    with torch.no_grad():
        times = alternate(calls(family, given), at_least_ms)
    return row_of(f"linear_attention_step-{family}", dict(sequences=sequences), {}, times, error, "normal")


def line(row: Row) -> str:
    """A row for people."""
    nbytes = 8 * row.shape["sequences"] * OF_VALUES * COLUMNS**2
    peer = row.baselines.get("fla")
    rest = "" if peer is None else f"  fla {peer:8.1f} us, {peer / row.microseconds:.2f}"
    return (f"{row.name.removeprefix('linear_attention_step-')} {row.shape['sequences']:>4} sequences {row.microseconds:8.1f} us "
            f"{nbytes / row.microseconds / 1e6:5.2f} TB/s{rest}  error {row.error:.1e}")


def main() -> None:
    parser = command(__doc__, ms=20.0)
    some_of(parser, "families", FAMILIES)
    options = parsed(parser)
    ratios = []
    for family in each(options.families or FAMILIES):
        for sequences in SEQUENCES:
            row = measure(family, sequences, options.ms)
            keep(row, options.results / "linear_attention_step.jsonl")
            print(line(row), flush=True)
            ratios += [row.baselines["fla"] / row.microseconds] if "fla" in row.baselines else []
    if ratios:
        print(summary(ratios, "fla"))


if __name__ == "__main__":
    main()
