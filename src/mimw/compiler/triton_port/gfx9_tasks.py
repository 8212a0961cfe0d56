"""LLVM IR of a kernel with tasks, as Triton makes it for gfx1250, made fit for gfx942 and gfx950.

Input: LLVM IR, a text, behind the stage `llir`. Output: the same program by what gfx9 has:

    llvm.amdgcn.wave.id()                          readfirstlane(workitem.id.x() >> 6)
    @nbar2 = .. target("amdgcn.named.barrier")     counters in LDS, which all waves set to zero at the kernel's start
    s.barrier.join, .signal.var n, .wait 1         @mimw.meet(@mimw.sync2.of4, 4): a sync of the 4 waves of one task

What is left, the start and the end of tasks, is `s_barrier` of all waves, which gfx9 has. On gfx9 that barrier is the whole
work-group's, so nothing inside a task may use it. A counter counts rounds of one number of waves, and tasks of several regions
have Triton's barrier in common: so there is one for each number of waves. Whatever of gfx12's barriers is found besides these
patterns is an error.
"""

from __future__ import annotations

import re

from .amd_functions import declaring, zeroing

_BARRIER = re.compile(r'^@nbar\d+ = internal (?:unnamed_addr |local_unnamed_addr )?addrspace\(3\) global '
                      r'target\("amdgcn\.named\.barrier", 0\) (?:poison|undef)$')
_WAVE = re.compile(r"^  (%[\w.]+) = (?:tail )?call (?:noundef )?i32 @llvm\.amdgcn\.wave\.id\(\)(.*)$")
_JOIN = re.compile(r"^  (?:tail )?call void @llvm\.amdgcn\.s\.barrier\.join\(ptr addrspace\(3\) @nbar(\d+)\)")
_SIGNAL = re.compile(r"^  (?:tail )?call void @llvm\.amdgcn\.s\.barrier\.signal\.var"
                     r"\(ptr addrspace\(3\) @nbar(\d+), i32 (\d+)\)(.*)$")
_WAIT = re.compile(r"^  (?:tail )?call void @llvm\.amdgcn\.s\.barrier\.wait\(i16 1\)")
_DECLARED = re.compile(r"^declare .*@llvm\.amdgcn\.(?:wave\.id|s\.barrier\.(?:join|signal\.var|wait))\(")
_UNKNOWN = re.compile(r"named\.barrier|amdgcn\.wave\.id|amdgcn\.s\.(?:barrier\.\w+|wakeup\.barrier|get\.\w*barrier\.state)")
_LANES = 6  # log2 of the lanes of a wave


def for_gfx9(llvm_ir: str) -> str:
    """The LLVM IR of a kernel with tasks without what only gfx12 has. An unknown form is a RuntimeError that names its line."""
    out, counters, lines = [], {}, llvm_ir.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if found := _WAVE.match(line):
            name, rest = found.groups()
            item, wave = f"%mimw.item.{at}", f"%mimw.wave.{at}"
            out += [f"  {item} = call i32 @llvm.amdgcn.workitem.id.x(){rest}", f"  {wave} = lshr i32 {item}, {_LANES}{rest}",
                    f"  {name} = call i32 @llvm.amdgcn.readfirstlane.i32(i32 {wave}){rest}"]
        elif _JOIN.match(line):
            name, meeting = _meeting(lines[at:at + 3])
            counters[name] = f"{name} = internal addrspace(3) global i32 poison, align 4"
            out.append(meeting)
            at += 2
        elif not (_BARRIER.match(line) or _DECLARED.match(line)):
            out.append(line)
        at += 1
    text = "\n".join(out) + "\n"
    if left := _UNKNOWN.search(text):
        line = text[text.rfind("\n", 0, left.start()) + 1:text.find("\n", left.end())]
        raise RuntimeError(f"tasks for gfx9: a form of Triton's lowering that is not known here: {line}")
    if counters:
        text = zeroing(text, [(name, "i32") for name in counters]) + "\n".join(counters.values()) + "\n"
    return declaring(text)


def _meeting(lines: list[str]) -> tuple[str, str]:
    """The counter and the call for the sync of a task's waves that three lines are: they join a barrier, signal it and wait for
    it."""
    join, signal, wait = (pattern.match(line) for pattern, line in zip((_JOIN, _SIGNAL, _WAIT), lines))
    waves = int(signal[2]) if signal else 0
    if not (join and signal and wait and join[1] == signal[1]) or waves & (waves - 1):
        raise RuntimeError("tasks for gfx9: a sync of a task's waves that is not known here: " + " | ".join(lines))
    name = f"@mimw.sync{signal[1]}.of{waves}"
    return name, f"  call void @mimw.meet(ptr addrspace(3) {name}, i32 {waves}){signal[3]}"
