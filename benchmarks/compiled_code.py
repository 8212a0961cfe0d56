"""Is the code of every kernel that the tests compile the same as before a change of the compiler?

    python benchmarks/compiled_code.py note before.json            before the change
    python benchmarks/compiled_code.py note after.json             after it, in the same folder
    python benchmarks/compiled_code.py compare before.json after.json

`note` runs the tests that compile the library, the tutorials and the words, and writes for each kernel that they compile, by
test and number, a digest of each stage's text: TTGIR, LLVM IR, PTX or AMDGCN. These hold the paths of the sources, so both trees
have to be at one place, one after the other. `compare` prints what differs and exits with 1 if anything does; kernels that only
one side has are counted, and said.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = ("tests/kernels", "tests/tutorials", "tests/lowering")
TEXTS = ("ttgir", "llir", "ptx", "amdgcn")


class Notes:
    """A plugin of pytest that notes what Triton's `compile` returns to ours."""

    def __init__(self) -> None:
        self.test, self.found = "", {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def pytest_collection_finish(self) -> None:
        import mimw.compile
        stock = mimw.compile.stock_compile

        def noted(src, **keywords):
            compiled = stock(src, **keywords)
            self.note(src, compiled)
            return compiled

        mimw.compile.stock_compile = noted

    def note(self, src, compiled) -> None:
        stages = {stage: compiled.asm[stage] for stage in TEXTS if stage in compiled.asm}
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


def compare(before: Path, after: Path) -> int:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    differing = [key for key in sorted(old.keys() & new.keys()) if old[key] != new[key]]
    for key in differing:
        print(f"differs in {', '.join(stage for stage in TEXTS if old[key].get(stage) != new[key].get(stage))}: {key}")
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
    args, more = parser.parse_known_args()
    return note(args.out, more) if args.command == "note" else compare(args.before, args.after)


if __name__ == "__main__":
    sys.exit(main())
