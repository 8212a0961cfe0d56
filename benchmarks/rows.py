"""A row of a benchmark that needs no GPU: where and when it was measured is added, then it is printed and kept.

    told({"name": "check_speed", "seconds": 2.4}, Path("benchmarks/results/check_speed.jsonl"))
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path

import numpy as np
import triton


def told(row: dict, out: Path | None) -> None:
    """Print `row` as a line of JSON, and append it to `out` if that is given."""
    machine = {"cores": os.cpu_count(), "date": datetime.date.today().isoformat(), "python": platform.python_version(),
               "numpy": np.__version__, "triton": triton.__version__}
    line = json.dumps(row | machine, sort_keys=True)
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")
