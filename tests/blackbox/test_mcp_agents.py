"""How released agents use an MCP server: which tools their search finds, and what they show to a model and to their user."""

import json
import os
import subprocess

import harness
from harness import Home, until
from http_client import Serve
from mcp import Mcp, text_of
from mcp_clients import Raw, links_of

ERAS = (False, True)


def put(home, name, text):
    with open(os.path.join(home.work, name), "w") as f:
        f.write(text)


def test_the_list_of_tools_is_short_and_has_the_words_that_models_search_for(home):
    for modern in ERAS:
        with Raw(home, modern, plain=True) as mcp:
            tools = mcp.tools()
            size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
            assert size <= 8192, {t["name"]: len(json.dumps(t, separators=(",", ":"))) for t in tools}
            for search in ("run shell command", "bash", "terminal", "execute command", "read file", "edit file", "write file", "kill process"):
                said = {t["name"]: f'{t["name"]} {t["title"]} {t["description"]}'.lower() for t in tools}
                found = [name for name, words in said.items() if all(w in words or w[:4] in name for w in search.split())]
                assert found, search
                if search in ("run shell command", "bash", "terminal"):
                    assert "exec" in found, (search, found)


def test_results_are_plain_text_by_default(home):
    """Many clients hand a model the structured content instead of the text, as escaped JSON."""
    put(home, "text", "one\n")
    with open(os.path.join(home.work, "bytes"), "wb") as f:
        f.write(b"\0\xff" * 300)
    for modern in ERAS:
        with Raw(home, modern, plain=True) as mcp:
            mcp.learn()
            result = mcp.call("exec", command="echo 'a \"quoted\" line'")
            assert [c["type"] for c in result["content"]] == ["text"] and text_of(result).startswith('a "quoted" line\n'), result
            result = mcp.call("exec", error=True, command="echo no >&2; exit 3")
            assert [c["type"] for c in result["content"]] == ["text"] and "Exit code 3" in text_of(result), result
            result = mcp.call("exec", command="seq 100000", maxOutputBytes=1000)
            assert list(links_of(result)) == ["stdout"] and "read_output with" in text_of(result), result
            assert mcp.call("read_file", path="text")["content"] == [{"type": "text", "text": "one\n"}]
            assert 'with encoding: "base64"' in mcp.tell("read_file", path="bytes")[1] and "AP8A" in mcp.tell("read_file", path="bytes", encoding="base64")[1]
            process = mcp.tell("exec", command="sleep 1000", background=True)[1].split("Still running as ")[1].split(".")[0]
            assert process in mcp.tell("ps")[1]
            for tool, arguments in (("kill", {"processId": process}), ("wait", {"processId": process}), ("read_output", {"processId": process})):
                mcp.call(tool, error=None, **arguments)
    with Raw(home, plain=True) as mcp:
        made = mcp.request("tools/call", name="exec", arguments={"command": "echo task"}, task={"ttl": 60000})["task"]
        result = mcp.request("tasks/result", taskId=made["taskId"])
        assert "structuredContent" not in result and text_of(result).startswith("task\n"), result
    with Raw(home, plain=True) as other, Raw(home) as structured:
        assert "structuredContent" not in other.request("tasks/result", taskId=made["taskId"]), "another gateway recalls it"
        assert structured.request("tasks/result", taskId=made["taskId"])["structuredContent"]["stdout"] == "task\n", "and one with --structured sends it"


# ---- questions ----

def asking():
    home = Home(start=False)
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump({"permissions": {"ask": ["Bash(touch:*)"]}}, f)
    os.mkdir(os.path.join(home.work, ".git"))
    home.start()
    return home


def test_accept_means_what_the_user_sees():
    """No choice is preselected; if a client takes the first one automatically, it is the one that its Accept button means."""
    with asking() as home, home.rpc() as rpc:
        for modern in ERAS:
            with Raw(home, modern, plain=True, answer=lambda q: {"action": "accept", "content": {"decision": "allow_once"}}) as mcp:
                mcp.call("exec", command="touch made; echo yes", cow=True)
                choice = mcp.asked[-1]["requestedSchema"]
                assert choice["required"] == ["decision"] and "default" not in choice["properties"]["decision"], choice
                assert choice["properties"]["decision"]["enum"][0] == "allow_once" and choice["properties"]["decision"]["enum"][-1] == "deny", choice
                process = next(p["processId"] for p in rpc.call("list_processes")["processes"])
                mcp.answer = lambda q: {"action": "accept", "content": {"decision": "apply"}}
                mcp.call("changes", processId=process, action="apply")
                choice = mcp.asked[-1]["requestedSchema"]
                assert choice["required"] == ["decision"] and "default" not in choice["properties"]["decision"], choice
                assert choice["properties"]["decision"]["enum"][0] == "apply", choice
        # Accept without a choice is neither a yes nor a no.
        with Mcp(home) as mcp:
            mcp.initialize(elicitation={})
            call = mcp.send("tools/call", name="exec", arguments={"command": "touch unmade"})
            mcp.answer(mcp.request(), {"action": "accept", "content": {}})
            text = text_of(mcp.reply(call))
            action, = [a["actionId"] for a in rpc.call("list_actions", status="pending")["actions"]]
            assert f"bailiff approve {action}" in text, text
            assert not os.path.exists(os.path.join(home.work, "unmade"))


