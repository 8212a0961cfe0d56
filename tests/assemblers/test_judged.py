"""What is found of ptxas on a machine, what its machine code shows, and what the command says: with those of Triton's wheel."""

import json

import pytest

from mimw.cli import main
from mimw.compiler.triton_port.ptxas_files import bundled, nvdisasm_path, ptxas_version, variable_of
from mimw.tools.assemblers import assemblers, found, known, verdicts
from mimw.tools.assemblers.table import CHIPS
from mimw.tools.assemblers.tried import for_chip, is_wrong, shown

OURS = {"conversions", "remote_atomic"}         # in every ptxas, and mimw's code keeps clear of them


@pytest.fixture(scope="module")
def seen():
    """What all programs show with Triton's own files: assembled and disassembled once."""
    return shown({path: list(CHIPS) for path in bundled().values()})


@pytest.fixture
def judged(seen, monkeypatch):
    """The verdicts of Triton's own files, by version and name."""
    monkeypatch.setattr("mimw.tools.assemblers.judged.shown", lambda files: seen)
    own = [one for path in bundled().values() for one in assemblers(path)]
    return {one.version: {verdict.defect.name: verdict for verdict in verdicts(own) if verdict.assembler == one} for one in own}


def test_programs_show_what_the_versions_say(judged):
    """Else the table is wrong: of each file of the wheel both ways of telling agree."""
    assert judged
    for version, of_one in judged.items():
        tried = {name: one for name, one in of_one.items() if one.how != "by version"}
        assert set(tried) == {name for name, defect in known().items() if defect.probe}
        assert {name: one.state for name, one in tried.items()} == {name: known()[name].by_version(version) for name in tried}


def test_an_old_one_has_faults_and_a_new_one_has_none_that_reach_a_kernel(judged):
    old, new = min(judged), max(judged)
    if not old < (13, 1) <= (13, 4) <= new:
        pytest.skip(f"this Triton brings {old} and {new}")
    reached = {name for name, one in judged[old].items() if one.reaches}
    assert {"kept_operand", "negated_maximum", "packed_addition", "register_operand"} <= reached and not reached & OURS
    assert judged[old]["kept_operand"].how == "reproduced here" and judged[old]["register_operand"].how == "by version"
    assert judged[old]["clamped_absolute"].how == "not reproduced here"
    assert {name for name, one in judged[new].items() if one.state == "has"} == OURS
    assert not any(one.reaches for one in judged[new].values())
    assert judged[new]["batch_invariance"].state == "unknown"


LOOP = """/*0000*/ LDG.E.128 R32, desc[UR8][R2.64] ;
/*0010*/ MOV R28, R32 ;
/*0020*/ HGMMA.64x8x16.F32 R24, {first}, gdesc[UR4], R24, gsb0 ;
/*0030*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
/*0040*/ LDSM.16.M88.4 {loaded}, [R0] ;
/*0050*/ HGMMA.64x8x16.F32 R24, {loaded}, gdesc[UR4].tnspB, R24, gsb0 ;
/*0060*/ @P0 BRA {back} ;
/*0070*/ EXIT ;"""
CODE = {
    "the registers are loaded again": ("kept_operand", LOOP.format(first="R28", loaded="R28", back="0x20"), True),
    "they are moved there in each trip": ("kept_operand", LOOP.format(first="R28", loaded="R28", back="0x10"), False),
    "others are loaded": ("kept_operand", LOOP.format(first="R28", loaded="R36", back="0x20"), False),
    "what is moved is loaded again": ("kept_operand", LOOP.format(first="R28", loaded="R32", back="0x10"), True),
    "the bits themselves": ("conversions", "/*0000*/ LDG.E.U16 R2, desc[UR4][R2.64] ;\n/*0010*/ F2I.F16.NTZ R7, R2 ;", True),
    "another format first": ("conversions", "/*0000*/ LDG.E.U16 R2, desc[UR4][R2.64] ;\n/*0010*/ F2F.F16.F32 R2, R2 ;\n"
                             "/*0020*/ F2I.F16.NTZ R7, R2 ;", False),
    "clamped as it is": ("clamped_absolute", "/*0000*/ LDG.E R2, desc[UR4][R2.64] ;\n/*0010*/ VIMNMX.RELU R7, R2, UR6, PT ;", True),
    "clamped behind its absolute": ("clamped_absolute", "/*0000*/ LDG.E R2, desc[UR4][R2.64] ;\n/*0010*/ IABS R7, R2 ;\n"
                                    "/*0020*/ VIMNMX.RELU R7, PT, PT, R7, UR6, PT ;", False),
    "one twice": ("negated_maximum", "/*0000*/ VIMNMX3 R5, R0, UR5, R0, !PT ;", True),
    "one twice, side by side": ("negated_maximum", "/*0000*/ VIMNMX3 R167, R8, R8, R167, !PT ;", True),
    "three numbers": ("negated_maximum", "/*0000*/ VIMNMX3 R5, R0, UR5, R5, !PT ;", False),
    "two numbers of like names": ("negated_maximum", "/*0000*/ VIMNMX3 R5, R1, UR5, R10, !PT ;", False),
    "nothing is added": ("packed_addition", "/*0000*/ VIADD.16x2 R0, R0, 0x0 ;", True),
    "one is added": ("packed_addition", "/*0000*/ VIADD.16x2 R0, R0, 0x1 ;\n/*0010*/ VIADD.16x2 R7, R2, 0x10001 ;", False),
    "a store": ("remote_atomic", "/*0000*/ @!P0 ST.E.64 [RZ.U32+UR4], R4 ;", True),
    "a loop": ("remote_atomic", "/*0000*/ ATOMS.CAST.SPIN.64 R6, [R3], R4, R6 ;\n/*0010*/ STG.E.64 desc[UR8][R2.64], R4 ;", False),
}


