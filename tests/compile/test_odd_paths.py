"""Kernels in files with odd names are compiled to the end: what stands in debug information is read by ptxas."""

import importlib.util

import pytest

from mimw.runtime.compile_kernel import compile_kernel

TEXT = """import mimw, triton.language as tl
from mimw import tlx

@mimw.jit
def ours(x):
    tlx.local_alloc((16, ), tl.float32, 1)
    tl.store(x, 1.0)

@mimw.jit
def plain(x):
    tl.store(x, 1.0)
"""


@pytest.mark.parametrize("name", ['a"b.py', "back\\slash.py", "new\nline.py", 'q"/in a folder.py'])
def test_a_file_of_any_name(name, tmp_path):
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("odd", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for kernel in (module.ours, module.plain):
        assert compile_kernel(kernel, {"x": "*fp32"}).stages["cubin"]
