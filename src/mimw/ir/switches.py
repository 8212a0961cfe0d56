"""Switches in the environment, which several rooms ask: a variable turns something on.

Input: the name of a variable. Output: True or False. For example:

    switched_on("MIMW_RACES")       True for MIMW_RACES=1; False for MIMW_RACES=0, for an empty one, and where there is none
"""

from __future__ import annotations

import os


def switched_on(name: str) -> bool:
    """True if the variable is set, and neither empty nor 0."""
    return os.environ.get(name) not in (None, "", "0")
