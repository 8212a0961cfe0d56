"""`mimw.ops.linear_attention` and its step on a GPU against fp64: lengths 1 to 65536, gates near 0 and 1, graphs.

Input: random tensors, drawn on the CPU. Output: values and gradients. For example:

    pytest -m gpu --forked 0 tests/ops/test_linear_attention_on_the_gpu.py -k long
"""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.kernels.linear_attention_reference import chunked, draw, gates_of_raw, gradients, recurrence  # noqa: E402

pytestmark = pytest.mark.gpu
TENSORS = "q", "k", "v", "g", "beta", "initial_state"


def on_the_gpu(given):
    return {name: one if one is None else one.cuda() for name, one in given.items()}


def bf16(given):
    return given | {name: given[name].bfloat16() for name in "qkv"}


def near(found, expected, tolerance=1.5e-2):
    assert (found.double().cpu() - expected).norm() <= tolerance * expected.norm() + 1e-9


@pytest.mark.parametrize("gates, delta, columns, lengths, decay, l2norm", [
    ("head", True, 128, [1, 63, 0, 64, 65, 300], (-0.2, 0), False), ("key", True, 64, [130, 1, 90], (-60, 0), True),
    ("key", False, 128, [64, 200], (-1e-3, 0), False), ("none", True, 64, [77], (0, 0), True),
    ("head", False, 64, [10, 256], (-20, -1e-4), True), ("head", True, 128, [1, 0, 65, 300], (-0.2, 0), True),
    ("head", True, 256, [65, 100], (-0.2, 0), True), ("key", True, 32, [100], (-5, 0), False)])
def test_values_and_gradients(gates, delta, columns, lengths, decay, l2norm):
    """The last one has heads that torch computes."""
    ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    given = bf16(draw(len(lengths), T=ends[-1], H=2, HV=4, K=columns, V=columns, gates=gates, delta=delta, decay=decay,
                      cu_seqlens=ends))
    leaves = {name: one.requires_grad_() if name in TENSORS and one is not None else one
              for name, one in on_the_gpu(given).items()}
    o, final = ops.linear_attention(**leaves, output_final_state=True, use_qk_l2norm=l2norm)
    expected, last = recurrence(**given, use_qk_l2norm=l2norm)
    near(o, expected)
    near(final, last)
    do, dfinal = torch.randn_like(o), torch.randn_like(final)
    torch.autograd.backward((o, final), (do, dfinal))
    for name, gradient in gradients(do.cpu(), dfinal.cpu(), **given, use_qk_l2norm=l2norm).items():
        near(leaves[name].grad, gradient, 3e-2)


@pytest.mark.parametrize("gates, bound", [("key", -5.0), ("key", None), ("head", None)])
def test_raw_gates_and_betas(gates, bound):
    """Of bf16, as projections give them; near, and near in halves, and far."""
    given = bf16(draw(5, T=700, H=2, HV=4, K=128, V=128, gates=gates, delta=True, cu_seqlens=[0, 66, 700]))
    given |= {name: torch.randn_like(given[name]).bfloat16() for name in ("g", "beta")}
    making = dict(A_log=torch.linspace(-4, 3, 4), dt_bias=torch.randn(given["g"].shape[2:]))
    o, final = ops.linear_attention(**on_the_gpu(given | making), output_final_state=True, use_qk_l2norm=True, use_gate=True,
                                    lower_bound=bound, use_beta_sigmoid=True)
    made = dict(g=gates_of_raw(given["g"], **making, bound=bound), beta=given["beta"].double().sigmoid())
    expected, last = recurrence(**given | made, use_qk_l2norm=True)
    for head in range(4):
        near(o[:, :, head], expected[:, :, head])
        near(final[:, head], last[:, head])


@pytest.mark.parametrize("gates, columns", [("head", 128), ("key", 64)])
def test_a_long_sequence(gates, columns):
    given = bf16(draw(1, T=65536, H=1, K=columns, V=columns, gates=gates, delta=True))
    o, final = ops.linear_attention(**on_the_gpu(given), output_final_state=True, use_qk_l2norm=True)
    parts = chunked(**given, use_qk_l2norm=True)
    near(o, parts.o)
    near(final, parts.final)


def test_a_captured_call_and_its_steps():
    """A batch's call and steps of a pool in one graph, replayed for other numbers."""
    given = on_the_gpu(bf16(draw(3, B=2, T=100, H=2, gates="head", delta=True)))
    pool, indices = torch.zeros(5, 2, 64, 64, device="cuda"), torch.tensor([4, 1], device="cuda")

    def run():
        o, final = ops.linear_attention(**given, output_final_state=True)
        pool[indices] = final
        rows = [given[name][:, 0].contiguous() for name in "qkv"]
        return o, ops.linear_attention_step(*rows, pool, given["g"][:, 0], given["beta"][:, 0], indices)

    for _ in range(2):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, token = run()
    given["v"].mul_(2)
    graph.replay()
    host = {name: one if one is None else one.cpu() for name, one in given.items()}
    longer = {name: torch.cat((host[name], host[name][:, :1]), 1) for name in ("q", "k", "v", "g", "beta")}
    expected, last = recurrence(**host | longer)
    near(o, expected[:, :100])
    near(token, expected[:, 100])
    near(pool[indices], last)
