"""Files of Triton's cache that are cut short, garbled or empty: the kernel is compiled anew, and is what it was."""

import sys

import numpy as np
import pytest
import triton.language as tl

from mimw import jit, tlx
from mimw.compiler.triton_port.runtime import keep_text, kept_text
from mimw.runtime.compile_kernel import compile_kernel
from tests.every import every


@jit
def ours(x):
    at = tl.arange(0, 16)
    tile = tlx.local_alloc((16, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(x + at, tlx.local_load(tile[0]) + 1)


@jit
def plain(x):
    tl.store(x, tl.load(x) + 1)


CUT = {"cut short": lambda data: data[:len(data) // 2], "garbled": lambda data: b"\xff\xfe" + data[:40] + b"\x00" * 20,
       "empty": lambda data: b"", "another": lambda data: data.replace(b"e", b"f", 1)}


def stages(kernel) -> dict:
    found = compile_kernel(kernel, {"x": "*fp32"})
    return {name: found.stages[name] for name in ("ttgir", "llir", "ptx", "cubin")}


@pytest.mark.parametrize("kernel", [ours, plain])
def test_damaged_files_are_made_again(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    whole = stages(kernel)
    files = sorted(one for one in tmp_path.rglob("*") if one.is_file() and one.suffix in (".ptx", ".cubin", ".ttgir", ".json"))
    assert len(files) >= 6

    @every([f"{one.name} {how}" for one in files for how in (CUT if one.suffix == ".ptx" else ("cut short", "garbled"))])
    def is_made_again(case):
        name, _, how = case.partition(" ")
        place = next(one for one in files if one.name == name)
        data = place.read_bytes()
        place.write_bytes(CUT[how](data))
        assert stages(kernel) == whole
        if place.suffix != ".json":
            assert place.read_bytes() == data, "the file is whole again"

    is_made_again()


def test_a_kernel_without_digests_gets_them_and_a_cache_may_be_read_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    whole = stages(plain)
    digests = next(tmp_path.rglob("mimw_digests.json"))
    digests.unlink()
    assert stages(plain) == whole and digests.exists()
    digests.unlink()
    monkeypatch.setattr(sys.modules["mimw.compiler.pipeline.whole"], "keep_beside", _refuse)
    assert stages(plain) == whole and not digests.exists()


KEY = "ab" * 32


def _refuse(*_):
    raise PermissionError(13, "Permission denied")


def test_a_kept_text_is_whole_or_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text = "".join(np.array(list("ab\n\r\xe4"))[np.arange(500) % 5])
    keep_text(KEY, "raw.ptx", text)
    assert kept_text(KEY, "raw.ptx") == text
    place = next(tmp_path.rglob("raw.ptx"))
    data = place.read_bytes()
    for damaged in (data[:-1], data[:200], b"", b"\xff" + data):
        place.write_bytes(damaged)
        assert kept_text(KEY, "raw.ptx") is None
