"""`mimw.ops.matmul` against torch.matmul: shapes, strides, types, derivatives, and what torch asks of an operator."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402

MODULE = sys.modules["mimw.ops.matmul"]
bf16, fp16, fp32, e4m3, e5m2 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2
ERROR = {bf16: 1e-2, fp16: 2e-3, fp32: 1e-5}    # of the rounded result, relative to the largest value


def normal(*shape, dtype=bf16, seed=0, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(device, dtype)


def close(found, a, b, allowed=None):
    expected = torch.matmul(a.double(), b.double())
    assert found.shape == expected.shape and found.is_contiguous()
    if expected.numel():
        error = (found.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
        assert error <= (allowed or ERROR[found.dtype]), float(error)


SHAPES = [((5, 33), (33, 7)), ((1, 16), (16, 1)), ((33, ), (33, )), ((33, ), (33, 4)), ((5, 33), (33, )), ((2, 1, 5, 9), (3, 9, 4)),
          ((2, 3, 5, 9), (9, 4)), ((5, 9), (2, 9, 4)), ((9, ), (2, 9, 4)), ((2, 5, 9), (9, )), ((0, 9), (9, 4)), ((5, 0), (0, 4)),
          ((5, 9), (9, 0)), ((0, 5, 9), (9, 4)), ((0, 5, 9), (0, 9, 4)), ((2, 5, 0), (2, 0, 4))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_shapes(a, b):
    a, b = normal(*a), normal(*b, seed=1)
    close(ops.matmul(a, b), a, b)


def test_tma_takes_aligned_matrices():
    a, b = normal(64, 64), normal(64, 64, seed=1)
    close(ops.matmul(a, b), a, b)
    close(ops.matmul(a, b.T), a, b.T)
    close(ops.matmul(a.view(2, 2, 16, 64), b), a.view(2, 2, 16, 64), b)


def test_few_rows_of_many_weights(monkeypatch):
    monkeypatch.setattr(MODULE, "MANY_WEIGHTS", 0)
    monkeypatch.setattr(MODULE, "_PLANS", type(MODULE._PLANS)(MODULE._plan))
    monkeypatch.setattr(MODULE, "plain_matmul", None)
    a, b = normal(2, 64), normal(64, 64, seed=1)
    close(ops.matmul(a, b.T), a, b.T)
    close(ops.matmul(a[0], b.T), a[0], b.T)


def test_few_rows_by_whole_columns(monkeypatch):
    """Where weights lie along K, C's rows are multiples of 16 bytes, there are tiles for all programs, and half of their rows."""
    monkeypatch.setattr(MODULE.column_gemm.configs, "MANY_WEIGHTS", 0)
    monkeypatch.setattr(MODULE, "_PLANS", type(MODULE._PLANS)(MODULE._plan))
    monkeypatch.setattr(MODULE, "MANY_WEIGHTS", 0)
    made = []
    for name in ("column_gemm", "skinny_gemm", "gemm"):
        module = getattr(MODULE, name)

        def noted(*args, of=module.arguments, name=name, **more):
            made.append(name)
            return of(*args, **more)

        monkeypatch.setattr(module, "arguments", noted)
    a, b = normal(40, 64), normal(256, 64, seed=1)
    for x in (a, a.view(2, 20, 64)):
        close(ops.matmul(x, b.T), x, b.T)
        close(ops.matmul(x, b.T), x, b.T)
    assert made == 2 * ["column_gemm"]
    close(ops.matmul(a, b.T.contiguous()), a, b.T)
    close(ops.matmul(a, b[:200].T), a, b[:200].T)
    close(ops.matmul(a, b[:132].T), a, b[:132].T)
    wide = normal(80, 64)
    close(ops.matmul(wide, b.T), wide, b.T)
    close(ops.matmul(a[:8], b.T), a[:8], b.T)
    assert made[2:] == ["skinny_gemm", "column_gemm", "skinny_gemm", "gemm", "skinny_gemm"]


def test_batches_by_tma():
    a, b = normal(2, 3, 16, 32), normal(3, 32, 24, seed=1)
    close(ops.matmul(a, b), a, b)
    close(ops.matmul(a, b.mT.contiguous().mT), a, b)
    close(ops.matmul(a[0, 0], b), a[0, 0], b)


def odd(x):
    """The same values, elements two apart."""
    return x.repeat_interleave(2, -1)[..., ::2]


def shifted(x):
    """The same values from an address that is no multiple of 16."""
    return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)