@pytest.mark.parametrize("case", CODE)
def test_the_mark_in_machine_code(case):
    name, sass, wrong = CODE[case]
    assert is_wrong(known()[name], sass) is wrong


def test_what_cannot_be_tried_is_told_by_its_version(monkeypatch):
    """Of a file that takes no program, and without a disassembler."""
    (path, *_) = bundled().values()
    monkeypatch.setattr("mimw.tools.assemblers.tried.for_chip", lambda ptx, chip: "nonsense")
    (said, *_) = shown({path: ["sm_90a"]}).values()
    assert said.startswith("ptxas does not take it: ptxas")
    one, = assemblers(path)
    verdict, = [verdict for verdict in verdicts([one]) if verdict.defect.name == "kept_operand"]
    assert verdict.how == "by version" and verdict.state == known()["kept_operand"].by_version(one.version)
    assert verdict.note.startswith("ptxas does not take it")
    monkeypatch.setattr("mimw.tools.assemblers.tried.for_chip", for_chip)
    monkeypatch.setattr("mimw.tools.assemblers.tried.nvdisasm_path", lambda: "/nowhere/nvdisasm")
    assert set(shown({path: ["sm_90a"]}).values()) == {"no machine code could be read (FileNotFoundError)"}


def test_every_way_to_a_file_is_found(monkeypatch, tmp_path):
    """Two names of one file are one; what a variable names in vain is said, and Triton takes its own."""
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    own = max(bundled().values(), key=ptxas_version)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ptxas").symlink_to(own)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/nowhere/ptxas")
    by_path = {one.path: one for one in assemblers()}
    assert by_path[own].named == ("comes with Triton", "of CUDA_HOME", "of PATH") and "sm_100a" in by_path[own].chips
    assert by_path["/nowhere/ptxas"].version is None and by_path["/nowhere/ptxas"].chips == ()
    assert [len(one.chips) for one in assemblers()] == sorted((len(one.chips) for one in assemblers()), reverse=True)


def test_another_one_is_used_where_the_variable_names_it(monkeypatch):
    old = min(bundled().values(), key=ptxas_version)
    monkeypatch.setenv(variable_of(90), old)
    (used, ) = [one for one in assemblers() if "sm_90a" in one.chips]
    assert used.path == old and f"{variable_of(90)} names it" in used.named


def test_the_command_says_it_and_fails_for_an_old_one(judged, capsys):
    old, new = (choose(bundled().values(), key=ptxas_version) for choose in (min, max))
    faulty = {path: ptxas_version(path) < (13, 4) for path in (old, new)}
    assert main(["doctor", "--assembler", new]) == faulty[new]
    told = capsys.readouterr().out
    assert "conversions: wrong numbers on sm_90a" in told and "mimw's code keeps clear" in told
    assert main(["doctor", "--assembler", old, "--json"]) == faulty[old]
    (entry, ), affected = (said := json.loads(capsys.readouterr().out))["assemblers"], said["affected"]
    assert entry["path"] == old and entry["used_for"][0] == "sm_90a"
    if faulty[old]:
        kept = next(one for one in entry["faults"] if one["name"] == "kept_operand")
        assert "kept_operand" in affected and kept["how"] == "reproduced here" and variable_of(90) in kept["mend"]
        assert all(one["sources"] and one["what"] for one in entry["faults"])


def test_the_command_finds_them_by_itself(judged, capsys, monkeypatch):
    """And tells of a fault once, though several files have it."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["doctor", "--assembler"]) in (0, 1)
    told = capsys.readouterr().out
    assert told.count("ptxas 1") == len(bundled()) and "  used for sm_90a" in told
    assert told.count("  conversions: ") == len(bundled()) and told.count("48.0 became 2^37") == 1


def test_what_is_no_ptxas_is_refused(capsys):
    assert main(["doctor", "--assembler", nvdisasm_path()]) == 1
    assert "is no ptxas that runs here\nMend: " in capsys.readouterr().err


def test_without_any_it_is_said(monkeypatch, capsys):
    def none(arch):
        raise RuntimeError("Cannot find ptxas")

    monkeypatch.setattr(found, "bundled", dict)
    monkeypatch.setattr(found, "ptxas_path", none)
    for name in ("PATH", "CUDA_HOME", "CUDA_PATH", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(found.shutil, "which", lambda name: None)
    assert main(["doctor", "--assembler"]) == 1
    assert "Triton finds no ptxas here" in capsys.readouterr().out
