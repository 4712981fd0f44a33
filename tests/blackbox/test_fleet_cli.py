"""The command line `bailiff fleet`. The first part needs only a server: no node claims the tasks."""

import json
import os
import signal
import subprocess

import harness
from fleet import Dev, Fleet, Server
from harness import until


# ---- without nodes ----

def test_key_is_created_once_and_private():
    with Fleet() as f:
        key = f.fleet("key").text.strip()
        path = os.path.join(f.dir, ".config/bailiff/fleet.key")
        assert len(key) == 56 and key[0] == "U" and os.stat(path).st_mode & 0o777 == 0o600, key
        assert f.fleet("key", "--json").json == {"key": key, "file": path}
        assert f.fleet("key", "--force").text.strip() != key
        os.chmod(path, 0o644)
        assert "chmod 600" in f.fleet("key", status=1).err.decode()


def test_missing_address_or_key_is_named():
    with Fleet() as f:
        err = f.fleet("list", status=1).err.decode()
        assert "BAILIFF_FLEET" in err and "bailiff fleet dev" in err, err
        f.env["BAILIFF_FLEET"] = "nats://127.0.0.1:1"
        assert "bailiff fleet key" in f.fleet("submit", "--", "true", status=1).err.decode()
        f.fleet("key")
        assert "nats://127.0.0.1:1" in f.fleet("submit", "--", "true", status=1).err.decode()


def test_invalid_options_are_rejected_before_anything_is_sent():
    with Fleet() as f:
        f.fleet("key")
        f.env["BAILIFF_FLEET"] = "nats://127.0.0.1:1"
        for words, args in (("needs a command", ()), ("either --agent or a command", ("--agent", "x", "--", "true")), ("'memory=lots'", ("--needs", "memory=lots", "--", "true")),
                            ("--needs", ("--needs", "pool", "--", "true")), ("priority", ("--priority", "10", "--", "true")), ("URL#REF", ("--git", "https://x/y", "--", "true")),
                            ("--deadline", ("--deadline", "soon", "--", "true")), ("either --git or --dir", ("--git", "u#r", "--dir", ".", "--", "true"))):
            err = f.fleet("submit", *args, status=2).err.decode()
            assert words.split("'")[0] in err, (words, err)


def test_submitting_the_same_id_again_returns_the_same_task():
    with Server() as s:
        one = s.fleet("submit", "--id", "build-1", "--needs", "memory=1G,pool=ci", "--", "make", "-j4").text
        assert one == "build-1\n" == s.fleet("submit", "--id", "build-1", "--needs", "memory=1G,pool=ci", "--", "make", "-j4").text
        assert "another task" in s.fleet("submit", "--id", "build-1", "--", "make", status=1).err.decode()
        [task] = s.fleet("list", "--json").json
        assert (task["taskId"], task["state"], task["command"], task["submitter"]) == ("build-1", "queued", ["make", "-j4"], s.key), task
        assert s.show("build-1")["needs"] == {"memory": 1 << 30, "labels": {"pool": "ci"}}
        assert s.show("bui")["taskId"] == "build-1", "a unique beginning is enough"
        assert "no task" in s.fleet("show", "other", status=1).err.decode()


def test_a_queued_task_is_cancelled_and_retried():
    with Server() as s:
        task = s.fleet("submit", "--", "true").text.strip()
        assert s.fleet("wait", "--timeout", "100ms", task, status=124).err.decode()
        assert s.fleet("cancel", "--json", task).json == [{"taskId": task, "result": "cancelling"}]
        assert s.show(task)["state"] == "cancelled" and s.fleet("wait", task, status=130)
        assert s.fleet("cancel", "--json", task).json == [{"taskId": task, "result": "ended"}]
        assert s.fleet("list", "--json").json == [] and len(s.fleet("list", "-a", "--json").json) == 1
        assert s.fleet("retry", "--json", task).json == [{"taskId": task, "result": "queued"}]
        assert s.show(task)["state"] == "queued"
        assert "queued" in s.fleet("retry", task, status=1).err.decode()


def test_prune_keeps_tasks_whose_signature_is_still_valid():
    with Server() as s:
        task = s.fleet("submit", "--", "true").text.strip()
        s.fleet("cancel", task)
        assert s.fleet("prune", "--older-than", "0s", "--json").json == {"removed": 0, "left": 1}, "its signature is valid for a week"
        assert "--older-than" in s.fleet("prune", status=2).err.decode()


