"""The cost model of a chip, out of its data file.

Input: a target. Output: a `Model` with the figures of `costs/TARGET.toml`, or `EngineModel`, where the file's `kind` says so:

    model("sm_90a").chip            "NVIDIA H200"

The file has the sources at its top; an entry is [value, unit, source].
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from ...errors import TargetError
from ...target import Target
from .engines import EngineModel
from .model import Figure, Model

_FOLDER = Path(__file__).parent


@functools.cache
def model(target: Target | str) -> Model:
    """The cost model of a target; TargetError if there is none, with those that there are."""
    name = str(target)
    path = _FOLDER / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.toml")))
        raise TargetError(f"there is no cost model of {name}: its latencies and rates are in no data file. There are {known}")
    data = tomllib.loads(path.read_text())
    sources, kind = data.pop("sources"), data.pop("kind", "")
    chip = data.pop("name")
    figures = {}
    for table, entries in data.items():
        for key, (value, unit, source) in entries.items():
            figures[f"{table}.{key}"] = Figure(float(value), unit, sources[source])
    return (EngineModel if kind == "engines" else Model)(name, chip, figures)
