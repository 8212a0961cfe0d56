"""The calls of servers against three lines of torch each; the switch; calls that are left to the server, and logged once."""

import logging
import sys
import tomllib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import contracts, serving, sglang, vllm  # noqa: E402
from mimw.integrations.vllm import installed  # noqa: E402

ROOT = Path(__file__).parents[2]


def near(found, wanted):
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_a_norm_returns_new_tensors_and_leaves_what_it_reads():
    x, residual, weight = torch.randn(3, 32), torch.randn(3, 32), torch.randn(32)
    before = x.clone(), residual.clone()
    y, total = serving.norm(x, weight, 1e-6, residual)
    near(total, before[0] + before[1])
    near(y, total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6) * weight)
    assert torch.equal(x, before[0]) and torch.equal(residual, before[1])


def test_swiglu_takes_the_gate_first():
    x = torch.randn(3, 32)
    near(serving.silu_and_mul(x), torch.nn.functional.silu(x[:, :16]) * x[:, 16:])


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_is_in_place_in_slices_of_a_packed_projection(neox):
    tokens, heads, kv_heads, head, turned = 3, 2, 1, 16, 8
    packed, cache, positions = torch.randn(tokens, (heads + 2 * kv_heads) * head), torch.randn(5, turned), torch.tensor([4, 0, 2])
    wanted = packed.clone().view(tokens, -1, head)
    cos, sin = (part[:, None] for part in cache[positions].chunk(2, -1))
    part = wanted[:, :heads + kv_heads, :turned]
    first, second = (part[..., :turned // 2], part[..., turned // 2:]) if neox else (part[..., ::2], part[..., 1::2])
    both = first * cos - second * sin, second * cos + first * sin
    first.copy_(both[0]), second.copy_(both[1])
    query, key, _ = packed.split([heads * head, kv_heads * head, kv_heads * head], -1)
    assert serving.rotary_reason(query, key, cache) is None
    serving.rotate_(positions, query, key, head, cache, neox)
    near(packed, wanted.view(tokens, -1))


def test_block_scales_of_weights_lie_as_the_server_keeps_them():
    a, weight = torch.randn(2, 256).to(torch.float8_e4m3fn), torch.randn(128, 256).to(torch.float8_e4m3fn)
    scale_a, scale = torch.rand(2, 2), torch.rand(1, 2)
    wanted = (a.float() * scale_a.repeat_interleave(128, 1)) @ (weight.float() * scale.repeat_interleave(128, 1)).T
    found = serving.block_scaled_mm(a, weight, scale_a, scale, torch.float32)
    torch.testing.assert_close(found, wanted, atol=1e-2, rtol=1e-3)


def test_the_switch_names_operators(monkeypatch):
    monkeypatch.delenv("MIMW_VLLM", raising=False)
    assert serving.chosen("MIMW_VLLM", vllm.OFFERED) == set(vllm.OFFERED)
    for text, wanted in {"none": set(), "all": set(vllm.OFFERED), "rotary, rms_norm": {"rotary", "rms_norm"}}.items():
        monkeypatch.setenv("MIMW_VLLM", text)
        assert serving.chosen("MIMW_VLLM", vllm.OFFERED) == wanted
    monkeypatch.setenv("MIMW_VLLM", "rmsnorm")
    with pytest.raises(serving.UnknownSwitch, match="names rmsnorm.*rms_norm, silu_and_mul"):
        serving.chosen("MIMW_VLLM", vllm.OFFERED)


@pytest.mark.parametrize("adaptor, place", [(vllm, installed), (sglang, sglang)])
def test_another_version_is_refused_before_anything_is_registered(adaptor, place, monkeypatch):
    monkeypatch.setattr(place, "version", lambda name: "0.1")
    monkeypatch.delenv("MIMW_VLLM", raising=False), monkeypatch.delenv("MIMW_SGLANG", raising=False)
    with pytest.raises(contracts.UnreadVersion, match="this is .* 0.1"):
        adaptor.register()
    assert not adaptor._DONE


def test_a_reason_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(serving, "_said", set())
    x = torch.zeros(2, 4, dtype=torch.float64)
    with caplog.at_level(logging.INFO, "mimw.integrations"):
        assert not any(serving.taken("rms_norm", serving.norm_reason(x, None)) for _ in range(3))
    assert len(caplog.messages) == 1 and "float64" in caplog.messages[0]
    assert "part" in serving.norm_reason(x.float(), None, None, 2)
    assert "residual" in serving.norm_reason(x.float(), None, x.half())
    assert "odd" in serving.halves_reason(torch.zeros(2, 3))
    x = x.float()
    assert "one address" in serving.rotary_reason(x, x[:], x)


@pytest.mark.parametrize("server, group", [("vllm", "vllm.general_plugins"), ("sglang", "sglang.srt.plugins")])
def test_the_entry_point_of_the_package_is_there(server, group):
    project = tomllib.loads((ROOT / "packages" / f"mimw-{server}" / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"][group]["mimw"].split(":")
    assert callable(getattr({"mimw.integrations.vllm": vllm, "mimw.integrations.sglang": sglang}[module], name))


def test_importing_an_adaptor_imports_no_server():
    """This module has imported both; what other tests put in the place of servers is gone when they end."""
    assert not {"vllm", "sglang"} & set(sys.modules)
