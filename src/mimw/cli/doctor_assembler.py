"""`mimw doctor --assembler`: every ptxas that Triton could use here, and what it is known to get wrong.

Input: the machine, or one file of ptxas. Output: for each its path, version, chips and faults, and an exit status:

    ptxas 13.4.59    .../bin/ptxas-blackwell (comes with Triton)
      used for sm_90a, sm_100a, sm_103a, sm_120a
      conversions: wrong numbers on sm_90a, sm_100a, sm_103a, sm_120a (reproduced here); mimw's code keeps clear of it

The status is 1 if a known fault of a ptxas that Triton uses reaches kernels made here; one that mimw's code keeps clear of does
not.
"""

from __future__ import annotations

import json
import textwrap

from .progress import working

_WIDTH = 100


def of_assemblers(path: str, as_json: bool) -> int:
    """Print what is known of the ptxas at `path`, or of all that are found if it is "", and return the exit status."""
    from ..tools.assemblers import assemblers, known, verdicts

    with working("doctor: what each ptxas makes of programs with known faults"):
        found = assemblers(path)
        judged = verdicts(found)
    reached = sorted({one.defect.name for one in judged if one.reaches})
    unjudged = [one.path for one in found if one.chips and not one.version]
    if as_json:
        print(json.dumps({"assemblers": [_entry(one, judged) for one in found], "affected": reached}, indent=2))
    else:
        told: set[str] = set()
        for one in found:
            _tell(one, [verdict for verdict in judged if verdict.assembler == one], told)
        print(_conclusion(found, judged, reached, len(known())))
    return 1 if reached or unjudged or not any(one.chips for one in found) else 0


def _entry(one, judged: list) -> dict:
    faults = [{"name": defect.name, "state": verdict.state, "how": verdict.how, "chips": verdict.chips, "note": verdict.note,
               "kind": defect.kind, "what": defect.what, "code": defect.code, "versions": defect.versions, "fixed": defect.fixed,
               "mend": _mend(verdict), "mimw": defect.mimw, "avoided": defect.avoided, "sources": defect.sources}
              for verdict in judged for defect in [verdict.defect] if verdict.assembler == one]
    return {"path": one.path, "version": one.number if one.version else None, "named": one.named, "used_for": one.chips,
            "faults": faults}


def _tell(one, judged: list, told: set[str]) -> None:
    """Print what is known of one ptxas; of a fault that is in `told` already its name only."""
    print(f"ptxas {one.number}    {one.path} ({', '.join(one.named)})")
    if not one.version:
        print("  it does not run here, or is no ptxas; Triton takes its own instead of one that a variable names in vain\n")
        return
    print(f"  used for {', '.join(one.chips)}" if one.chips else f"  used for no chip: {_named_by_nobody()}")
    for verdict in judged:
        defect, note = verdict.defect, {"not tried": verdict.note} if verdict.note else {}
        if verdict.state == "has":
            clear = "; mimw's code keeps clear of it" if defect.avoided else ""
            print(f"  {defect.name}: {defect.kind} on {', '.join(verdict.chips)} ({verdict.how}){clear}")
            _lines(note if defect.name in told else {
                "what": defect.what, "code": defect.code, "versions": defect.versions, "mimw": defect.mimw, "mend": _mend(verdict),
                "source": "\n".join(defect.sources), **note})
        elif verdict.state == "unknown":
            print(f"  {defect.name}: not known of this version ({defect.versions})")
            _lines({} if defect.name in told else {"what": defect.what, "source": "\n".join(defect.sources)})
        if verdict.state != "clear":
            told.add(defect.name)
    if clear := [f"{verdict.defect.name} ({verdict.how})" for verdict in judged if verdict.state == "clear"]:
        print(textwrap.fill(f"does not have: {', '.join(clear)}", _WIDTH, initial_indent="  ", subsequent_indent="    "))
    print()


def _named_by_nobody() -> str:
    from ..compiler.triton_port.ptxas_files import VARIABLES

    return f"Triton takes another one unless {' or '.join(VARIABLES)} names it"


def _lines(told: dict[str, str]) -> None:
    for name, text in told.items():
        for number, line in enumerate(text.splitlines()):
            print(textwrap.fill(line, _WIDTH, initial_indent=f"      {'' if number else name:<10}", subsequent_indent=" " * 16,
                                break_long_words=False, break_on_hyphens=False))


def _mend(verdict) -> str:
    """Another ptxas, where one is known to be right, and what else helps."""
    from ..compiler.triton_port.ptxas_files import variable_of
    from ..target import TARGETS

    variables = sorted({variable_of(TARGETS[chip].arch) for chip in verdict.chips})
    other = f"Name one of {verdict.defect.fixed} or newer in {' and '.join(variables)}." if verdict.defect.fixed else ""
    return " ".join(part for part in (other, verdict.defect.mend) if part)


def _conclusion(found: list, judged: list, reached: list[str], entries: int) -> str:
    used = [one for one in found if one.chips]
    if not used:
        return "Triton finds no ptxas here: install Triton anew, or name one in TRITON_PTXAS_PATH."
    if any(not one.version for one in used):
        return "Of a ptxas that Triton uses nothing can be said, since it does not tell its version."
    if reached:
        return f"{len(reached)} known fault{'s' * (len(reached) > 1)} of a ptxas that Triton uses: {', '.join(reached)}."
    clear_of = sorted({one.defect.name for one in judged if one.state == "has" and one.assembler.chips and one.defect.avoided
                       and set(one.chips) & set(one.assembler.chips)})
    but = f"; of {', '.join(clear_of)} mimw's code keeps clear, and kernels by triton.jit may not" if clear_of else ""
    return f"Of {entries} known faults none of a ptxas that Triton uses reaches a kernel of mimw{but}."
