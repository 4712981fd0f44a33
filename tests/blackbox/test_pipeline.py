"""`bailiff pipeline`: steps in order, failures, needs, parallel steps, reports."""

import json
import os
import xml.etree.ElementTree as xml

import harness
from harness import Home
from window import Window


def pipeline(home, *steps, **more):
    path = os.path.join(home.work, "ci.json")
    with open(path, "w") as f:
        json.dump(dict({"name": "ci", "steps": list(steps)}, **more), f)
    return path


def test_steps_run_in_order_and_stop_at_a_failure(home):
    path = pipeline(home, {"name": "one", "commandLine": "echo 1 > made; echo $WORD", "env": {"WORD": "<first> & \x01"}},
                    {"name": "two", "command": ["sh", "-c", "cat made; echo bad >&2; exit 3"]}, {"name": "three", "command": ["true"]})
    report = os.path.join(home.work, "junit.xml")
    done = home.cli("pipeline", "--junit", report, path, status=1, cwd="/usr")
    assert "1\n" in done.text and b"ok one" in done.err and b"FAILED two" in done.err and b"exit status 3" in done.err and b"1 of 3 steps passed" in done.err, done.err
    suite = xml.parse(report).getroot()[0]
    assert {k: suite.get(k) for k in ("name", "tests", "failures", "skipped")} == {"name": "ci", "tests": "3", "failures": "1", "skipped": "1"}
    cases = {c.get("name"): c for c in suite}
    assert cases["one"].find("system-out").text == "<first> & \\x01\n" and cases["one"].find("failure") is None
    assert cases["two"].find("failure").get("message") == "exit status 3" and cases["two"].find("system-err").text == "bad\n"
    assert cases["three"].find("skipped") is not None


def test_needs_and_allowed_failures(home):
    path = pipeline(home, {"name": "lint", "command": ["false"], "allowFailure": True}, {"name": "build", "command": ["false"]},
                    {"name": "test", "command": ["true"], "needs": ["build"]}, {"name": "docs", "command": ["true"], "needs": ["lint"]})
    result = home.cli("pipeline", "--keep-going", "-j", "2", "--json", path, status=1).json
    assert [s["status"] for s in result["steps"]] == ["failed", "failed", "skipped", "passed"] and result["status"] == "failed", result
    assert {p["status"] for p in home.cli("history", "--json", "--session", result["sessionId"]).json} == {"completed"}
    path = pipeline(home, {"name": "lint", "command": ["false"], "allowFailure": True}, {"name": "build", "command": ["true"]})
    assert home.cli("pipeline", "--json", path).json["status"] == "passed"


def test_steps_run_at_the_same_time(home):
    # Each step waits for the other: sequentially they would never end.
    def step(me, other):
        return {"name": me, "commandLine": f"touch {me}; while [ ! -e {other} ]; do sleep 0.02; done", "limits": {"wallMs": 60000}}
    home.cli("pipeline", "-j", "2", pipeline(home, step("a", "b"), step("b", "a")))


def test_errors_of_a_file_name_their_place(home):
    one = {"name": "one", "command": ["true"]}
    for steps, more, words in (([], {}, "steps: must be"), ([{"command": ["true"]}], {}, "steps[0].name"), ([one, one], {}, "another step"),
                               ([{"name": "x"}], {}, 'step "x": needs command'), ([dict(one, needs=["two"])], {}, "no earlier step"),
                               ([one], {"stage": 1}, 'unknown key "stage"')):
        failed = home.cli("pipeline", pipeline(home, *steps, **more), status=2)
        assert words.encode() in failed.err, failed.err
    with open(os.path.join(home.work, "ci.json"), "w") as f:
        f.write('{"steps": [\n}')
    assert b"ci.json:2" in home.cli("pipeline", f.name, status=2).err


