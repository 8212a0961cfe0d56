"""`mimw.ops.explain`: kernels by name, torch where no kernel is launched, and nothing simulated."""

import json
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.errors import TargetError  # noqa: E402
from mimw.ops import launching  # noqa: E402
from mimw.ops.matmul import _PLANS  # noqa: E402


@pytest.mark.parametrize("operator, args, options, said", [
    (ops.matmul, (torch.ones(64, 128).half(), torch.ones(128, 64).half()), {}, "matmul: by gemm"),
    (ops.matmul, (torch.ones(3, 5), torch.ones(5, 7)), {}, "matmul: by plain_matmul"),
    (ops.rms_norm, (torch.ones(4, 256), 256), {}, "rms_norm: by norm"),
    (ops.attention, [torch.ones(1, 1, 64, 64).half()] * 3, dict(causal=True), "attention: by attention"),
    (ops.topk, (torch.ones(600000), 500000), {}, "topk: by torch"),
    (ops.scaled_dot_product_attention, [torch.ones(1, 1, 64, 64).half()] * 3, {}, "scaled_dot_product_attention: by attention"),
    (ops.scaled_dot_product_attention, [torch.ones(1, 1, 4, 64).half()] * 3 + [torch.ones(4, 4).half()], {},
     "scaled_dot_product_attention: by torch, as attn_mask is added to the scores, which no kernel of mimw does")])
def test_kernels(operator, args, options, said, monkeypatch):
    monkeypatch.setattr(launching.mimw, "simulate", lambda *args, **options: pytest.fail("simulated"))
    assert ops.explain(operator, *args, **options).line == said


def test_a_refused_call_is_refused():
    with pytest.raises(RuntimeError, match="matmul"):
        ops.explain(ops.matmul, torch.ones(3, 5), torch.ones(6, 7))


def test_calls_compute_afterwards():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    ops.explain(ops.matmul, a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ops.SimulationWarning)
        torch.testing.assert_close(ops.matmul(a, b), a @ b)


def meta(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("chip, kernel, grid", [("sm_90a", "gemm", (132, )), ("gfx950", "mfma_gemm", (256, )),
                                                ("sm_80", "plain_matmul", (1024, ))])
def test_a_chip_that_is_not_here(chip, kernel, grid):
    said = ops.explain(ops.matmul, meta(4096, 4096), meta(4096, 4096), target=chip)
    launch, = said.launches
    assert (said.target, launch.kernel, launch.grid) == (chip, kernel, grid) and "BM=" in launch.configuration
    assert any(f"the chip is {chip}" in line for line in said.declined) == (chip != "sm_90a")
    assert said.json()["launches"][0]["grid"] == list(grid)
    assert str(said).startswith(f"matmul: by {kernel} (on {chip})\n    {kernel}: ")


def test_why_a_configuration():
    """A measured row of the very shape; of another shape the nearest, and where tiles of it would leave programs idle, that."""
    whys = [ops.explain(ops.matmul, meta(m, 4096), meta(4096, 4096), target="sm_90a").launches[0].why for m in (4096, 4352)]
    assert whys[0] == "measured row (4096, 4096, 4096, 2)" and whys[1].startswith("measured row (") and whys[1] != whys[0]
    assert ops.explain(ops.rms_norm, meta(4096, 8000), 8000, target="gfx950").launches[0].why == "by its rule, no row measured"


def test_what_speaks_against_a_kernel():
    q = meta(1, 2, 64, 80, dtype=torch.float16)
    assert "heads by TMA: TMA would read and write copies, 96 wide, which do not pay for so few products" in ops.explain(
        ops.attention, q, q, q).declined
    assert ops.explain(ops.attention, *[q.float()] * 3).declined == ("attention: it takes bf16 and fp16, not fp32", )


def test_what_torch_computes_besides():
    a, b = meta(8200, 8192).T, meta(8200, 4100)         # rows of 8200 bytes: TMA reads no such, and a copy pays
    said = ops.explain(ops.matmul, a, b[:, 1:4098], target="sm_90a")
    assert said.kernels == ("gemm", ) and any(line.startswith("copy of bf16") for line in said.torch), str(said)
    assert ops.explain(ops.topk, meta(1, 600000), 500000, target="sm_90a").torch == ("topk of bf16 (1, 600000)", )


def test_sizes_that_the_host_waits_for():
    """They are of the call's tensors; where these have no data, that is an error."""
    a, b = torch.zeros(8, 16).half(), torch.zeros(2, 16, 16).half()
    said = ops.explain(ops.grouped_matmul, a, b, torch.tensor([4, 8], dtype=torch.int32), target="sm_80")
    assert [one.kernel for one in said.launches] == ["plain_matmul"] * 2
    with pytest.raises(RuntimeError, match="goes by the numbers in a tensor i32"):
        ops.explain(ops.grouped_matmul, meta(8, 16), meta(2, 16, 16), meta(2, dtype=torch.int32), target="sm_80")


def test_alignment_counts_and_no_plan_is_kept():
    whole = torch.zeros(64 * 128 + 1).half()
    b, kept = torch.zeros(128, 64).half(), len(_PLANS)
    assert ops.explain(ops.matmul, whole[:-1].view(64, 128), b).kernels == ("gemm", )
    assert ops.explain(ops.matmul, whole[1:].view(64, 128), b).kernels == ("plain_matmul", )
    assert len(_PLANS) == kept


def test_fake_tensors_and_autocast():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode() as mode:
        a = mode.from_tensor(torch.zeros(64, 64))
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.explain(ops.matmul, a, a).kernels == ("gemm", )
    assert ops.explain(ops.matmul, a, a).kernels == ("plain_matmul", )


def test_no_such_chip():
    with pytest.raises(TargetError, match="known are sm_80"):
        ops.explain(ops.matmul, meta(8, 8), meta(8, 8), target="sm_10")


CHIPS = Path(__file__).parents[2] / "docs" / "support" / "operator_chips.json"


@pytest.mark.parametrize("chip", ["sm_90a", "gfx950"])
def test_available(chip):
    """The kernels are those that simulating the pages' examples found. One has a mask in its example, one gradients as well."""
    found = ops.available(chip)
    known = {name: row[chip] for name, row in json.loads(CHIPS.read_text()).items()}
    others = {name for name, row in found.items() if list(row.kernels) != known[name]}
    assert others <= {"scaled_dot_product_attention", "linear_cross_entropy"}
    assert set(found) == set(known) and not found["topk_selector"].derivative and found["matmul"].derivative
    assert found["scaled_mm"].types == ("e4m3", "e5m2") and found["attention"].types == ("bf16", "fp16", "fp32")
    assert str(found).startswith(f"on {chip}:\noperator ") and found.json()[0]["operator"] == "addmm"
