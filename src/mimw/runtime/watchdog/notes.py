"""Configurations of autotuned kernels that have hung, remembered beside Triton's cache.

Input: a kernel and a configuration. Output: whether it has hung under a watchdog before; the next run leaves it out.

    remember(fn, "BM: 64, num_warps: 4, ...", "TooFewArrivals ...")
    has_hung(fn, "BM: 64, num_warps: 4, ...")          # True, until the kernel's source changes or the file is deleted
"""

from __future__ import annotations

import json
from pathlib import Path

from ...compiler.pipeline import content_key
from ...compiler.triton_port.runtime import knobs

NAME = "mimw-hung-configurations.jsonl"


def file() -> Path:
    return Path(knobs.cache.dir) / NAME


def remember(fn, configuration: str, when: str) -> None:
    """Append a line; a cache that cannot be written is no reason not to report."""
    line = json.dumps({"kernel": fn.__name__, "source": content_key(fn), "configuration": configuration, "launch": when})
    file().parent.mkdir(parents=True, exist_ok=True)
    with file().open("a") as handle:
        handle.write(line + "\n")


def has_hung(fn, configuration: str) -> bool:
    if not file().exists():
        return False
    lines = [json.loads(line) for line in file().read_text().splitlines() if line.strip()]
    source = content_key(fn) if any(line["configuration"] == configuration for line in lines) else None
    return any((line["source"], line["configuration"]) == (source, configuration) for line in lines)
