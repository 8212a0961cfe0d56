"""Operators under torch.autocast: the types of torch's own functions there, of the CPU and, by tensors without data, of CUDA.

Input: a row for each operator: a call, and the function of torch that it stands for, of tensors of one type. Output: their types.

    CASES["softmax"]            lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1)
"""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="operators of torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from mimw import ops, score_mods  # noqa: E402
from mimw.ops.operator import OPERATORS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32


def of_heads(x):
    return x.view(1, 1, 16, 16)


def attention(x):
    return functional.scaled_dot_product_attention(*[of_heads(x)] * 3)


def product(x):
    return x @ x


def numbers(x, *shape, dtype=torch.int32):
    return torch.zeros(shape, dtype=dtype, device=x.device)


def last_layer(x):
    return functional.cross_entropy(functional.linear(x, x), numbers(x, 16, dtype=torch.int64), reduction="sum")


def e4m3(x):
    return ops.scaled_mm(x.to(torch.float8_e4m3fn), x.to(torch.float8_e4m3fn), *[numbers(x, 1, dtype=fp32)] * 2, None, x.dtype)


def experts(x, run, *scales):
    kind = x.dtype if not scales else torch.float8_e4m3fn
    wide = torch.zeros(2, 256, 16, dtype=kind, device=x.device), torch.zeros(2, 16, 128, dtype=kind, device=x.device)
    more = {} if not scales else dict(w_gate_up_scale=numbers(x, 2, 2, 1, dtype=fp32), w_down_scale=numbers(x, 2, 1, 1, dtype=fp32))
    return run(x, *wide, numbers(x, 16, 1), numbers(x, 16, 1, dtype=fp32), **more)


def of_rows(x):
    return x.to(torch.float8_e4m3fn).unsqueeze(1)


DOUBLED = score_mods.record(lambda s, b, h, i, j: 2 * s)
CASES = {
    "matmul": (lambda x: ops.matmul(x, x), product),
    "addmm": (lambda x: ops.addmm(x, x, x), lambda x: torch.addmm(x, x, x)),
    "grouped_matmul": (lambda x: ops.grouped_matmul(x, x.view(1, 16, 16), numbers(x, 1)), product),
    "gather_matmul_scatter": (lambda x: ops.gather_matmul_scatter(x, x, numbers(x, 4), numbers(x, 4), 16), product),
    "scaled_mm": (e4m3, lambda x: x),
    "moe": (lambda x: experts(x, ops.moe), product),
    "moe_scaled": (lambda x: experts(x, ops.moe, True), lambda x: x),
    "attention": (lambda x: ops.attention(*[of_heads(x)] * 3), attention),
    "attention_with": (lambda x: ops.attention(*[of_heads(x)] * 3, softcap=2.0), attention),
    "attention_mod": (lambda x: ops.attention(*[of_heads(x)] * 3, score_mod=DOUBLED), attention),
    "attention_varlen": (lambda x: ops.attention_varlen(*[x.view(16, 1, 16)] * 3, *[numbers(x, 2)] * 2, 16, 16), attention),
    "attention_decode": (lambda x: ops.attention_decode(x.view(16, 1, 1, 16), *[x.view(16, 1, 1, 16)] * 2, numbers(x, 16)),
                         attention),
    "simplicial_attention": (lambda x: ops.simplicial_attention(*[of_heads(x)] * 5, (4, 4)), attention),
    "sparse_mla": (lambda x: ops.sparse_mla(of_heads(x), x.view(1, 16, 1, 16), numbers(x, 1, 1, 1, 4), numbers(x, 1, 1, 1), 8),
                   attention),
    "lightning_indexer": (lambda x: ops.lightning_indexer(of_rows(x), x.to(torch.float8_e4m3fn), numbers(x, 16, 1, dtype=fp32)),
                          lambda x: numbers(x, 1, dtype=fp32)),
    "lightning_indexer_decode": (lambda x: ops.lightning_indexer_decode(
        of_rows(x).unsqueeze(1), of_rows(x), numbers(x, 16, 1, 1, dtype=fp32), numbers(x, 16), numbers(x, 16, 2)),
                                 lambda x: numbers(x, 1, dtype=fp32)),
    "mla_decode": (lambda x: ops.mla_decode(x.view(16, 1, 1, 16), x.view(16, 1, 1, 16), numbers(x, 16), value_dim=8), attention),
    "linear_attention": (lambda x: ops.linear_attention(*[x.view(1, 16, 1, 16)] * 3)[0], attention),
    "linear_attention_step": (lambda x: ops.linear_attention_step(*[x.view(16, 1, 16)] * 3, x.new_zeros(16, 1, 16, 16)),
                              lambda x: x * x),
    "softmax": (lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "log_softmax": (lambda x: ops.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1)),
    "layer_norm": (lambda x: ops.layer_norm(x, 16), lambda x: functional.layer_norm(x, (16, ))),
    "rms_norm": (lambda x: ops.rms_norm(x, 16), lambda x: functional.rms_norm(x, (16, ))),
    "add_layer_norm": (lambda x: ops.layer_norm(x, 16, residual=x)[0], lambda x: functional.layer_norm(x + x, (16, ))),
    "add_rms_norm": (lambda x: ops.rms_norm(x, 16, residual=x)[0], lambda x: functional.rms_norm(x + x, (16, ))),
    "cross_entropy": (lambda x: ops.cross_entropy(x, numbers(x, 16), reduction="sum"),
                      lambda x: functional.cross_entropy(x, numbers(x, 16, dtype=torch.int64), reduction="sum")),
    "linear_sums": (lambda x: ops.linear_cross_entropy(x, x, numbers(x, 16), reduction="sum"), last_layer),
    "linear_cross_entropy": (lambda x: torch.ops.mimw.linear_cross_entropy(     # the function casts first, as the case above
        x, x, None, numbers(x, 16), None, -100, 0.0, 0.0, 0.0, False, fp32, fp32, True, True, False)[0], last_layer),
    "swiglu": (lambda x: ops.swiglu(x, x), lambda x: functional.silu(x) * x),
    "rope": (lambda x: ops.rope(x, *[x.narrow(1, 0, 4)] * 2), lambda x: x * x),
    "rope_of_two": (lambda x: ops.rope((x, x), *[x.narrow(1, 0, 4)] * 2)[1], lambda x: x * x),
    "topk": (lambda x: ops.topk(x, 2)[0], lambda x: torch.topk(x, 2)[0]),
    "topk_selector": (lambda x: ops.topk_selector(x, 2), lambda x: torch.topk(x, 2)[1].int()),
    "moe_align": (lambda x: ops.moe_align(numbers(x, 4), 2, 2)[0], lambda x: numbers(x, 1)),
}


