"""Packages for `kernels`: loaded by its own loader where mimw and triton cannot be imported; which form a call takes; refusals."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import mimw
from mimw.errors import LaunchError
from mimw.runtime.export.hub import Plan, hub_package
from mimw.runtime.export.hub.metadata import identity
from mimw.runtime.export.hub.package import schema_in
from mimw.runtime.export.hub.packaged.forms import Forms, NoForm
from tests.export.test_hub_driver import Tensor
from tests.kernels import exported as shelf
from tests.processes import mimw as command

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="operators of torch need torch")
needs_kernels = pytest.mark.skipif(find_spec("kernels") is None, reason="the loader of packages is kernels")
_HOST = '''
import torch
SCHEMA = "(Tensor x, float factor=2.0) -> Tensor"


def outputs(x, factor=2.0):
    return torch.empty_like(x)


def call(forms, y, x, factor=2.0):
    forms(lambda facts: (-(-x.shape[0] // facts["rows"]), ), source=x, target=y, factor=factor, rows=x.shape[0])
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two packages: the launch as it is, in two forms, and one with host code."""
    where, (kernel, grid, _, meta) = tmp_path_factory.mktemp("packages"), shelf.case()
    source, target = np.zeros((81, 64), np.float32), np.zeros((81, 64), np.float32)
    odd = kernel, grid, (mimw.TensorDescriptor.from_tensor(source, [32, 64]), target, 2.5, 81), meta
    hub_package(Plan("scale-rows", [shelf.case(), odd]), "sm_90a").write(where)
    host = where / "host.py"
    host.write_text(_HOST)
    hub_package(Plan("scaled", [(odd, {"rows": 32})], host), "sm_90a", version=3).write(where)
    return where


def forms(folder, name="scale-rows", driver=None):
    return Forms.read(folder / name / "build" / "torch-universal", driver)


def given(of=80, **changed):
    return {"source": Tensor(0x1000, shape=(of, 64)), "target": Tensor(0x2000), "factor": 2.5, "rows": of} | changed


def test_a_call_takes_the_first_form_that_it_fits(folder):
    found = forms(folder)
    assert [found.choose(given(rows)).file for rows in (80, 81)] == ["scale-rows-0.cubin", "scale-rows-1.cubin"]
    assert forms(folder, "scaled").choose(given(80), {"rows": 32}).facts == {"rows": 32}


@pytest.mark.parametrize("call, reason", [
    (given(target=Tensor(0x2004)), "target begins at 0x2004, which is no multiple of 16"),
    (given(source=Tensor(0x1000, "bfloat16")), "source has elements of bfloat16, not float32"),
    (given(source=Tensor(0x1000, shape=(80, 64, 1), strides=(64, 1, 1))), "source has 3 dimensions, not 2"),
    (given(source=Tensor(0x1000, strides=(63, 1))), r"strides \(63, 1\): the last is to be 1, and the others multiples of 16"),
    (given(source=Tensor(0x1000, shape=(0, 64))), "extents are from 1"),
    (given(81, rows=1 << 31), "rows is 2147483648, which i32 does not hold"),
    (given(rows=None), "rows is None, and should be a number"),
    (given(target=None), "target is None, and should be a tensor"),
])
def test_what_no_form_was_compiled_for_is_refused_with_each_form_s_reason(folder, call, reason):
    with pytest.raises(NoForm, match=reason) as told:
        forms(folder).choose(call)
    assert all(f"scale-rows-{at}.cubin" in str(told.value) for at in range(2))


def test_constants_facts_chips_and_names(folder):
    found = forms(folder, "scaled")
    for changed in ({"rows": 64}, {"dim": 1}):
        with pytest.raises(NoForm, match=f"it is for {next(iter(changed))} "):
            found.choose(given(), changed)
    with pytest.raises(NoForm, match="it is for sm_90a, and the GPU is sm_100"):
        found.choose(given(), chip="sm_100")
    found.forms[0].row = found.forms[0].row | {"fixed": {"factor": None}}
    with pytest.raises(NoForm, match="it was compiled for factor = None, not 2.5"):
        found.choose(given())
    with pytest.raises(TypeError, match="scaled has no parameters wide; it has source, target, factor, rows"):
        found.choose(given(wide=3))


