"""The stage of LLVM IR for AMD: Triton's, in its own order, with its lowering of tasks made fit for gfx9, and functions of ours."""

import inspect
import re

import pytest
from triton import knobs
from triton.backends.amd.compiler import HIPBackend
from triton.backends.compiler import Language

from mimw.compiler.triton_port import amd_stage
from mimw.compiler.triton_port.amd_functions import with_functions
from mimw.compiler.triton_port.gfx9_tasks import for_gfx9

# The passes of the stage in Triton's source, in order, those of sanitizers left out. Another order is another Triton: what this
# package says of it (docs/ARCHITECTURE.md, `gfx9_tasks`) has then to be looked at again.
PASSES = """update_async_wait_count warp_pipeline_conversion scf_to_cf inliner index_to_llvmir prepare_consan_captures
    allocate_shared_memory membar concurrency_sanitizer canonicalizer cse allocate_global_scratch_memory to_llvmir
    warp_specialize_to_llvm canonicalizer cse cf_to_llvmir arith_to_llvmir canonicalizer cse symbol_dce di_scope
    builtin_func_to_llvmir reconcile_unrealized_casts di_scope di_local_variable""".split()

TASKS = """@nbar2 = internal addrspace(3) global target("amdgcn.named.barrier", 0) poison
@nbar1 = internal unnamed_addr addrspace(3) global target("amdgcn.named.barrier", 0) poison

define amdgpu_kernel void @k(ptr addrspace(1) %0) local_unnamed_addr #0 !dbg !4 {
  %2 = tail call i32 @llvm.amdgcn.wave.id(), !dbg !11
  %3 = icmp ult i32 %2, 4, !dbg !11
  br i1 %3, label %4, label %5

4:
  tail call void @llvm.amdgcn.s.barrier.join(ptr addrspace(3) @nbar1), !dbg !12
  tail call void @llvm.amdgcn.s.barrier.signal.var(ptr addrspace(3) @nbar1, i32 4), !dbg !12
  tail call void @llvm.amdgcn.s.barrier.wait(i16 1), !dbg !12
  br label %5

5:
  ret void
}

declare noundef i32 @llvm.amdgcn.wave.id() #1
declare void @llvm.amdgcn.s.barrier.join(ptr addrspace(3)) #2
declare void @llvm.amdgcn.s.barrier.signal.var(ptr addrspace(3), i32) #2
declare void @llvm.amdgcn.s.barrier.wait(i16 immarg) #2
"""


def test_the_passes_of_the_stage():
    source = inspect.getsource(HIPBackend.make_llir)
    assert re.findall(r"\.add_(\w+)\(pm\b", source) == PASSES
    assert source.count("warp_specialize") == 1 and "amd.passes.ttgpuir.add_warp_specialize_to_llvm(pm, options.arch)" in source


def test_one_name_is_another_in_our_stage():
    """Nothing of Triton's own is replaced."""
    ours, stock = amd_stage._lowering_tasks(), HIPBackend.make_llir
    assert ours.__code__ is stock.__code__
    bound, theirs = ours.__globals__, stock.__globals__
    assert {name for name in theirs if bound[name] is not theirs[name]} == {"amd"}
    passes, stock_passes = bound["amd"].passes.ttgpuir, theirs["amd"].passes.ttgpuir
    assert {name for name in vars(stock_passes) if getattr(passes, name) is not getattr(stock_passes, name)} == {
        "add_warp_specialize_to_llvm"}


def test_tasks_for_gfx9():
    made = for_gfx9(TASKS)
    assert not re.search(r"nbar|named\.barrier|wave\.id|s\.barrier\.", made)
    assert "call void @mimw.meet(ptr addrspace(3) @mimw.sync1.of4, i32 4), !dbg !12" in made
    head = made[made.index("define"):].splitlines()[1:8]
    assert head[0] == "  store i32 zeroinitializer, ptr addrspace(3) @mimw.sync1.of4, align 4" and "s.barrier()" in head[2]
    assert re.fullmatch(r"  %2 = call i32 @llvm.amdgcn.readfirstlane.i32\(i32 (%\S+)\), !dbg !11", head[6])
    assert "declare i32 @llvm.amdgcn.workitem.id.x()" in made and "sync2" not in made


