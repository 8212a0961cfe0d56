"""Every kernel of the library at a small size under NVIDIA's compute-sanitizer, on one GPU: what each tool says of each kernel.

    python -m benchmarks.sanitize                               memcheck, synccheck and racecheck of all kernels
    python -m benchmarks.sanitize --tools racecheck --kernels GEMM --report out.txt     some, and all that was said

The launches are those of mutation_kernels, which orchestrate warps, and calls of mimw.ops that take the plain and direct forms.
Each is compiled first without the sanitizer; then `--groups` processes for each tool run their share of the launches. Torch gives
each tensor memory of its own, so memcheck sees what lies behind it. A table goes to the screen, one JSON object for each kernel and
tool to `--results`. What `EXPLAINED` knows is printed with its reason and not counted. The exit status is 1 if memcheck or
synccheck found anything else: racecheck accuses kernels that meet on mbarriers, so each of its findings is for somebody to read,
with the lines of source beside it in the report (benchmarks/notes/sanitizer.md, "compute-sanitizer").
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import mimw
from mimw.testing.machines import Gpu

from .driver import append, command, machine
from .gpu import parsed, torch
from .mutation_kernels import CASES
from .progress import each

TOOLS = ("memcheck", "synccheck", "racecheck")
PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/compute-sanitizer")
MARK = "== kernel: "
KERNELS = Path(mimw.__file__).parent / "kernels"
EXPLAINED = {       # what is found: why it is no finding
    r"CUDA_ERROR_INVALID_VALUE .* cuFuncSetAttribute":
        "Triton 3.9 asks for a mode of shared memory that an older driver does not have, and does without",
}


@dataclass
class Found:
    """What one tool said while one kernel ran: each finding once, with how often it came, addresses and threads left out."""

    tool: str
    kernel: str
    findings: Counter = field(default_factory=Counter)
    failed: str = ""


def by_operators() -> dict[str, Callable[[], object]]:
    """Name -> a call that takes a plain or direct kernel."""
    from mimw import ops

    def normal(*shape, dtype=torch.bfloat16):
        return torch.randn(shape, device="cuda").to(dtype)

    def graded(call, *inputs):
        leaves = [x.requires_grad_() for x in inputs]
        return torch.autograd.grad(call(*leaves).float().sum(), leaves)

    fp32 = torch.float32

    def numbers(given, dtype=torch.int64):
        return torch.tensor(given, dtype=dtype, device="cuda")

    def decode(dtype):
        caches = normal(2, 50, 1, 64, dtype=dtype), normal(2, 50, 1, 64, dtype=dtype)
        return ops.attention_decode(normal(2, 1, 2, 64, dtype=dtype), *caches, numbers([50, 7], torch.int32))

    def packed(q, k):
        starts = numbers([0, 20, 33], torch.int32), numbers([0, 0, 40], torch.int32)
        return ops.attention_varlen(q, k, k, *starts, 20, 40, causal=True)

    return {
        "plain_matmul": lambda: ops.matmul(normal(33, 17), normal(17, 9)),
        "plain_attention": lambda: ops.attention(*[normal(1, 2, 33, 20)] * 3, causal=True),
        "plain_attention_backward": lambda: graded(lambda q: packed(q, normal(40, 1, 20)), normal(33, 2, 20)),
        "plain_attention_decode": lambda: decode(fp32),
        "attention_decode": lambda: decode(torch.bfloat16),
        "plain_lightning_indexer": lambda: ops.lightning_indexer(normal(9, 5, 20), normal(70, 20), normal(9, 5), causal=True),
        "plain_simplicial_attention": lambda: ops.simplicial_attention(normal(1, 2, 9, 16), *[normal(1, 1, 9, 16)] * 4, (4, 3)),
        "plain_sparse_mla": lambda: ops.sparse_mla(normal(1, 1, 2, 48), normal(1, 9, 1, 48), numbers([[[[0, 3, 1, -1]]]]),
                                                   numbers([[[3]]]), value_dim=32),
        "mla_decode": lambda: ops.mla_decode(normal(2, 2, 16, 192), normal(5, 64, 1, 192), numbers([50, 70]), value_dim=128,
                                             page_table=numbers([[3, 1], [0, 4]])),
        "mla_decode, bytes": lambda: ops.mla_decode(normal(2, 1, 16, 192), normal(5, 20, 1, 192).to(torch.float8_e4m3fn),
                                                    numbers([30, 7]), value_dim=128, page_table=numbers([[3, 1], [0, 4]]),
                                                    k_scale=0.5),
        "plain_mla_decode": lambda: ops.mla_decode(normal(2, 1, 3, 40), normal(2, 30, 1, 40), numbers([30, 7]), value_dim=32),
        "skinny_scaled_gemm": lambda: ops.scaled_mm(normal(9, 400).to(torch.float8_e4m3fn),
                                                    normal(200, 400).to(torch.float8_e4m3fn).T, torch.ones(9, 4, device="cuda"),
                                                    torch.ones(4, 2, device="cuda")),
        "skinny_scaled_gemm, parts": lambda: ops.scaled_mm(normal(9, 512).to(torch.float8_e4m3fn),
                                                           normal(4096, 512).to(torch.float8_e4m3fn).T,
                                                           torch.ones(9, 4, device="cuda"), torch.ones(4, 32, device="cuda")),
        "linear_attention": lambda: graded(
            lambda q, k, v, g: ops.linear_attention(q, k, v, g[..., 0].sigmoid().log(), g[..., 1].sigmoid(), use_qk_l2norm=True)[0],
            normal(1, 70, 1, 64), normal(1, 70, 1, 64), normal(1, 70, 2, 64), normal(1, 70, 2, 2)),
        "linear_attention, by key": lambda: graded(lambda q, k, v, g: ops.linear_attention(q, k, v, g.sigmoid().log())[0],
                                                   *[normal(1, 70, 1, 64) for _ in range(4)]),
        "linear_attention, raw gates": lambda: ops.linear_attention(
            *[normal(1, 70, 2, 128) for _ in range(4)], normal(1, 70, 2), use_qk_l2norm=True, use_gate=True, use_beta_sigmoid=True,
            A_log=normal(2, dtype=fp32), dt_bias=normal(2, 128, dtype=fp32), lower_bound=-5.0),
        "linear_attention_step": lambda: ops.linear_attention_step(normal(2, 1, 100), normal(2, 1, 100), normal(2, 2, 70),
                                                                   normal(2, 2, 100, 70, dtype=fp32), normal(2, 2), A_log=normal(2),
                                                                   dt_bias=normal(2), use_gate=True),
        "plain_topk": lambda: ops.topk(normal(5, 300, dtype=fp32), 7),
        "moe": lambda: ops.moe(normal(20, 64), normal(4, 128, 64), normal(4, 64, 64), torch.arange(20, device="cuda")[:, None] % 4,
                               torch.ones(20, 1, device="cuda")),
        "swiglu": lambda: graded(ops.swiglu, normal(5, 40), normal(5, 40)),
        "rope": lambda: ops.rope((normal(2, 3, 9, 20), normal(2, 1, 9, 20)), normal(9, 7), normal(9, 7)),
        "norm, direct": lambda: graded(lambda x, w, b: ops.layer_norm(x, 300, w, b), normal(5, 300), normal(300), normal(300)),
        "norm, cluster": lambda: graded(lambda x, w: ops.rms_norm(x, 9000, w), normal(3, 9000), normal(9000)),
        "softmax, direct": lambda: graded(lambda x: ops.softmax(x, 1), normal(5, 300)),
        "softmax, cluster": lambda: graded(lambda x: ops.softmax(x, 1), normal(3, 9000)),
        "cross_entropy, direct": lambda: graded(lambda x: ops.cross_entropy(x * 1, numbers([0, 1, 2, 3, -100]),
                                                                              inplace_backward=True), normal(5, 301)),
        "cross_entropy, cluster": lambda: graded(lambda x: ops.cross_entropy(x, numbers([0, 1, 2, 3, -100])), normal(5, 9000)),
    }


def launches() -> dict[str, Callable[[], object]]:
    """Kernel -> its launch."""
    machine_ = Gpu()

    def launch(make):
        kernel, grid, args, meta = make()
        machine_.launch(kernel, grid, *args, **meta)

    orchestrated = {case.name: lambda case=case: launch(case.make) for case in CASES
                    if case.target == "sm_90a" and case.file.startswith("src/mimw/kernels")}
    return orchestrated | by_operators()


def names_of(texts: list[str]) -> list[str]:
    """The kernels whose names hold one of the texts, all where there is none."""
    return [name for name in launches() if not texts or any(text in name for text in texts)]


def run_here(names: list[str]) -> None:
    """In a process of its own, under a sanitizer or not: each kernel behind a line with its name."""
    known = launches()
    for name in names:
        print(MARK + name, flush=True)
        try:
            known[name]()
            torch.cuda.synchronize()
        except Exception as error:  # the parent counts it
            print(f"{MARK}failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
            return


def sanitizer() -> str:
    """Where compute-sanitizer is."""
    found = shutil.which("compute-sanitizer") or next((str(Path(place, "compute-sanitizer")) for place in PLACES
                                                       if Path(place, "compute-sanitizer").exists()), None)
    if found is None:
        sys.exit(f"compute-sanitizer is neither in PATH nor in {', '.join(PLACES)}: it comes with the CUDA toolkit")
    return found


def started(names: list[str], tool: str | None, seconds: float) -> str:
    """All that a process with these kernels printed."""
    words = [sys.executable, "-m", "benchmarks.sanitize", "--here", *names]
    if tool is not None:
        words = [sanitizer(), "--tool", tool, "--print-limit", "100000", *words]
        if tool == "memcheck":
            words[3:3] = ["--leak-check", "no"]
    variables = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        return subprocess.run(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds).stdout
    except subprocess.TimeoutExpired as ended:
        said = ended.stdout or b""
        return (said if isinstance(said, str) else said.decode(errors="replace")) + f"\n{MARK}failed: over {seconds:.0f} s"


def all_of(names: list[str], tool: str | None, seconds: float) -> str:
    """The same of all these kernels: behind one that ended its process others go on in a new one."""
    texts = []
    while names:
        texts.append(started(names, tool, seconds))
        ran = texts[-1].count(MARK) - texts[-1].count(MARK + "failed: ")
        names = names[max(1, ran):]
    return "\n".join(texts)


def findings_of(tool: str, text: str) -> list[Found]:
    """What is said of each kernel in the output of a process; lines of one finding are put together."""
    found, block = [], []

    def close():
        if block and found:
            found[-1].findings[" | ".join(block)] += 1
        block.clear()

    for line in text.splitlines():
        if line.startswith(MARK + "failed: "):
            close()
            if found:
                found[-1].failed = line.removeprefix(MARK + "failed: ")
        elif line.startswith(MARK):
            close()
            found.append(Found(tool, line.removeprefix(MARK)))
        elif line.startswith("========="):
            said = line.strip("= ").strip()
            if re.match(r"(Error|Warning|Invalid|Barrier error|Program hit|Race reported|Uninitialized)", said):
                close()
                block.append(without_places(said))
            elif block and re.match(r"(and (Read|Write|Current)|at |by thread|Address|Device Frame)", said):
                block.append(without_places(said))
            else:
                close()
    close()
    return found


def of_every(names: list[str], tool: str, text: str) -> list[Found]:
    """What the output of a process says of each of these kernels; of one that it does not name, that it did not run."""
    found = findings_of(tool, text)
    return found + [Found(tool, name, failed="did not run") for name in sorted({*names} - {one.kernel for one in found})]


def without_places(text: str) -> str:
    """Addresses, threads and counts are not what tells findings apart."""
    text = re.sub(r"0x[0-9a-fA-F]+", "...", text)
    return re.sub(r"(thread|block) \([0-9,]+\)|\[\d+ hazards\]|in block \([0-9,]+\)", "", text).strip()


def reason(finding: str) -> str:
    """Why this is no finding, or nothing."""
    return next((why for pattern, why in EXPLAINED.items() if re.search(pattern, finding)), "")


def open_findings(one: Found) -> Counter:
    """The findings that nothing explains."""
    return Counter({finding: count for finding, count in one.findings.items() if not reason(finding)})


def accused(finding: str) -> list[str]:
    """The lines of source that a report of racecheck names. It gives each line the file of the kernel, also those of functions
    from files beside it: of all files of the kernel's folder, those lines that do something to memory or begin a task."""
    texts = []
    for access, name, number in re.findall(r"(Write|Read) access at (\w+)\+\S* in (?:\S*/)?\w+\.py:(\d+)", finding):
        folders = {path.parent for path in KERNELS.rglob("*.py") if f"def {name}(" in path.read_text()}
        for path in sorted(path for folder in folders for path in folder.glob("*.py")):
            said = (path.read_text().splitlines() + [""] * int(number))[int(number) - 1].strip()
            if re.search(rf"local_|async_|copy|def {name}\(", said):
                texts.append(f"{access} {path.name}:{number}: {said}")
    return list(dict.fromkeys(texts))


