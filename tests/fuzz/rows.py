"""The rows that a run leaves: what ran, where, by which versions, and what came out.

append("benchmarks/results/fuzz.jsonl", of_run("fuzz", options, stages, programs, found, 512.0))
"""

from __future__ import annotations

import datetime
import json
import platform
from collections import Counter
from importlib import metadata
from typing import Any


def versions() -> dict[str, str]:
    """The packages that a result depends on, as installed."""
    found = {"python": platform.python_version()}
    for name in ("triton", "torch", "numpy", "ml_dtypes"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def chip() -> str:
    """The GPU, or "none"."""
    try:
        import torch

        return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    except ImportError:
        return "none"


def of_run(name: str, options, stages, programs: Counter, found: Counter, took: float) -> dict[str, Any]:
    outcomes: dict[str, dict[str, int]] = {}
    for (_, stage, kind), count in sorted(found.items()):
        outcomes.setdefault(stage, {})[kind] = outcomes.get(stage, {}).get(kind, 0) + count
    return {
        "name": name,
        "date": datetime.date.today().isoformat(),
        "chip": chip(),
        "versions": versions(),
        "first": options.first,
        "programs": sum(programs.values()),
        "families": dict(sorted(programs.items())),
        "stages": list(stages),
        "outcomes": outcomes,
        "seconds": round(took, 1),
    }


def append(path: str, row: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row, sort_keys=True) + "\n")
