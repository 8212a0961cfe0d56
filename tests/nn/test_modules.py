"""Modules of mimw.nn against those of torch: results, gradients, state dicts, compilation, autocast, checkpoints, FSDP2."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="the modules are of torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from mimw import nn  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")

PAIRS = {
    "RMSNorm": (lambda: nn.RMSNorm(24, eps=1e-5), lambda: torch.nn.RMSNorm(24, eps=1e-5)),
    "LayerNorm": (lambda: nn.LayerNorm((3, 8)), lambda: torch.nn.LayerNorm((3, 8))),
    "Linear": (lambda: nn.Linear(24, 16), lambda: torch.nn.Linear(24, 16)),
    "Linear without bias": (lambda: nn.Linear(24, 16, bias=False), lambda: torch.nn.Linear(24, 16, bias=False)),
}


def pair_of(name):
    """Ours and torch's, with torch's random parameters loaded into ours, and an input."""
    torch.manual_seed(0)
    ours, theirs = (make() for make in PAIRS[name])
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs, torch.randn(2, 5, 3, 8) if name == "LayerNorm" else torch.randn(2, 5, 24)


def gradients_of(run, x, *parameters):
    """The result of run(x), and gradients of x and of parameters, from one upstream gradient."""
    x = x.detach().requires_grad_()
    y = run(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, [x, *parameters], dy)]


def close(ours, theirs, tolerance=1e-5):
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("name", PAIRS)
def test_as_torch(name):
    ours, theirs, x = pair_of(name)
    assert isinstance(ours, type(theirs)) and repr(ours) == repr(theirs)
    theirs.load_state_dict(ours.state_dict())
    close(gradients_of(ours, x, *ours.parameters()), gradients_of(theirs, x, *theirs.parameters()))


@pytest.mark.parametrize("name", ["RMSNorm", "Linear"])
def test_compiled_checkpointed_and_under_autocast(name):
    ours, theirs, x = pair_of(name)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    expected = gradients_of(ours, x, *ours.parameters())
    close(gradients_of(compiled, x, *ours.parameters()), expected)
    close(gradients_of(lambda x: checkpoint(ours, x, use_reentrant=False), x, *ours.parameters()), expected)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = ours(x), theirs(x)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["LayerNorm", "Linear"])
def test_copies_pickles_and_meta(name):
    ours, _, x = pair_of(name)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert type(other) is type(ours) and torch.equal(other(x), ours(x))
    assert ours.to("meta")(x.to("meta")).shape == (*x.shape[:-1], 16 if name == "Linear" else 8)


@pytest.mark.parametrize("activation, reference", [
    ("relu", torch.relu), ("silu", torch.nn.functional.silu),
    ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh"))])
def test_activations(activation, reference):
    bias = activation != "silu"
    layer = nn.Linear(24, 16, bias=bias, activation=activation)
    x = torch.randn(5, 24)
    plain = lambda x: reference(torch.nn.functional.linear(x, layer.weight, layer.bias))  # noqa: E731
    close(gradients_of(layer, x, *layer.parameters()), gradients_of(plain, x, *layer.parameters()))
    assert f"activation='{activation}'" in repr(layer)


def test_an_activation_that_is_none():
    with pytest.raises(NotImplementedError, match="activation is 'tanh'; it may be None, 'relu'"):
        nn.Linear(2, 2, activation="tanh")


def test_what_goes_to_torch():
    norm, x = nn.RMSNorm(8).double(), torch.randn(3, 8, dtype=torch.float64)
    assert norm.reason(x) == "the tensor is torch.float64; kernels take bf16, fp16 and fp32"
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (8, )))
    layer, mlp = nn.Linear(8, 4), nn.SwiGLU(8, 4).double()
    gate, up, down = mlp.parameters()
    assert mlp.reason(x) == norm.reason(x)
    torch.testing.assert_close(mlp(x), (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T)
    head, target = nn.LinearCrossEntropyLoss(8, 4).double(), torch.zeros(3, dtype=torch.int64)
    assert head.reason(x, target) == norm.reason(x) and head.float().reason(x.float(), target) is None
    with pytest.raises(RuntimeError, match="dtype"):        # torch's error
        layer(x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):             # which leaves fp64 as it is
        assert layer.double()(x).dtype is norm(x).dtype is torch.float64
    loss = nn.CrossEntropyLoss(weight=torch.ones(8))
    assert loss.reason(x.float(), target) is None and loss.reason(x.float(), x) == "targets are probabilities"


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"fp8": True}], ids=str)
def test_widths_that_do_not_fit(options):
    with pytest.raises(RuntimeError, match="for a 4 x 6 it must be 6 x n"):     # 24 numbers, and so three rows of 8 as well
        nn.Linear(8, 4, **options)(torch.randn(4, 6))
    assert nn.Linear(8, 4, **options)(torch.randn(2, 0, 8)).shape == (2, 0, 4)
    assert nn.Linear(8, 4, **options)(torch.randn(8)).shape == (4, )


def test_a_linear_layer_of_no_columns():
    layer = nn.Linear(4, 3)
    layer.weight = torch.nn.Parameter(torch.empty(3, 0))
    assert torch.equal(layer(torch.empty(2, 0)), layer.bias.expand(2, 3))


def test_fp8_is_the_product_of_what_it_quantises():
    torch.manual_seed(2)
    layer, x = nn.Linear(64, 32, fp8=True), torch.randn(2, 3, 64)
    (a, of_a), (b, of_b) = nn.fp8.quantised(x.view(-1, 64)), nn.fp8.quantised(layer.weight)
    exact = (a.double() * of_a) @ (b.double() * of_b).T + layer.bias.double()
    torch.testing.assert_close(layer(x).view(-1, 32).double(), exact, rtol=1e-5, atol=1e-5)
    assert ((layer(x) - torch.nn.functional.linear(x, layer.weight, layer.bias)).norm() / layer(x).norm()) < 0.05
    plain = lambda x: torch.nn.functional.linear(x, layer.weight, layer.bias)  # noqa: E731
    close(gradients_of(layer, x, *layer.parameters())[1:], gradients_of(plain, x, *layer.parameters())[1:])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    close(gradients_of(compiled, x, *layer.parameters()), gradients_of(layer, x, *layer.parameters()))


def test_rows_of_zeros_are_quantised_to_zeros():
    small, scale = nn.fp8.quantised(torch.zeros(2, 16))
    assert not small.float().any() and torch.equal(scale, torch.ones(2, 1))


def test_swiglu_takes_the_names_of_llama():
    mlp, x = nn.SwiGLU(16, 24), torch.randn(2, 3, 16)
    assert list(mlp.state_dict()) == ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]
    gate, up, down = mlp.parameters()
    plain = lambda x: (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T  # noqa: E731
    close(gradients_of(mlp, x, gate, up, down), gradients_of(plain, x, gate, up, down))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved):
    rotary = nn.RotaryEmbedding(8, 32, base=100.0, interleaved=interleaved).bfloat16()
    q, k, positions = torch.randn(2, 2, 5, 12), torch.randn(2, 1, 5, 12), torch.tensor([3, 1, 4, 1, 31])
    turned = torch.polar(torch.ones(()), torch.outer(positions.float(), 100.0**(-torch.arange(4) / 4)))
    wide = q.double(), k.double()
    assert rotary.reason(*wide) == "the tensor is torch.float64; kernels take bf16, fp16 and fp32" and rotary.reason(q, k) is None
    for one, other in zip(rotary(*wide), rotary(q, k)):
        torch.testing.assert_close(one, other.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rotary(wide[0], None, positions.expand(2, 5)), rotary(q, None, positions).double())
    for x, found in zip((q, k) + wide, rotary(q, k, positions) + rotary(*wide, positions)):
        pairs = x[..., :8].unflatten(-1, (4, 2)) if interleaved else x[..., :8].unflatten(-1, (2, 4)).mT
        y = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turned).to(x.dtype)
        y = y.flatten(-2) if interleaved else y.mT.flatten(-2)
        torch.testing.assert_close(found, torch.cat((y, x[..., 8:]), -1), rtol=1e-5, atol=1e-5)
    assert rotary.cos.dtype is torch.float32 and not rotary.state_dict()
    with pytest.raises(ValueError, match="dim is 7"):
        nn.RotaryEmbedding(7)


def test_tables_are_there_when_a_module_leaves_meta():
    model = torch.nn.Sequential(nn.RotaryEmbedding(8, 32, base=100.0, device="meta"))
    assert model.to_empty(device="cpu")[0].reason(torch.zeros(1, 8)) is None
    made = nn.RotaryEmbedding(8, 32, base=100.0)
    assert torch.equal(model[0].cos, made.cos) and torch.equal(model[0].sin, made.sin)
    assert not dict(model.named_parameters()) and len(dict(model.named_buffers())) == 2


@pytest.mark.parametrize("normalise", [True, False])
def test_mixture_of_experts(normalise):
    torch.manual_seed(3)
    layer, x = nn.MoE(16, 8, experts=3, k=2, normalise=normalise), torch.randn(2, 3, 16)

    def plain(x):
        weights = torch.nn.functional.linear(x, layer.gate.weight).softmax(-1)
        best, ids = weights.topk(2)
        best = best / best.sum(-1, keepdim=True) if normalise else best
        y = 0
        for expert in range(3):
            gate, up = (x @ layer.gate_up_proj[expert].T).chunk(2, -1)
            inner = torch.nn.functional.silu(gate) * up
            y = y + ((ids == expert) * best).sum(-1, keepdim=True) * (inner @ layer.down_proj[expert].T)
        return y

    close(gradients_of(layer, x, *layer.parameters()), gradients_of(plain, x, *layer.parameters()), 1e-4)
    layer.double()
    assert layer.reason(x) == "x is torch.float32 and the weight torch.float64" and "float64" in layer.reason(x.double())
    close(gradients_of(layer, x.double(), *layer.parameters()), gradients_of(plain, x.double(), *layer.parameters()), 1e-9)
    with pytest.raises(ValueError, match="k is 4; of 3 experts"):
        nn.MoE(4, 4, 3, 4)


def _sharded(rank):
    """A step of a sharded model, of which each rank has half, is that of a whole one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.RMSNorm(8), torch.nn.Linear(8, 4))
    whole, x = copy.deepcopy(model), torch.randn(3, 8)
    nn.patch(model)
    fully_shard(model, mesh=init_device_mesh("cpu", (2, )))
    y = model(x)
    y.sum().backward()
    whole(x).sum().backward()
    torch.testing.assert_close(y, whole(x), rtol=1e-5, atol=1e-5)
    for one, other in zip(model.parameters(), whole.parameters()):
        torch.testing.assert_close(one.grad.full_tensor(), other.grad, rtol=1e-5, atol=1e-5)