def test_a_mistake_in_a_later_step_is_found_before_the_first_one_runs(home):
    first = {"name": "first", "commandLine": "touch ran"}
    for wrong, words in (({"profil": "x"}, 'unknown key "profil" (did you mean "profile"?)'), ({"cwd": 3}, "cwd: must be a path"), ({"env": ["A=b"]}, "env: must be an object"),
                         ({"limits": {"wallMs": "5s"}}, "limits.wallMs: must be a whole number"), ({"limits": {"wallMS": 5}}, 'unknown key "limits.wallMS"'),
                         ({"sandbox": {"network": "full"}}, "sandbox.network: must be none, host or allow"), ({"command": "true"}, "command: must be an array of texts"),
                         ({"sessionId": "x"}, "sessionId: the pipeline sets this")):
        failed = home.cli("pipeline", pipeline(home, first, dict({"name": "second", "command": ["true"]}, **wrong)), status=2)
        assert f'step "second": {words}' in failed.err.decode(), failed.err
    failed = home.cli("pipeline", "--junit", os.path.join(home.work, "missing", "junit.xml"), pipeline(home, first), status=2)
    assert b"--junit" in failed.err and b"No such file" in failed.err, failed.err
    assert not os.path.exists(os.path.join(home.work, "ran"))


def test_a_step_that_the_sandbox_stopped_says_what_was_denied(home):
    reading = "import socket\nsocket.getaddrinfo('name.example.test', 80)"
    path = pipeline(home, {"name": "net", "command": ["/usr/bin/python3", "-c", reading]}, {"name": "fine", "commandLine": "true"})
    done = home.cli("pipeline", "--keep-going", "--junit", "report.xml", path, status=1)
    assert b"denied: lookup name.example.test (no network)\n" in done.err, done.err
    assert b'"sandbox": {"network":"allow","allowHosts":["name.example.test"]} in the step' in done.err and done.err.count(b"denied") == 1, done.err
    with open(os.path.join(home.work, "report.xml"), encoding="utf-8") as f:
        assert 'message="exit status 1; denied: lookup name.example.test (no network)"' in f.read()
    failed = [s for s in home.cli("pipeline", "--keep-going", "--json", path, status=1).json["steps"] if s["status"] == "failed"]
    assert [s["message"] for s in failed] == ["exit status 1; denied: lookup name.example.test (no network)"], failed


def test_a_step_that_hits_its_limit_names_the_limit_of_the_file(home):
    done = home.cli("pipeline", pipeline(home, {"name": "slow", "command": ["sleep", "1000"], "limits": {"wallMs": 100}}), status=1)
    said = done.out.decode() + done.err.decode()
    assert "exit status 124: ended by its time limit (limits.wallMs)" in said and "--timeout" not in said, said


def test_a_step_that_needs_an_approval_fails_without_a_terminal():
    with Home(options=("--audit", "off", *harness.host_policy(ask=["Bash(touch:*)"]))) as home, home.rpc() as rpc:
        result = home.cli("pipeline", "--json", pipeline(home, {"name": "x", "command": ["touch", "made"]}), status=1).json
        assert result["steps"][0]["message"] == "it needs an approval" and result["steps"][0]["exitCode"] == 126, result
        assert not os.path.exists(os.path.join(home.work, "made")) and rpc.call("list_actions", status="pending")["actions"] == []


def test_progress_is_shown_on_a_terminal(home):
    with open(os.path.join(home.work, "slow.json"), "w") as f:
        json.dump({"name": "slow", "steps": [{"name": "a", "command": ["false"], "allowFailure": True}, {"name": "b", "commandLine": "read x < go"}]}, f)
    os.mkfifo(os.path.join(home.work, "go"))
    with Window(home, "pipeline", "slow.json", cols=100) as w:
        w.expect("1 of 2 done, 1 running, 1 failed, ")
        with open(os.path.join(home.work, "go"), "w") as f:
            f.write("x\n")
        w.expect("ok b")
    assert b"running" not in home.cli("job", "create", "--wait", "--item", "1", "--", "true").err


if __name__ == "__main__":
    harness.main(globals())