def line(one: Found) -> str:
    """A kernel for people."""
    left = open_findings(one)
    verdict = one.failed or (f"{sum(left.values())} reports, {len(left)} kinds" if left else "clean")
    return f"{one.tool:<10} {one.kernel:<34} {verdict}"


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--kernels", nargs="*", default=[], help="texts in their names")
    parser.add_argument("--groups", type=int, default=4, help="processes for each tool")
    parser.add_argument("--seconds", type=float, default=600.0, help="that one process may take")
    parser.add_argument("--report", type=Path, help="a file for every finding and all output")
    parser.add_argument("--here", nargs="*", help=argparse.SUPPRESS)
    options = parsed(parser)
    if options.here is not None:
        return run_here(options.here)
    names = names_of(options.kernels)
    parts = [names[at::options.groups] for at in range(options.groups) if names[at::options.groups]]
    with ThreadPoolExecutor(len(parts) * max(1, len(options.tools))) as threads:
        for text in threads.map(lambda part: all_of(part, None, options.seconds), parts):
            for one in findings_of("plain", text):
                if one.failed:
                    print(line(one), flush=True)
        work, texts, found = [(tool, part) for tool in options.tools for part in parts], [], []
        for (tool, part), text in zip(each(work, lambda one: f"{one[0]}, {len(one[1])} kernels"),
                                      threads.map(lambda one: all_of(one[1], one[0], options.seconds), work)):
            texts.append(text)
            found += (some := of_every(part, tool, text))
            for one in some:
                print(line(one), flush=True)
                append({"tool": one.tool, "kernel": one.kernel, "failed": one.failed, "findings": dict(one.findings),
                        "chip": torch.cuda.get_device_name()} | machine(), options.results / "sanitize.jsonl")
    if options.report:
        sites = [f"{one.kernel}: {' | '.join(accused(finding))}" for one in found if one.tool == "racecheck"
                 for finding in one.findings]
        options.report.write_text("\n".join([*sites, *(f"#### {tool} {part}\n{text}" for (tool, part), text in zip(work, texts))]))
    for why in sorted({reason(finding) for one in found for finding in one.findings} - {""}):
        print(f"explained: {why}")
    wrong = [one for one in found if one.failed or open_findings(one) and one.tool != "racecheck"]
    print(f"{len(found)} of {len(names)} kernels x {len(options.tools)} tools, {len(wrong)} to look at besides racecheck's reports")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
