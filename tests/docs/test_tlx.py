"""docs/tlx.md says what the code does: it is made again from probes of every name, and compared."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_words_is_up_to_date():
    done = subprocess.run([sys.executable, "docs/support/tlx.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout == "docs/tlx.md is up to date\n", done.stdout + done.stderr


def test_the_table_of_tle_words_is_up_to_date():
    done = subprocess.run([sys.executable, "docs/support/tle.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout == "docs/tle.md is up to date\n", done.stdout + done.stderr
