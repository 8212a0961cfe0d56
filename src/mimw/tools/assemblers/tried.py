"""Small programs in PTX that show a defect, assembled by a ptxas: what came out of it is read in the machine code.

Input: files of ptxas and the chips of each. Output: for each of them, chip and defect True if it shows, False if not, or a text
that says why nobody knows. For example:

    shown({"/opt/cuda/bin/ptxas": ["sm_90a"]})      {("/opt/cuda/bin/ptxas", "sm_90a", "kept_operand"): True, ..}

Nothing is launched: ptxas and the disassembler of Triton's wheel need no GPU. All of a chip is disassembled at once.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from ...compiler.triton_port.ptxas_files import nvdisasm_path
from ..sass import Code, disassembled
from ..sass.code import operands
from ..sass.sources import sources
from .table import Defect, known

_OLDEST = {"sm_90a": "8.0", "sm_100a": "8.6", "sm_103a": "8.8", "sm_120a": "8.7"}      # PTX ISA, .target: since which version
_REGISTER = re.compile(r"R(\d+)\b")
Shown = dict[tuple[str, str, str], "bool | str"]


def for_chip(ptx: str, chip: str) -> str:
    """The text of a probe for another chip, in the oldest version of PTX that has it."""
    return re.sub(r"^\.version .*\n\.target .*$", f".version {_OLDEST[chip]}\n.target {chip}", ptx, count=1, flags=re.MULTILINE)


def shown(files: dict[str, list[str]]) -> Shown:
    """The defects with a probe, by (ptxas, chip, name): True for one that shows."""
    found: Shown = {}
    for chip in sorted({chip for chips in files.values() for chip in chips}):
        probes = [defect for defect in known().values() if defect.probe and chip in defect.chips]
        made = {(path, chip, defect.name): _assembled(path, chip, defect)
                for path, chips in files.items() if chip in chips for defect in probes}
        cubins = {key: cubin for key, cubin in made.items() if isinstance(cubin, bytes)}
        found |= {key: said for key, said in made.items() if isinstance(said, str)}
        found |= _read(cubins, chip)
    return found


def _read(cubins: dict[tuple[str, str, str], bytes], chip: str) -> Shown:
    if not cubins:
        return {}
    try:
        printed = disassembled(list(cubins.values()), chip, nvdisasm_path())
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return dict.fromkeys(cubins, f"no machine code could be read ({type(error).__name__})")
    return {key: is_wrong(known()[key[2]], sass) if sass else "the disassembler knows no such code"
            for key, sass in zip(cubins, printed)}


def is_wrong(defect: Defect, sass: str) -> bool:
    """True if the machine code of the probe has the mark of the defect."""
    code, mark = Code.read(sass), dict(defect.probe)
    if "line" in mark:
        return any(re.search(mark["line"], text) for text in code.texts)
    for index, text in enumerate(code.texts):
        if re.search(mark["reads"], text):
            named = [found for operand in operands(text) if (found := _REGISTER.match(operand))]
            register = int(named[1][1])     # the first is the result
            if any(re.search(mark["made_by"], code.texts[at]) for at in sources(code, index, register)):
                return True
    return False


def _assembled(path: str, chip: str, defect: Defect) -> bytes | str:
    """The binary, or what ptxas says."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "probe.ptx"), Path(folder, "probe.cubin")
        source.write_text(for_chip(defect.ptx, chip))
        try:
            done = subprocess.run([path, f"--gpu-name={chip}", str(source), "-o", str(binary)], capture_output=True, text=True,
                                  timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"ptxas does not run ({type(error).__name__})"
        if done.returncode or not binary.exists():
            said = (done.stderr + done.stdout).strip().splitlines()
            return f"ptxas does not take it: {said[0] if said else f'status {done.returncode}'}"
        return binary.read_bytes()
