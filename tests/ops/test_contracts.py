"""Contracts of operators: calls drawn from them are taken, those with a mistake refused by name; results are what fake ones are."""

from random import Random

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

import mimw.ops.distributed  # noqa: E402, F401
from mimw import ops  # noqa: E402
from mimw.ops.contract import Contract  # noqa: E402
from mimw.ops.launching import Launch  # noqa: E402
from mimw.ops.operator import OPERATORS  # noqa: E402

from .contract_calls import drawn, mistakes  # noqa: E402

NAMES = sorted(name for name, one in OPERATORS.items()          # other tests of this process may have made some of their own
               if one.run.__module__.startswith("mimw.ops.") and not one.run.__module__.startswith("mimw.ops.distributed"))
ROUNDS = 6
# Operators of tensors that others have made, which their contracts tell little of: what they save is drawn by nobody.
SAVED = {"attention_backward", "attention_mod_backward", "attention_with_backward", "attention_varlen_backward",
         "simplicial_attention_backward", "norm_backward"}


@pytest.mark.parametrize("name", sorted(name for name, one in OPERATORS.items() if one.run.__module__.startswith("mimw.ops")))
def test_every_operator_has_a_contract_that_names_its_schemas_tensors(name):
    operator = OPERATORS[name]
    tensors = [line.name for line in operator.contract.tensors]
    assert set(tensors) <= set(operator.named()), tensors
    extents = {one for line in operator.contract.tensors for shape in line.shapes for one in shape.names}
    assert not extents & set(tensors)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_drawn_is_taken_and_mistakes_are_refused_by_name(name, seed):
    operator, random = OPERATORS[name], Random(seed)
    given = drawn(operator, random)
    for wrong, arguments in mistakes(operator, given, random):
        with pytest.raises((RuntimeError, NotImplementedError)) as refused:
            operator.contract.check(**arguments)
        said, line = str(refused.value), next(one for one in operator.contract.tensors if one.name == wrong)
        assert said.startswith(f"{operator.contract.name}: ")
        assert wrong in said or any(f"{name} is " in said for shape in line.shapes for name in shape.names)


@pytest.mark.parametrize("name", sorted(set(NAMES) - SAVED))
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_results_are_what_fake_ones_are(name, seed, monkeypatch):
    """Calls are planned and their results made; the launches are left out."""
    monkeypatch.setattr(Launch, "__call__", lambda self, *tensors: None)
    operator = OPERATORS[name]
    given = drawn(operator, Random(seed))
    with torch.no_grad():
        found, fake = operator.run(*(given[one] for one in operator.named())), operator.contract.fake(**given)
    assert type(found) is type(fake)
    for one, other in zip(found, fake, strict=True) if isinstance(found, tuple) else [(found, fake)] if found is not None else []:
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


def test_operations_are_those_that_torch_counts():
    a, b = torch.randn(3, 5, 8), torch.randn(8, 7)
    q, k = torch.randn(2, 4, 6, 16), torch.randn(2, 4, 9, 16)
    for call, count in ((lambda: ops.matmul(a, b), flops(lambda: torch.matmul(a, b))),
                        (lambda: ops.addmm(b[0], a[0], b), flops(lambda: torch.addmm(b[0], a[0], b))),
                        (lambda: ops.attention(q, k, k), sdpa_flop_count(q.shape, k.shape, k.shape))):
        assert flops(call) == count > 0


def test_operations_of_gradients_are_those_that_torch_counts():
    """Forward and backward together; norms count as nothing, as torch's own do."""
    def given(*shapes):
        return [torch.randn(shape, requires_grad=True) for shape in shapes]

    a, b, bias = given((16, 32), (32, 16), (16,))
    grouped, q, k, v = given((2, 32, 16), (2, 4, 6, 16), (2, 4, 9, 16), (2, 4, 9, 8))
    ends, ones = torch.tensor([4, 16], dtype=torch.int32), torch.ones(16, 16)
    attention = sdpa_flop_count(q.shape, k.shape, v.shape) + sdpa_backward_flop_count((2, 4, 6, 8), q.shape, k.shape, v.shape)
    for call, count in ((lambda: ops.matmul(a, b).backward(ones), flops(lambda: torch.matmul(a, b).backward(ones))),
                        (lambda: ops.addmm(bias, a, b).backward(ones), flops(lambda: torch.addmm(bias, a, b).backward(ones))),
                        (lambda: ops.attention(q, k, v).sum().backward(), attention),
                        (lambda: ops.attention(q, k, v, window=(4, 0)).sum().backward(), attention),
                        (lambda: ops.grouped_matmul(a, grouped, ends).backward(ones), 3 * 2 * 16 * 32 * 16),
                        (lambda: ops.rms_norm(a, 32, b[:, 0].detach()).sum().backward(), 0)):
        assert flops(call) == count


def flops(call) -> int:
    """As torch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_symbols_of_a_graph_stay_symbols():
    traced = torch.compile(lambda a, b: ops.matmul(a, b) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    for m, k, n in ((3, 4, 5), (6, 7, 8)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(traced(a, b), 2 * (a @ b))
    with pytest.raises((RuntimeError, torch._dynamo.exc.TorchRuntimeError)):
        traced(torch.randn(3, 4), torch.randn(5, 6))


@pytest.mark.parametrize("given, text", [
    (dict(x=torch.zeros(4, 6), y=torch.zeros(4, 5)), r"named: y is 4 x 5; for x 4 x 6 it must be 4 x 6, \(rows, n\)"),
    (dict(x=torch.zeros(4, 6)), r"named: y is None; it is needed, as =x \(rows, n\) contiguous"),
    (dict(x=torch.zeros(6), y=torch.zeros(6)), r"x has 1 dimensions, 6; it must have 2 dimensions: \(rows, n\)"),
    (dict(x=torch.zeros(4, 6), y=torch.zeros(6, 4).T), r"y must be contiguous; its strides are 1 and 4 elements"),
    (dict(x=torch.zeros(4, 7), y=torch.zeros(4, 7)), r"n is 7; rows must be even"),
    (dict(x=torch.zeros(4, 6), y=torch.zeros(4, 6), z=torch.zeros(25)), r"z is 25; for x 4 x 6 it must be 24, \(rows \* n\)"),
    (dict(x=torch.zeros(4, 6), y=torch.zeros(4, 6), most=0), r"most is 0; there is one at least"),
])
def test_what_a_contract_says(given, text):
    contract = Contract("named", "x: float (rows, n)", "y: =x (rows, n) contiguous", "z?: any (rows * n)",
                        "n % 2 == 0 -- rows must be "
                        "even", "most >= 1 -- there is one at least", "-> o: =x (n, rows)")
    assert contract.check(x=torch.zeros(4, 6), y=torch.zeros(4, 6), most=None).o.shape == (6, 4)
    with pytest.raises(RuntimeError, match=text):
        contract.check(**given)


def test_a_result_of_an_argument_that_is_none():
    """An expression may ask whether it is there."""
    contract = Contract("named", "x: float (held, n)", "rows?: i32 (listed)", "-> y: =x (held if rows is None else listed, n)")
    assert contract.check(x=torch.zeros(4, 6), rows=None).y.shape == (4, 6)
    assert contract.check(x=torch.zeros(4, 6), rows=torch.zeros(9, dtype=torch.int32)).y.shape == (9, 6)