def _spread(rank):
    """Tensor parallelism: torch computes, as its tensors of several ranks know no operator of ours; patched before and after."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    for first in (True, False):
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.RMSNorm(8), torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 8))
        whole, x = copy.deepcopy(model), torch.randn(1, 4, 8)
        if first:
            nn.patch(model)
        parallel.parallelize_module(model, init_device_mesh("cpu", (2, )), {
            "1": parallel.ColwiseParallel(), "3": parallel.RowwiseParallel()})
        if not first:
            assert len(nn.patch(model).replaced) == 3
        assert model[0].reason(x) is None and model[1].reason(x).startswith("the weight is a DTensor, which holds other tensors")
        y = model(x)
        y.sum().backward()
        whole(x).sum().backward()
        torch.testing.assert_close(y, whole(x), rtol=1e-5, atol=1e-5)
        for one, other in zip(model[1:].parameters(), whole[1:].parameters()):
            torch.testing.assert_close(one.grad.full_tensor(), other.grad, rtol=1e-5, atol=1e-5)


def test_sharded_by_fsdp2_and_spread_by_tensor_parallelism():
    at_ranks(2, lambda rank: (_sharded(rank), _spread(rank)) and None)


def test_fp8_weights_are_held_for_inference_until_they_change(monkeypatch):
    layer = nn.Linear(32, 16, fp8=True, hold=True).eval()
    weight, x, made = layer.weight, torch.randn(3, 32), []
    monkeypatch.setattr(nn.held_weights, "quantised", lambda one: made.append(one) or nn.fp8.quantised(one))

    def anew(change=lambda: None):
        """How often the weight is quantised for two calls after a change; the results are those of a layer that holds nothing."""
        change()
        made.clear()
        with torch.no_grad():
            found = layer(x), layer(x)
            wanted = nn.functional.fp8_linear(x, layer.weight, layer.bias)
        assert torch.equal(found[0], wanted) and torch.equal(found[1], wanted)
        return len(made)

    @torch.no_grad()
    def in_place():
        weight[3, 4] = 100.0

    def step(fused):
        weight.grad = torch.randn_like(weight)
        torch.optim.AdamW([weight], lr=0.1, fused=fused).step()

    @torch.inference_mode()
    def in_inference():
        weight.mul_(1.5)

    def to_another_place():         # the same version, and as like as not the same address
        weight.data = weight.data.clone() * 2
        weight.data = weight.data.clone() * 2

    def through_data():             # what torch does not count
        weight.data.mul_(2)
        layer.eval()

    assert anew() == 1 and anew() == 0
    for change in (in_place, lambda: step(False), lambda: step(True), in_inference, to_another_place, through_data,
                   lambda: layer.load_state_dict(nn.Linear(32, 16).state_dict()), lambda: layer.bfloat16().float(),
                   lambda: setattr(layer, "weight", torch.nn.Parameter(torch.randn(16, 32)))):
        assert anew(change) == 1 and anew() == 0
    assert list(layer.state_dict()) == ["weight", "bias"] and not dict(layer.named_buffers())
    assert torch.equal(copy.deepcopy(layer)(x), pickle.loads(pickle.dumps(layer))(x))


def test_fp8_weights_are_not_held_where_gradients_or_graphs_want_them(monkeypatch):
    layer, x, made = nn.Linear(32, 16, fp8=True, hold=True).eval(), torch.randn(3, 32), []
    monkeypatch.setattr(nn.held_weights, "quantised", lambda one: made.append(one.dtype) or nn.fp8.quantised(one))
    layer(x).sum().backward()
    assert not made and layer.weight.grad is not None
    with torch.no_grad():
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), layer(x))
        layer.weight.mul_(2)
        torch.testing.assert_close(compiled(x), layer(x))
        with torch.autocast("cpu", torch.bfloat16):
            found, wanted = layer(x), nn.functional.fp8_linear(x, layer.weight, layer.bias)
        assert torch.equal(found, wanted) and found.dtype is torch.bfloat16
        assert made == [torch.float32, torch.float32, torch.bfloat16]
        traced = torch.fx.experimental.proxy_tensor.make_fx(layer)(x)
        assert "held" not in traced.code and len(made) == 3
    layer.requires_grad_(False)
    x.requires_grad_()
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(3, 32))
    assert len(made) == 4
    layer._is_fsdp_managed_module = True
    layer.train().eval()(x)
    assert len(made) == 4


@torch.no_grad()
def test_a_weight_is_held_only_where_its_owner_asks_for_it(monkeypatch):
    made, x = [], torch.randn(3, 32)
    monkeypatch.setattr(nn.held_weights, "quantised", lambda one: made.append(one) or nn.fp8.quantised(one))
    for hold in (False, True):
        model = torch.nn.Sequential(torch.nn.Linear(32, 16)).eval()
        report = nn.patch(model, fp8=True, hold=hold)
        before = model(x), model(x)
        model[0].weight.data.mul_(2)        # which torch does not count
        assert len(made) == hold and torch.equal(model(x), before[0]) == hold
        assert str(model[0]).count("hold=True") == hold
        report.undo()
        assert not hasattr(model[0], "hold")
