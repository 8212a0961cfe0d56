"""The launcher in C, built and run against a driver that prints: arguments in order and size, descriptors, attributes."""

import functools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import LaunchError, TargetError
from mimw.runtime.export import export
from mimw.runtime.export.arguments import Described, Number, Pointer
from mimw.runtime.export.facts import Facts
from mimw.runtime.export.header import header
from mimw.runtime.export.launcher import launcher
from tests.export.building import lines, needs_compiler
from tests.kernels import exported as shelf
from tests.kernels.changing import CASES

FACTS = Facts("one", "one_kernel", "sm_90a", 128, 0, 1, (1, 1, 1), True, False, False, 0, 1)


@functools.cache
def scale_rows():
    kernel, grid, args, meta = shelf.case()
    return export(kernel, grid, *args, target="sm_90a", torch=True, **meta)


def parameter_sizes(ptx: str) -> list[int]:
    """The bytes of each parameter of the kernel in a PTX text."""
    entry = ptx[ptx.index(".entry"):]
    entry = entry[:entry.index(")")]
    found = re.findall(r"\.param (?:\.align \d+ )?\.([bfus])(\d+) (?:\.ptr \S+ \.align \d+ )?\w+(?:\[(\d+)\])?", entry)
    return [int(bits) // 8 * int(count or 1) for _, bits, count in found]


def made(facts, arguments):
    return {"one.h": header(facts, arguments, "a test"), "one.c": launcher(facts, arguments, b"\x7fELF....", "a test")}


@needs_compiler
def test_the_driver_gets_what_the_kernel_s_parameters_are():
    one = scale_rows()
    kernel, grid, args, meta = shelf.case()
    sizes = parameter_sizes(_compiled().stages["ptx"])
    assert sizes == [128, 4, 4, 8, 8, 8, 4, 4, 8, 8]    # map, extents, strides; target, factor, rows; two of scratch
    told = "{0x1000, {80, 64}, {64, 1}}"
    call = f"scale_rows_launch(&kernel, (CUstream)7, 3, 1, 1, (scale_rows_tensor2){told}, 0x2000, 2.5f, 80)"
    found = lines(one.files, "scale_rows", call, sizes)
    threads, shared = one.facts.threads, one.facts.shared
    assert found == ["load \x7fELF", "function scale_rows", "map type 7 at 1000: 64/32/1 80/32/1 stride 256 0 3 2 0",
                     f"launch 3 1 1 of {threads} 1 1, {shared} bytes, stream 7",
                     "argument 128 ffffffffffffffff", "argument 4 50", "argument 4 40", "argument 8 40", "argument 8 1",
                     "argument 8 2000", "argument 4 40200000", "argument 4 50", "argument 8 0", "argument 8 0", "status 0"]


def test_an_export_is_of_what_the_kernel_names_now(monkeypatch):
    kernel, _, change = CASES["module"]

    def binary():
        return export(kernel, (1, ), np.ones(4, np.float32), np.zeros(4, np.float32), target="sm_90a").files["k_module.cubin"]

    before = binary()
    change(monkeypatch)
    assert binary() != before


@functools.cache
def _compiled():
    from mimw.runtime.compile_kernel import compile_kernel
    from mimw.runtime.simulate import prepare
    found = prepare(*shelf.case()[:3], shelf.case()[3], "sm_90a").specialisation
    constants = {found.fn.arg_names[path[0]]: value for path, value in found.constants.items()}
    return compile_kernel(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs)


@needs_compiler
def test_a_small_map_is_mended_for_old_drivers_and_a_load_that_fails_says_so():
    call = "scale_rows_launch(&kernel, 0, 1, 1, 1, (scale_rows_tensor2){0x1000, {80, 64}, {64, 1}}, 0x2000, 2.5f, 80)"
    assert "argument 128 ffffffffffdfffff" in lines(scale_rows().files, "scale_rows", call, [128], "driver_version = 13010;")
    assert lines(scale_rows().files, "scale_rows", call, [128], "fails = 1;") == ["load \x7fELF", "status 209"]


@needs_compiler
@pytest.mark.parametrize("call", [
    "scale_rows_launch(&kernel, 0, 1, 1, 1, (scale_rows_tensor2){0x1008, {80, 64}, {64, 1}}, 0x2000, 2.5f, 80)",
    "scale_rows_launch(&kernel, 0, 1, 1, 1, (scale_rows_tensor2){0x1000, {80, 64}, {63, 1}}, 0x2000, 2.5f, 80)",
    "scale_rows_launch(&kernel, 0, 1, 1, 1, (scale_rows_tensor2){0x1000, {80, 64}, {64, 1}}, 0x2004, 2.5f, 80)",
    "scale_rows_launch(&kernel, 0, 1, 1, 1, (scale_rows_tensor2){0x1000, {80, 64}, {64, 1}}, 0x2000, 2.5f, 81)",
])
def test_what_the_kernel_was_not_compiled_for_is_refused(call):
    problem = call.replace("launch(&kernel, 0, 1, 1, 1, ", "problem(")
    found = lines(scale_rows().files, "scale_rows", f"(printf(\"%s\\n\", {problem}), {call})", [128])
    assert found[-1] == "status 1" and "multiple of 16" in found[-2] and not any("launch" in line for line in found)


@needs_compiler
@pytest.mark.parametrize("changed, attributes, launched", [
    (dict(shared=100000), ["attribute 8 100000"], ["launch 2 3 1 of 128 1 1, 100000 bytes, stream 0"]),
    (dict(ctas=4, cluster=(4, 1, 1)), [], ["launch 8 3 1 of 128 1 1, 0 bytes, stream 0", "with 4 4", "with 5 1"]),
    (dict(cluster=(16, 1, 1), portable=False), ["attribute 14 1"], ["launch 2 3 1 of 128 1 1, 0 bytes, stream 0"]),
    (dict(cooperative=True, early=True), [], ["launch 2 3 1 of 128 1 1, 0 bytes, stream 0", "with 6 1", "with 2 1"]),
], ids=["shared", "mesh", "large-cluster", "cooperative"])
def test_what_a_launch_asks_for(changed, attributes, launched):
    files = made(replace(FACTS, **changed), (Number("n", "i64", False), ))
    assert lines(files, "one", "one_launch(&kernel, 0, 2, 3, 1, -1)", [8, 8, 8]) == [
        "load \x7fELF", "function one_kernel", *attributes, *launched, "argument 8 ffffffffffffffff", "argument 8 0",
        "argument 8 0", "status 0"]


@needs_compiler
def test_scratch_memory_and_an_empty_grid():
    files = made(replace(FACTS, scratch=384, scratch_align=128), (Number("h", "fp16", False), Pointer("x", "fp32", False)))
    call = "(printf(\"%zu bytes\\n\", one_scratch_bytes(2, 3, 1)), one_launch(&kernel, 0, 2, 3, 1, 0x500, 0x3c00, 0x11))"
    assert lines(files, "one", call, [2, 8, 8, 8])[2:] == [
        "2304 bytes", "launch 2 3 1 of 128 1 1, 0 bytes, stream 0", "argument 2 3c00", "argument 8 11", "argument 8 500",
        "argument 8 0", "status 0"]
    assert lines(files, "one", "one_launch(&kernel, 0, 2, 0, 1, 0x500, 0, 0x11)", [2])[2:] == ["status 0"]


def test_the_files_say_what_they_are():
    one = scale_rows()
    assert list(one.files) == ["scale_rows.h", "scale_rows.c", "scale_rows.cubin", "scale_rows.json", "scale_rows_torch.cpp"]
    assert one.files["scale_rows.cubin"].startswith(b"\x7fELF")
    told = json.loads(one.files["scale_rows.json"])
    assert (told["chip"], told["grid"], told["threads"]) == ("sm_90a", [3], one.facts.threads)
    assert [(item["name"], item["is"]) for item in told["arguments"]] == [
        ("source", "tensor"), ("target", "pointer"), ("factor", "number"), ("rows", "number")]
    assert one.written == ("target", ) and "ROWS=32, WIDTH=64" in one.files["scale_rows.h"]
    assert one.arguments[0] == Described("source", "fp32", 2, (32, 32), 7, 3, 4)


def test_what_is_refused():
    kernel, grid, args, meta = shelf.case()
    with pytest.raises(TargetError, match="gfx942 has no cubin"):
        export(_copy, (1, ), *_ARRAYS, target="gfx942")
    with pytest.raises(LaunchError, match="'2d' cannot be the name"):
        export(kernel, grid, *args, target="sm_90a", name="2d", **meta)
    with pytest.raises(LaunchError, match="writes names lost; the arrays of scale_rows are source, target"):
        export(kernel, grid, *args, target="sm_90a", writes=["lost"], **meta)


@mimw.jit
def _copy(int, stream):
    """Names that C and the launcher have for something else."""
    at = tl.arange(0, 128)
    tl.store(stream + at, tl.load(int + at))


_ARRAYS = np.zeros(128, np.float32), np.zeros(128, np.float32)


def test_names_that_c_has_get_an_underscore_and_a_plain_kernel_may_write_all_arrays():
    one = export(_copy, (1, ), *_ARRAYS, target="sm_90a", name="copy")
    assert "CUdeviceptr int_, CUdeviceptr stream_" in one.files["copy.h"] and one.written == ("int_", "stream_")
    assert export(_copy, (1, ), *_ARRAYS, target="sm_90a", name="copy", writes=["stream_"]).written == ("stream_", )
