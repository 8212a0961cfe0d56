"""What a package's driver asks of CUDA, against the launcher in C: both before the same stand-in, which prints."""

import ctypes
import functools
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mimw.runtime.export.arguments import Described, Number, Pointer
from mimw.runtime.export.facts import Facts
from mimw.runtime.export.header import header
from mimw.runtime.export.hub.packaged import driver as packaged
from mimw.runtime.export.hub.packaged.forms import Form
from mimw.runtime.export.hub.rows import KINDS
from mimw.runtime.export.launcher import launcher
from tests.export.building import COMPILER, CUDA, HERE, lines, needs_compiler

pytestmark = needs_compiler
FACTS = Facts("one", "one_kernel", "sm_90a", 128, 0, 1, (1, 1, 1), True, False, False, 0, 1)
TILED = Described("x", "bf16", 2, (64, 32), 9, 3, 2)
CASES = {
    "plain": (FACTS, (Pointer("p", "fp32", True), Number("n", "i32", False), Number("f", "fp32", False)), (8, 4, 4, 8, 8)),
    "tensor": (replace(FACTS, shared=100000), (TILED, ), (128, 4, 4, 8, 8, 8, 8)),
    "nan-pairs": (FACTS, (replace(TILED, nan=True, pairs=True, element="u8", size=1, code=0), ), (128, 4, 4, 8, 8, 8, 8)),
    "cluster": (replace(FACTS, ctas=4, cluster=(4, 1, 1), cooperative=True, early=True), (Number("l", "i64", False), ), (8, 8, 8)),
    "large-cluster": (replace(FACTS, cluster=(16, 1, 1), portable=False), (Number("b", "i1", False), ), (1, 8, 8)),
    "scratch": (replace(FACTS, scratch=384, scratch_align=128), (Number("u", "u16", False), ), (2, 8, 8)),
}
GIVEN = {"p": "0x2000", "n": "-7", "f": "2.5f", "l": "-1", "b": "1", "u": "65535", "x": "(one_tensor2){0x1000, {80, 64}, {64, 1}}"}


class Tensor:
    """What a launch looks at of a tensor."""

    def __init__(self, address, dtype="float32", shape=(80, 64), strides=(64, 1)):
        self.address, self.dtype, self.shape, self.strides = address, f"torch.{dtype}", shape, strides

    def data_ptr(self):
        return self.address

    def dim(self):
        return len(self.shape)

    def stride(self, axis=None):
        return self.strides if axis is None else self.strides[axis]


VALUES = {"p": Tensor(0x2000), "n": -7, "f": 2.5, "l": -1, "b": 1, "u": 65535}


def row(facts, arguments):
    return {"file": "one.cubin", **asdict(facts), "select": {}, "fixed": {}, "parameters": [one.name for one in arguments],
            "arguments": [{"is": KINDS[type(one)], **asdict(one)} for one in arguments]}


@functools.cache
def library() -> Path:
    """The stand-in of the driver as a library, in a folder of this process."""
    folder = Path(tempfile.mkdtemp())
    made = folder / "libcuda.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O0", f"-isystem{CUDA}", "-DSIZES", HERE / "driver.c", "-o", made], check=True)
    return made


def by_python(facts, arguments, values, sizes, folder, capfd) -> list[str]:
    """What the stand-in prints of the launch in Python."""
    (folder / "one.cubin").write_bytes(b"\x7fELF....")
    form = Form(row(facts, arguments), folder)
    assert form.unfit(values, {}) is None
    driver = packaged.Driver(str(library()))
    (ctypes.c_int * 16).in_dll(driver._library, "sizes")[:] = [*sizes, *([0] * (16 - len(sizes)))]
    capfd.readouterr()
    form.launch(driver, (2, 3, 1), values, 0, 7, 0x500)
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("case", CASES)
def test_it_passes_what_the_launcher_in_c_passes(case, tmp_path, capfd):
    facts, arguments, sizes = CASES[case]
    files = {"one.h": header(facts, arguments, "a test"), "one.c": launcher(facts, arguments, b"\x7fELF....", "a test")}
    scratch = ", 0x500" if facts.scratch else ""
    call = f"one_launch(&kernel, (CUstream)7, 2, 3, 1{scratch}, {', '.join(GIVEN[one.name] for one in arguments)})"
    expected = lines(files, "one", call, sizes)
    assert expected.pop() == "status 0"
    dtype = "uint8" if case == "nan-pairs" else "bfloat16"
    values = VALUES | {"x": Tensor(0x1000, dtype)}
    found = by_python(facts, arguments, {one.name: values[one.name] for one in arguments}, sizes, tmp_path, capfd)
    if not facts.scratch:       # C passes 0 where the kernel needs none, and this test an address
        found = ["argument 8 0" if line == "argument 8 500" else line for line in found]
    assert found == expected


def test_a_small_map_is_mended_for_old_drivers_alone():
    driver = packaged.Driver(str(library()))
    found = []
    for version in (13010, 13020):
        driver._version = version
        made = driver.encode(0x1000, 9, 2, (80, 64), (64, 1), (64, 32), 3, False, False)
        found.append(ctypes.c_uint64.from_address(made.address + 8).value)
    assert found == [0xffffffffffdfffff, 0xffffffffffffffff]


def test_what_fails_names_the_function_and_the_reason(tmp_path):
    with pytest.raises(packaged.DriverError, match="no CUDA driver on this machine"):
        packaged.Driver(str(tmp_path / "missing.so"))
    driver = packaged.Driver(str(library()))
    fails = ctypes.c_int.in_dll(driver._library, "fails")
    fails.value = 1
    try:
        with pytest.raises(packaged.DriverError, match=r"cuModuleLoadData: error 209 \(209\)"):
            driver.load(b"\x7fELF....", "one_kernel", {}, 0)
    finally:
        fails.value = 0
