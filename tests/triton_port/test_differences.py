"""What differs between releases of Triton: what is added for each is the same as what the other one has of its own."""

import numpy as np
import pytest
from triton._C.libtriton.gluon_ir import GluonOpBuilder

from mimw.compiler.triton_port import differences
from mimw.compiler.triton_port.interpreter import round_f32_to_tf32


def test_on_3_9_the_builder_is_triton_s_own():
    if differences.OLDER:
        pytest.skip("this is 3.8")
    assert differences.GluonOpBuilder is GluonOpBuilder and not differences.ABSENT
    assert differences.joined_policies((1, "cache", True)) == (1, "cache", True)


def test_operands_of_assembly_count_one_more_and_dollar_signs_stay():
    assert differences._shifted("mov.u32 $0, $$1; add ${12:x}, $9;") == "mov.u32 $1, $$1; add ${13:x}, $10;"


def test_what_is_refused_names_the_release():
    assert "cannot compile cache hints of TMA copies" in str(differences.NotInTriton("cache hints of TMA copies"))


def test_tf32_rounds_to_the_nearest_and_to_even():
    step = 2.0 ** -10
    given = np.array([1 + step / 2, 1 + 3 * step / 2, 1 + step / 4, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(round_f32_to_tf32(given), np.array([1, 1 + 2 * step, 1, np.inf, np.nan], np.float32))