def test_instant_decline_of_a_headless_client_leaves_the_question_open():
    """Headless clients decline or cancel immediately what they cannot show. A person who declines needs a moment."""
    for modern in ERAS:
        for action in ("decline", "cancel"):
            with asking() as home, home.rpc() as rpc:
                with Raw(home, modern, plain=True, answer={"action": action}, env={"BAILIFF_MCP_HUMAN_MS": "600000"}) as mcp:
                    text = mcp.tell("exec", command="touch made; echo done")[1]
                    waiting, = rpc.call("list_actions", status="pending")["actions"]
                    assert f"bailiff approve {waiting['actionId']}" in text and len(mcp.asked) == 1, text
                    home.cli("approve", waiting["actionId"])
                    assert "done" in mcp.tell("wait", actionId=waiting["actionId"])[1]
                    text = mcp.tell("exec", command="echo two >>kept", cow=True)[1]
                    process = next(p["processId"] for p in rpc.call("list_processes")["processes"])
                    assert f"bailiff apply {process}" in mcp.tell("changes", error=True, processId=process, action="apply")[1]
                with Raw(home, modern, plain=True, answer={"action": action}) as mcp:
                    assert "Permission was denied" in mcp.tell("exec", error=True, command="touch made")[1]
                    assert not rpc.call("list_actions", status="pending")["actions"]


def test_progress_does_not_say_running_while_the_question_is_open():
    with asking() as home, Mcp(home, env={"BAILIFF_MCP_HEARTBEAT_MS": "20"}) as mcp:
        mcp.initialize(elicitation={})
        call = mcp.send("tools/call", name="exec", arguments={"command": "touch made; sleep 1000"}, _meta={"progressToken": "p"})
        question = mcp.request()
        mcp.notes.clear()       # those from before the question
        said = [mcp.note("notifications/progress")["message"] for _ in range(3)]
        assert any("waiting for an answer" in m for m in said) and not any("running" in m for m in said[1:]), said
        mcp.notes.clear()
        mcp.answer(question, {"action": "accept", "content": {"decision": "allow_once"}})
        while "running" not in mcp.note("notifications/progress")["message"]:
            pass
        mcp.notify("notifications/cancelled", requestId=call)


# ---- where they work, and what a person finds later ----

def other_tree(home, name):
    folder = os.path.join(os.path.dirname(home.work), name)
    os.makedirs(os.path.join(folder, ".git"), exist_ok=True)
    return folder


