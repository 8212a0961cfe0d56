"""A launch's program, and some mutants of it that pass the compiler's checks.

Input: a launch, a salt for the draw, how many mutants. Output: programs after all passes, the right one first. For example:

    for program in with_mutants(launch, "gemm", 3): ...
"""

import random
import warnings

from benchmarks.mutants import mutants
from mimw.compiler.passes import run_passes
from mimw.errors import MimwError
from mimw.target import target


def with_mutants(launch, salt: str, most: int) -> list:
    """The launch's program, and at most `most` mutants of the recorded one, drawn by `salt`."""
    programs, drawn = [launch.program], list(mutants(launch.recorded))
    random.Random(salt).shuffle(drawn)
    for mutant in drawn:
        if len(programs) <= most:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    programs.append(run_passes(mutant.program, target(launch.specialisation.target)))
            except MimwError:
                continue
    return programs