@pytest.mark.parametrize("change", [odd, shifted, lambda x: x.T.contiguous().T, lambda x: x.expand(3, *x.shape)[1],
                                    lambda x: x[:1].expand(x.shape)],
                         ids=["steps", "address", "transposed", "expanded", "stride 0"])
@pytest.mark.parametrize("copying", [False, True])
def test_strides(change, copying, copies):
    """By the plain kernel, and by copies for TMA."""
    if copying:
        copies(MODULE)
    a, b = normal(16, 32), normal(32, 24, seed=1)
    close(ops.matmul(change(a), b), change(a), b)
    close(ops.matmul(a, change(b)), a, change(b))


@pytest.mark.parametrize("m, n, k", [(5, 7, 33), (3, 1, 40)])
def test_padding_for_tma(m, n, k, copies):
    copies(MODULE)
    a, b = normal(m, k), normal(k, n, seed=1)
    close(ops.matmul(a, b), a, b)
    close(ops.matmul(a.view(1, m, k), b), a.view(1, m, k), b)


@pytest.mark.parametrize("left, right, out", [(e4m3, e4m3, None), (e4m3, e5m2, fp32), (fp16, fp16, fp32), (bf16, bf16, fp16),
                                              (fp16, fp16, e4m3)])
def test_types(left, right, out):
    a, b = normal(17, 33, dtype=left), normal(33, 16, dtype=right, seed=1)
    found = ops.matmul(a, b, out)
    assert found.dtype == (out or bf16)
    close(found, a.float(), b.float(), 0.05 if out is e4m3 else 1e-2)


def test_fp8_where_triton_has_no_e4m3(monkeypatch):
    monkeypatch.setattr(MODULE, "has_e4m3", lambda x: False)
    monkeypatch.setattr(MODULE, "_PLANS", type(MODULE._PLANS)(MODULE._plan))
    a, b = normal(5, 9, dtype=e4m3), normal(9, 4, dtype=e5m2, seed=1)
    close(ops.matmul(a, b), a.float(), b.float())


def test_fp8_by_tma():
    a, b = normal(64, 64, dtype=e4m3), normal(64, 64, dtype=e4m3, seed=1).T
    close(ops.matmul(a, b), a.float(), b.float())


@pytest.fixture
def precision():
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


def test_fp32_obeys_the_precision_that_is_set(precision):
    """tf32 keeps 10 bits of the operands' mantissas; "highest" all 23."""
    a, b = normal(64, 64, dtype=fp32), normal(64, 64, dtype=fp32, seed=1).T
    expected = torch.matmul(a.double(), b.double())
    errors = []
    for which in ("highest", "high"):
        precision(which)
        errors.append(float((ops.matmul(a, b) - expected).abs().max()))
    assert errors[0] < 1e-4 < errors[1] < 0.1


