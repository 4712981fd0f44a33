"""The real Codex (from npm; skipped where it cannot be had): its own executor compared with ours, and `codex exec` with a model that is a script."""

import base64
import http.server
import json
import os
import platform
import re
import subprocess
import tempfile
import threading

import harness
import npm
from codex import Codex, CodexError, PROJECT, entry, intent, uri, workspace_write

TARGET = {"aarch64": ("arm64", "aarch64"), "x86_64": ("x64", "x86_64")}.get(platform.machine())


def program():
    if not TARGET:
        raise harness.Skip(f"there is no Codex for {platform.machine()}")
    path = os.path.join(npm.packages("codex"), "node_modules", "@openai", "codex-linux-" + TARGET[0], "vendor", TARGET[1] + "-unknown-linux-musl", "bin", "codex")
    if not os.access(path, os.X_OK):
        raise harness.Skip("the package has no program for this machine")
    return path


def environment(home, **more):
    codex_home = os.path.join(home.dir, "codex")
    os.makedirs(codex_home, exist_ok=True)
    return harness.environment(BAILIFF_HOME=home.dir, CODEX_HOME=codex_home, **more)


# ---- two executors, the same requests ----

def answer(c, method, params):
    try:
        return c.call(method, params)
    except CodexError as e:
        return {"error": e.code, "os": re.findall(r"\(os error \d+\)", e.message)}


def plain(value, folder):
    """The observations that must be equal for both."""
    text = json.dumps(value, sort_keys=True).replace(folder, "/DIR")
    value = json.loads(text)
    if isinstance(value, dict):
        for name in ("createdAtMs", "modifiedAtMs", "sandboxType"):
            value.pop(name, None)
        for name in ("entries",):
            if name in value:
                value[name] = sorted(value[name], key=lambda e: json.dumps(e, sort_keys=True))
    return value


def both(home):
    """Our executor and Codex's, each in a folder of its own that looks the same."""
    found = []
    for name, argv in (("ours", None), ("theirs", [program(), "exec-server", "--listen", "stdio"])):
        folder = os.path.join(os.path.realpath(home.work), name)
        os.makedirs(os.path.join(folder, "tree", "deep"))
        for path, data in (("file", b"hi"), ("tree/a", b"a"), ("tree/deep/b", b"b")):
            with open(os.path.join(folder, path), "wb") as f:
                f.write(data)
        os.symlink("file", os.path.join(folder, "link"))
        os.symlink("nowhere", os.path.join(folder, "dangling"))
        os.mkfifo(os.path.join(folder, "fifo"))
        c = Codex(home, argv=argv, cwd=folder, env=environment(home))
        c.hello()
        found.append((c, folder))
    return found


