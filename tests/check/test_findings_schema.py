"""docs/schemas/findings.schema.json: what `mimw check --json` prints is as it says, and it says all of it."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.tools.findings import VERSION
from tests.kernels import handed_over
from tests.kernels.rings import stored

jsonschema = pytest.importorskip("jsonschema", reason="needs the tests' own packages: pip install 'mimw[test]'")
SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/findings.schema.json").read_text())


def strict(schema):
    """The schema in which nothing goes without a description: an object has no other keys than those that are described."""
    schema = copy.deepcopy(schema)
    for one in schema["$defs"].values():
        if "properties" in one:
            one["additionalProperties"] = False
    return schema


def errors(data, schema=SCHEMA):
    return [f"{list(error.path)}: {error.message[:200]}" for error in jsonschema.Draft202012Validator(schema).iter_errors(data)]


@mimw.jit
def greedy(x_ptr):
    """More registers than a CTA has."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x_ptr, 3.0)
        with tlx.async_task(num_warps=8, num_regs=240, replicate=2):
            tl.store(x_ptr + 2 - tlx.async_task_replica_id(), 4.0)


@mimw.jit
def too_large(x_ptr):
    tile = tlx.local_alloc((1024, 128), tl.float32, 1)
    tl.store(x_ptr, tl.sum(tl.sum(tlx.local_load(tile[0]), 1), 0))


def ring(stages=1, **meta):
    x, y = np.zeros((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return stored, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, 4, stages, *meta.values()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """One of each form: clean with smaller launches; found by seeds, by a systematic search; a mend; a sample, cut off by time;
    remarks; refused by the compiler; results that were compared."""
    kernel, grid, args, meta = handed_over.case_unordered()
    out, doubled = np.zeros(3, np.float32), {"y": 2 * args[0]}
    return {"clean": mimw.check(*ring(ARRIVE=True), seeds=1),
            "seeds": mimw.check(*ring(ARRIVE=False), seeds=2),
            "schedule": mimw.check(kernel, grid, *args, search="systematic", **meta),
            "sample": mimw.check(kernel, (8, ), np.zeros(256, np.float32), np.zeros(256, np.float32), True, 32, ctas="sample",
                                 seeds=500, time_limit=1e-9),
            "ctas": mimw.check(kernel, (8, ), np.zeros(256, np.float32), np.zeros(256, np.float32), False, 32, seeds=1,
                               ctas=[(3, 0, 0)]),
            "mend": mimw.check(misread, (1, ), *args, N=32, seeds=1, mends=20.0),
            "remarks": mimw.check(greedy, (1, ), out, seeds=1),
            "refused": mimw.check(too_large, (1, ), out),
            "results": mimw.check(kernel, grid, *args, True, 32, seeds=1, expected=doubled)}


@mimw.jit
def misread(x, y, N: tl.constexpr):
    """The wait names the parity of the phase before."""
    tile, full = tlx.local_alloc((N, ), tl.float32, 1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 1)
            tl.store(y + tl.arange(0, N), tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, N)))
            tlx.barrier_arrive(full[0])


def test_the_schema_is_one_and_of_this_version():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$defs"]["report"]["properties"]["version"]["const"] == VERSION
    assert SCHEMA["$id"].endswith(f":{VERSION}")


def test_reports_are_as_it_says(reports):
    """Each by the schema, and by the one that takes no key without a description; the case has what it is a case of."""
    found = {name: json.loads(json.dumps(report.as_json())) for name, report in reports.items()}
    all_of_it = strict(SCHEMA)["$defs"]
    assert {name: errors(one) + errors(one, all_of_it["report"] | {"$defs": all_of_it}) for name, one in found.items()} == {
        name: [] for name in found}
    assert found["clean"]["ok"] and found["clean"]["tried"]
    assert found["seeds"]["findings"][0]["seed"] == 0 and found["schedule"]["findings"][0]["seed"] is not None
    assert found["sample"]["stopped"] and found["sample"]["unseen"] and found["ctas"]["findings"][0]["ctas"]
    assert found["mend"]["mend"]["edits"] and found["mend"]["findings"][0]["edits"] and found["remarks"]["remarks"]
    assert found["refused"]["findings"][0]["seed"] is None and found["refused"]["runs"] == 0
    assert found["results"]["findings"][0]["kind"] == "WrongResult"


def test_every_key_that_it_describes_is_in_a_report(reports):
    found = [json.loads(json.dumps(report.as_json())) for report in reports.values()]

    def keys(data):
        if isinstance(data, dict):
            return set(data).union(*map(keys, data.values()))
        return set().union(*map(keys, data)) if isinstance(data, list) else set()

    described = set().union(*(one.get("properties", {}) for one in SCHEMA["$defs"].values()))
    assert described - {"case"} <= keys(found)


def test_the_line_of_a_finding_is_that_of_its_first_site(reports):
    (finding, *_) = reports["schedule"].as_json()["findings"]
    assert finding["file"] == handed_over.__file__
    lines = Path(finding["file"]).read_text().splitlines()
    assert (finding["file"], finding["line"], finding["column"]) == tuple(finding["sites"][0][name] for name in (
        "file", "line", "column"))
    assert "tile[0]" in lines[finding["line"] - 1]


@pytest.mark.parametrize("change, said", [
    ({"version": 2}, "1 was expected"), ({"runs": -1}, "minimum"), ({"findings": [{"kind": "DataRace"}]}, "required property"),
    ({"ok": None}, "not of type 'boolean'")])
def test_what_is_no_report_is_refused(reports, change, said):
    wrong = json.loads(json.dumps(reports["clean"].as_json())) | change
    assert errors(wrong) and any(said in one for one in errors(wrong, SCHEMA["$defs"]["report"] | {"$defs": SCHEMA["$defs"]}))


def test_the_command_prints_it(capsys):
    assert main(["check", "--cases", handed_over.__file__, "--seeds", "1", "--mend-time", "0", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert errors(found) == [] and [(one["case"].rpartition(":")[2], one["ok"]) for one in found] == [
        ("case", True), ("case_unordered", False)]
    assert main(["check", f"{handed_over.__file__}:case", "--seeds", "1", "--json"]) == 0
    assert errors(json.loads(capsys.readouterr().out)) == []
