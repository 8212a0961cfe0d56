"""Stubs of operators: as their contracts have it today, Python that runs, every tensor with its types and shapes."""

import inspect
from pathlib import Path
from types import FunctionType
from typing import Literal, get_args, get_origin
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

import mimw.ops.distributed  # noqa: E402, F401
from docs.support.operator_stubs import ROOT, contracts, stubs  # noqa: E402
from mimw import ops  # noqa: E402
from tests.every import every  # noqa: E402

STUBS = stubs()
ROOMS = {"mimw.ops": ops, "mimw.ops.distributed": ops.distributed}


def public(room) -> list[FunctionType]:
    return [one for name in room.__all__ if isinstance(one := getattr(room, name), FunctionType)]


def as_python(name: str) -> dict:
    """The names of a stub, which is run as the module that it speaks of."""
    path = ROOT / "src" / Path(*name.split(".")) / "__init__.pyi"
    names = {"__package__": name, "__name__": name}
    with mock.patch("typing.overload", lambda one: one):         # the last one has the whole signature
        exec(compile(STUBS[path], str(path), "exec"), names)
    return names


@every(map(str, STUBS))
def test_stubs_are_those_of_the_contracts(path):
    assert Path(path).read_text() == STUBS[Path(path)], "written by `python docs/support/operator_stubs.py`"


@every(ROOMS)
def test_a_stub_has_every_name_and_each_function_s_parameters_and_defaults(room):
    found = as_python(room)
    assert found["__all__"] == sorted(ROOMS[room].__all__) and set(found["__all__"]) <= set(found)
    for function in public(ROOMS[room]):
        shown, real = (inspect.signature(one).parameters.values() for one in (found[function.__name__], function))
        assert [(one.name, one.kind, one.default) for one in shown] == [(one.name, one.kind, one.default) for one in real]
        assert inspect.getdoc(found[function.__name__]).startswith(inspect.getdoc(function))


@every(ROOMS)
def test_each_tensor_has_the_types_and_shapes_of_its_contracts(room):
    found = as_python(room)
    for function in public(ROOMS[room]):
        parameters = inspect.signature(found[function.__name__]).parameters
        told = contracts(function)
        assert told or function.__name__ in ("available", "explain", "scaled_dot_product_attention"), function  # none of torch
        for line in (line for contract in told for line in contract.tensors if line.name in parameters):
            said, = parameters[line.name].annotation.__metadata__
            assert line.text.endswith(said) or line.text.partition(": ")[2] in said


def test_choices_and_results_come_from_the_contract():
    found = as_python("mimw.ops")
    activation = inspect.signature(found["addmm"]).parameters["activation"].annotation
    assert get_origin(activation) is Literal and get_args(activation) == (None, "relu", "gelu", "gelu_tanh", "silu")
    result = inspect.signature(found["matmul"]).return_annotation
    assert result.__origin__ is torch.Tensor and result.__metadata__ == ("out_dtype|=a|bf16 (..., m, n)", )
    document = inspect.getdoc(found["attention"])
    assert "    -> lse: fp32 (..., heads, seq_q)\n" in document and document.count("-> lse") == 1
    assert "    softcap > 0 -- it must be more than 0, or None for none" in document
