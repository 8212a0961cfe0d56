"""The cost model of a chip, out of its data file.

Input: a target. Output: a `Model` with the figures of `costs/TARGET.toml`, or what the file's `kind` says, `EngineModel` or
`ComputeUnitModel`:

    model("sm_90a").chip            "NVIDIA H200"

The file has the sources at its top; an entry is [value, unit, source].
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from ...errors import TargetError
from ...target import Target
from .compute_units import ComputeUnitModel
from .engines import EngineModel
from .model import Figure, Model

_FOLDER = Path(__file__).parent
_KINDS = {"": Model, "engines": EngineModel, "compute units": ComputeUnitModel}
# Chips that can be compiled for, and of which nobody has published what a model needs.
_UNPUBLISHED = {"gfx1250": "AMD has published no clock, no cycles of its matrix instructions and no bandwidths of gfx1250"}


@functools.cache
def model(target: Target | str) -> Model:
    """The cost model of a target; TargetError if there is none, with those that there are."""
    name = str(target)
    path = _FOLDER / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.toml")))
        why = _UNPUBLISHED.get(name, "its latencies and rates are in no data file")
        raise TargetError(f"there is no cost model of {name}: {why}. There are {known}")
    data = tomllib.loads(path.read_text())
    sources, kind = data.pop("sources"), data.pop("kind", "")
    chip = data.pop("name")
    figures = {}
    for table, entries in data.items():
        for key, (value, unit, source) in entries.items():
            figures[f"{table}.{key}"] = Figure(float(value), unit, sources[source])
    return _KINDS[kind](name, chip, figures)
