"""CUDA C++ to PTX: which compiler, what it says of which line, and what happens without one."""

import pytest

from mimw.compiler.native import cuda, nvrtc, unit_of_code
from mimw.compiler.native.messages import CompilerError, refused_by
from mimw.errors import RawCodeError
from mimw.ir.raw_code import RawCode
from mimw.target import target

CHIP = target("sm_90a")
SOURCE = "__device__ int twice(int x) { return 2 * x; }\n__device__ int other(int x) { return x; }"


@pytest.mark.parametrize("output, file, line, text", [
    ('/home/you/scale.cu(7): error: identifier "y" is undefined\n\n1 error detected', "/home/you/scale.cu", 7,
     'nvcc: identifier "y" is undefined'),
    ("scale.cu(2): error: expected a ';'\nscale.cu(3): error: expected a }\n", "scale.cu", 2, "expected a ';' (and 1 more)"),
    ("k.cu:4:9: error: use of undeclared identifier 'y'\n", "k.cu", 4, "undeclared identifier 'y'"),
    ("ptxas-blackwell /tmp/x.ptx, line 12; error   : Unknown symbol 'a'\n", "/tmp/x.ptx", 12, "Unknown symbol 'a'"),
    ("segmentation fault", "", 0, "nvcc failed:\nsegmentation fault")])
def test_what_compilers_say(output, file, line, text):
    error = refused_by("nvcc", output)
    assert (error.file, error.line) == (file, line) and text in error.message


def test_which_compiler(monkeypatch, tmp_path):
    """CLANG first, then nvcc of CUDA_HOME or the PATH, NVRTC, clang++."""
    for name in ("CLANG", "CUDA_PATH", "TLE_CUDA_COMPILER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setitem(cuda._FIND, "nvrtc", lambda: None)
    with pytest.raises(CompilerError, match="no compiler of CUDA C.. on this machine .looked for nvcc, nvrtc, clang") as caught:
        cuda.found_compiler()
    assert "pip install nvidia-cuda-nvrtc" in caught.value.mend
    monkeypatch.setenv("TLE_CUDA_COMPILER", "gcc")
    with pytest.raises(CompilerError, match="names none of nvcc, nvrtc, clang"):
        cuda.found_compiler()
    monkeypatch.delenv("TLE_CUDA_COMPILER")
    for place in ("clang++", "bin/nvcc", "mine"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        if place != "mine":
            assert cuda.found_compiler().path == str(path)
    monkeypatch.setenv("CLANG", str(tmp_path / "mine"))
    assert cuda.found_compiler().kind == "clang"
    monkeypatch.setenv("TLE_CUDA_COMPILER", "nvcc")
    assert cuda.found_compiler().kind == "nvcc"


def test_a_kernel_without_a_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cuda, "_FIND", dict.fromkeys(cuda._FIND, lambda: None))
    monkeypatch.delenv("TLE_CUDA_COMPILER", raising=False)
    with pytest.raises(RawCodeError, match="pip install nvidia-cuda-nvrtc"):
        unit_of_code(RawCode("lost", "cuda", "__device__ void lost() {}", "lost.cu"), CHIP)


@pytest.fixture(params=["nvcc", "nvrtc"])
def compiler(request, monkeypatch):
    """A real one, named; what it makes is not kept on disk."""
    if cuda._FIND[request.param]() is None:
        pytest.skip(f"there is no {request.param} here")
    monkeypatch.setenv("TLE_CUDA_COMPILER", request.param)
    monkeypatch.setattr(cuda, "kept", lambda key, make: make())
    return request.param


def test_functions_and_lines(compiler):
    """Both functions are there, one is picked; an error has the line of the author's file, where the source began at line 40."""
    unit = unit_of_code(RawCode("twice", "cuda", SOURCE, "some.cu", 40, flags=(f"-DBY_{compiler}", )), CHIP)
    assert unit.widths == (32, ) and unit.returns == 32 and "shl.b32" in unit.body
    with pytest.raises(RawCodeError, match="undefined") as caught:
        unit_of_code(RawCode("twice", "cuda", SOURCE.replace("{ return x;", "{ return y;"), "some.cu", 40), CHIP)
    assert (caught.value.sites[0].file, caught.value.sites[0].line) == ("some.cu", 41)


def test_shared_memory_of_its_own_is_refused(compiler):
    text = "__device__ int f(int x) { __shared__ int tile[64]; tile[x] = x; __syncthreads(); return tile[63 - x]; }"
    with pytest.raises(RawCodeError, match=r"a variable in \.shared.*\n.*tle.gpu.alloc"):
        unit_of_code(RawCode("f", "cuda", text, "some.cu"), CHIP)


def test_nvrtc_knows_the_headers_that_triton_brings(compiler):
    if compiler != "nvrtc":
        pytest.skip("nvcc has headers of its own")
    made, said = nvrtc.compiled(nvrtc.find(), "#include <cuda_fp16.h>\n#include <stdint.h>\n__device__ int64_t f(__half2 x) "
                                "{ return __low2half(x) > __half(0); }", ["--gpu-architecture=sm_90a", "-rdc=true"])
    assert made and ".func" in made, said