def test_fp32_obeys_the_newer_setting():
    """Which torch does not let the older one be asked beside."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("since torch 2.9")
    a, b = normal(64, 64, dtype=fp32), normal(64, 64, dtype=fp32, seed=1).T
    expected, errors, before = torch.matmul(a.double(), b.double()), [], torch.backends.cuda.matmul.fp32_precision
    try:
        for which in ("ieee", "tf32"):
            torch.backends.cuda.matmul.fp32_precision = which
            errors.append(float((ops.matmul(a, b) - expected).abs().max()))
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert errors[0] < 1e-4 < errors[1] < 0.1


@pytest.mark.parametrize("a, b, error, text", [
    (normal(2, 3), normal(4, 5), RuntimeError, "b is 4 x 5; for a 2 x 3 it must be 3 x n, ...., k, n."),
    (normal(2, 3), normal(3, 5, dtype=fp16), RuntimeError, "both must be of one type"),
    (normal(2, 3).double(), normal(3, 5).double(), NotImplementedError, "torch.matmul takes the other types"),
    (torch.ones(2, 3, dtype=torch.int32), torch.ones(3, 2, dtype=torch.int32), NotImplementedError, "torch.int32"),
    (torch.tensor(1.0), normal(3), RuntimeError, "a has 0 dimensions, a number; it must be ...., m, k. or .k."),
    (normal(2, 3, 4), normal(3, 4, 5), RuntimeError, "[Ss]hape mismatch|broadcast"),
    (normal(2, 3), torch.empty(3, 4, dtype=bf16, device="meta"), RuntimeError, "on one device")])
def test_refusals(a, b, error, text):
    with pytest.raises(error, match=text):
        ops.matmul(a, b)


CASES = [((5, 9), (9, 4)), ((9, ), (9, )), ((2, 1, 5, 9), (3, 9, 4)), ((9, ), (2, 9, 4)), ((2, 5, 9), (9, ))]


@pytest.mark.parametrize("a, b", CASES)
def test_gradients(a, b):
    leaves = [normal(*shape, dtype=fp32, seed=seed).requires_grad_() for seed, shape in enumerate((a, b))]
    twins = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    found, expected = ops.matmul(*leaves), torch.matmul(*twins)
    weights = normal(*expected.shape, dtype=fp32)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    for leaf, twin in zip(leaves, twins):
        torch.testing.assert_close(leaf.grad, twin.grad)


@pytest.mark.parametrize("rows", [(64, ), (2, 32)])
def test_gradients_of_a_weight_are_one_product_without_a_copy(monkeypatch, rows):
    """It lies as the weight does, and the GEMM reads its first operand by columns."""
    monkeypatch.setattr(MODULE, "_PLANS", type(MODULE._PLANS)(MODULE._plan))
    monkeypatch.setattr(MODULE, "plain_matmul", None)
    monkeypatch.setattr(MODULE, "copied", None)
    x, weight = normal(*rows, 64), normal(128, 64, seed=1).requires_grad_()
    for b in (weight.T, weight.detach().T.contiguous().requires_grad_()):
        dy = normal(*rows, 128, seed=2)
        gradient, = torch.autograd.grad(ops.matmul(x, b), b, dy)
        assert gradient.stride() == b.stride()
        exact = x.flatten(0, -2).double().T @ dy.flatten(0, -2).double()
        torch.testing.assert_close(gradient.double(), exact, rtol=1e-2, atol=1e-2)


def test_second_derivatives():
    a, b = normal(3, 4, dtype=fp32).requires_grad_(), normal(4, 2, dtype=fp32).requires_grad_()
    first, = torch.autograd.grad((ops.matmul(a, b)**2).sum(), a, create_graph=True)
    second, = torch.autograd.grad(first.sum(), b)
    first, = torch.autograd.grad((torch.matmul(a, b)**2).sum(), a, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(first.sum(), b)[0])


def test_fp8_has_no_derivative():
    a = normal(4, 4).to(e4m3).requires_grad_()
    with pytest.raises(NotImplementedError, match="fp8 operands have no derivative"):
        ops.matmul(a, a)


@pytest.mark.parametrize("args", [(normal(5, 9).requires_grad_(), normal(9, 4)), (normal(2, 5, 9), normal(2, 9, 4), fp32),
                                  (normal(9), normal(9))])
def test_opcheck(args):
    torch.library.opcheck(torch.ops.mimw.matmul.default, args)


def test_compiled_whole():
    compiled = torch.compile(lambda a, b: ops.matmul(a, b).relu(), fullgraph=True, backend="aot_eager", dynamic=True)
    for m in (5, 6):
        a, b = normal(m, 9, dtype=fp32).requires_grad_(), normal(9, 4, dtype=fp32)
        found = compiled(a, b)
        torch.testing.assert_close(found, torch.matmul(a, b).relu())
        found.sum().backward()
        torch.testing.assert_close(a.grad, (torch.matmul(a, b) > 0).float() @ b.T)


def test_autocast_and_meta():
    a, b = normal(5, 9, dtype=fp32), normal(9, 4, dtype=fp32)
    with torch.autocast("cpu", bf16):
        assert ops.matmul(a, b).dtype == torch.matmul(a, b).dtype == bf16
    found = ops.matmul(torch.empty(2, 5, 9, device="meta"), torch.empty(9, 4, device="meta"))
    assert found.shape == (2, 5, 4) and found.device.type == "meta"


def test_plans_are_bounded(monkeypatch):
    plans = type(MODULE._PLANS)(MODULE._plan, 2)
    monkeypatch.setattr(MODULE, "_PLANS", plans)
    for m in (1, 2, 3, 3):
        ops.matmul(normal(m, 0), normal(0, 4))
    assert len(plans) == 2


def test_last_round_is_shared_out(monkeypatch):
    """Ten tiles on the simulator's four programs: the last two are cut."""
    monkeypatch.setattr(MODULE.gemm.configs, "CHUNK", 1000.0)
    a, b = normal(264, 136), normal(136, 136, seed=1)
    assert MODULE.gemm.room_for(264, 136, 136, 2, MODULE.programs(a))[0]
    for _ in range(2):
        close(ops.matmul(a, b), a, b)
