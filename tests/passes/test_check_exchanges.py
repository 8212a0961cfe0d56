"""Stages that Triton makes another pipeline of, or none, and elements that go from wave to wave in one."""

import pytest

from mimw.compiler.passes import check_exchanges, no_pipeline
from mimw.compiler.triton_port.allocation import Piece
from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.errors import KernelError
from mimw.ir import parse_program

TEXT = """kernel k(%x: *fp32, %n: i32) on 8 warps {
  %0 = constant 0, i32
  %1 = constant 1, i32
  for %0, %n, %1, []
    body(%i: i32) {
      stage_start
      store %x, %n
      stage_end
      stage_start
      stage_end
      yield []
    }
  store %x, %n
}
"""
PROGRAM = parse_program(TEXT, "text", enumeration_member)
STORES = [number for number, op in enumerate(PROGRAM.walk()) if op.name == "store"]


def piece(number, op="ttg.convert_layout"):
    return Piece(op, "text", 1, 1, 0, 512, number)


def test_an_exchange_in_a_stage_is_refused_at_its_line():
    with pytest.raises(KernelError, match="convert_layout for store moves elements between waves through 512 bytes") as caught:
        check_exchanges(PROGRAM, 0, [piece(STORES[1]), piece(STORES[0])])
    assert caught.value.sites[0].line == 7


@pytest.mark.parametrize("pieces", [[], [piece(STORES[1])], [piece(-1)], [piece(STORES[0], "ttg.local_alloc")]])
def test_elsewhere_it_may_be(pieces):
    check_exchanges(PROGRAM, 0, pieces)


def test_another_pipeline_than_the_authors_is_refused():
    with pytest.raises(KernelError, match="makes a stage of its own of what its passes put behind") as caught:
        check_exchanges(PROGRAM, 1, [])
    assert caught.value.sites[0].line == 4
    assert no_pipeline(PROGRAM).sites[0].line == 4 and "makes no pipeline of it" in str(no_pipeline(PROGRAM))
