"""A raw client of an executor for Codex: `bailiff codex-exec-server`, or any other program that speaks the protocol."""

import base64
import json
import queue
import subprocess
import threading
import time

import harness

SYSTEM = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
PROJECT = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}


def uri(path):
    return "file://" + path


def live(rpc, session=None):
    return rpc.call("list_processes", liveOnly=True, **({"sessionId": session} if session else {}))["processes"]


def commands_of(events):
    """The starts of commands, without those of sandboxes."""
    return [e for e in events if e["type"] == "process.started" and "owner" not in e["payload"]]


def entry(path, access, **more):
    return dict({"path": {"type": "path", "path": uri(path)}, "access": access}, **more)


def special(kind, access, **more):
    return {"path": {"type": "special", "value": dict({"kind": kind}, **more)}, "access": access}


def intent(cwd, *entries, network="restricted", **more):
    """The member `sandbox` of requests: the system to read, and these."""
    return dict({"permissions": {"type": "managed", "file_system": {"type": "restricted", "entries": [SYSTEM, *entries]}, "network": network},
                 "cwd": uri(cwd), "workspaceRoots": [uri(cwd)], "windowsSandboxLevel": "disabled", "useLegacyLandlock": False}, **more)


def workspace_write(cwd, temporary=("slash_tmp", "tmpdir")):
    """What Codex sends for -s workspace-write."""
    kept = [dict(special("project_roots", "read", subpath=name), missing_path_behavior="skip") for name in (".git", ".agents", ".codex")]
    return intent(cwd, PROJECT, *(special(kind, "write") for kind in temporary), *kept)


class CodexError(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code, self.message = error["code"], error["message"]


class Codex:
    def __init__(self, home, *options, argv=None, cwd=None, env=None):
        self.cwd, self.ours = cwd or home.work, not argv
        self.process = subprocess.Popen(argv or [harness.CLI, "codex-exec-server", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, cwd=self.cwd, env=env or harness.environment(BAILIFF_HOME=home.dir))
        self.lines, self.next_id, self.replies, self.notes, self.odd = queue.Queue(), 0, {}, [], []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        return self.process.wait(harness.PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait(harness.PATIENCE)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method, params=None):
        self.raw(json.dumps({"method": method, "params": params or {}}).encode() + b"\n")

    def send(self, method, params=None, **more):
        self.next_id += 1
        message = dict({"id": self.next_id, "method": method}, **more)
        if params is not None:
            message["params"] = params
        self.raw(json.dumps(message).encode() + b"\n")
        return self.next_id

    def until(self, what, condition, patience=harness.PATIENCE):
        end = time.monotonic() + patience
        while True:
            value = condition()
            if value is not None and value is not False:
                return value
            try:
                message = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"waited {patience:.0f} s without success: {what}") from None
            assert message is not None, f"the executor has gone before: {what}"
            assert "jsonrpc" not in message, message
            if "method" in message:
                self.notes.append(message)
            elif message.get("id") in (None, -1):
                self.odd.append(message)
            else:
                self.replies[message["id"]] = message

    def reply(self, request, patience=harness.PATIENCE):
        answer = self.until(f"the answer to {request}", lambda: self.replies.pop(request, None), patience)
        if "error" in answer:
            raise CodexError(answer["error"])
        return answer["result"]

    def call(self, method, params=None, **more):
        return self.reply(self.send(method, params, **more))

    def fails(self, method, params=None, code=None):
        try:
            result = self.call(method, params)
        except CodexError as e:
            assert code is None or e.code == code, e
            return e
        raise AssertionError(f"{method} succeeded: {result}")

    def hello(self, **more):
        result = self.call("initialize", dict({"clientName": "test", "resumeSessionId": None}, **more))
        self.tell("initialized")
        return result

    # ---- processes ----

    def start(self, name, *argv, **more):
        cwd = more.pop("cwd", self.cwd)
        params = dict({"processId": name, "argv": list(argv), "cwd": uri(cwd), "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "pipeStdin": False,
                       "arg0": None, "sandbox": None}, **more)
        return self.call("process/start", params)

    def shell(self, name, line, **more):
        return self.start(name, "/bin/sh", "-c", line, **more)

    def about(self, name):
        return [n for n in self.notes if n["params"].get("processId") == name]

    def output(self, name):
        return b"".join(base64.b64decode(n["params"]["chunk"]) for n in self.about(name) if n["method"] == "process/output")

    def wrote(self, name, text):
        return self.until(f"{name} prints {text}", lambda: text in self.output(name) or None)

    def ended(self, name):
        """What it printed, and the notification of its exit."""
        last = {"process/closed"} if self.ours else {"process/closed", "process/exited"}
        self.until(f"{name} ends", lambda: last <= {n["method"] for n in self.about(name)} or None)
        notes = self.about(name)
        if not self.ours:   # Codex's own executor sends outputs and the end as they occur, in any order of their numbers
            notes.sort(key=lambda n: n["params"]["seq"])
        assert [n["params"]["seq"] for n in notes] == list(range(notes[0]["params"]["seq"], notes[0]["params"]["seq"] + len(notes))), notes
        exits = [n["params"] for n in notes if n["method"] == "process/exited"]
        assert len(exits) == 1 and notes[-1]["method"] == "process/closed", notes
        return self.output(name), exits[0]

    def run(self, name, line, **more):
        self.shell(name, line, **more)
        return self.ended(name)

    def write(self, name, data, write_id="1"):
        return self.call("process/write", {"processId": name, "chunk": base64.b64encode(data).decode(), "writeId": write_id})["status"]

    def fs(self, method, sandbox=None, **params):
        return self.call("fs/" + method, dict(params, sandbox=sandbox))
