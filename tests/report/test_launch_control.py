"""What the reports say of kernels that ask for the work of clusters which have not started: roles, and answers."""

import pytest

from mimw.compiler.analysis import task_resources
from mimw.report import barrier_graph, resource_table
from tests.kernels.one_word import CASES


def compiled(**options):
    case, _ = CASES["clc_in_tasks"]
    return case.compiled("sm_100a", **options)


def test_roles_and_buffers():
    made = compiled()
    assert [(task.name, task.role, task.copies) for task in task_resources(made.program, made.target)] == [
        ("default", "compute", 0), ("task 1", "schedule", 0)]
    table = resource_table(made.program, made.target, made.metadata.shared)
    assert "context.responses" in table and "i64[2]" in table and "context.empty" in table


@pytest.mark.parametrize("options, answer", [({}, "answer"), ({"ctas_per_cga": (2, 1, 1)}, "answer to 2 CTAs")])
def test_the_graph_says_who_answers(options, answer):
    assert f"task 1 --context.full[1]--> default (expect 16 B + {answer})" in barrier_graph(compiled(**options).program)


def test_why_an_answer_lies_as_it_does():
    made = compiled()
    assert any("an answer is consecutive bytes" in reason for reason in map(str, made.layouts.reasons.values()))
