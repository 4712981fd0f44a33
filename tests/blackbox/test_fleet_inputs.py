"""The inputs of fleet tasks: a git repository, a model's instructions."""

import json
import os
import shutil
import subprocess
import tempfile

import harness
from fleet import Server
from harness import Skip
from test_agent import call, model
from test_fleet import Node, state


class Repository:
    def __init__(self):
        if not shutil.which("git", path=harness.PATH):
            raise Skip("git is not installed")
        self.dir = tempfile.mkdtemp(prefix="fr-")

    def __enter__(self):
        self.git("init", "-q", "-b", "main")
        self.commit("one")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def git(self, *args):
        env = harness.environment(HOME=self.dir, GIT_CONFIG_NOSYSTEM="1")
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=self.dir, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self, text):
        with open(os.path.join(self.dir, "file"), "w") as f:
            f.write(text + "\n")
        self.git("add", "file")
        self.git("commit", "-qm", text)


def test_a_task_works_on_a_git_ref():
    with Repository() as r, Server() as s, Node(s, "n1", start=False) as n:
        with open(os.path.join(n.dir, "policy.json"), "w") as f:
            json.dump({"profiles": {"repository": {"extends": "workspace", "readRoots": [r.dir]}}}, f)
        n.start()
        r.git("tag", "first")
        r.commit("two")
        for task, ref, text in (("t1", "main", "two\n"), ("t2", "first", "one\n"), ("t3", r.git("rev-parse", "HEAD"), "two\n")):
            s.fleet("submit", "--id", task, "--profile", "repository", "--git", f"file://{r.dir}#{ref}", "--", "sh", "-c", "cat file; git log -1 --format=%s >&2; echo $# $1", "-", "it's one")
            done = state(s, task, "completed", "failed", "lost")
            assert (done["state"], s.fleet("logs", task).text) == ("completed", text + "1 it's one\n"), (done, s.fleet("logs", task).err)
        s.fleet("submit", "--id", "t4", "--profile", "repository", "--git", f"file://{r.dir}#missing", "--", "echo", "never")
        failed = state(s, "t4", "completed", "failed", "lost")
        logs = s.fleet("logs", "t4")
        assert failed["state"] == "failed" and failed["exitCode"] == 128 and "never" not in logs.text and b"missing" in logs.err, (failed, logs)


def test_an_agent_works_on_a_copy_of_a_folder():
    script = [{"text": "I look.", "calls": [call("shell", command="cat question")]}, {"calls": [call("write_file", path="answer", content="42\n")]}, {"text": "It is 42."}]
    with Server() as s, Node(s, "n1") as n, n.rpc() as rpc, model(n, rpc, script) as p:
        with open(os.path.join(s.work, "question"), "w") as f:
            f.write("six times seven\n")
        s.fleet("submit", "--id", "t1", "--dir", ".", "--agent", "answer the question")
        done = state(s, "t1", "completed", "failed", "lost", "cancelled")
        task = n.local("t1")[0]
        assert done["state"] == "completed", (done, task)
        assert "answer the question" in str(p.requests[0].body["messages"]) and "six times seven" in p.requests[1].results[0]["text"], [r.body for r in p.requests]
        with open(os.path.join(n.spaces, "n1", task["taskId"], "answer")) as f:
            assert f.read() == "42\n"
        assert "It is 42." in s.fleet("logs", "t1").text


if __name__ == "__main__":
    harness.main(globals())
