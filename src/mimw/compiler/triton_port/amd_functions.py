"""Functions of ours in the LLVM IR of AMD's chips, which kernels call from TTGIR by the name of an instruction that there is not.

Input: LLVM IR in which assembly is the name of a function, `mimw.` ahead of it, and the chip's gfx name. Output: the LLVM IR with
calls in place of these, and the definitions of what is called. An example:

    call void asm sideeffect "mimw.wait", "v,v,~{memory}"(i32 %5, i32 %6)
    call void @mimw.wait(i32 %5, i32 %6)

Where a loop waits for a word in LDS, LLVM so places the wait counts and the wait states that hazards ask for, of which it sees
nothing in assembly (LLVM's AMDGPU guide; on gfx1250 the hardware leaves most of these to the compiler). A name without a function
is an error here; where nobody replaces the names, LLVM's assembler knows no such instruction.

A barrier with phases on gfx9 is two integers in LDS: how many arrivals are still to come, above the parity of its phase how many
each phase takes. The last arrival sets the first again and then changes the parity. gfx1250 has such barriers in hardware. A
numbered barrier is a counter: a wave adds one, and has met the others once the counter has passed the next multiple of their
number; it wraps at a multiple of it.
"""

from __future__ import annotations

import re

NAMED = 16  # numbered barriers of a work-group
PENDING = 4  # groups of copies that a wait can leave in flight
_CALL = re.compile(r'asm sideeffect "mimw\.(\w+)", "[^"]*"')

# Whether a lane is the first of those that run.
_FIRST = """  %running = call i64 @llvm.amdgcn.ballot.i64(i1 true)
  %low = trunc i64 %running to i32
  %above = lshr i64 %running, 32
  %high = trunc i64 %above to i32
  %before.low = call i32 @llvm.amdgcn.mbcnt.lo(i32 %low, i32 0)
  %before = call i32 @llvm.amdgcn.mbcnt.hi(i32 %high, i32 %before.low)
  %first = icmp eq i32 %before, 0"""

_FUNCTIONS = {
    # One of the task's own syncs, by each of its `waves`, a power of two: the counter may wrap.
    "meet": f"""define internal void @mimw.meet(ptr addrspace(3) %counter, i32 %waves) alwaysinline convergent nounwind {{
{_FIRST}
  br i1 %first, label %arrive, label %met
arrive:
  %old = atomicrmw add ptr addrspace(3) %counter, i32 1 syncscope("workgroup") monotonic, align 4
  %round = sub i32 0, %waves
  %begun = and i32 %old, %round
  %target = add i32 %begun, %waves
  br label %look
look:
  %now = load atomic volatile i32, ptr addrspace(3) %counter syncscope("workgroup") monotonic, align 4
  %left = sub i32 %now, %target
  %early = icmp slt i32 %left, 0
  br i1 %early, label %sleep, label %met
sleep:
  call void @llvm.amdgcn.s.sleep(i32 1)
  br label %look
met:
  ret void
}}""",
    # The numbered barrier `number`, for `waves` waves; who `stays` leaves with the round that it came to.
    "named": f"""define internal void @mimw.named(i32 %number, i32 %waves, i32 %stays) alwaysinline convergent nounwind {{
{_FIRST}
  fence syncscope("workgroup") release
  br i1 %first, label %arrive, label %met
arrive:
  %counter = getelementptr i32, ptr addrspace(3) @mimw.counters, i32 %number
  %rounds = shl i32 %waves, 16
  %last = sub i32 %rounds, 1
  %old = atomicrmw uinc_wrap ptr addrspace(3) %counter, i32 %last syncscope("workgroup") monotonic, align 4
  %round = udiv i32 %old, %waves
  %next = add i32 %round, 1
  %target = mul i32 %next, %waves
  %half = lshr i32 %rounds, 1
  %stay = icmp ne i32 %stays, 0
  br i1 %stay, label %look, label %met
look:
  %now = load atomic volatile i32, ptr addrspace(3) %counter syncscope("workgroup") monotonic, align 4
  %ahead = sub i32 %now, %target
  %wrapped = add i32 %ahead, %rounds
  %behind = icmp slt i32 %ahead, 0
  %gone = select i1 %behind, i32 %wrapped, i32 %ahead
  %early = icmp uge i32 %gone, %half
  br i1 %early, label %sleep, label %met
sleep:
  call void @llvm.amdgcn.s.sleep(i32 1)
  br label %look
met:
  fence syncscope("workgroup") acquire
  ret void
}}""",
    # The end of a group of copies into LDS, and a wait that leaves the `pending` youngest groups in flight: LLVM counts them along
    # all paths.
    "mark": """define internal void @mimw.mark() alwaysinline convergent nounwind {
  call void @llvm.amdgcn.asyncmark()
  ret void
}""",
    **{f"pending{count}": f"""define internal void @mimw.pending{count}() alwaysinline convergent nounwind {{
  call void @llvm.amdgcn.wait.asyncmark(i16 {count})
  ret void
}}""" for count in range(PENDING + 1)},
}