def test_serve_uses_the_clients_roots_as_working_directory():
    """Over HTTP a client's roots name the folder that it works in; --cwd, which the user gives, takes precedence."""
    with Home() as home, home.rpc() as rpc:
        theirs, root = other_tree(home, "theirs & more"), None
        with Serve(home) as serve:
            # Legacy: asked once, by the first call that needs a folder.
            session = serve.initialize(roots={"listChanged": True})
            def calls(id, answer=None, **arguments):
                with serve.tool(session, "exec", id=id, stream=True, **arguments) as stream:
                    for message in stream.messages() if stream.is_events else [stream.last()]:
                        if message.get("method") == "roots/list":
                            assert answer is not None, "it was asked before"
                            serve.post({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": answer}}, session)
                        elif message.get("id") == id:
                            return message["result"]["content"][0]["text"]
            root = [{"uri": "file:///no/such/folder"}, {"uri": "https://example.com/"}, {"uri": "file:///"}, {"uri": "file://" + theirs.replace(" ", "%20")}]
            assert calls(1, root, command="pwd; touch here").startswith(theirs + "\n") and os.path.exists(os.path.join(theirs, "here"))
            assert calls(2, command="pwd").startswith(theirs + "\n")
            assert "outside of" in calls(3, command="pwd", cwd=home.work), "elsewhere it is a guest"
            until("the title names it", lambda: [s for s in rpc.call("list_sessions")["sessions"] if s.get("title", "").endswith(" in " + theirs)])
            serve.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, session)
            text = calls(4, [], command="pwd")
            assert home.work + "\n" in text and "another workspace" in text, "none is usable: where it was started"
            # Modern: asked in a round of input.
            params = {"name": "exec", "arguments": {"command": "pwd"}}
            asked = serve.modern("tools/call", params, capabilities={"roots": {}})[2]["result"]
            assert asked["inputRequests"]["roots"]["method"] == "roots/list", asked
            params.update(requestState=asked["requestState"], inputResponses={"roots": {"roots": root}})
            assert serve.modern("tools/call", params, capabilities={"roots": {}})[2]["result"]["content"][0]["text"].startswith(theirs + "\n")
        with Serve(home, "--cwd", home.work) as serve:
            answer = serve.modern("tools/call", {"name": "exec", "arguments": {"command": "pwd"}}, capabilities={"roots": {}})[2]["result"]
            assert answer["content"][0]["text"].startswith(home.work + "\n"), answer


def test_sessions_have_titles(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp, home.rpc() as rpc:
            mcp.exec("true")
            assert f"raw in {home.work}" in [s.get("title") for s in rpc.call("list_sessions")["sessions"]]
    assert home.cli("session", "list").text.count(f"raw in {home.work}") == 2


def test_helpers_are_not_listed(home):
    """Helpers that read and write files for tools are processes, but no client started them."""
    with Raw(home) as mcp, home.rpc() as rpc:
        mcp.call("write_file", path="x", content="y")
        mcp.exec("echo a command")
        assert "a command" in home.cli("ps", "-a").text and "bailiff-tool" not in home.cli("ps", "-a").text
        assert "bailiff-tool" not in home.cli("ps", "-a", "--json").text and "bailiff-tool" in home.cli("ps", "-a", "--helpers").text
        assert len(rpc.call("list_processes")["processes"]) == 2 and len(rpc.call("list_processes", helpers=False)["processes"]) == 1
        assert [p["command"] for p in mcp.tell("ps", all=True)[0]["processes"]] == ["echo a command"]
        # Another program of that name is not a helper.
        put(home, "bailiff-tool", "#!/bin/sh\n")
        os.chmod(os.path.join(home.work, "bailiff-tool"), 0o755)
        rpc.wait(rpc.call("start_process", command=[os.path.join(home.work, "bailiff-tool")], cwd=home.work)["processId"])
        assert "bailiff-tool" in home.cli("ps", "-a").text


def test_commands_of_a_client_share_a_sandbox(home):
    """The effects of one command are there in the next: files in /tmp, servers on localhost, processes."""
    with Raw(home) as mcp:
        mcp.exec("echo kept >/tmp/made")
        assert "kept" in mcp.exec("cat /tmp/made")[1]
        server, _ = mcp.exec("echo $$ >/tmp/pid; exec python3 -m http.server 3000 --bind 127.0.0.1", background=True)
        _, text = mcp.exec("until curl -sf http://127.0.0.1:3000/ >/dev/null; do sleep 0.05; done; ps -o args= -p $(cat /tmp/pid)")
        assert "http.server" in text, text
        mcp.exec("kill $(cat /tmp/pid)")
        end = mcp.call("wait", None, processId=server["processId"])["structuredContent"]
        assert end["signal"] == "TERM", end
        # A command that leaves processes running has ended, and the report names them.
        left, text = mcp.exec("sleep 1000 & echo done")
        assert left["status"] == "completed" and left["exitCode"] == 0 and len(left["running"]) == 1, left
        assert "Exit code 0" in text and f" (pid {left['running'][0]['pid']})" in text and "done" in text, text
        mcp.exec(f"kill -0 {left['running'][0]['pid']}")
        mcp.call("kill", None, processId=left["processId"])
        mcp.exec("pgrep -x sleep", error=True)
        failed, text = mcp.exec("sleep 1000 & exit 3", error=True)
        assert failed["exitCode"] == 3 and "Exit code 3" in text, failed
        # another client has its own
        with Raw(home) as other:
            other.exec("cat /tmp/made", error=True)


def test_advice_about_denials_is_never_dangerous(home):
    """No advice opens the system's folders, credentials or protected files; it leaves them to a person, and says so."""
    subprocess.run(["git", "init", "-q", home.work], check=True)
    with Raw(home) as mcp:
        for command in ("echo x >/etc/hosts", "echo x >/made", "rm /usr/bin/env", "echo x >/var/lib/dpkg/lock", "touch .git/hooks/pre-commit"):
            told, text = mcp.exec(command, error=True)
            assert told["denials"] and "a person can" in told["toAllow"] and told["toAllow"] in text, text
            assert "Roots" not in text and "policy.json" not in text, text
            err = home.cli("run", "--", "sh", "-c", command, cwd=home.work, status=None).err.decode()
            assert "denied: " in err and "a person can" in err and "--r" not in err, err
        told, text = mcp.exec("echo x >/etc/hosts; echo x >/srv/made; exit 1", error=True)
        assert "a person can" in text and '"writeRoots":["/srv"]' in text, "one that is harmless is suggested nevertheless"


def test_failures_that_no_audit_reports_are_explained(home):
    with Raw(home) as mcp:
        for command, words in (("curl -sS http://localhost:3000", "localhost:PORT"), ("kill -9 4190000", "its own processes"),
                               ("echo 'sudo: The \"no new privileges\" flag is set' >&2; exit 1", "privileges"),
                               ("echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1", "Docker")):
            told, text = mcp.exec(command, error=True)
            assert "perhaps the sandbox" in told["hint"] and words in told["hint"] and told["hint"] in text, text


if __name__ == "__main__":
    harness.main(globals())