@pytest.mark.parametrize("was, now, told", [
    ("s.barrier.wait(i16 1)", "s.barrier.wait(i16 2)", "a sync of a task's waves that is not known here"),
    ("@nbar1, i32 4)", "@nbar2, i32 4)", "a sync of a task's waves"),
    ("@nbar1, i32 4)", "@nbar1, i32 3)", "a sync of a task's waves"),
    ("@nbar1, i32 4)", "@nbar1, i32 %3)", "a sync of a task's waves"),
    ("  br label %5", "  call void @llvm.amdgcn.s.barrier.signal(i32 -3)\n  br label %5", r"not known here: .*signal\(i32 -3\)"),
    ("@llvm.amdgcn.wave.id(), !dbg", '@llvm.amdgcn.wave.id() "new", !dbg', None),
    ("tail call i32 @llvm.amdgcn.wave.id()", "tail call range(i32 0, 8) i32 @llvm.amdgcn.wave.id()", "not known here.*wave.id"),
    ('barrier", 0) poison', 'barrier", 1) poison', "not known here: @nbar"),
    ("amdgpu_kernel", "amdgpu_cs", "expected one kernel in the LLVM IR, found 0"),
])
def test_a_form_that_is_not_known_is_an_error(was, now, told):
    assert was in TASKS
    if told is None:
        assert "readfirstlane" in for_gfx9(TASKS.replace(was, now))
        return
    with pytest.raises(RuntimeError, match=told):
        for_gfx9(TASKS.replace(was, now))


def calling(assembly: str) -> str:
    return f"define amdgpu_kernel void @k(i32 %0) {{\n  tail call void {assembly}, !dbg !1\n  ret void\n}}\n"


def test_functions_come_in_place_of_their_names():
    made = with_functions(calling('asm sideeffect "mimw.wait", "v,v,~{memory}"(i32 %0, i32 1) #7'), "gfx942")
    assert "tail call void @mimw.wait(i32 %0, i32 1) #7, !dbg !1" in made and made.count("define internal void @mimw.wait(") == 1
    assert made.count("declare ") == len(set(re.findall(r"declare .*", made))) == 2     # s.sleep and readfirstlane
    plain = calling('asm sideeffect "s_nop 0", ""()')
    assert with_functions(plain, "gfx942") == plain


@pytest.mark.parametrize("arch", ["gfx942", "gfx1250"])
def test_named_barriers_are_zeroed(arch):
    made = with_functions(calling('asm sideeffect "mimw.named", "v,v,v,~{memory}"(i32 9, i32 8, i32 1)'), arch)
    assert made.splitlines()[1] == "  store [16 x i32] zeroinitializer, ptr addrspace(3) @mimw.counters, align 4"
    assert made.count("@mimw.counters = internal addrspace(3) global [16 x i32]") == 1


@pytest.mark.parametrize("assembly, told", [
    ('asm sideeffect "mimw.sing", "v,~{memory}"(i32 %0)', "calls 'sing', which is none of meet, named"),
    ('asm sideeffect "mimw.wait", "v,~{memory}"(i32 %0)', r"calls 'wait' with operands of \['i32'\], which takes \['i32', 'i32'\]"),
    ('asm sideeffect "mimw.wait", "v,v"(ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @g, i32 8), i32 1)',
     r"\['ptr addrspace\(3\)', 'i32'\]")])
def test_calls_that_are_not_right_are_errors(assembly, told):
    with pytest.raises(RuntimeError, match=told):
        with_functions(calling(assembly), "gfx942")


def test_a_hook_that_is_there_sees_our_stage(monkeypatch):
    seen = []

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        seen.append(None if stages is None else stages["llir"])
        return "key", "hash"

    backend = HIPBackend(type("Target", (), {"backend": "hip", "arch": "gfx942", "warp_size": 64})())
    options = backend.parse_options({"num_warps": 4})
    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = hook
        with amd_stage.our_amd_stage():
            assert knobs.runtime.add_stages_inspection_hook() == ("key", "hash")
            gluon, triton = {}, {}
            backend.add_stages(gluon, options, Language.GLUON)
            backend.add_stages(triton, options, Language.TRITON)
        assert knobs.runtime.add_stages_inspection_hook is hook
    assert seen[0] is None and seen[1] is gluon["llir"] and amd_stage.__name__ == gluon["llir"].__module__
    assert triton["llir"].__module__ == HIPBackend.__module__       # a plain kernel's stage is Triton's own
    assert knobs.runtime.add_stages_inspection_hook is None
