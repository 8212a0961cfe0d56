"""`mimw export`: the files of a launch, or of a kernel with types, and what is refused."""

import json

import pytest

from mimw.cli import main
from tests.kernels import exported as shelf

CASE = f"{shelf.__file__}:case"


def test_a_named_launch_is_written(tmp_path, capsys):
    folder = tmp_path / "new" / "build"
    assert main(["export", CASE, "--target", "sm_90a", "-o", str(folder), "--torch", "--name", "scaled"]) == 0
    assert "for sm_90a, 128 threads and " in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == [
        "scaled.c", "scaled.cubin", "scaled.h", "scaled.json", "scaled_torch.cpp"]
    assert (folder / "scaled.cubin").read_bytes().startswith(b"\x7fELF")


def test_a_kernel_with_types_is_written_and_told_as_json(tmp_path, capsys):
    words = ["--signature", "*fp32:16, *fp32, i32", "--constexpr", "N=128", "--writes", "target"]
    (tmp_path / "copying.py").write_text(
        "import mimw\nimport triton.language as tl\n\n\n@mimw.jit\ndef copy(source, target, n, N: tl.constexpr):\n"
        "    at = tl.arange(0, N)\n    tl.store(target + at, tl.load(source + at, at < n), at < n)\n")
    assert main(["export", f"{tmp_path}/copying.py:copy", *words, "-o", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["name"], one.get("aligned"), one.get("written")) for one in told["arguments"]] == [
        ("source", True, False), ("target", False, True), ("n", False, None)]
    assert told["files"] == [f"{tmp_path}/copy.{end}" for end in ("h", "c", "cubin", "json")]


@pytest.mark.parametrize("words, expected", [
    (["--target", "gfx942"], "has no cubin"), (["--target", "ascend_910b"], "ascend_910b"),
    (["--writes", "rows"], "writes names rows; the arrays of"), (["--name", "2d"], "'2d' cannot be the name")])
def test_what_is_refused(words, expected, tmp_path, capsys):
    case = CASE if "gfx942" not in words else "mimw.cli.starts.layer_norm:case"
    assert main(["export", case, "-o", str(tmp_path / "build"), *words]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("mimw: ") and expected in shown and "should not have happened" not in shown
    assert not (tmp_path / "build").exists()
    (tmp_path / "file").write_text("")
    assert main(["export", case, "-o", str(tmp_path / "file")]) == 1 and "it is no folder" in capsys.readouterr().err
