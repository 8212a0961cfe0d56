"""Is the code of every kernel that the tests compile the same as before a change of the compiler?

    python benchmarks/compiled_code.py note before.json            before the change
    python benchmarks/compiled_code.py note after.json             after it, in the same folder
    python benchmarks/compiled_code.py compare before.json after.json

`note` runs the tests that compile the library, the tutorials and the words, and writes for each kernel that they compile, by
test and number, a digest of each stage's text: TTGIR, LLVM IR, PTX or AMDGCN. These hold the paths of the sources, so both trees
have to be at one place, one after the other; `assembly` is PTX or AMDGCN without them, for kernels whose lines have moved.
`compare` prints what differs and exits with 1 if anything does, or with `--assembly` if any assembly does; kernels that only one
side has are counted, and said.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = ("tests/kernels", "tests/tutorials", "tests/lowering")
TEXTS = ("ttgir", "llir", "ptx", "amdgcn")
# Where code came from: directives, debug sections, labels and numbers of lines.
_LOCATIONS = re.compile(r"^\s*\.(loc|file)\b.*$|^\s*[$.]L_*(tmp|func)\w*:.*$|\s*//.*$|(^|[ \t]+);.*$", re.MULTILINE)


def without_locations(assembly: str) -> str:
    """PTX or AMDGCN up to its debug sections, without source lines."""
    code = re.split(r"^\s*\.section\s+\.(?:debug|AMDGPU)", assembly, maxsplit=1, flags=re.MULTILINE)[0]
    return "\n".join(line for line in _LOCATIONS.sub("", code).splitlines() if line.strip())


class Notes:
    """A plugin of pytest that notes what Triton's `compile` returns to ours."""

    def __init__(self) -> None:
        self.test, self.found = "", {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def pytest_collection_finish(self) -> None:
        import tests.compiling
        tests.compiling.whole = True    # also where a test reads an early stage only
        compiler = import_module("mimw.compiler.pipeline")
        stock = compiler.stock_compile

        def noted(src, **keywords):
            compiled = stock(src, **keywords)
            self.note(src, compiled)
            return compiled

        compiler.stock_compile = noted

    def note(self, src, compiled) -> None:
        stages = {stage: compiled.asm[stage] for stage in TEXTS if stage in compiled.asm}
        for stage in stages.keys() & {"ptx", "amdgcn"}:
            stages["assembly"] = without_locations(stages[stage])
        digests = {stage: hashlib.sha256(text.encode()).hexdigest()[:16] for stage, text in stages.items()}
        count = sum(1 for key in self.found if key.startswith(f"{self.test} #"))
        self.found[f"{self.test} #{count} {src.fn.__name__}"] = digests


def note(out: Path, more: list[str]) -> int:
    notes = Notes()
    sys.path.insert(0, str(ROOT))
    status = pytest.main(["-q", "-p", "no:cacheprovider", *map(str, (ROOT / place for place in TESTS)), *more], plugins=[notes])
    out.write_text(json.dumps(notes.found, indent=0, sort_keys=True))
    print(f"{len(notes.found)} kernels in {out}")
    return int(status)


def compare(before: Path, after: Path, texts: tuple[str, ...]) -> int:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    both = sorted(old.keys() & new.keys())
    differ = {key: [text for text in texts if old[key].get(text) != new[key].get(text)] for key in both}
    differing = [key for key, found in differ.items() if found]
    for key in differing:
        print(f"differs in {', '.join(differ[key])}: {key}")
    print(f"{len(old.keys() & new.keys())} kernels compared, {len(differing)} differ; {len(old.keys() - new.keys())} only before, "
          f"{len(new.keys() - old.keys())} only after")
    return 1 if differing or not old.keys() & new.keys() else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    noting = commands.add_parser("note", help="run the tests and write the digests; further arguments go to pytest")
    noting.add_argument("out", type=Path)
    comparing = commands.add_parser("compare", help="say what differs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--assembly", action="store_true", help="PTX and AMDGCN, without locations")
    args, more = parser.parse_known_args()
    if args.command == "note":
        return note(args.out, more)
    return compare(args.before, args.after, ("assembly", ) if args.assembly else TEXTS)


if __name__ == "__main__":
    sys.exit(main())