# It runs where mimw and triton cannot be imported. torch.compile traces, and its backend notes what it got and computes nothing.
_PROGRAM = """
import sys
sys.modules["mimw"] = sys.modules["triton"] = None          # importing either is an error
import importlib.util, torch
from pathlib import Path
from torch._subclasses import FakeTensorMode

def by_python(folder):
    spec = importlib.util.spec_from_file_location(folder.name, folder / "build/torch-universal/__init__.py")
    module = sys.modules[folder.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def by_kernels(folder):
    import kernels
    from kernels._rust import Digest, DigestAlgorithm, Metadata
    variant = folder / "build" / "torch-universal"
    told = Metadata.read_from_file(variant / "metadata.json")
    told.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, variant))
    print(told.name, told.version, told.backend.backend_type, told.backend.archs)
    return kernels.get_local_kernel(folder)

def noted(graph, inputs):
    print("one graph with the operator:", graph.code.count(".scaled(l_x_)"))
    return lambda *given: [torch.zeros(80, 64)]

plain, scaled = ({"kernels": by_kernels, "python": by_python}[sys.argv[2]](Path(sys.argv[1]) / name)
                 for name in ("scale-rows", "scaled"))
with FakeTensorMode():
    x = torch.empty(80, 64, device="cuda")
    y = scaled.scaled(x, factor=3.0)
    print(plain.scale_rows(x, torch.empty_like(x), 2.5, 80, 3), tuple(y.shape), y.device)
x = torch.zeros(80, 64)
print(tuple(torch.compile(lambda x: scaled.scaled(x) + 1, backend=noted, fullgraph=True)(x).shape))
for call in (lambda: scaled.scaled(x), lambda: plain.scale_rows(x, x, 2.5, 80, 3)):
    try:
        call()
    except RuntimeError as error:
        print(error)
print([name for name in sys.modules if name.startswith(("mimw", "triton")) and sys.modules[name] is not None])
"""


@needs_torch
@pytest.mark.parametrize("loader", [pytest.param("kernels", marks=needs_kernels), "python"])
def test_it_is_loaded_and_traced_without_mimw_and_triton(folder, loader):
    if loader == "python" and find_spec("kernels"):
        pytest.skip("kernels does the same, and more")
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", _PROGRAM, folder, loader], capture_output=True, text=True, env=plain, cwd=folder)
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines() == [
        *(["scale-rows 1 cuda ['9.0a']", "scaled 3 cuda ['9.0a']"] if loader == "kernels" else []),
        "None (80, 64) cuda:0", "one graph with the operator: 1", "(80, 64)",
        "scaled runs on NVIDIA GPUs (sm_90a), and its tensors are on the CPU; move them by .cuda()",
        "scale-rows runs on NVIDIA GPUs (sm_90a), and its tensors are on the CPU; move them by .cuda()", "[]"]


def test_the_files_say_what_they_are(folder):
    variant = folder / "scale-rows" / "build" / "torch-universal"
    assert sorted(path.name for path in variant.iterdir() if path.is_file()) == [
        "__init__.py", "driver.py", "forms.json", "forms.py", "metadata.json", "operators.py", "scale-rows-0.cubin",
        "scale-rows-1.cubin"]
    told = json.loads((variant / "metadata.json").read_text())
    assert told["id"].startswith("_scale_rows_cuda_") and told["id"] in (variant / "__init__.py").read_text()
    assert "(Tensor source, Tensor(a!) target, float factor, SymInt rows, SymInt grid_x" in (variant / "__init__.py").read_text()
    assert "| scale-rows-1.cubin | sm_90a | fp32 |" in (folder / "scale-rows" / "README.md").read_text()
    assert identity("a-b", {"f": b"1"}) != identity("a-b", {"f": b"2"})
    (variant / "old.cubin").write_bytes(b"")
    hub_package(Plan("scale-rows", [shelf.case()]), "sm_90a").write(folder.parent / "again")
    again = folder.parent / "again" / "scale-rows" / "build" / "torch-universal"
    (again / "old.cubin").write_bytes(b"")
    hub_package(Plan("scale-rows", [shelf.case()]), "sm_90a").write(folder.parent / "again")
    assert not (again / "old.cubin").exists()


def test_what_a_package_is_not_made_of(tmp_path):
    plan = Plan("scale-rows", [shelf.case()])
    for wrong, text in ((replace(plan, name="Scale_rows"), "'Scale_rows' cannot be the name of a package"),
                        (replace(plan, launches=[]), "scale-rows has no launches"),
                        (replace(plan, launches=[(shelf.case(), {"tile": (1, 2)})]), r"tile of scale_rows is \(1, 2\); a package")):
        with pytest.raises(LaunchError, match=text):
            hub_package(wrong, "sm_90a")
    with pytest.raises(LaunchError, match="host.py has no outputs, call"):
        schema_in("SCHEMA = '(Tensor x) -> Tensor'", "host.py")
    with pytest.raises(LaunchError, match="host.py imports triton, and a package runs without"):
        schema_in(_HOST + "\ndef late():\n    import triton.language as tl\n", "host.py")


def test_the_command_writes_one(tmp_path):
    done = command("export", "tests.kernels.exported:case", "--hf-kernel", "--target", "sm_90a", "-o", tmp_path, "--json")
    told = json.loads(done.stdout)
    assert told["name"] == "scale-rows" and (tmp_path / "scale-rows/build/torch-universal/forms.json").exists()
    refused = command("export", "tests.kernels.exported:case", "--hf-kernel", "--torch", "-o", tmp_path)
    assert refused.returncode and "leave out --torch" in refused.stderr
