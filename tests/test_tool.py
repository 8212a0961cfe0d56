"""`mimw.simulate`, `check`, `predict`, `profile`, `compile` and `explain`: one call for all, and what the last two give."""

import inspect
import io
import os
import subprocess
from contextlib import redirect_stdout

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.cli.compile import STAGES
from mimw.compiler.triton_port.runtime import knobs
from mimw.errors import LaunchError, SimulatorMisuse, TargetError
from mimw.runtime.call import SHARED
from tests.every import every

TOOLS = (mimw.simulate, mimw.check, mimw.predict, mimw.profile, mimw.compile, mimw.explain)
OFF_GPU = tuple(one for one in TOOLS if one is not mimw.profile)


@mimw.jit
def handed(source, target, scale, N: tl.constexpr):
    """One task loads a tile into shared memory, another scales and stores it."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            tlx.barrier_wait(full[0], 0)
            tl.store(target + at, tlx.local_load(tile[0]) * scale)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, N)
            tlx.local_store(tile[0], tl.load(source + at))
            tlx.barrier_arrive(full[0])


@mimw.jit
def plain(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0)


@mimw.jit
def awkward(x, seed, num_warps, target, N: tl.constexpr):
    """Parameters of the tools' own names are the kernel's."""
    tl.store(x + tl.arange(0, N), seed + num_warps + target)


@mimw.jit
def of_pairs(pair, N: tl.constexpr):
    """A tuple with a pointer and a number that is 1, so a constant."""
    tl.store(pair[0] + tl.arange(0, N), pair[1] + 1.0)


def case():
    return handed, (1, ), np.arange(128, dtype=np.float32), np.zeros(128, np.float32), 3.0, 128


def launch_of_case():
    kernel, grid, *args = case()
    return kernel, grid, args, {}


@pytest.fixture(scope="module")
def compiled():
    return mimw.compile(*case())


def test_six_take_the_same_arguments():
    parameters = [inspect.signature(one).parameters for one in TOOLS]
    assert [[name for name in SHARED if name not in own] for own in parameters] == [[]] * 6
    assert len({tuple(str(own[name]) for name in SHARED) for own in parameters}) == 1
    assert all("gpus" in own for own in parameters)


@every(OFF_GPU)
def test_options_of_the_launch_reach_each(one):
    """Eight warps of the default task where four are; an unknown option is refused by name."""
    found = one(*case(), num_warps=8, target="sm_90a")
    if hasattr(found, "compiled") or hasattr(found, "ptx"):
        assert getattr(found, "compiled", found).warps == 12
    with pytest.raises(KeyError, match="did you mean num_warps"):
        one(*case(), num_wraps=8)


@every([(lambda tool: tool(handed), TypeError, r"called without `grid`: 1 to 3 ints"),
        (lambda tool: tool(), TypeError, "called without `kernel`"),
        (lambda tool: tool(handed, np.zeros(4), np.zeros(4)), SimulatorMisuse, r"array of shape \(4,\) where the grid belongs"),
        (lambda tool: tool(handed, (1, ), np.zeros(4)), TypeError,
         r"handed\(source, target, scale, N\): missing a required argument: 'target'"),
        (lambda tool: tool(handed[(1, )], (1, ), 1, 2, 3, 4), SimulatorMisuse, r"pass the kernel itself, and the grid after it"),
        (lambda tool: tool("gemm.py:kernel", (1, )), SimulatorMisuse, "pass the function itself"),
        (lambda tool: tool(max, (1, )), SimulatorMisuse, "decorate the function")])
def test_wrong_calls_say_what_is_wrong(one):
    call, kind, match = one
    for tool in OFF_GPU:
        with pytest.raises(kind, match=match):
            call(tool)


def test_a_misspelled_keyword_is_told_with_the_tools_own():
    with pytest.raises(KeyError, match="seed was specified but unrecognised; mimw.check has seeds"):
        mimw.check(*case(), seed=3)
    with pytest.raises(TypeError, match=r"block_shape is a list of ints, .* got 64"):
        mimw.TensorDescriptor.from_tensor(np.zeros(64, np.float32), 64)


def test_the_kernels_own_names_are_the_kernels():
    x = np.zeros(32, np.float32)
    mimw.simulate(awkward, (1, ), x, seed=1, num_warps=2, target=4, N=32)
    assert (x == 7).all()
    ttir = mimw.compile(awkward, (1, ), x, seed=2, num_warps=2, target=4, N=32).stages["ttir"]
    assert ttir.count("i32") > 2 and "%num_warps" in ttir
    mimw.simulate(kernel=plain, grid=(1, ), x=x, N=32)
    assert (x == 1).all()


def test_compile_gives_every_stage(compiled):
    """As `mimw compile --emit` names them."""
    here = [name for name in STAGES if name not in ("amdgcn", "hsaco")]
    assert {name: type(getattr(compiled, name)) for name in here} == {name: bytes if name == "cubin" else str for name in here}
    assert ".visible .entry handed" in compiled.ptx and "local_alloc" in compiled.recorded and compiled.sass != compiled.ptx
    assert compiled.recorded == compiled.stage("recorded") and "drop" not in compiled.recorded
    with pytest.raises(AttributeError, match="handed for sm_90a has no stage 'amdgcn'; there are"):
        compiled.amdgcn
    with pytest.raises(AttributeError, match="calls nothing of tlx or tle"):
        mimw.compile(plain, (1, ), np.zeros(32, np.float32), 32).recorded


def test_compile_says_what_the_binary_takes(compiled, tmp_path):
    """Registers and stack as `cuobjdump` reads them; shared memory and warps as the launch asks for them."""
    (tmp_path / "one.cubin").write_bytes(compiled.cubin)
    said = subprocess.run([os.path.join(os.path.dirname(knobs.nvidia.ptxas.path), "cuobjdump"), "-res-usage", "one.cubin"],
                          cwd=tmp_path, capture_output=True, text=True).stdout
    assert f" REG:{compiled.registers} STACK:{compiled.stack_bytes} " in said
    assert compiled.registers > 0 and compiled.shared_bytes >= 128 * 4 + 8 and compiled.warps == 8
    assert f"{compiled.registers} registers a thread" in str(compiled)


def test_compile_specialises_as_a_launch_does(compiled):
    """Arrays and multiples of 16 are aligned; integers that are 1 are constants, also in tuples; AMD has its own stages."""
    assert "tt.divisibility = 16" in compiled.ttgir and not compiled.unaligned
    x = np.zeros(32, np.float32)
    other = mimw.compile(of_pairs, (1, ), (x, 1), N=32, target="gfx942")
    assert "amdgcn" in other.stages and other.registers > 0 and other.stack_bytes == 0 and (x == 0).all()
    with pytest.raises(LaunchError, match="2,000,000 CTAs along y"):
        mimw.compile(plain, lambda meta: (1, 62500 * meta["N"]), x, 32)


def test_explain_says_what_the_command_prints(monkeypatch):
    explained = mimw.explain(*case())
    assert [title.split()[0] for title in explained.sections] == ["Tasks", "Layouts", "Shared", "Barriers", "Bank"]
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["explain", f"{__file__}:launch_of_case", "--target", "sm_90a"]) == 0
    assert printed.getvalue().strip() == str(explained)
    assert explained.barriers_svg().startswith("<svg") and explained.as_json()["registers"] == explained.compiled.registers
    nothing = mimw.explain(plain, (1, ), np.zeros(32, np.float32), 32)
    assert str(nothing).startswith("plain calls nothing of tlx or tle: stock Triton compiled it.\n4 warps") and not nothing.sections
    with pytest.raises(ValueError, match="no barriers to draw"):
        nothing.barriers_svg()


def test_profile_says_that_it_wants_a_gpu(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    with pytest.raises(SimulatorMisuse, match="measures on a GPU"):
        mimw.profile(*case(), target="sm_90a", num_warps=8)


def test_a_chip_without_a_compiler():
    """What is known without one is explained; a binary is refused by name."""
    launch = plain, (1, ), np.zeros(32, np.float32), 32
    explained = mimw.explain(*launch, target="ascend_910b")
    assert list(explained.sections) == ["Memory spaces of plain on ascend_910b"] and "registers" not in explained.as_json()
    with pytest.raises(TargetError, match="ascend_910b is a target of the simulator"):
        mimw.compile(*launch, target="ascend_910b")


@pytest.mark.gpu
def test_profile_takes_what_the_others_take():
    """The same launch, on the GPU: its own chip may be named, another may not, nor several GPUs."""
    torch = pytest.importorskip("torch")
    chip = "sm_{}{}".format(*torch.cuda.get_device_capability())
    source, target = torch.arange(128, dtype=torch.float32, device="cuda"), torch.zeros(128, device="cuda")
    launch = handed, (1, ), source, target, 3.0, 128
    seen = mimw.profile(*launch, num_warps=8)
    assert (target == 3 * source).all() and seen.microseconds > 0
    # `handed` has a parameter `target`, so the keyword is left to a kernel that has none
    for wrong, match in ((dict(gpus=2), "not on 2"), (dict(num_wraps=8), "num_wraps")):
        with pytest.raises((SimulatorMisuse, KeyError), match=match):
            mimw.profile(*launch, **wrong)
    with pytest.raises(SimulatorMisuse, match=f"which is {chip}.*, not gfx942"):
        mimw.profile(plain, (1, ), target, 32, target="gfx942")
    compiled = mimw.compile(*launch, num_warps=8)       # for the simulator's chip, whichever GPU there is
    assert compiled.warps == 12 and compiled.target.name == "sm_90a"
