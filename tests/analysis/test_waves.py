"""Waves of a SIMD by registers, and work-groups of a compute unit."""

import pytest

from mimw.compiler.analysis.waves import Occupancy, occupancy, waves_by_registers


@pytest.mark.parametrize("registers, waves", [(512, 1), (257, 1), (256, 2), (176, 2), (169, 2), (168, 3), (129, 3), (128, 4),
                                              (104, 4), (96, 5), (80, 6), (72, 7), (64, 8), (24, 8), (0, 8), (513, 0)])
def test_waves_of_a_simd(registers, waves):
    """512 of a lane, in steps of 8."""
    assert waves_by_registers(registers) == waves


@pytest.mark.parametrize("given, expected", [
    ((128, 8, 65536, 163840), Occupancy(4, 2, "registers")), ((128, 8, 98304, 163840), Occupancy(4, 1, "LDS")),
    ((168, 12, 0, 65536), Occupancy(3, 1, "registers")), ((256, 8, 0, 65536), Occupancy(2, 1, "registers")),
    ((32, 16, 0, 65536), Occupancy(8, 2, "registers")), ((512, 1, 0, 65536), Occupancy(1, 4, "registers")),
    ((64, 4, 65537, 65536), Occupancy(8, 0, "LDS")), ((300, 8, 0, 65536), Occupancy(1, 0, "registers"))])
def test_work_groups_of_a_compute_unit(given, expected):
    assert occupancy(*given) == expected
