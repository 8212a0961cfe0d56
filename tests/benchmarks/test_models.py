"""The table of products of real models: its shapes, and its command with a measurement that is fake."""

import json
import sys
from collections import Counter

import pytest

from benchmarks import models
from benchmarks.model_shapes import LAYERS, SHAPES
from mimw.testing.benchmark import Row


def fake(name, at_least_ms):
    times = 100.0 if "decode" in name else 50.0
    return Row(f"models-{name.replace(' ', '-')}", dict(zip("MNK", SHAPES[name].extents)), {"source": SHAPES[name].layer.source},
               100.0, {"torch": times}, 1e-3, "standard normal", "a chip")


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(models, "measure", fake)
    monkeypatch.setattr(models, "parsed", lambda parser: parser.parse_args())
    monkeypatch.setattr(sys, "argv", ["models", *map(str, arguments)])
    models.main()
    return capsys.readouterr().out.splitlines()


def test_there_are_sixty_shapes_of_six_models_in_both_phases_and_types():
    assert Counter((one.dtype, one.phase) for one in SHAPES.values()) == {
        ("bf16", "prefill"): 24, ("bf16", "decode"): 16, ("fp8", "prefill"): 12, ("fp8", "decode"): 8}
    assert len(SHAPES) == 60 and {layer.model for layer in LAYERS} == {
        "llama3-8b", "llama3-70b", "qwen3-32b", "deepseek-v3", "mixtral", "gpt-oss"}
    assert all("/" in layer.source for layer in LAYERS)


def test_what_torch_takes_of_fp8():
    """torch._scaled_mm asks for multiples of 16."""
    assert all(one.layer.n % 16 == one.layer.k % 16 == 0 for one in SHAPES.values() if one.dtype == "fp8")


def test_the_table(tmp_path, monkeypatch, capsys):
    printed = run(monkeypatch, capsys, "--only", "mixtral", "--results", tmp_path)
    kept = [json.loads(line) for kind in ("bf16", "fp8") for line in (tmp_path / f"models-{kind}.jsonl").open()]
    assert [row["name"] for row in kept] == ["models-mixtral-gate-up-prefill-bf16", "models-mixtral-down-prefill-bf16",
                                             "models-mixtral-gate-up-prefill-fp8"]
    assert printed[0].startswith("models-mixtral-gate-up-prefill-bf16 ") and "1024 x 28672 x  4096" in printed[0]
    assert printed[3] == "geometric mean of 3 ratios to torch: 0.500, lowest 0.500"


def test_the_table_says_each_phase(tmp_path, monkeypatch, capsys):
    printed = run(monkeypatch, capsys, "--only", "bf16", "--results", tmp_path)
    assert printed[-2:] == ["    bf16 prefill: geometric mean of 24 ratios to torch: 0.500, lowest 0.500",
                            "    bf16 decode: geometric mean of 16 ratios to torch: 1.000, lowest 1.000"]


def test_a_word_that_is_in_no_name_is_an_error(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, "--only", "gpt-5")
    assert "no row has all of gpt-5 in its name" in capsys.readouterr().err
