#!/usr/bin/python3
"""The parts of tests/vm that need no virtual machine: sources of apt, the choice of a kernel, the matrix, reading results, the tables."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "vm"))


def load():
    loader = importlib.machinery.SourceFileLoader("vm_run", os.path.join(ROOT, "tests", "vm", "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vm_run", loader))
    loader.exec_module(module)
    return module


vm = load()
OUTPUT = """cell x
check run root pass
check run user pass
check memory root pass
check memory user explained bailiff: --memory: no cgroup
check odd root perhaps
check pids user fail status 1 instead of 0; last line: x
"""


def result(**more):
    return {"cell": "arm64-6.1", "arch": "arm64", "kernel": "6.1", "about": "a | b", "set": "quick", "checks": vm.read_checks(OUTPUT), "release": "6.1.0", **more}


def test_sources_of_both_formats_are_read():
    new = "Types: deb\n# a comment\nURIs: http://a.example/debian\nSuites: one one-updates\nComponents: main\nSigned-By: /k.gpg\n\n" \
          "Types: deb-src\nURIs: http://b.example\nSuites: one\n\nTypes: deb\nEnabled: no\nURIs: http://c.example\nSuites: one\n"
    assert vm.imaging.parse_sources(new, True) == [("http://a.example/debian", ["one", "one-updates"], "signed-by=/k.gpg")]
    old = "# deb http://x.example one main\ndeb [trusted=yes] http://a.example one main\ndeb-src http://a.example one main\ndeb http://b.example two main\n"
    assert vm.imaging.parse_sources(old, False) == [("http://a.example", ["one"], "trusted=yes"), ("http://b.example", ["two"], "")]


def test_the_stock_kernels_of_a_version_are_found_newest_first():
    names = ["linux-image-6.1.0-9-arm64", "linux-image-6.1.0-10-arm64", "linux-image-6.1.0-10-arm64-unsigned", "linux-image-6.1.0-11-cloud-arm64",
             "linux-image-6.1.0-12-rt-arm64", "linux-image-6.12.9+deb12-arm64", "linux-image-6.12.10+deb12-arm64", "linux-image-6.1-arm64",
             "linux-image-6.1.0-13-amd64", "linux-image-6.1.0-14-arm64-dbg"]
    pick = vm.imaging.stock_kernels
    assert pick(names, "6.1", "arm64") == ["linux-image-6.1.0-10-arm64", "linux-image-6.1.0-10-arm64-unsigned", "linux-image-6.1.0-9-arm64"]
    assert pick(names, "6.12", "arm64") == ["linux-image-6.12.10+deb12-arm64", "linux-image-6.12.9+deb12-arm64"]
    assert pick(names, "6.1", "amd64") == ["linux-image-6.1.0-13-amd64"]
    assert pick(names, "6.2", "arm64") == []


def test_options_choose_cells():
    cells = vm.matrix.select
    assert {c.arch for c in cells(["arm64", "amd64"], None, "quick", [])} == {"arm64", "amd64"}
    assert [c.name for c in cells(["arm64"], ["6.1"], "full", [])] == ["arm64-6.1"]
    assert [c.name for c in cells(["arm64"], ["6.1", "6.12"], "quick", ["arm64-6.1"])] == ["arm64-6.1"]
    assert [c.name for c in cells(["arm64"], None, "quick", ["too-old"])] == ["arm64-5.10-too-old"]
    names = [c.name for c in cells(["arm64", "amd64"], None, "quick", [])]
    assert len(names) == len(set(names))
    for argv in (["--arch", "mips"], ["--jobs", "0"], ["--set", "half"]):
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                vm.parse(argv)
            except SystemExit as e:
                assert e.code == 2
                continue
        raise AssertionError(f"{argv} was accepted")


def test_only_lines_of_checks_are_read():
    checks = vm.read_checks(OUTPUT)
    assert [(c["name"], c["as"], c["state"]) for c in checks] == [
        ("run", "root", "pass"), ("run", "user", "pass"), ("memory", "root", "pass"), ("memory", "user", "explained"), ("pids", "user", "fail")]
    assert checks[3]["detail"] == "bailiff: --memory: no cgroup"


def test_a_failed_check_or_a_problem_fails_the_run():
    good = [c for c in vm.read_checks(OUTPUT) if c["state"] != "fail"]
    assert vm.failed([result()])
    assert not vm.failed([result(checks=good)])
    assert vm.failed([result(checks=good, problem="the machine stopped")])


def test_tables_show_every_identity_that_differs():
    assert vm.entry(result(), "run") == "✓"
    assert vm.entry(result(), "memory", ",") == "root ✓,user (✓)"
    assert vm.entry(result(), "absent") == ""
    assert "root ✓,user (✓)" in vm.table([result()])
    text = vm.markdown([result(date="2026-01-02")])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1, text
    assert "- arm64-6.1, user/pids: status 1" in text and "2026-01-02" in text


def test_the_newer_of_two_results_of_a_cell_is_used():
    assert [r["date"] for r in vm.latest([result(date="1"), result(date="2")])] == ["2"]


def main():
    failed = 0
    for number, (name, test) in enumerate([(n, f) for n, f in globals().items() if n.startswith("test_")], 1):
        try:
            test()
            print(f"ok {number} - {name}")
        except AssertionError as e:
            failed += 1
            print(f"not ok {number} - {name}\n# line {e.__traceback__.tb_lineno}: {e}")
    return 1 if failed else 0


sys.exit(main())
