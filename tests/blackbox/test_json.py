"""--json of every verb: documented in docs/json.md, and exactly what is documented there."""

import json
import os
import re
import subprocess

import harness
from harness import until

DOC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "json.md")
# Verbs without --json, and why.
EXCEPTIONS = {
    "export": "its output is the document itself", "replay": "plays a recording in this terminal", "mcp": "speaks a protocol", "acp": "speaks a protocol",
    "codex-exec-server": "speaks a protocol", "serve": "a server", "console": "opens a page, or prints its address", "setup": "prints a client's own file",
    "completion": "prints scripts for shells", "help": "text for people"}
TYPES = {"string": str, "number": (int, float), "integer": int, "bool": bool, "object": dict, "array": list}


def documented():
    """Shape → {field: (type, optional)}, and verb → shape."""
    shapes, verbs, shape = {}, {}, None
    with open(DOC, encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                shape = None
            title = re.match(r"### (.*?): (`.*)", line)
            if title:
                shape = shapes.setdefault(title[1], {})
                for verb in re.findall(r"`([^`]*)`", title[2]):
                    verbs[verb] = title[1]
            row = re.match(r"\| `([^`]*)` \| ([a-z]+)(\??) \|", line)
            if row and shape is not None:
                shape[row[1]] = (row[2], bool(row[3]))
    return shapes, verbs


def verbs_with_json(home):
    names = re.findall(r"^  (\S+) +\S", home.cli("help").text, re.M)
    return {name: "--json" in home.cli("help", name).text for name in names}


def problems(shape, fields, value):
    found = [f"{shape}: '{name}' is not documented ({json.dumps(value[name])[:80]})" for name in value if name not in fields]
    for name, (kind, optional) in fields.items():
        if name not in value:
            found += [] if optional else [f"{shape}: '{name}' is missing"]
        elif kind != "any" and (not isinstance(value[name], TYPES[kind]) or (kind in ("integer", "number") and isinstance(value[name], bool))):
            found.append(f"{shape}: '{name}' is {json.dumps(value[name])[:80]}, not {kind}")
    return found


def values(text):
    """The objects of an output: one, an array of them, or one per line."""
    whole = text.strip()
    if whole.startswith("["):
        return json.loads(whole)
    return [json.loads(line) for line in whole.splitlines()]


def outputs(home):
    """(verb, output) of every verb that needs no model, peer or console."""
    cli = lambda *args, **more: home.cli(*args, **more).text
    yield "run", cli("run", "--json", "--", "echo", "hello")
    process = cli("run", "-d", "--", "sh", "-c", "echo out; echo err >&2; printf '\\377\\n'").strip()
    for verb in ("wait", "logs"):
        yield verb, cli(verb, "--json", process)
    yield "logs", cli("logs", "--json", "-f", "--stream", "stdout", process)
    yield "ps", cli("ps", "-a", "--json")
    yield "history", cli("history", "--json")
    yield "events", cli("events", "--json", "--process", process)
    live = cli("run", "-d", "-t", "-i", "--", "cat").strip()
    yield "top", cli("top", "--json")
    yield "input", cli("input", "--json", live, "text")
    yield "input wait", cli("input", "--json", "--wait", "more", live, "more")
    yield "resize", cli("resize", "--json", live, "30x90")
    yield "screen", cli("screen", "--json", live)
    watcher = subprocess.Popen([harness.CLI, "attach", "--json", live], cwd=home.work, env=harness.environment(BAILIFF_HOME=home.dir),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    with home.rpc() as rpc:
        until("it is attached", lambda: rpc.call("get_health")["subscriptions"] >= 1)
        rpc.call("write_process_stdin", processId=live, data="x\n")
    lines = [watcher.stdout.readline()]
    yield "kill", cli("kill", "--json", live)
    yield "attach", lines[0] + watcher.communicate()[0]
    sandbox = cli("sandbox", "create", "--cow", "--name", "box").strip()
    yield "exec", cli("exec", "--json", "box", "--", "sh", "-c", "echo new >new")
    with open(os.path.join(home.dir, "file"), "w") as f:
        f.write("content\n")
    yield "cp", cli("cp", "--json", os.path.join(home.dir, "file"), "box:/tmp/file")
    yield "publish", cli("publish", "--json", "box", "0:8000")
    yield "ports", cli("ports", "--json")
    yield "unpublish", cli("unpublish", "--json", "box", "8000")
    yield "sandbox list", cli("sandbox", "list", "--json")
    cli("sandbox", "close", "box")
    for verb in ("diff", "apply", "undo"):
        yield verb, cli(verb, "--json", sandbox)
    cli("run", "--cow", "--", "touch", "left")
    yield "discard", cli("discard", "--json", "@last")
    yield "version", cli("version", "--json")
    yield "doctor", home.cli("doctor", "--json", status=None).text
    yield "daemon", cli("daemon", "status", "--json")
    yield "store verify", cli("store", "verify", "--json")
    yield "store stats", cli("store", "stats", "--json")
    yield "session list", cli("session", "list", "--json")
    with open(os.path.join(home.work, "ci.json"), "w") as f:
        json.dump({"name": "ci", "steps": [{"name": "one", "command": ["true"]}]}, f)
    yield "pipeline", cli("pipeline", "--json", "ci.json")


def test_every_verb_has_json_output_or_a_reason(home):
    shapes, verbs = documented()
    listed = verbs_with_json(home)
    assert {v for v, has in listed.items() if not has} == set(EXCEPTIONS), listed
    with open(DOC, encoding="utf-8") as f:
        replies = set(re.findall(r"^\| `([^`]*)` \|", f.read().split("## Replies of the daemon")[1], re.M))
    assert {v.split()[0] for v in verbs} | replies == {v for v, has in listed.items() if has}, "docs/json.md documents each verb that has --json"


def test_fields_match_the_documentation(home):
    shapes, verbs = documented()
    found = []
    for verb, text in outputs(home):
        shape = verbs.get(verb, verb)
        objects = values(text)
        if not objects:
            found.append(f"{verb}: nothing was printed")
        for value in objects:
            found += problems(f"{verb} ({shape})", shapes.get(shape, {}), value)
    assert not found, "\n".join(sorted(set(found)))


def test_json_errors_are_one_object_on_stderr(home):
    for args in (("wait", "--json", "proc_none"), ("kill", "--json", "nothing"), ("ps", "--json", "--wrong"), ("diff", "--json", "proc_none"),
                 ("run", "--json", "--cwd", "/nonexistent", "--", "true"), ("task", "show", "--json", "task_none"), ("call", "--json", "no_method")):
        done = home.cli(*args, status=None)
        assert done.status != 0 and not done.out, (args, done)
        error = json.loads(done.err)["error"]
        assert error["message"] and set(error) <= {"code", "reason", "message", "hint", "more"}, (args, error)


if __name__ == "__main__":
    harness.main(globals())
