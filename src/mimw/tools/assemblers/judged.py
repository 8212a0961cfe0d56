"""Judge each ptxas that is there: which defects it has, and how that is known.

Input: `Assembler`s. Output: a `Verdict` for each of them and each entry of the table that is about a chip of its own. For example:

    [one.state for one in verdicts(assemblers())]       ["clear", "clear", "has", ..]

What a small program shows here goes before the number of the version: `how` is "reproduced here", "not reproduced here" or "by
version". Where a program shows it on some chips, `chips` are those.
"""

from __future__ import annotations

from dataclasses import dataclass

from .found import Assembler
from .table import CHIPS, Defect, known
from .tried import shown

ORDER = ("has", "unknown", "clear")


@dataclass(frozen=True)
class Verdict:
    """`state`: "has", "clear" or "unknown"; `reaches`: it concerns kernels that Triton makes here with that ptxas, and mimw's own
    code does not keep clear of it; `note` says why a program that would show it could not be tried."""

    assembler: Assembler
    defect: Defect
    chips: tuple[str, ...]
    state: str
    how: str
    note: str = ""

    @property
    def reaches(self) -> bool:
        return self.state == "has" and not self.defect.avoided and bool(set(self.chips) & set(self.assembler.chips))


def verdicts(found: list[Assembler]) -> list[Verdict]:
    """Of each ptxas that says its version, all that the table knows; a ptxas that Triton uses for no chip is judged for all."""
    judged = [one for one in found if one.version]
    own = {one.path: [chip for chip in CHIPS if chip in one.chips] or list(CHIPS) for one in judged}
    seen = shown(own)
    made = [_verdict(one, defect, own[one.path], seen) for one in judged for defect in known().values()]
    return sorted((one for one in made if one), key=lambda one: (found.index(one.assembler), ORDER.index(one.state)))


def _verdict(one: Assembler, defect: Defect, chips: list[str], seen: dict) -> Verdict | None:
    common = [chip for chip in chips if chip in defect.chips]
    if not common:
        return None
    said = {chip: seen[one.path, chip, defect.name] for chip in common if (one.path, chip, defect.name) in seen}
    tried = {chip: is_wrong for chip, is_wrong in said.items() if isinstance(is_wrong, bool)}
    if any(tried.values()):
        return Verdict(one, defect, tuple(chip for chip in tried if tried[chip]), "has", "reproduced here")
    if tried:
        return Verdict(one, defect, tuple(tried), "clear", "not reproduced here")
    return Verdict(one, defect, tuple(common), defect.by_version(one.version), "by version", next(iter(said.values()), ""))
