"""What a kernel asks of its launch: keywords, meshes, hints for waits, meetings of the grid."""

import pytest

from mimw.compiler.frontend.recorder import Recorder
from mimw.ir import UNKNOWN, LaunchFacts


@pytest.mark.parametrize("cluster, meshes, shape, of_clusters", [
    ((1, 1, 1), (), (1, 1, 1), False), ((2, 2, 1), (), (2, 2, 1), False),
    ((1, 1, 1), (4, ), (4, 1, 1), True), ((1, 1, 1), (4, 4), (4, 1, 1), True),
    ((4, 1, 1), (4, ), (4, 1, 1), False), ((1, 1, 1), (1, ), (1, 1, 1), False),
])
def test_a_mesh_makes_the_cluster_unless_the_launch_asks_for_it(cluster, meshes, shape, of_clusters):
    facts = LaunchFacts(cluster)
    for size in meshes:
        facts = facts.with_mesh(size)
    assert (facts.cluster, facts.grid_of_clusters) == (shape, of_clusters)
    assert facts.cluster_size == shape[0] * shape[1] * shape[2]
    assert facts.mesh_size == (meshes[-1] if meshes else None)


@pytest.mark.parametrize("hints, least", [((), None), ((100, ), 100), ((300, 100, 200), 100), ((0, 100), 0)])
def test_of_several_hints_the_smallest_counts(hints, least):
    facts = LaunchFacts()
    for nanoseconds in hints:
        facts = facts.with_suspend(nanoseconds)
    assert facts.suspend_ns == least


def test_a_program_keeps_what_was_noted_while_it_was_recorded():
    recorder = Recorder()
    recorder.launch_facts = LaunchFacts((2, 1, 1)).with_grid_barrier()
    program = recorder.finish("kernel", [], 4, UNKNOWN)
    assert program.launch_facts == LaunchFacts((2, 1, 1), grid_meets=True)
    assert (program.cluster, program.cluster_size) == ((2, 1, 1), 2)
