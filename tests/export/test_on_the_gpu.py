"""Exported kernels on a GPU: a program in C, and a library that Python calls with torch's tensors."""

import ctypes
import subprocess

import pytest

from mimw.runtime.export import export, torch_op
from tests.export.building import COMPILER, CUDA, HERE, driver_library, needs_compiler
from tests.kernels import exported as shelf

pytestmark = [pytest.mark.gpu, needs_compiler]


def chip() -> str:
    import torch
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}a"


def test_a_program_without_python(tmp_path):
    kernel, grid, args, meta = shelf.case()
    export(kernel, grid, *args, target=chip(), **meta).write(tmp_path)
    subprocess.run([COMPILER, "-std=c11", "-Wall", "-Werror", f"-I{tmp_path}", f"-isystem{CUDA}", HERE / "program.c",
                    tmp_path / "scale_rows.c", driver_library(), "-o", tmp_path / "program"], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ok\n", 0)


class Tensor2(ctypes.Structure):
    """As `gemm_tensor2` of the header."""

    _fields_ = [("data", ctypes.c_uint64), ("shape", ctypes.c_int64 * 2), ("strides", ctypes.c_int64 * 2)]

    @classmethod
    def of(cls, tensor):
        return cls(tensor.data_ptr(), tuple(tensor.shape), tensor.stride())


def test_the_gemm_as_a_library_is_the_gemm(tmp_path):
    import torch

    from mimw import ops
    from mimw.kernels import gemm
    a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((1024, 512), (512, 768)))
    expected, c = ops.matmul(a, b), torch.zeros(1024, 768, device="cuda", dtype=torch.bfloat16)
    grid, args, meta = gemm.arguments(a.cpu(), b.cpu(), c.cpu(), programs=torch.cuda.get_device_properties(0).multi_processor_count)
    export(gemm.kernel, grid, *args, target=chip(), **meta).write(tmp_path)
    library = tmp_path / "libgemm.so"
    subprocess.run([COMPILER, "-std=c11", "-shared", "-fPIC", f"-isystem{CUDA}", tmp_path / "gemm.c", driver_library(), "-o",
                    library], check=True)
    called, kernel = ctypes.CDLL(str(library)), (ctypes.c_void_p * 2)()
    assert called.gemm_load(kernel) == 0
    stream = torch.cuda.current_stream().cuda_stream
    numbers = [ctypes.c_int32(value) for value in args[3:6]]
    assert called.gemm_launch(kernel, ctypes.c_void_p(stream), grid[0], 1, 1, *map(Tensor2.of, (a, b, c)), *numbers) == 0
    torch.cuda.synchronize()
    assert torch.equal(c, expected)


def test_the_operator_launches_on_tensors_of_a_gpu():
    import torch

    kernel, grid, args, meta = shelf.case()
    op = torch_op("on_a_gpu", kernel, grid, *args, target=chip(), **meta)
    for rows in (96, 32, 96):
        x, y = torch.randn(rows, 64, device="cuda"), torch.full((rows, 64), 7.0, device="cuda")
        op(x, y, 3.0, rows, rows // 32)
        assert torch.equal(y, 3 * x)
