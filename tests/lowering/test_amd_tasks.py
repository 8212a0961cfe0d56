"""Tasks and barriers on AMD's chips, down to the binary: what stands in the machine code, and where `s_barrier` is left."""

import re

import pytest
from triton.compiler.errors import CompilationError

from mimw.compiler.analysis import counter_bytes
from mimw.compiler.pipeline.binary import kept_by_amdgcn
from mimw.errors import OutOfSharedMemory, TaskError, TooManyWarps
from mimw.runtime.compile_kernel import compile_kernel
from mimw.target import target as chip
from tests.compiling import to_assembly
from tests.kernels import waves

GFX9, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
ROWS, PAIR = {"x": "*fp32", "y": "*fp32", "rows": "i32"}, {"x": "*fp32", "y": "*fp32"}
KERNELS = {
    "ring": (waves.ring, ROWS, {"N": 512, "STAGES": 2, "WARPS": 4, "FLIP": 0, "EARLY": 0}),
    "one warp": (waves.ring, ROWS, {"N": 512, "STAGES": 2, "WARPS": 1, "FLIP": 0, "EARLY": 0}),
    "regions": (waves.regions, PAIR, {"N": 1024}),
    "loop": (waves.looped, ROWS, {"N": 256}),
    "by warps": (waves.by_warps, ROWS, {"N": 256, "WARPS": 2}),
    "by numbers": (waves.by_numbers, ROWS, {"N": 256, "WARPS": 2}),
    "copies": (waves.copied, ROWS | {"x": "*fp16"}, {"N": 1024, "STAGES": 2}),
}
# The instructions that a kernel has on gfx9, and on gfx1250.
HAS = {
    "ring": ("ds_sub_rtn_u32 ds_add_rtn_u32 s_sleep", "ds_atomic_barrier_arrive_rtn_b64 s_barrier_join s_sleep"),
    "one warp": ("ds_sub_rtn_u32 s_sleep", "ds_atomic_barrier_arrive_rtn_b64"),
    "regions": ("ds_add_rtn_u32 s_sleep", "s_barrier_join"),
    "loop": ("ds_sub_rtn_u32 ds_add_rtn_u32", "ds_atomic_barrier_arrive_rtn_b64"),
    "by warps": ("ds_sub_rtn_u32 s_sleep", "ds_atomic_barrier_arrive_rtn_b64"),
    "by numbers": ("ds_inc_rtn_u32 ds_inc_u32 s_sleep", "ds_inc_rtn_u32 ds_inc_u32 s_sleep"),
    "copies": ("v_mfma ds_sub_rtn_u32", "v_wmma ds_atomic_barrier_arrive_rtn_b64 global_load_async_to_lds"),
}


def compiled(case, target):
    kernel, signature, constants = case
    attrs = {(index, ): [["tt.divisibility", 16]] for index in range(len(signature))}
    return compile_kernel(kernel, signature, constants, target, attrs=attrs)


def code(found) -> list[str]:
    """The instructions of a kernel, one a line, without comments and directives."""
    lines = [line.split(";")[0].strip() for line in found.stage("amdgcn").splitlines()]
    return [line for line in lines if re.match(r"[a-z]\w+(\s|$)", line)]


def count(found, pattern: str) -> int:
    return len([line for line in code(found) if re.match(pattern, line)])


def meetings(found) -> tuple[int, int]:
    """Barriers of all waves in the LLVM IR and in the machine code."""
    return found.stage("llir").count("call void @llvm.amdgcn.s.barrier()"), count(found, r"s_barrier$")


@pytest.mark.long(but=[f"{name}-{AMD[number % 3]}" for number, name in enumerate(KERNELS)], everywhere=True)
@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("name", KERNELS)
def test_it_becomes_a_binary(name, target, capfd):
    found = compiled(KERNELS[name], target)
    assert found.stage("hsaco")[:4] == b"\x7fELF" and "error" not in capfd.readouterr().err
    for instruction in HAS[name][target not in GFX9].split():
        assert count(found, instruction), instruction
    assert not count(found, "s_swappc") and "mimw." not in "\n".join(code(found))  # functions of ours stand in place
    assert re.search(r"\.vgpr_spill_count:\s+0\b", found.stage("amdgcn"))
    if target in GFX9:
        assert count(found, r"s_barrier$") and not count(found, "s_barrier_")


@pytest.mark.parametrize("target", GFX9)
def test_what_tasks_do_adds_no_barrier_of_all_waves(target):
    """Syncs of the tasks are counters; `s_barrier` starts and ends tasks, whatever these do."""
    without, with_syncs = (compiled((waves.syncing, PAIR, {"N": 256, "SYNCS": syncs, "WARPS": 4}), target) for syncs in (0, 3))
    assert meetings(without)[0] + 1 == meetings(with_syncs)[0]      # one more: all waves have zeroed the counters
    assert meetings(without)[1] + 1 == meetings(with_syncs)[1]
    met = re.findall(r"call void @mimw.meet\(.*?@mimw.sync(\d+).of(\d+), i32 (\d+)\)", with_syncs.stage("llir"))
    assert set(met) == {("1", "4", "4"), ("2", "4", "4")} and len(met) >= 12 and "@mimw.meet" not in without.stage("llir")
    assert meetings(compiled(KERNELS["ring"], target))[0] == meetings(with_syncs)[0]


