"""Maps of tiles and buffers out of the text of their layouts, against Triton's own, and texts that are refused."""

import json
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.compiler.ttgir.layout_memory import buffer_map
from mimw.compiler.ttgir.layout_text import LayoutProblem, read_layout
from mimw.compiler.ttgir.layouts import tile_map
from tests.processes import python

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [8, 1], order = [1, 0]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
PADDED = ("#ttg.padded_shared<[512:+8] {offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [64, 0], [32, 0], [16, 0], [1, 0], "
          "[2, 0], [4, 0], [8, 0]], block = []}>")


@cache
def said_by_triton():
    """[text, shape, bits (0 of a tile), maps] of each case."""
    run = python(Path(__file__).with_name("layout_oracle.py"), PYTHONPATH=str(Path(mimw.__file__).parents[1]))
    return [json.loads(line) for line in run.stdout.splitlines()]


def lists(bases):
    return [list(basis) for basis in bases]


def test_tiles_lie_as_triton_says():
    seen = set()
    for text, shape, bits, (registers, lanes, warps, blocks) in said_by_triton():
        if not bits:
            found = tile_map(text, tuple(shape))
            ours = [lists(bases) for bases in (found.registers, found.lanes, found.warps, found.blocks)]
            held = [[basis for basis in bases if any(basis)] for bases in (ours[0], registers)]    # zeros are the same register
            assert [held[0], *ours[1:]] == [held[1], lanes, warps, blocks], (text, shape)
            seen.add(read_layout(text).kind)
    assert seen == {"blocked", "slice", "dot_op", "nvidia_mma", "amd_mfma", "amd_wmma", "linear"}
