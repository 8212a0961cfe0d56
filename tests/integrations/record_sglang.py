"""Records what the hooks of SGLang stand on, from its wheel.

Input: the wheel; nothing of it is imported. Output: src/mimw/integrations/recorded_sglang.json. For example:

    pip download --no-deps sglang==0.5.23
    python -m tests.integrations.record_sglang sglang-0.5.23-*.whl
"""

import sys

from mimw.integrations.sglang import STANDS_ON

from .record import main

if __name__ == "__main__":
    sys.exit(main("sglang", STANDS_ON))
