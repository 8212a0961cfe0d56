"""`mimw tune` on the command line, without a GPU."""

import json

import pytest

from mimw import tuning
from mimw.cli import main
from mimw.testing import gpu_available

OWN = "tests.tuning.named:OWN"


def test_the_list(capsys):
    assert main(["tune", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["gemm", "MxNxK"] and "stages" in line and "fp8" in line for line in lines)


@pytest.mark.skipif(gpu_available(), reason="without a GPU")
def test_without_a_gpu_it_compiles_ranks_and_says_so(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", OWN, "--shapes", "1024", "--json", "--jobs", "2", "--write", "rows.json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert not found["measured"] and found["chip"] == "sm_90a"
    ranked = found["problems"][0]["candidates"]
    assert [one["state"] for one in ranked] == ["ranked", "ranked"] and ranked[0]["predicted"] <= ranked[1]["predicted"]
    assert all(one["registers"] > 0 and one["local"] == 0 for one in ranked)
    assert "nothing was measured, so nothing is written to rows.json" in said.err and not (tmp_path / "rows.json").exists()
    assert len((tmp_path / "mimw-tune-named.jsonl").read_text().splitlines()) == 4
    assert main(["tune", OWN, "--shapes", "1024"]) == 0
    said = capsys.readouterr()
    assert "2 candidates, 2 of them known from mimw-tune-named.jsonl" in said.err and "nothing was measured" in said.out


def test_an_interrupted_search_says_how_to_go_on(capsys, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "tune", interrupted)
    monkeypatch.chdir(tmp_path)
    assert main(["tune", OWN, "--shapes", "1024"]) == 130
    assert "the same command goes on from mimw-tune-named.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("words, said, status", [
    (["gemm"], "name an operator and --shapes", 1),
    (["gem", "--shapes", "8x8x8"], "there is no operator 'gem' to tune", 1),
    (["gemm", "--shapes", "8x8"], "'8x8' is no shape of gemm", 1),
    (["gemm", "--shapes", "8x8x8", "--dtype", "fp5"], "not tuned for 'fp5'", 1),
    (["gemm", "--shapes", "8x8x8", "--keep", "0"], "keep is a share above 0", 1),
    (["gemm", "--shapes", "8x8x8", "--set", "stages"], "should be FIELD=VALUE", 2),
    (["gemm", "--shapes", "8x8x8", "--no-measure", "--set", "depth=3"], "a configuration of gemm has no 'depth'", 1),
    (["gemm", "--shapes", "8x8x8", "--write", "nowhere/rows.json"], "there is no folder nowhere", 1),
    (["gemm", "--shapes", "8x8x8", "--journal", "nowhere/rows"], "there is no folder nowhere", 1),
    ([OWN, "--shapes", "8", "--write"], "named chooses by a rule in code", 1)])
def test_mistakes(capsys, tmp_path, monkeypatch, words, said, status):
    monkeypatch.chdir(tmp_path)
    try:
        assert main(["tune", *words]) == status
    except SystemExit as ended:
        assert ended.code == status
    assert said in capsys.readouterr().err
