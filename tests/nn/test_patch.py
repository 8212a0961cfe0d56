"""mimw.nn.patch: what it replaces, what it says of the rest, and that it can be undone."""

import pytest

torch = pytest.importorskip("torch", reason="the modules are of torch")

from mimw import nn  # noqa: E402
from mimw.nn.rules import RULES, full_name  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


class Odd(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), Odd(8, 8), torch.nn.RMSNorm(8),
                               torch.nn.Sequential(torch.nn.Linear(8, 4)))


def test_same_modules_parameters_hooks_and_results():
    one, x, heard = model(), torch.randn(3, 8), []
    one[0].register_forward_hook(lambda module, args, y: heard.append(type(module)))
    before, parameters, modules = one(x), list(one.parameters()), list(one.modules())
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    report = nn.patch(one)
    assert [type(module) for module in one] == [nn.Linear, nn.LayerNorm, torch.nn.GELU, Odd, nn.RMSNorm, torch.nn.Sequential]
    torch.testing.assert_close(one(x), before, rtol=1e-5, atol=1e-5)
    assert all(a is b for a, b in zip(one.parameters(), parameters)) and all(a is b for a, b in zip(one.modules(), modules))
    one(x).sum().backward()
    optimizer.step()
    assert heard == [torch.nn.Linear, nn.Linear, nn.Linear]
    after = one(x)
    report.undo()
    assert [type(module) for module in one] == [type(module) for module in model()] and not report.replaced
    torch.testing.assert_close(one(x), after, rtol=1e-5, atol=1e-5)


def test_the_report():
    one = model()
    one[1].forward = lambda x: x
    assert str(nn.patch(one, skip=["5.*"])) == """\
2 modules of 6 compute by mimw: 1 Linear, 1 RMSNorm
  LayerNorm stays, 1: it has a forward of its own, set on the instance
  GELU stays, 2: no rule knows its class
  Odd stays, 3: it is a subclass of Linear, which may compute something else
  Linear stays, 5.0: skip= names it"""
    assert "Linear stays, 0 and 1 more: it is mimw's" in str(nn.patch(torch.nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])))


def test_patterns():
    one = model()
    report = nn.patch(one, only=["Linear"], fp8=["5.0"])
    assert [(found.name, dict(found.attributes)) for found in report.replaced] == [("0", {}), ("5.0", {"fp8": True})]
    assert one[5][0].fp8 and not one[0].fp8
    report.undo()
    assert "fp8" not in vars(one[5][0])
    with pytest.raises(ValueError, match=r"skip='head' is no module of this model; patterns are of dotted names, as '5.0', or of "
                       "classes: GELU, LayerNorm, Linear"):
        nn.patch(one, skip=["head"])


def test_modules_that_are_ours_take_no_fp8_from_patch():
    one = model()
    nn.patch(one)
    assert "Linear stays, 0: it is mimw's, without fp8: undo the patch before" in str(nn.patch(one, fp8=["0"]))
    assert not one[0].fp8


def test_attention_says_where_ours_is():
    report = nn.patch(torch.nn.TransformerEncoderLayer(8, 2, 16))
    assert sorted(found.name for found in report.replaced) == ["linear1", "linear2", "norm1", "norm2"]
    assert 'self_attn: torch computes it by one function from its matrices; with need_weights=False' in str(report)


@pytest.mark.parametrize("attributes, error, says", [
    (lambda module: {"weight": 1}, ValueError, "the rule of .*RMSNorm sets weight, which 4 has already"),
    (lambda module: {}[module], KeyError, "RMSNorm")])
def test_nothing_is_replaced_after_an_error(attributes, error, says, monkeypatch):
    one = model()
    rule = nn.Rule(full_name(torch.nn.RMSNorm), lambda cls: nn.RMSNorm, attributes=attributes)
    monkeypatch.setitem(RULES, rule.of, rule)
    with pytest.raises(error, match=says):
        nn.patch(one)
    assert [type(module) for module in one] == [type(module) for module in model()] and one[4].weight.shape == (8, )


def test_types_that_no_kernel_takes():
    report = str(nn.patch(model().double()))
    assert "Linear stays, 0 and 1 more: a parameter is torch.float64; kernels take bf16, fp16 and fp32" in report


def test_undo_finds_what_was_changed_since():
    one = model()
    report = nn.patch(one)
    moved = one[0]
    one[0] = torch.nn.Sequential(moved)
    one[4].__class__ = sharded = type("Sharded", (nn.RMSNorm, ), {})        # as fully_shard does
    with pytest.raises(RuntimeError, match="4 was RMSNorm after patch and is Sharded now"):
        report.undo()
    assert type(one[4]) is sharded and type(moved) is nn.Linear
    one[4].__class__ = nn.RMSNorm
    report.undo()
    assert type(one[4]) is torch.nn.RMSNorm and type(moved) is torch.nn.Linear


def test_a_rule_of_ones_own():
    class Shifted(torch.nn.Module):
        def forward(self, x):
            return x + 1

    class Twice(Shifted):
        def forward(self, x):
            return x + self.by

    nn.register_rule(nn.Rule(full_name(Shifted), lambda cls: Twice, attributes=lambda module: {"by": 2}))
    try:
        one = Shifted()
        report = nn.patch(one)
        assert one(1) == 3
        report.undo()
        assert one(1) == 2 and "by" not in vars(one)
    finally:
        del RULES[full_name(Shifted)]


def test_compiled_models_compile_anew():
    one, x = model(), torch.randn(3, 8)
    compiled = torch.compile(one, backend="aot_eager")
    before = compiled(x)
    nn.patch(one)
    torch.testing.assert_close(compiled(x), before, rtol=1e-5, atol=1e-5)
