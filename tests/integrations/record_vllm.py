"""Records what the adaptors of vLLM stand on, from its wheel.

Input: the wheel; nothing of it is imported. Output: src/mimw/integrations/recorded_vllm.json. For example:

    pip download --no-deps vllm==0.33.0
    python -m tests.integrations.record_vllm vllm-0.33.0-*.whl
    python -m tests.integrations.record_vllm --check vllm-0.33.1-*.whl          says what another version has changed
"""

import sys

from mimw.integrations.vllm import OPERATORS, attention

from .record import main

NAMES = {name for one in OPERATORS.values() for name in one.STANDS_ON} | set(attention.LATER)

if __name__ == "__main__":
    sys.exit(main("vllm", NAMES))
