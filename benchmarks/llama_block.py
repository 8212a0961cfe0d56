"""One layer of a Llama-like model from end to end: a step of training and a prefill, with the lines of docs/MODULES.md and without.

    python -m benchmarks.llama_block                    both, 8192 positions, bf16
    python -m benchmarks.llama_block prefill --ms 500   one of them

The layer is written in torch: 4096 columns, 32 heads of 128 and 8 of keys, an inner width of 14336, rotary embedding, one
sequence, causal. `torch.compile` is that layer compiled, with the attention that torch chooses; `cuDNN` the same with cuDNN's
attention; `torch` the layer without compilation. `mimw, as it is` is a copy after `mimw.nn.patch` and with
`mimw.ops.scaled_dot_product_attention`, `mimw, compiled` that copy compiled. A step of training is forward and backward, with
gradients of all weights and of the input; the optimizer, which is the same for all, is left out. All compute with the same weights;
results, and gradients of weights, are compared with the layer in fp32 first. All take turns with a cold L2
(`mimw.testing.benchmark.alternate`), and `mimw` in a row is the faster of our two, whose times both stand beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from copy import deepcopy

from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import parsed, row_of, table, torch
from .progress import each

if torch is not None:
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention, silu

WIDTH, INNER, HEADS, KV_HEADS, DIM, LENGTH = 4096, 14336, 32, 8, 128, 8192
CASES = ("prefill", "training")
WRONG = 2e-2        # relative error of bf16 results and gradients


def layer_class():
    """The layer; a function, as this file can be imported without torch."""

    class Layer(nn.Module):
        """x (batch, length, width) -> the same, as in Llama: two residual blocks."""

        def __init__(self) -> None:
            super().__init__()
            self.input_norm, self.post_norm = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, heads * DIM, bias=False)
                                              for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS))
            self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
            self.down = nn.Linear(INNER, WIDTH, bias=False)
            self.attend: Callable = scaled_dot_product_attention

        def forward(self, x, cos, sin):
            y = self.input_norm(x)
            q, k, v = (part.unflatten(-1, (-1, DIM)).transpose(1, 2) for part in (self.q(y), self.k(y), self.v(y)))
            o = self.attend(turned(q, cos, sin), turned(k, cos, sin), v, is_causal=True, enable_gqa=True)
            x = x + self.o(o.transpose(1, 2).flatten(2))
            y = self.post_norm(x)
            return x + self.down(silu(self.gate(y)) * self.up(y))

    return Layer


def turned(x, cos, sin):
    """Rotary embedding of halves, as Hugging Face's Llama has it."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def candidates(layer) -> dict[str, tuple]:
    """Each with the backends of torch's attention that it may use; None for torch's own choice."""
    from mimw import nn as ours
    from mimw import ops

    patched = deepcopy(layer)
    report = ours.patch(patched)
    patched.attend = ops.scaled_dot_product_attention
    print(report)
    return {"mimw, as it is": (patched, None), "mimw, compiled": (torch.compile(patched, dynamic=False), None),
            "torch.compile": (torch.compile(layer, dynamic=False), None),
            "cuDNN": (torch.compile(deepcopy(layer), dynamic=False), [SDPBackend.CUDNN_ATTENTION]), "torch": (layer, None)}


def run_of(case: str, layer, backends, x, dy, tables) -> Callable:
    """A call of one candidate; it gives the result, and in training leaves gradients in the weights and in x."""

    def run():
        with sdpa_kernel(backends) if backends else contextlib.nullcontext():
            if case == "prefill":
                with torch.no_grad():
                    return layer(x, *tables)
            layer.zero_grad(set_to_none=True)
            x.grad = None
            y = layer(x, *tables)
            y.backward(dy)
            return y

    return run


def error_of(found: dict, exact: dict) -> float:
    """The largest relative error of any tensor."""
    return max(((found[name].float() - exact[name]).norm() / exact[name].norm()).item() for name in exact)


def results(case: str, layer, run: Callable, x) -> dict:
    """The result of a call and, in training, the gradients that it left, as fp32 copies."""
    found = {"y": run().detach().float()}
    if case == "training":
        plain = getattr(layer, "_orig_mod", layer)
        found |= {name: weight.grad.float() for name, weight in plain.named_parameters()} | {"x": x.grad.float()}
    return found


def measure(case: str, at_least_ms: float = 500.0) -> Row:
    """One row, checked."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        layer = layer_class()().bfloat16()
        x = torch.randn(1, LENGTH, WIDTH, dtype=torch.bfloat16, requires_grad=case == "training")
        dy = torch.randn(1, LENGTH, WIDTH, dtype=torch.bfloat16)
        angle = torch.outer(torch.arange(LENGTH), 5e5**-torch.linspace(0, 1, DIM // 2 + 1)[:-1])
        tables = angle.cos().bfloat16(), angle.sin().bfloat16()
    exact = deepcopy(layer).float()
    wide = x.detach().float().requires_grad_(case == "training")
    reference = results(case, exact, run_of(case, exact, [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], wide, dy.float(), [
        one.float() for one in tables]), wide)
    del exact
    runs, errors = {}, {}
    for name, (one, backends) in candidates(layer).items():
        runs[name] = run_of(case, one, backends, x, dy, tables)
        errors[name] = error_of(results(case, one, runs[name], x), reference)
        print(f"{case}: {name}: error {errors[name]:.2e}", flush=True)
        if not errors[name] < WRONG:
            raise AssertionError(f"{case}: {name}: error {errors[name]:.2e}")
    del reference
    times = alternate(runs, at_least_ms)
    times["mimw"] = min(times["mimw, as it is"], times["mimw, compiled"])
    shape = dict(length=LENGTH, width=WIDTH, inner=INNER, heads=HEADS, kv_heads=KV_HEADS, dim=DIM)
    error = max(errors[name] for name in errors if "mimw" in name)
    return row_of(f"llama-block-{case}", shape, {}, times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    others = "  ".join(f"{name} {row.baselines[name]:.0f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<24} {row.microseconds:8.0f} us  {others}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=500.0)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    rows = (measure(case, options.ms) for case in each(options.cases or CASES))
    table(rows, options.results / "llama_block.jsonl", line, lambda row: "torch.compile", "stock torch.compile")


if __name__ == "__main__":
    main()
