"""Known faults of NVIDIA's assembler, ptxas, for Hopper and Blackwell: a table, small programs that show them, what is here.

Input: the machine, or a file of ptxas. Output: `Verdict`s. For example:

    [str(one.assembler) for one in verdicts(assemblers()) if one.reaches]       [] if nothing known reaches a kernel

`mimw doctor --assembler` prints them; docs/ASSEMBLERS.md has the table.
"""

from .found import Assembler, assemblers
from .judged import Verdict, verdicts
from .table import Defect, known

__all__ = ["Assembler", "Defect", "Verdict", "assemblers", "known", "verdicts"]