FILES = [
    ("readFile", {"path": "/file"}), ("readFile", {"path": "/none"}), ("readFile", {"path": "/tree"}), ("readFile", {"path": "/fifo"}),
    ("readFile", {"path": "/link"}), ("writeFile", {"path": "/new/x", "dataBase64": "aGk="}), ("writeFile", {"path": "/tree", "dataBase64": "aGk="}),
    ("writeFile", {"path": "/x", "dataBase64": "!"}), ("writeFile", {"path": "/x", "dataBase64": "aGk="}), ("readFile", {"path": "/x"}),
    ("createDirectory", {"path": "/p/q", "recursive": False}), ("createDirectory", {"path": "/p/q", "recursive": True}),
    ("createDirectory", {"path": "/p/q", "recursive": False}), ("createDirectory", {"path": "/p/q"}), ("createDirectory", {"path": "/file", "recursive": True}),
    *[(m, {"path": p}) for m in ("getMetadata", "canonicalize") for p in ("/file", "/tree", "/link", "/dangling", "/none", "/tree/../file")],
    ("getMetadata", {"path": "/link", "followSymlinks": False}), ("getMetadata", {"path": "/file", "followSymlinks": False}), ("getMetadata", {}),
    ("readDirectory", {"path": "/tree"}), ("readDirectory", {"path": ""}), ("readDirectory", {"path": "/file"}), ("readDirectory", {"path": "/none"}),
    *[("walk", {"path": p, "options": dict({"maxDepth": 5, "maxDirectories": 9, "maxEntries": 99, "followDirectorySymlinks": f}, **o)})
      for p, f, o in (("/tree", False, {}), ("/tree", True, {"maxDepth": 0}), ("", False, {}), ("/file", False, {}), ("/none", False, {}), ("", False, {"maxEntries": 1}))],
    ("walk", {"path": "/tree", "options": {}}),
    ("copy", {"sourcePath": "/file", "destinationPath": "/copy", "recursive": False}), ("readFile", {"path": "/copy"}),
    ("copy", {"sourcePath": "/tree", "destinationPath": "/t2", "recursive": False}), ("copy", {"sourcePath": "/tree", "destinationPath": "/t2", "recursive": True}),
    ("copy", {"sourcePath": "/tree", "destinationPath": "/tree/in", "recursive": True}), ("copy", {"sourcePath": "/none", "destinationPath": "/n", "recursive": True}),
    ("copy", {"sourcePath": "/fifo", "destinationPath": "/n", "recursive": True}), ("copy", {"sourcePath": "/file", "destinationPath": "/tree", "recursive": True}),
    ("copy", {"sourcePath": "/file", "destinationPath": "/no/way", "recursive": True}), ("copy", {"sourcePath": "/dangling", "destinationPath": "/d2", "recursive": True}),
    ("readFile", {"path": "/t2/deep/b"}),
    ("open", {"path": "/file", "handleId": "h"}), ("open", {"path": "/file", "handleId": "h"}), ("open", {"path": "/none", "handleId": "i"}),
    ("open", {"path": "/file", "handleId": "h" * 33}), ("readBlock", {"handleId": "h", "offset": 0, "len": 1}), ("readBlock", {"handleId": "h", "offset": 0, "len": 2}),
    ("readBlock", {"handleId": "h", "offset": 1, "len": 9}), ("readBlock", {"handleId": "h", "offset": 9, "len": 9}), ("readBlock", {"handleId": "h", "offset": 0, "len": 0}),
    ("readBlock", {"handleId": "h", "offset": 0, "len": 1 << 21}), ("close", {"handleId": "h"}), ("close", {"handleId": "h"}),
    ("readBlock", {"handleId": "h", "offset": 0, "len": 1}),
    ("remove", {"path": "/tree", "recursive": False, "force": False}), ("remove", {"path": "/none", "recursive": False, "force": False}),
    ("remove", {"path": "/none", "recursive": False, "force": True}), ("remove", {"path": "/link"}), ("remove", {"path": "/tree"}), ("readDirectory", {"path": ""}),
]


def test_file_methods_answer_as_codexs_own(home):
    pair = both(home)
    for method, params in FILES:
        answers = []
        for c, folder in pair:
            given = {k: uri(folder + v) if k in ("path", "sourcePath", "destinationPath") else v for k, v in params.items()}
            answers.append(plain(answer(c, "fs/" + method, dict(given, sandbox=None)), folder))
        assert answers[0] == answers[1], (method, params, *answers)
    for c, _ in pair:
        c.close()


