"""Operators and modules in graphs of torch.fx: symbolic_trace, whose variables have no shapes, and what a graph computes.

Input: a call of an operator for each, and each module. Output: the nodes of a graph, and its results on tensors. For example:

    torch.fx.symbolic_trace(nn.Linear(4, 4)) has one node, call_module, for the layer
"""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="the modules are of torch")

from mimw import nn, ops  # noqa: E402
from tests.ops.test_autocast import CASES  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


class Calls(torch.nn.Module):
    """A module of one function."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


def called(graph):
    return [getattr(node.target, "__name__", str(node.target)).removesuffix(".default") for node in graph.graph.nodes
            if node.op == "call_function"]


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_a_node(name):
    """The operator itself, or the function where it looks at shapes first."""
    graph = torch.fx.symbolic_trace(Calls(CASES[name][0]))
    assert {"linear_sums": "linear_cross_entropy"}.get(name, name) in called(graph), called(graph)


def turned_in_place(x):
    y = x + 1
    ops.rope(y, *[x.narrow(-1, 0, 4)] * 2, inplace=True)
    return y


def scattered(x):
    out = torch.zeros_like(x)
    ops.gather_matmul_scatter(x, x, torch.arange(2, dtype=torch.int32), torch.arange(2, dtype=torch.int32), out=out)
    return out


@pytest.mark.parametrize("run", [
    lambda x: ops.layer_norm(x, 8, residual=x)[1] + ops.rms_norm(x, (8, )), lambda x: ops.topk(x, 3).values.sum(-1),
    lambda x: ops.cross_entropy(x, torch.arange(8), label_smoothing=0.1), turned_in_place, scattered,
    lambda x: ops.scaled_dot_product_attention(*[x.view(1, 1, 8, 8)] * 3, is_causal=True)])
def test_a_graph_computes_what_was_traced(run):
    x = torch.randn(8, 8)
    graph = torch.fx.symbolic_trace(Calls(run))
    graph.graph.eliminate_dead_code()       # leaves what writes in place
    graph.recompile()
    with torch.no_grad():
        for one in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
            assert torch.equal(one(x), run(x))


def test_modules_are_leaves():
    torch.manual_seed(0)
    model = torch.nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 8, activation="relu"), nn.SwiGLU(8, 4), nn.LayerNorm(8),
                                nn.MoE(8, 4, 2, 1), nn.RotaryEmbedding(8, 16))
    x = torch.randn(3, 8)
    graph = torch.fx.symbolic_trace(model)
    assert [(node.op, node.target) for node in graph.graph.nodes if node.op != "placeholder"] == [
        *(("call_module", str(at)) for at in range(6)), ("output", "output")]
    assert torch.equal(graph(x), model(x)) and set(graph.state_dict()) == set(model.state_dict())
    with pytest.raises(torch.fx.proxy.TraceError, match="SwiGLU of mimw is one node"):
        torch.fx.symbolic_trace(model[2])


def test_losses_and_functions_are_leaves():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.loss = nn.LinearCrossEntropyLoss(8, 5), nn.CrossEntropyLoss()

        def forward(self, x, target):
            fused = nn.functional.linear_cross_entropy(x, self.head.linear.weight, target)
            logits = nn.functional.fp8_linear(x, self.head.linear.weight)
            return self.head(x, target) + fused + self.loss(logits, target=target)

    model, x, target = Model(), torch.randn(3, 8), torch.tensor([0, 4, 2])
    graph = torch.fx.symbolic_trace(model)
    assert {"linear_cross_entropy", "fp8_linear"} < set(called(graph))
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["head", "loss"]
    assert torch.equal(graph(x, target), model(x, target))
    report = nn.patch(patched := torch.nn.Sequential(torch.nn.Linear(8, 4)))
    assert [node.op for node in torch.fx.symbolic_trace(patched).graph.nodes] == ["placeholder", "call_module", "output"]
    report.undo()