def test_items_become_tasks_of_a_job():
    with Server() as s:
        job = s.fleet("submit", "--items", "-", "--", "echo", "{item}", "of {index}", stdin=b"one\n\ntwo\n").text.strip()
        tasks = s.fleet("list", "--job", job, "--json").json
        assert [t["command"] for t in tasks] == [["echo", "one", "of 1"], ["echo", "two", "of 2"]] and {t["job"] for t in tasks} == {job}, tasks
        s.fleet("cancel", job)
        assert "2 cancelled" in s.fleet("wait", job, status=1).text
        assert "0 lines" in s.fleet("submit", "--items", "/dev/null", "--", "true", status=1).err.decode()


def test_a_workspace_is_stored_once():
    with Server() as s:
        subprocess.run(["git", "init", "-q", s.work], check=True, env=harness.environment(HOME=s.dir))
        for name, text in ((".gitignore", "*.o\n"), ("a.c", "int a;\n"), ("a.o", "object\n")):
            with open(os.path.join(s.work, name), "w") as f:
                f.write(text)
        first, second = (s.show(s.fleet("submit", "--dir", ".", "--", "make").text.strip()) for _ in range(2))
        assert first["bundle"] == second["bundle"] and first["bundleBytes"] == 512 * 4 + 1024, first
        os.truncate(os.path.join(s.work, "a.o"), 1 << 30)
        assert s.show(s.fleet("submit", "--dir", ".", "--", "make").text.strip())["bundle"] == first["bundle"], "ignored files do not matter"
        os.truncate(os.path.join(s.work, "a.c"), 1 << 30)
        assert "256 MiB" in s.fleet("submit", "--dir", ".", "--", "make", status=1).err.decode()


def test_ignored_files_are_not_sent_when_git_fails():
    """Such as in a folder of another user, which git refuses: what it ignores may be secret."""
    with Server() as s:
        subprocess.run(["git", "init", "-q", s.work], check=True, env=harness.environment())
        os.mkdir(os.path.join(s.work, "sub"))
        for name, text in ((".gitignore", ".env\n"), ("sub/.env", "secret\n"), ("sub/file", "text\n"), (".git/index", "damaged\n")):
            with open(os.path.join(s.work, name), "w") as f:
                f.write(text)
        for folder in (".", "sub"):
            err = s.fleet("submit", "--id", "sent", "--dir", folder, "--", "true", status=1).err.decode()
            assert "git work tree" in err and "ls-files" in err, err
        assert s.fleet("list", "--all", "--json").json == []
        os.unlink(os.path.join(s.work, ".git/index"))
        s.fleet("submit", "--dir", "sub", "--", "true")


def test_errors_are_json_with_json():
    with Server() as s:
        done = s.fleet("show", "--json", "none", status=1)
        assert not done.out and "no task" in json.loads(done.err)["error"]["message"], done


# ---- with nodes ----

def test_fleet_run_behaves_like_run():
    with Dev(nodes=2) as d:
        done = d.fleet("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7", status=7)
        assert (done.out, done.err) == (b"out\n", b"err\n"), (done.out, done.err)
        assert d.fleet("run", "--", "/nonexistent", status=127).err
        assert d.fleet("run", "--deadline", "300ms", "--", "sleep", "600", status=124)
        d.fleet("run", "--", "sh", "-c", "kill -9 $$", status=128 + 9)
        done = d.fleet("run", "--", "sh", "-c", 'test -n "$BAILIFF_FLEET_TOKEN" && head -c 3000000 /dev/zero')
        assert done.out == bytes(3000000), len(done.out)
        nodes = d.fleet("nodes", "--json").json
        assert [n["node"] for n in nodes] == ["dev-1", "dev-2"] and all(n["cpus"] >= 1 and n["memory"] > 1 << 20 for n in nodes), nodes
        ran = d.fleet("run", "--label", "node=dev-2", "--json", "--", "true").text.splitlines()
        task = json.loads(ran[-1])
        assert (task["node"], task["state"], task["exitCode"], task["attempt"]) == ("dev-2", "completed", 0, 1) and task["token"] > 0, task
        check_interrupt(d)
        check_characters(d)
        check_workspace(d)
        check_dependencies(d)
        check_job(d)
        check_strangers(d)


def check_interrupt(d):
    """Ctrl-C ends the command on its node."""
    run = d.start("run", "--id", "long", "--", "sh", "-c", "echo started; exec sleep 600")
    assert run.stdout.readline() == "started\n"
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=harness.PATIENCE)
    assert run.returncode == 130 and "cancelled" in err, (run.returncode, out, err)
    assert d.show("long")["state"] == "cancelled"
    follow = d.fleet("logs", "-f", "long")
    assert follow.text == "started\n", follow.text


