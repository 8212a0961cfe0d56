"""The exported kernel as torch's operator: carried by torch.export, simulated on the CPU; its C++ twin has the same schema."""

import io

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="operators of torch need torch")

from mimw.errors import LaunchError  # noqa: E402
from mimw.runtime.export import export, torch_op  # noqa: E402
from mimw.runtime.export.arguments import Number, Pointer  # noqa: E402
from mimw.runtime.export.torch_cpp import check_for_torch  # noqa: E402
from tests.kernels import exported as shelf  # noqa: E402

SCHEMA = ("scaled(Tensor source, Tensor(a!) target, float factor, SymInt rows, SymInt grid_x, SymInt grid_y=1, SymInt grid_z=1)"
          " -> ()")


@pytest.fixture(scope="module")
def scaled():
    kernel, grid, args, meta = shelf.case()
    return torch_op("scaled", kernel, grid, *args, target="sm_90a", **meta)


class Scaled(torch.nn.Module):

    def forward(self, x):
        target = torch.empty_like(x)
        torch.ops.mimw_export.scaled(x, target, 3.0, x.shape[0], (x.shape[0] + 31) // 32)
        return target + 1


def test_a_call_is_the_kernel(scaled):
    x, y = torch.randn(96, 64), torch.zeros(96, 64)
    assert scaled(x, y, -0.5, 64, 3) is None
    assert torch.equal(y[:64], -0.5 * x[:64]) and not y[64:].any()
    assert str(scaled._schema) == f"mimw_export::{SCHEMA}"


def test_what_it_writes_is_noted_as_by_torch(scaled):
    x, y, leaf = torch.randn(96, 64), torch.zeros(96, 64), torch.zeros(96, 64).requires_grad_()
    seen = (leaf * y).sum()
    scaled(x, y, 2.0, 64, 3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        seen.backward()
    for wrong, error, text in ((leaf, RuntimeError, "target is a leaf"), (leaf[:], RuntimeError, "target is a view of a leaf"),
                               (leaf * 1, NotImplementedError, "has no derivative")):
        with pytest.raises(error, match=text):
            scaled(x, wrong, 2.0, 64, 3)
    scaled(leaf, y, 2.0, 64, 3)         # what is only read is nobody's loss
    twice = torch.randn(96, 64)
    wanted = 2 * twice[:64]
    scaled(twice, twice, 2.0, 64, 3)    # whether that is right the kernel's author knows
    assert torch.equal(twice[:64], wanted)


def test_what_the_kernel_was_not_compiled_for_is_refused(scaled):
    with pytest.raises(LaunchError, match="rows is 70, and the kernel was compiled for multiples of 16"):
        scaled(torch.zeros(96, 64), torch.zeros(96, 64), 1.0, 70, 3)


def test_torch_export_carries_it_with_symbols_for_extents(scaled):
    x = torch.randn(80, 64)
    rows = 16 * torch.export.Dim("sixteenths", min=2, max=64)
    program = torch.export.export(Scaled(), (x, ), dynamic_shapes={"x": {0: rows}})
    assert "mimw_export.scaled" in str(program.graph)
    kept = io.BytesIO()
    torch.export.save(program, kept)
    kept.seek(0)
    again = torch.export.load(kept).module()
    for extent in (80, 48):
        x = torch.randn(extent, 64)
        assert torch.equal(again(x), 3 * x + 1)


def test_an_operator_of_that_name_is_replaced(scaled):
    kernel, grid, (described, target, _, rows), meta = shelf.case()
    torch_op("scaled", kernel, grid, described, target, 2.5, rows, target="sm_90a", writes=["source", "target"], **meta)
    assert "Tensor(a!) source, Tensor(b!) target" in str(torch.ops.mimw_export.scaled.default._schema)


def test_the_cpp_file_has_the_same_schema():
    kernel, grid, args, meta = shelf.case()
    text = export(kernel, grid, *args, target="sm_90a", name="scaled", torch=True, **meta).files["scaled_torch.cpp"]
    assert f'library.def("{SCHEMA}", {{at::Tag::pt2_compliant_tag}});' in text
    for part in ('check(source, at::ScalarType::Float, 2, device, "source");',
                 'check(target, at::ScalarType::Float, -1, device, "target");', 'narrow<int32_t>(rows, "rows")', "(float)factor",
                 "(CUdeviceptr)target.data_ptr()", 'check_written(target, "target");', "note_written(target);"):
        assert part in text
    assert 'check_written(source' not in text


@pytest.mark.parametrize("arguments, expected", [
    ([Number("n", "i32", False)], "k has no arrays"),
    ([Pointer("x", "fp32", True), Number("h", "bf16", False)], "'h' of k is bf16, which operators of torch do not take"),
    ([Pointer("x", "fp8e3", True)], "'x' of k is an array of fp8e3"),
])
def test_what_torch_does_not_take(arguments, expected):
    with pytest.raises(LaunchError, match=expected):
        check_for_torch("k", arguments)


def test_numpy_is_as_good_as_torch_for_the_launch_that_is_exported():
    kernel, grid, (described, target, factor, rows), meta = shelf.case()
    assert isinstance(target, np.ndarray)
    given = type(described).from_tensor(torch.zeros(80, 64), described.block_shape), torch.zeros(80, 64)
    ours, theirs = (export(kernel, grid, *arrays, factor, rows, target="sm_90a", **meta).files["scale_rows.c"]
                    for arrays in ((described, target), given))
    assert ours == theirs