# `%sum` arrivals by one lane, and one look at a barrier for the phase of parity `%parity`, on gfx9.
_COUNT = """  %phase = getelementptr i8, ptr addrspace(3) %barrier, i32 4
  %left = atomicrmw sub ptr addrspace(3) %barrier, i32 %sum syncscope("workgroup") monotonic, align 4
  %state = load atomic volatile i32, ptr addrspace(3) %phase syncscope("workgroup") monotonic, align 4
  %last = icmp eq i32 %left, %sum
  br i1 %last, label %complete, label %over
complete:
  %again = lshr i32 %state, 1
  store atomic volatile i32 %again, ptr addrspace(3) %barrier syncscope("workgroup") monotonic, align 8
  %next = xor i32 %state, 1
  store atomic volatile i32 %next, ptr addrspace(3) %phase syncscope("workgroup") release, align 4
  br label %over
over:
  ret void"""
_LOOK = """  %phase = getelementptr i8, ptr addrspace(3) %barrier, i32 4
  %state = load atomic volatile i32, ptr addrspace(3) %phase syncscope("workgroup") monotonic, align 4
  %now = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %state)
  %awaited = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %parity)
  %differs = xor i32 %now, %awaited
  %gone = and i32 %differs, 1"""
_COUNT_12 = """  %wide = zext i32 %sum to i64
  %pending = call i64 @llvm.amdgcn.ds.atomic.barrier.arrive.rtn.b64(ptr addrspace(3) %barrier, i64 %wide)
  br label %over
over:
  ret void"""


def _arrivals(count: str) -> dict[str, str]:
    """Functions for `sum` arrivals, which `count` makes: by the lane that is `here`, or by the first lane of a wave that runs."""
    return {"arrive": f"""define internal void @mimw.arrive(i32 %at, i32 %sum, i32 %here) alwaysinline convergent nounwind {{
  %barrier = inttoptr i32 %at to ptr addrspace(3)
  %arrives = icmp ne i32 %here, 0
  br i1 %arrives, label %arrive, label %over
arrive:
{count}
}}""", "each": f"""define internal void @mimw.each(i32 %at, i32 %sum) alwaysinline convergent nounwind {{
  %barrier = inttoptr i32 %at to ptr addrspace(3)
{_FIRST}
  br i1 %first, label %arrive, label %over
arrive:
{count}
}}"""}


_GFX9 = {
    "init": """define internal void @mimw.init(i32 %at, i32 %count) alwaysinline nounwind {
  %barrier = inttoptr i32 %at to ptr addrspace(3)
  %phase = getelementptr i8, ptr addrspace(3) %barrier, i32 4
  %of.each = shl i32 %count, 1
  store volatile i32 %count, ptr addrspace(3) %barrier, align 8
  store volatile i32 %of.each, ptr addrspace(3) %phase, align 4
  ret void
}""",
    **_arrivals(_COUNT),
    # Until the phase of that parity has completed. All lanes of a wave see the same.
    "wait": f"""define internal void @mimw.wait(i32 %at, i32 %parity) alwaysinline convergent nounwind {{
  %barrier = inttoptr i32 %at to ptr addrspace(3)
  br label %look
look:
{_LOOK}
  %done = icmp ne i32 %gone, 0
  br i1 %done, label %over, label %sleep
sleep:
  call void @llvm.amdgcn.s.sleep(i32 1)
  br label %look
over:
  fence syncscope("workgroup") acquire
  ret void
}}""",
    "test": f"""define internal i32 @mimw.test(i32 %at, i32 %parity) alwaysinline convergent nounwind {{
  %barrier = inttoptr i32 %at to ptr addrspace(3)
{_LOOK}
  ret i32 %gone
}}""",
}

