"""`bailiff fleet`: what a person sees. The first part needs only a server: nothing takes the tasks."""

import json
import os
import signal
import subprocess

import harness
from fleet import Dev, Fleet, Server
from harness import until


# ---- without nodes ----

def test_a_key_is_made_once_and_stays_private():
    with Fleet() as f:
        key = f.fleet("key").text.strip()
        path = os.path.join(f.dir, ".config/bailiff/fleet.key")
        assert len(key) == 56 and key[0] == "U" and os.stat(path).st_mode & 0o777 == 0o600, key
        assert f.fleet("key", "--json").json == {"key": key, "file": path}
        assert f.fleet("key", "--force").text.strip() != key
        os.chmod(path, 0o644)
        assert "chmod 600" in f.fleet("key", status=1).err.decode()


def test_what_is_missing_is_named():
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


def test_submitting_again_with_the_same_id_is_the_same_task():
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


def test_items_are_a_job():
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


def test_errors_are_json_with_json():
    with Server() as s:
        done = s.fleet("show", "--json", "none", status=1)
        assert not done.out and "no task" in json.loads(done.err)["error"]["message"], done


if __name__ == "__main__":
    harness.main(globals())