def test_process_methods_answer_as_codexs_own(home):
    policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
    starts = [
        ("exit", {"argv": ["sh", "-c", "exit 3"]}), ("killed", {"argv": ["sh", "-c", "kill -9 $$"]}), ("empty", {"argv": []}), ("none", {"argv": ["/no/such"]}),
        ("cwd", {"argv": ["true"], "cwd": "/none"}), ("again", {"argv": ["true"]}), ("again", {"argv": ["true"]}), ("noenv", {"argv": ["true"], "env": None}),
        ("arg0", {"argv": ["sh", "-c", "echo $0"], "arg0": "other"}), ("left", {"argv": ["sh", "-c", "sleep 1 & echo x"]}), ("tty", {"argv": ["stty", "size"], "tty": True}),
        ("bad", {"argv": ["true"], "envPolicy": dict(policy, inherit="some")}), ("both", {"argv": ["sh", "-c", "echo a; echo b >&2"]}),
        *[(f"env{i}", {"argv": ["/usr/bin/env"], "envPolicy": dict(policy, **p), "env": {"LAST": "1"}}) for i, p in enumerate((
            {}, {"inherit": "core"}, {"inherit": "none"}, {"ignoreDefaultExcludes": False}, {"exclude": ["*own", "pa?h"]}, {"set": {"A": "b"}, "includeOnly": ["A", "l*"]}))],
    ]
    found = []
    for name, argv in (("ours", None), ("theirs", [program(), "exec-server", "--listen", "stdio"])):
        env = environment(home, MY_TOKEN="1", UNKNOWN="2", LC_ALL="C.UTF-8")
        with Codex(home, argv=argv, env=env) as c:
            c.hello()
            got = []
            for process, change in starts:
                params = dict({"processId": process, "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "arg0": None}, **change)
                params["cwd"] = uri(home.work + change.get("cwd", ""))
                result = answer(c, "process/start", params)
                got.append((process, plain(result, home.work)))
                if "error" not in result:
                    output, end = c.ended(process)
                    output = re.sub(rb"=/[^:=]*/codex-path:", b"=", output)      # Codex puts the directory of its own tools first
                    got.append((process, sorted(output.split(b"\n")), end["exitCode"], end["sandboxDenied"]))
                    more = c.call("process/read", {"processId": process})
                    got.append((more["exited"], more["closed"], more["exitCode"], more["failure"],
                                len(b"".join(base64.b64decode(k["chunk"]) for k in more["chunks"])) == len(c.output(process))))
            c.start("live", "sh", "-c", "trap '' TERM; echo ready; cat", pipeStdin=True)
            c.wrote("live", b"ready")
            for method, params in (
                    ("write", {"processId": "live", "chunk": "aGkK", "writeId": "1"}), ("write", {"processId": "live", "chunk": "", "writeId": "2"}),
                    ("write", {"processId": "nobody", "chunk": "aGkK", "writeId": "1"}), ("write", {"processId": "exit", "chunk": "aGkK", "writeId": "1"}),
                    ("write", {"processId": "live", "chunk": "?", "writeId": "1"}), ("read", {"processId": "nobody"}), ("signal", {"processId": "nobody", "signal": "interrupt"}),
                    ("signal", {"processId": "live", "signal": "kill"}), ("terminate", {"processId": "nobody"}), ("terminate", {"processId": "live"}), ("resize", {})):
                got.append((method, answer(c, "process/" + method, params)))
            got.append(c.ended("live")[1]["exitCode"])
            got.append(answer(c, "process/terminate", {"processId": "live"}))
            found.append(got)
    for ours, theirs in zip(*found):
        assert ours == theirs, (ours, theirs)


def test_sandbox_never_allows_more_than_codexs_own(home):
    """Everything that Codex's own sandbox denies under an intent, ours denies, too."""
    here = os.path.realpath(home.work)
    for name in (".git", "a", "b/in"):
        os.makedirs(os.path.join(here, name))
    with open(os.path.join(here, "b", "x.env"), "w") as f:
        f.write("s")
    glob = {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"}
    # Never /tmp: Codex's own sandbox makes a .git in each folder that may be written, for as long as a command runs, and every other
    # test's folder would be a part of that "repository".
    intents = [workspace_write(here, temporary=()), intent(here), intent(here, PROJECT, entry(here + "/a", "read")), intent(here, PROJECT, entry(here + "/b", "deny")),
               intent(here, PROJECT, glob), intent(here, entry(here + "/a", "write")), intent(here, PROJECT, entry(here + "/b", "read"), entry(here + "/b/in", "write")),
               intent(here, PROJECT, entry(here + "/new", "read", missing_path_behavior="skip")),
               intent(here, PROJECT, entry(here + "/b", "deny"), entry(here + "/b/x.env", "read"))]
    lines = ["touch f", "touch a/f", "touch b/f", "touch b/in/f", "touch .git/f", "mkdir new", "mkdir .codex", "cat b/x.env", "touch /var/lib/bailiff-test"]
    # Codex creates programs there and rejects a folder for temporary files.
    with tempfile.TemporaryDirectory(prefix="bl-codex-", dir="/var/tmp") as own, Codex(home) as ours, \
            Codex(home, argv=[program(), "exec-server", "--listen", "stdio"], env=dict(environment(home), CODEX_HOME=own, TMPDIR="/tmp")) as theirs:
        ours.hello()
        theirs.hello()
        works = theirs.shell("try", "true", sandbox=intent(here))
        if works.get("sandboxType") != "linuxSeccomp" or theirs.ended("try")[1]["exitCode"] != 0:
            raise harness.Skip("Codex's own sandbox does not work here")
        refused = 0
        for i, sandbox in enumerate(intents):
            for k, line in enumerate(lines):
                name = f"{i}.{k}"
                clean = "rm -rf f a/f b/f b/in/f .git/f new .codex"
                subprocess.run(clean, shell=True, cwd=here, check=True)
                status = theirs.run(name, line, sandbox=sandbox)[1]["exitCode"]
                subprocess.run(clean, shell=True, cwd=here, check=True)
                mine = ours.run(name, line, sandbox=sandbox)[1]["exitCode"]
                assert status == 0 or mine != 0, (sandbox["permissions"]["file_system"]["entries"], line)
                refused += status != 0
        assert refused > 20, refused


# ---- codex exec ----

class Model(http.server.ThreadingHTTPServer):
    """The Responses API as far as Codex asks for it: each request gets the next turn of the script."""

    def __init__(self, *turns):
        super().__init__(("127.0.0.1", 0), Handler)
        self.turns, self.requests = list(turns), []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def results(self):
        """What the tools answered, by call."""
        return {i["call_id"]: i["output"] if isinstance(i["output"], str) else json.dumps(i["output"])
                for i in self.requests[-1]["input"] if "output" in i}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        number = len(self.server.requests)
        done = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        item = self.server.turns.pop(0) if self.server.turns else done
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None, "total_tokens": 2}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in ({"type": "response.created", "response": {"id": f"r{number}"}}, {"type": "response.output_item.done", "item": item},
                      {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}}):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def command(call, line, **more):
    return {"type": "function_call", "name": "exec_command", "call_id": call, "arguments": json.dumps(dict({"cmd": line, "yield_time_ms": 30000}, **more))}


def patch(call, text):
    return {"type": "custom_tool_call", "name": "apply_patch", "call_id": call, "input": f"*** Begin Patch\n{text}\n*** End Patch"}


def codex_exec(home, model, mode):
    codex = program()
    env = environment(home)
    with open(os.path.join(env["CODEX_HOME"], "config.toml"), "w") as f:
        f.write(f'model = "gpt-5.5"\nmodel_provider = "script"\n[model_providers.script]\nname = "script"\nbase_url = "http://127.0.0.1:{model.server_port}/v1"\n'
                'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n')
    home.cli("setup", "codex", "--write", env={"CODEX_HOME": env["CODEX_HOME"]})
    done = subprocess.run([codex, "exec", "--skip-git-repo-check", "-C", home.work, "-s", mode, "--json", "go on"], cwd=home.work, env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0 and model.requests, done.stderr.decode("utf-8", "replace")[-2000:] + done.stdout.decode("utf-8", "replace")[-2000:]
    return model.results()


def test_codex_exec_runs_commands_and_patches_through_bailiff(home):
    with Model(command("call_a", "echo hello from $PWD; grep Seccomp: /proc/self/status"), patch("call_b", "*** Add File: sub/new.txt\n+first"),
               patch("call_c", "*** Update File: sub/new.txt\n@@\n-first\n+second"), command("call_d", "cat sub/new.txt; echo no > /etc/bailiff-test")) as model, home.rpc() as rpc:
        results = codex_exec(home, model, "workspace-write")
        assert f"hello from {os.path.realpath(home.work)}" in results["call_a"] and "Seccomp:\t2" in results["call_a"], results
        assert "sub/new.txt" in results["call_b"] and "Success" in results["call_c"], results
        assert "second" in results["call_d"] and "Read-only file system" in results["call_d"] and "exited with code" in results["call_d"], results
        with open(os.path.join(home.work, "sub", "new.txt")) as f:
            assert f.read() == "second\n"
        events = rpc.events()
        commands = {e["toolCallId"]: e for e in events if e["type"] == "process.started" and e.get("toolCallId", "").startswith("call_")}
        assert set(commands) == {"call_a", "call_d"}, commands
        for e in commands.values():
            applied = [s["sandboxProfile"] for s in events if s["type"] == "sandbox.applied" and s["processId"] == e["processId"]]
            assert applied[0]["mode"] == "workspace" and applied[0]["network"] == "none" and applied[0]["writeRoots"] == [os.path.realpath(home.work)], applied
            layers = [s["payload"] for s in events if s["type"] == "sandbox.applied" and s["processId"] == e["processId"]][0]["layers"]
            assert all(layers[name] == "enforced" for name in ("namespaces", "mounts", "seccomp")), layers
        writes = [e["payload"]["command"] for e in events if e["type"] == "process.started" and "fs" in e["payload"]["command"][1:2]]
        assert any(w[2] == "write" and w[-1].endswith("sub/new.txt") for w in writes), writes
        assert rpc.call("list_processes", liveOnly=True)["processes"] == []


def test_codex_exec_in_read_only_mode_cannot_write(home):
    with Model(command("call_a", "touch file || echo refused"), command("call_b", "cat", tty=True, yield_time_ms=300)) as model, home.rpc() as rpc:
        results = codex_exec(home, model, "read-only")
        assert "refused" in results["call_a"] and not os.path.exists(os.path.join(home.work, "file")), results
        assert "Process running with session ID" in results["call_b"], results
        harness.until("nothing runs when Codex has gone", lambda: not rpc.call("list_processes", liveOnly=True)["processes"])


def test_codex_exec_with_full_access_is_limited_by_policy(home):
    with Model(command("call_a", "touch file && echo made; touch /etc/bailiff-test || echo refused")) as model:
        results = codex_exec(home, model, "danger-full-access")
        assert "made" in results["call_a"] and "refused" in results["call_a"] and os.path.exists(os.path.join(home.work, "file")), results


if __name__ == "__main__":
    harness.main(globals())