_GFX12 = {   # the hardware counts an arrival for each lane that runs
    **_arrivals(_COUNT_12),
    # Bit 29 is the parity of the phase, as Triton's own wait reads it.
    "test": """define internal i32 @mimw.test(i32 %at, i32 %parity) alwaysinline convergent nounwind {
  %barrier = inttoptr i32 %at to ptr addrspace(3)
  %state = load atomic volatile i64, ptr addrspace(3) %barrier syncscope("workgroup") monotonic, align 8
  %low = trunc i64 %state to i32
  %phase = lshr i32 %low, 29
  %now = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %phase)
  %awaited = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %parity)
  %differs = xor i32 %now, %awaited
  %gone = and i32 %differs, 1
  ret i32 %gone
}""",
}

_DECLARED = """declare i64 @llvm.amdgcn.ballot.i64(i1)
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
declare void @llvm.amdgcn.asyncmark()
declare void @llvm.amdgcn.wait.asyncmark(i16 immarg)
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.s.sleep(i32 immarg)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.workitem.id.x()
declare i64 @llvm.amdgcn.ds.atomic.barrier.arrive.rtn.b64(ptr addrspace(3), i64)"""
_USED = re.compile(r"@mimw\.(\w+)\(")
_NAME = re.compile(r"@([\w.]+)\(")
_COUNTERS = f"@mimw.counters = internal addrspace(3) global [{NAMED} x i32] poison, align 16"


def with_functions(llvm_ir: str, arch: str) -> str:
    """The LLVM IR with calls of our functions in place of assembly of their names, and with all of them that are called."""
    text, known = _CALL.sub(r"@mimw.\1", llvm_ir), _FUNCTIONS | (_GFX12 if arch.startswith("gfx12") else _GFX9)
    made = {}
    for name in dict.fromkeys(_USED.findall(text)):
        if name not in known:
            raise RuntimeError(f"LLVM IR for {arch} calls {name!r}, which is none of {', '.join(known)}")
        made[name] = known[name]
    _check_types(text, made)
    if not made:
        return text
    if "named" in made:
        text = zeroing(text, [("@mimw.counters", f"[{NAMED} x i32]")]) + _COUNTERS + "\n"
    return declaring(text + "\n" + "\n\n".join(made.values()) + "\n")


def _check_types(llvm_ir: str, functions: dict[str, str]) -> None:
    """A call with operands of other types than the function's would be undefined, and LLVM says nothing."""
    for line in llvm_ir.splitlines():
        if (called := _USED.search(line)) is None:
            continue
        wanted, given = (_types(text[text.index(called[0]) + len(called[0]):]) for text in (functions[called[1]], line))
        if wanted != given:
            raise RuntimeError(f"LLVM IR calls {called[1]!r} with operands of {given}, which takes {wanted}")


def _types(operands: str) -> list[str]:
    """The type of each operand in a list that a bracket closes."""
    found, depth, start = [], 0, 0
    for at, one in enumerate(operands):
        depth += (one == "(") - (one == ")")
        if (depth < 0 or (one == "," and not depth)) and operands[start:at].strip():
            found.append(re.match(r"\s*(ptr addrspace\(\d+\)|\w+)", operands[start:at])[1])
            start = at + 1
        if depth < 0:
            break
    return found


def zeroing(llvm_ir: str, counters: list[tuple[str, str]]) -> str:
    """The LLVM IR of a kernel that begins by setting its `counters`, (name, type) of variables in LDS, to zero. All waves do, and
    meet behind it by the hardware's barrier, since each may count at once."""
    lines = [f"  store {type_} zeroinitializer, ptr addrspace(3) {name}, align 4" for name, type_ in counters]
    lines += ['  fence syncscope("workgroup") release', "  call void @llvm.amdgcn.s.barrier()",
              '  fence syncscope("workgroup") acquire']
    found = re.findall(r"^define amdgpu_kernel .*\{$", llvm_ir, re.MULTILINE)
    if len(found) != 1:
        raise RuntimeError(f"expected one kernel in the LLVM IR, found {len(found)}")
    return llvm_ir.replace(found[0], "\n".join([found[0], *lines]), 1)


def declaring(llvm_ir: str) -> str:
    """The LLVM IR with declarations of the functions of LLVM's that it calls and does not declare."""
    there = {found[1] for line in llvm_ir.splitlines() if line.startswith("declare ") and (found := _NAME.search(line))}
    used = set(_NAME.findall(llvm_ir))
    missing = [line for line in _DECLARED.splitlines() if (name := _NAME.search(line)[1]) in used and name not in there]
    return "\n".join([llvm_ir.rstrip("\n"), *missing]) + "\n"
