"""The barrier graph, as text and as a picture."""

from xml.etree import ElementTree

from mimw.report import barrier_graph, barrier_graph_svg
from tests.analysis.building import Kernel, ring_copy

SVG = "{http://www.w3.org/2000/svg}"


def two_consumers():
    k = Kernel()
    free, lost = k.barriers("free", 1, 2), k.barriers("lost", 2)
    for replica in range(2):
        with k.task("mma", replica=replica, replicas=2):
            k.arrive(k.one(free, 0))
    with k.task("load", 1):
        k.wait(k.one(free, 0), 0)
        k.wait(k.one(lost, 0), 0)
    return k


def test_a_ring():
    assert barrier_graph(ring_copy().program()) == """\
load --full[4]--> mma (expect 16384 B + TMA)
mma --free[4]--> load
"""


def test_replicas_and_missing_sides():
    assert barrier_graph(two_consumers().program()) == """\
mma[0] --free[1]--> load (2 arrivals a phase)
mma[1] --free[1]--> load (2 arrivals a phase)
nobody --lost[2]--> load
"""


def test_a_barrier_nobody_waits_for():
    k = Kernel()
    k.arrive(k.barriers("gone", 1))
    assert barrier_graph(k.program()) == "kernel --gone[1]--> nobody\n"


def test_no_barriers():
    assert barrier_graph(Kernel().program()) == "no barriers\n"
    assert ElementTree.fromstring(barrier_graph_svg(Kernel().program())).tag == f"{SVG}svg"


def test_the_picture_has_a_box_a_task_and_a_path_an_edge():
    picture = ElementTree.fromstring(barrier_graph_svg(two_consumers().program()))
    edges = [path for path in picture.findall(f"{SVG}path")]
    assert [path.find(f"{SVG}title").text for path in edges] == barrier_graph(two_consumers().program()).splitlines()
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"mma[0]", "mma[1]", "load", "nobody"} <= set(words)
    assert words.count("free[1]  2 arrivals a phase") == 2


def test_everything_lies_inside_the_picture():
    picture = ElementTree.fromstring(barrier_graph_svg(two_consumers().program()))
    width, height = float(picture.get("width")), float(picture.get("height"))
    for box in picture.iter(f"{SVG}rect"):
        assert 0 <= float(box.get("x")) <= float(box.get("x")) + float(box.get("width")) <= width
        assert 0 <= float(box.get("y")) <= float(box.get("y")) + float(box.get("height")) <= height
