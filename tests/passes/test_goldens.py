"""Before and after of every pass, as IR text: tests/golden/passes/<pass>/<case>.txt.

A file says in comments what it shows, and on which chip if not on sm_90a; then comes the program before the pass, a line of dashes,
and what becomes of it: the program after it, `unchanged`, `refused ...` with lines of the text above, or `remark ...`. Comments of
the program are left out of what is printed. `--update-golden` rewrites what is below the dashes; the review reads it.

    // What nothing uses goes.
    kernel k(%n: i32) on 4 warps {
      %0 = add %n, %n
    }
    --------
    kernel k(%n: i32) on 4 warps {
    }
"""

from pathlib import Path

import pytest

from mimw.compiler.passes import OPTIONAL, PASSES, Context
from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.errors import KernelError, MimwError
from mimw.ir import Program, parse_program, print_program, verify
from mimw.target import target

FOLDER = Path(__file__).parents[1] / "golden" / "passes"
STEPS = {step.name: step for step in (*PASSES, *OPTIONAL)}
CASES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.txt"))
DASHES = "-" * 8 + "\n"
STAMPS = [step.name for step in OPTIONAL]       # these put something into every program


def chip_of(text: str):
    named = [line.split()[-1] for line in text.splitlines() if line.startswith("// target ")]
    return target(named[0] if named else "sm_90a")


def outcome(name: str, before: str) -> str:
    """What the pass makes of a text, as it stands below the dashes."""
    remarks = []
    program = parse_program(before, "text", enumeration_member)
    verify(program)
    try:
        after = STEPS[name](program, Context(chip_of(before), remarks.append, records=4))
    except KernelError as error:
        lines = ", ".join(str(site.line) for site in error.sites)
        return f"refused at {lines}: {error.kind}: {error.message}\n" + (f"mend: {error.hint}\n" if error.hint else "")
    except MimwError as error:
        return f"refused: {error.kind}: {error}\n"
    verify(after)
    said = "".join(f"remark at {one.site.line}: {one.text}\n" for one in remarks)
    return said + ("unchanged\n" if printed(after) == printed(program) else printed(after))


def printed(program: Program) -> str:
    return print_program(program, sites=False)


@pytest.mark.parametrize("case", CASES)
def test_before_and_after(case, request):
    path = FOLDER / case
    before, dashes, kept = path.read_text().partition(DASHES)
    found = outcome(path.parent.name, before)
    if request.config.getoption("--update-golden"):
        path.write_text(before + DASHES + found)
        return
    assert dashes and kept == found
    if found.startswith("kernel"):
        assert printed(parse_program(found, "after", enumeration_member)) == found


@pytest.mark.parametrize("name", STEPS)
def test_every_pass_has_its_goldens(name):
    """Three for a rewrite, one of which it leaves as it is; a check lets one pass, and has something to say of another."""
    ends = [(FOLDER / case).read_text().partition(DASHES)[2] for case in CASES if case.startswith(f"{name}/")]
    idle, silent = ends.count("unchanged\n"), name in STAMPS
    if STEPS[name].rewrites:
        assert len(ends) >= 3, f"{name} has {len(ends)} goldens under {FOLDER.name}/{name}: three are wanted"
        assert sum(end.startswith("kernel") for end in ends) >= 2 and (idle >= 1 or silent)
    else:
        assert idle >= 1 and len(ends) - idle >= 1, f"{name} should let a text pass, and have something to say of another"


def test_every_golden_is_of_a_pass():
    assert {case.partition("/")[0] for case in CASES} <= set(STEPS)
