"""Operators that are planned: which calls share a plan, what a plan is made of and holds, and what it takes to write one."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw.ops.contract import Contract  # noqa: E402
from mimw.ops.operator import OPERATORS, Operator  # noqa: E402
from mimw.ops.planned import Planned  # noqa: E402
from mimw.ops.steps import in_steps  # noqa: E402

CONTRACT = Contract("scaled", "x: float (rows, n)", "y?: =x (rows, n)", "bound >= 0 -- it is 0 or more", "-> z: =x () like x")


def planned(schema: str, contract: Contract = CONTRACT, *asks, **options):
    """(the function of a schema, the arguments with which plans were made)."""
    calls = []

    def make(of, *given):
        calls.append((of, *given))
        return lambda *tensors: (of.empty(tensors[0]), tensors)

    return Planned(make, *asks, **options).function(schema, contract), calls


def test_calls_that_look_alike_share_a_plan():
    function, calls = planned("scaled(Tensor x, Tensor? y=None, int bound=4) -> Tensor")
    x = torch.zeros(4, 8)
    for given, made in (((x, ), 1), ((torch.ones(4, 8), None, 4), 1), ((x, x), 2), ((x, None, 5), 3), ((torch.zeros(5, 8), ), 4),
                        ((torch.zeros(8, 4).T, ), 5), ((x.double().float(), ), 5)):
        found, tensors = function(*given)
        assert len(calls) == made and found.shape == given[0].shape and found.stride() == given[0].stride()
        assert tensors == (given[0], given[1] if len(given) > 1 else None)
    assert calls[0][1:] == (x, None, 4) and calls[0][0].rows == 4


def test_what_the_contract_refuses_has_no_plan():
    function, calls = planned("scaled(Tensor x, Tensor? y=None, int bound=4) -> Tensor")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="scaled: bound is -1; it is 0 or more"):
            function(torch.zeros(4, 8), None, -1)
    assert calls == []


def test_a_plan_depends_on_what_is_asked_and_gets_what_is_rounded():
    answer = [1]
    function, calls = planned("scaled(Tensor x, Tensor? y=None, int bound=4) -> Tensor", CONTRACT,
                              lambda y: (answer[0], y is None), of="y", rounds={"bound": lambda bound: -(-bound // 8) * 8})
    x = torch.zeros(4, 8)
    function(x, None, 3), function(x, None, 8), function(x, x, 8)
    answer[0] = 2
    function(x, x, 9)
    assert [call[3:] for call in calls] == [(8, (1, True)), (8, (1, False)), (16, (2, False))]


def test_a_plan_s_extents_hold_no_tensor(little_to_collect):
    function, calls = planned("scaled(Tensor x, Tensor? y=None, Tensor? unheard_of=None) -> Tensor")
    x, other = torch.zeros(4, 8), torch.zeros(3)
    function(x, x, other)
    held = [weakref.ref(one) for one in (x, other)]
    of = calls.pop()[0]
    del x, other
    gc.collect()
    assert [one() for one in held] == [None, None] and of.z.shape == (4, 8)


def test_every_planned_operator_has_its_name_and_its_module():
    found = {name: one for name, one in OPERATORS.items()       # pages and tests of this process may have made some of their own
             if one.planned is not None and one.planned.make.__module__.partition(".")[0] == "mimw"}
    assert {"attention", "topk", "rope_", "norm_backward", "moe"} <= set(found)
    for name, one in found.items():
        assert one.planned.make.__module__.startswith(("mimw.ops.", "mimw.integrations.")) and name in OPERATORS[name].schema


def test_gradients_of_the_last_arguments_may_be_left_out():
    doubled = Operator("doubled_for_a_test(Tensor x, Tensor? y=None, int times=2) -> Tensor", lambda x, y=None, times=2: x * times,
                       lambda x, y=None, times=2: torch.empty_like(x), lambda ctx, inputs, output: None, lambda ctx, dz: 2 * dz)
    x = torch.ones(3, requires_grad=True)
    for call in (lambda: doubled(x), lambda: doubled(x, None, 2), lambda: doubled.op(x), lambda: doubled.op(x, None, 2)):
        gradient, = torch.autograd.grad(call().sum(), x)
        assert gradient.tolist() == [2, 2, 2]


def test_steps_know_their_arrays_by_name(monkeypatch):
    launched = []

    class Launch:
        def __init__(self, on, *of):
            self.of = of

        def __call__(self, *tensors):
            launched.append((self.of[0], tensors))

    monkeypatch.setattr("mimw.ops.steps.Launch", Launch)

    def arrays_of(x, w):
        return dict(x=x, w=w, held=x.new_empty(2), out=x.new_empty(3))

    def make(arrays):
        return [("first", (1, ), (arrays["w"], 3, arrays["held"]), {}), ("second", (1, ), (arrays["held"], arrays["out"]), {})]

    plan = in_steps(arrays_of, make, torch.zeros(1), torch.zeros(2))
    x, w = torch.zeros(1), torch.zeros(2)
    out = plan(x, w)
    (first, (one, held)), (second, (same, last)) = launched
    assert (first, second) == ("first", "second") and one is w and held is same and last is out
