"""What `benchmarks.sanitize` makes of compute-sanitizer's output, and of processes that end early; no GPU."""

from benchmarks import sanitize

TEXT = """========= COMPUTE-SANITIZER
== kernel: GEMM
========= Error: Race reported between Write access at gemm+0x1a90 in /src/kernel.py:93
=========     and Read access at gemm+0x2100 in /src/kernel.py:120 [512 hazards]
=========
========= Error: Race reported between Write access at gemm+0x1ab0 in /src/kernel.py:93
=========     and Read access at gemm+0x2200 in /src/kernel.py:120 [64 hazards]
=========
== kernel: Top-k
== kernel: Norm
========= Invalid __global__ read of size 16 bytes
=========     at norm+0x9d0 in /src/direct.py:40
=========     by thread (31,0,0) in block (2,0,0)
=========     Address 0x7f2 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
== kernel: failed: RuntimeError: unspecified launch failure
"""


def test_findings_belong_to_their_kernels_and_count_once():
    gemm, topk, norm = sanitize.findings_of("racecheck", TEXT)
    race = ("Error: Race reported between Write access at gemm+... in /src/kernel.py:93 | "
            "and Read access at gemm+... in /src/kernel.py:120")
    assert (gemm.kernel, dict(gemm.findings)) == ("GEMM", {race: 2}) and not topk.findings
    assert "Invalid __global__ read of size 16 bytes | at norm+... in /src/direct.py:40" in next(iter(norm.findings))
    assert sanitize.line(topk).endswith("clean") and "2 reports, 1 kinds" in sanitize.line(gemm)
    assert norm.failed.startswith("RuntimeError") and norm.failed in sanitize.line(norm)


def test_a_kernel_that_nothing_is_said_of_did_not_run():
    found = sanitize.of_every(["GEMM", "Top-k", "Norm", "Zero", "Mixture"], "racecheck", TEXT)
    assert [one.kernel for one in found] == ["GEMM", "Top-k", "Norm", "Mixture", "Zero"]
    assert [one.failed for one in found[3:]] == ["did not run"] * 2 and not found[1].failed


def test_what_is_explained_is_no_finding():
    """Triton's question for a mode of shared memory; the same error of another call is one."""
    asked = "Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid argument\" on CUDA API call to cu{}."
    one = sanitize.Found("memcheck", "GEMM")
    one.findings[asked.format("FuncSetAttribute")] += 1
    assert sanitize.line(one).endswith("clean") and "mode of shared memory" in sanitize.reason(asked.format("FuncSetAttribute"))
    one.findings[asked.format("LaunchKernelEx")] += 1
    assert sanitize.line(one).endswith("1 reports, 1 kinds")


def test_accused_lines_are_those_of_the_kernel_with_that_name():
    path = sanitize.KERNELS / "gemm" / "kernel.py"
    number = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if text.startswith("def gemm("))
    report = f"Race reported between Write access at gemm+... in kernel.py:{number} | and Read access at nobody+... in kernel.py:3"
    said, begun = sanitize.accused(report), f"Write kernel.py:{number}: def gemm("
    assert len(said) == 1 and said[0].startswith(begun)


def test_a_line_of_a_file_beside_the_kernel():
    """The tool names the kernel's file for a line that an inlined function of schedule.py has."""
    path = sanitize.KERNELS / "attention" / "schedule.py"
    number = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if "local_store(slot.tile" in text)
    said = sanitize.accused(f"Race reported between Write access at attention+... in kernel.py:{number}")
    assert any(text.startswith(f"Write schedule.py:{number}: tlx.local_store(slot.tile") for text in said)


def test_others_go_on_behind_a_kernel_that_ended_its_process(monkeypatch):
    asked = []

    def started(names, tool, seconds):
        asked.append(names)
        ran = names[:2] if "b" in names else names
        ends = f"{sanitize.MARK}failed: x\n" if "b" in ran else ""
        return "".join(f"{sanitize.MARK}{name}\n" for name in ran) + ends

    monkeypatch.setattr(sanitize, "started", started)
    found = sanitize.findings_of("memcheck", sanitize.all_of(["a", "b", "c", "d"], "memcheck", 1.0))
    assert asked == [["a", "b", "c", "d"], ["c", "d"]]
    assert [(one.kernel, one.failed) for one in found] == [("a", ""), ("b", "x"), ("c", ""), ("d", "")]


def test_every_kernel_of_the_library_is_launched():
    """Those that orchestrate by their small launches for mutants, the plain ones by name."""
    import pytest
    pytest.importorskip("torch")
    names = sanitize.names_of([])
    assert {"GEMM, ping-pong", "Cross entropy, ring", "plain_topk", "rope", "swiglu", "moe"} <= set(names)
