"""`FILE:FUNCTION` where a function names the launch: every command takes it, also for a chip that only `--target` names."""

import pytest

from mimw.cli import main
from mimw.cli.load import names_launch
from tests.kernels import tensor_product

CASE = f"{tensor_product.__file__}:tensor_product_case"
CHIP = ["--target", "sm_100a"]


@pytest.mark.long(everywhere=True, but=[
    "False-check---seeds-2---no-rounds---ctas-sample-ok: nothing found in 2 runs", "False-timeline-",
    "True-check---seeds-2---no-rounds-ok: nothing found in 2 runs", "True-compile---emit-ptx-",
    "True-explain-tensor memory: 128 of 512 columns-multiplier-nvmma(128-byte swizzle, 16-bit)", "True-predict-"])
@pytest.mark.parametrize("command, expected", [
    (["explain"], ["tensor memory: 128 of 512 columns", "multiplier", "nvmma(128-byte swizzle, 16-bit)"]),
    (["compile", "--emit", "ptx"], [".target sm_100a", "tcgen05.mma"]),
    (["predict"], ["NVIDIA B200 (published figures, unmeasured)", "bound by", "done (tcgen05)", "a load of tensor memory"]),
    (["timeline"], ["NVIDIA B200 (published figures, unmeasured)"]),
    (["check", "--seeds", "2", "--no-rounds"], ["ok: nothing found in 2 runs"]),
    (["check", "--seeds", "2", "--no-rounds", "--ctas", "sample"], ["ok: nothing found in 2 runs"]),
], ids=lambda value: "-".join(value) if value[0][0].islower() else "")
@pytest.mark.parametrize("by_environment", [False, True])
def test_commands(command, expected, by_environment, capsys, monkeypatch):
    if by_environment:
        monkeypatch.setenv("MIMW_TARGET", "sm_100a")
    name, *more = command
    assert main([name, CASE, *more, *([] if by_environment else CHIP)]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in expected), text


@pytest.mark.parametrize("command", ["explain", "compile", "check", "predict"])
def test_without_the_chip_the_mend_names_it(command, capsys, monkeypatch):
    monkeypatch.delenv("MIMW_TARGET", raising=False)
    assert main([command, CASE]) != 0
    error = capsys.readouterr().err
    assert "only available on Blackwell chips with tensor memory" in error and "Mend: " in error and "--target sm_100a" in error


def test_types_come_from_the_launch():
    assert main(["explain", CASE, *CHIP, "--constexpr", "M=64"]) == 1
    assert main(["explain", CASE, *CHIP, "--signature", "i32"]) == 1


def test_what_names_a_launch(capsys):
    assert names_launch(tensor_product.tensor_product_case) and not names_launch(tensor_product.tensor_product)
    assert not names_launch(lambda a: a) and not names_launch(3)
    assert main(["explain", f"{__file__}:wrong", *CHIP]) == 1
    assert "should return (kernel, grid, args, meta)" in capsys.readouterr().err


def wrong():
    return 1