@pytest.mark.long(but=["dot", "scalar atomic", "argmax", "histogram", "lock", "fence", "gather"], everywhere=True)
@pytest.mark.parametrize("what", ["scalar atomic", "lock", "histogram", "gather", "sort", "argmax", "fence", "dot"])
def test_no_op_of_tritons_in_a_task_is_a_barrier_of_all_waves(what):
    signature = PAIR | {"i": "*i32"}
    without, working = (to_assembly(waves.working, signature, {"WHAT": one}, "gfx942").stage("llir") for one in ("nothing", what))
    of_all = "call void @llvm.amdgcn.s.barrier()"
    assert working.count(of_all) == without.count(of_all) + 1 and "call void @mimw.meet(" in working


@pytest.mark.parametrize("target", GFX9)
def test_places_of_several_regions_have_a_counter_for_each_size(target):
    """The first worker has 4 waves in one region and 8 in the next: rounds of 4 would leave a counter in the middle of one of 8."""
    llvm_ir = compiled(KERNELS["regions"], target).stage("llir")
    defined = re.findall(r"^@mimw.sync(\d+).of(\d+) = ", llvm_ir, re.MULTILINE)
    assert sorted(defined) == [("1", "4"), ("2", "4"), ("2", "8"), ("3", "2"), ("4", "2")]
    zeroed = re.findall(r"^  store i32 zeroinitializer, ptr addrspace\(3\) @mimw.sync(\d+).of(\d+)", llvm_ir, re.MULTILINE)
    assert sorted(zeroed) == sorted(defined)


@pytest.mark.parametrize("target", GFX9)
def test_an_arrival_waits_for_the_waves_own_accesses_first(target):
    """And before the task's waves meet: another wave's copies are not known to the one that arrives."""
    lines = code(compiled(KERNELS["copies"], target))
    arrival = next(index for index, line in enumerate(lines) if line.startswith("ds_sub_rtn_u32"))
    waits = [index for index, line in enumerate(lines[:arrival]) if line == "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    assert waits and not any(re.match("global_|buffer_|ds_write", line) for line in lines[waits[-1]:arrival])


def test_waves_come_in_groups_of_four():
    """Four and one make eight: all waves have the registers of the largest task."""
    for target, lanes in (("gfx942", 64), ("gfx1250", 32)):
        found = compiled(KERNELS["one warp"], target)
        assert f'"amdgpu-flat-work-group-size"="1,{8 * lanes}"' in found.stage("llir")


def test_more_waves_than_a_work_group_has():
    with pytest.raises(CompilationError) as caught:
        compile_kernel(waves.ring, ROWS, {"N": 1024, "STAGES": 1, "WARPS": 16, "FLIP": 0, "EARLY": 0}, "gfx950")
    assert isinstance(caught.value.__cause__, TooManyWarps)
    assert "4 (default) + 16 (task 1) = 20 warps; a CTA on gfx950 has at most 16 (1024 threads of 64" in str(caught.value)


def test_counters_are_shared_memory_too():
    """64 KB of buffer leave no place for the counters of two tasks; Triton would not refuse it."""
    with pytest.raises(CompilationError) as caught:
        compile_kernel(waves.too_large, PAIR, {"N": 16384, "WARPS": 4}, "gfx942")
    assert isinstance(caught.value.__cause__, OutOfSharedMemory)
    assert "counters of the compiler                 16 bytes" in str(caught.value) and "16 too many" in str(caught.value)


def test_a_barrier_of_all_waves_is_refused_in_a_task():
    with pytest.raises(CompilationError) as caught:
        compile_kernel(waves.meeting_all, PAIR, {}, "gfx942")
    assert isinstance(caught.value.__cause__, TaskError)
    assert re.search(r"waves.py:\d+ in meeting_all.*waves.py:\d+ in meeting_all", str(caught.value), re.DOTALL)
    assert "Mend: tl.debug_barrier() holds the task's own waves" in str(caught.value)


def test_the_bit_of_the_phase_on_gfx1250():
    """`barrier_try_wait` reads the bit that Triton's own wait looks at."""
    llvm_ir = compiled((waves.divergent, PAIR, {}), "gfx1250").stage("llir")
    assert re.findall(r"load i64, ptr addrspace\(3\).*\n.* = and i64 %\d+, (\d+)", llvm_ir) == [str(1 << 29)]


@pytest.mark.parametrize("target", AMD)
def test_a_wave_arrives_once_behind_code_of_some_lanes(target):
    """LLVM would copy assembly into both branches of an `if`, where each half of the lanes would count for the wave."""
    llvm_ir = compiled((waves.divergent, PAIR, {}), target).stage("llir")
    assert llvm_ir.count("call void @mimw.each(") == 1 and llvm_ir.count("call void @mimw.named(") == 2


@pytest.mark.parametrize("name, target, kept", [("ring", "gfx942", 16), ("regions", "gfx950", 32), ("by numbers", "gfx942", 80),
                                                ("by numbers", "gfx1250", 64), ("ring", "gfx1250", 0)])
def test_counters_are_counted_as_the_binary_has_them(name, target, kept):
    found = compiled(KERNELS[name], target)
    assert kept_by_amdgcn(found.stage("amdgcn")) == counter_bytes(found.program, chip(target)) == kept


def test_counters_are_in_the_map_of_what_the_layouts_need():
    with pytest.raises(CompilationError) as caught:
        compile_kernel(waves.nearly_too_large, PAIR, {"COUNT": 8161}, "gfx942")
    assert isinstance(caught.value.__cause__, OutOfSharedMemory) and caught.value.__cause__.required == 65552 + 16
    assert re.search(r"counters of the compiler +16 bytes\n +sum +65568 bytes\n", str(caught.value))