def check_characters(d):
    """Output is read in pieces of a size that is even: each of them but the last ends within a character."""
    text = "x" + "é" * 400000
    task = d.fleet("submit", "--", "sh", "-c", "printf x; yes é | tr -d '\\n' | head -c 800000; printf '\\303'").text.strip()
    d.fleet("wait", task)
    assert d.fleet("logs", task).text == text + "\\xc3"
    pieces = [json.loads(line) for line in d.fleet("logs", "--json", task).text.splitlines()]
    assert len(pieces) > 2 and text.startswith("".join(p["text"] for p in pieces[:-1])), [list(p) for p in pieces]
    assert d.fleet("logs", "--raw", task).out == text.encode() + b"\xc3"


def check_workspace(d):
    """The files arrive as they are, and a --cow task's changes are read back from its node."""
    with open(os.path.join(d.work, "file"), "w") as f:
        f.write("one\n")
    os.makedirs(os.path.join(d.work, "sub"))
    with open(os.path.join(d.work, "sub/run.sh"), "w") as f:
        f.write("#!/bin/sh\ncat file; echo two >file\n")
    os.chmod(os.path.join(d.work, "sub/run.sh"), 0o755)
    task = d.fleet("submit", "--dir", ".", "--cow", "--", "sub/run.sh").text.strip()
    d.fleet("wait", task)
    assert d.fleet("logs", task).text == "one\n"
    diff = d.fleet("diff", task).text
    assert "-one\n+two\n" in diff, diff
    assert json.loads(d.fleet("diff", "--json", task).out)["diff"] == diff
    pack = os.path.join(d.dir, "pack")
    d.fleet("evidence", "-o", pack, task)
    assert harness.cli("replay", "--verify", pack, env=d.env).status == 0
    with open(os.path.join(d.work, "file")) as f:
        assert f.read() == "one\n"


def check_dependencies(d):
    first = d.fleet("submit", "--", "sh", "-c", "sleep 1; echo first").text.strip()
    second = d.fleet("submit", "--after", first, "--", "true").text.strip()
    d.fleet("wait", first, second)
    assert d.show(second)["startedAt"] > d.show(first)["startedAt"]
    bad = d.fleet("submit", "--", "false").text.strip()
    after = d.fleet("submit", "--after", bad, "--", "true").text.strip()
    d.fleet("wait", bad, after, status=1)
    assert d.show(after)["state"] == "failed" and bad in d.show(after)["reason"] and d.show(after)["attempt"] == 0, d.show(after)
    # It has no node to fetch evidence from: the file stays as it was.
    with open(os.path.join(d.dir, "kept"), "w") as f:
        f.write("before\n")
    d.fleet("evidence", "-o", f.name, after, status=1)
    with open(f.name) as f:
        assert f.read() == "before\n"
    assert [n for n in os.listdir(d.dir) if n.startswith("kept")] == ["kept"], os.listdir(d.dir)


def check_job(d):
    """One task per item, on any node; failures are listed, and retried by their job."""
    flag = os.path.join(d.dir, "flag")
    job = d.fleet("submit", "--items", "-", "--retries", "1", "--", "sh", "-c", "echo {item}; test {item} != three", stdin=b"one\ntwo\nthree\n").text.strip()
    said = d.fleet("wait", job, status=1).text
    assert "2 completed, 1 failed" in said and f"{job}-3 failed" in said, said
    assert d.fleet("logs", f"{job}-2").text == "two\n"
    failed = d.show(f"{job}-3")
    assert failed["attempt"] == 2 and len(failed["attempts"]) >= 1, failed
    d.fleet("retry", job)
    d.fleet("wait", job, status=1)
    assert d.show(f"{job}-3")["attempt"] == 3 and d.show(f"{job}-1")["attempt"] == 1
    assert not os.path.exists(flag)


def check_strangers(d):
    """A key that the nodes do not know runs nothing and reads nothing, although the server admits its connection."""
    task = d.fleet("submit", "--", "echo", "secret").text.strip()
    d.fleet("wait", task)
    other = os.path.join(d.dir, "other.key")
    d.fleet("key", other)
    stranger = {"BAILIFF_FLEET_KEY": other, "BAILIFF_FLEET_CREDS": d.env["BAILIFF_FLEET_KEY"]}
    refused = d.fleet("logs", task, env=stranger, status=1)
    assert not refused.out and b"submitter" in refused.err, refused.err
    mine = d.fleet("submit", "--", "echo", "mine", env=stranger).text.strip()
    until("it is rejected", lambda: d.show(mine)["state"] in ("queued", "failed"))
    assert d.fleet("wait", "--timeout", "2s", mine, env=stranger, status=None).status != 0
    assert d.show(mine)["attempt"] == 0, d.show(mine)


if __name__ == "__main__":
    harness.main(globals())