class Called(TorchDispatchMode):
    """The operators of mimw that were called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "mimw":
            self.names.add(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))


@contextmanager
def autocast(kind, dtype):
    """As torch.autocast, which turns itself off where there is no GPU."""
    before = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(kind, before[0])
        torch.set_autocast_dtype(kind, before[1])
        torch.clear_autocast_cache()


REGIONS = [(kind, *types) for kind in ("cpu", "cuda") for types in ((bf16, fp32), (bf16, bf16), (fp16, fp32), (fp16, bf16))]


@pytest.mark.parametrize("name", CASES)
def test_types_are_those_of_torch(name):
    ours, theirs = CASES[name]
    for kind, region, of in REGIONS:
        if name.endswith("rms_norm") and kind == "cuda" and of is not fp32 and torch.__version__ < "2.13":
            continue            # its list for CUDA has the RMS norm since then
        with FakeTensorMode(), Called() as called, autocast(kind, region):
            x = torch.zeros(16, 16, dtype=of, device=kind)
            found, wanted = ours(x), theirs(x)
        found = found[0] if isinstance(found, tuple) else found
        assert found.dtype is wanted.dtype and found.device.type == kind, (kind, region, of)
        assert called.names == {name}


def test_every_operator_with_results_has_its_case():
    """But gradients, and what writes in place, of which torch's are left as they are, too."""
    of_one = {name for name, one in OPERATORS.items()      # other tests of this process may have made some of their own
              if one.run.__module__.startswith("mimw.ops.") and not one.run.__module__.startswith("mimw.ops.distributed")}
    others = {name for name in of_one if "backward" in name or name.endswith("_") or name == "grouped_matmul_of_rows"}
    assert set(CASES) == of_one - others
    assert all(OPERATORS[name].autocast is None for name in others)


def test_numbers_beside_the_operands_keep_their_type():
    """Weights of experts, sinks and slopes are fp32 under autocast, too: rounded to bf16, results would be others."""
    torch.manual_seed(0)
    q = torch.randn(1, 2, 5, 16)
    sinks, slopes = torch.randn(2), torch.rand(2)
    more = dict(causal=True, sinks=sinks, alibi_slopes=slopes)
    x, gate_up, down = torch.randn(5, 16), torch.randn(2, 16, 16), torch.randn(2, 16, 8)
    ids, weights = torch.randint(2, (5, 2)), torch.rand(5, 2)
    with torch.autocast("cpu", bf16):
        found = ops.attention(q, q, q, **more), ops.moe(x, gate_up, down, ids, weights)
    low = q.bfloat16()
    assert torch.equal(found[0], ops.attention(low, low, low, **more))
    assert torch.equal(found[1], ops.moe(*(one.bfloat16() for one in (x, gate_up, down)), ids, weights))
    assert not torch.equal(found[0], ops.attention(low, low, low, causal=True, sinks=sinks, alibi_slopes=slopes.bfloat16()))
