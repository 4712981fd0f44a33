"""One user's documents do not exist for another: their ids cannot be read, written or referenced by any method."""

import contextlib
import json
import os

import harness
from harness import Home, Skip, until

ALICE, BOB = 61301, 61302
SECRET = "alice-keeps-this-to-herself"
NOT_FOUND, CONFLICT, NOT_ALLOWED, EXHAUSTED = -32004, -32009, -32003, -32012

# Parameters of type id without an owner of their own: ids inside another id's scope, or names that are separate for each user.
WITHIN = {"before", "name", "itemId", "runId", "modelRequestId", "datasetId", "datasetVersion", "configurationId", "benchmarkTaskId", "baseline", "candidate"}
# Lists and refs that can name things of other users.
LISTS = {"subagentIds": "subagentId", "affectedTurns": "turnId", "blockedBy": "taskId", "pinnedThreadIds": "threadId", "outputRefs": "outputRef",
         "evidenceRefs": "evidenceId", "artifactRefs": "outputRef", "outputs": "outputRef", "artifacts": "outputRef", "remoteArtifactRefs": "outputRef"}
REFS = {"instructionRef": "outputRef", "outputSchemaRef": "outputRef", "lastMessageRef": "outputRef", "parentThreadId": "threadId", "toTurnId": "turnId",
        "queuedTurnId": "turnId", "parentTaskId": "taskId", "targetId": "taskId", "blockerId": "taskId", "session": "sessionId"}


@contextlib.contextmanager
def shared(config=None):
    if os.geteuid() != 0:
        raise Skip("other users' requests require root")
    with Home(config=config, start=False, options=("--audit", "off", "--socket-mode", "0666")) as home:
        os.chmod(home.dir, 0o755)
        os.chmod(home.work, 0o777)
        home.start()
        yield home


@contextlib.contextmanager
def as_user(home, uid):
    """A connection of this uid: the kernel records the peer."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        rpc = home.rpc()
    finally:
        os.seteuid(0)
        os.setegid(0)
    with rpc:
        yield rpc


def things(rpc, home):
    """One of everything, by the name of the parameter that would name it."""
    text = SECRET + "\n"
    turn = rpc.call("submit_turn", input=[{"type": "text", "text": SECRET}], options={"cwd": home.work}, metadata={"note": SECRET})
    made = {k: turn[k] for k in ("sessionId", "threadId", "turnId")}
    process = rpc.call("start_process", command=["cat"], stdin="pipe", cwd=home.work, turnId=turn["turnId"])
    made["processId"] = process["processId"]
    rpc.call("write_process_stdin", processId=made["processId"], data=text)
    made["outputRef"] = process["outputRefs"][0]["outputRef"]
    made["taskId"] = rpc.call("create_task", objective=SECRET, sessionId=turn["sessionId"])["taskId"]
    begun = rpc.call("start_task", taskId=made["taskId"])
    made["actionId"] = rpc.call("request_action", turnId=turn["turnId"], actionType="input", prompt=SECRET)["actionId"]
    made["sandboxId"] = rpc.call("create_sandbox", cwd=home.work)["sandboxId"]
    made["channelId"] = rpc.call("connect_channel", transport="stdio", sessionId=turn["sessionId"], accountRef=SECRET)["channelId"]
    made["jobId"] = rpc.call("create_job", items=[{"itemId": "a", "input": SECRET}], sessionId=turn["sessionId"])["jobId"]
    made["subagentId"] = rpc.call("spawn_subagent", threadId=turn["threadId"], role=SECRET)["subagentId"]
    made["toolCallId"] = rpc.call("report_tool_call", status="started", turnId=turn["turnId"], toolName="mine", arguments={"a": SECRET})["toolCallId"]
    made["trialId"] = rpc.call("start_benchmark_trial", datasetId="d", datasetVersion="1", configurationId="c", role="baseline", taskId=made["taskId"],
                               runId=begun["runId"], turnId=turn["turnId"])["trialId"]
    made["evidenceId"] = rpc.call("export_evidence", scope={"sessionId": turn["sessionId"]})["evidenceId"]
    return made


SAMPLES = {"string": "x", "uint": 1, "int": 1, "number": 1, "bool": False, "array": [], "strings": ["x"], "env": {}, "path": "/tmp", "any": "x", "id": "x"}


def sample(param, own):
    if param["name"] in own:
        return own[param["name"]]
    if param["type"] == "enum":
        return param["enum"][0]
    if param["type"] == "object":
        return {p["name"]: sample(p, own) for p in param.get("members", []) if p["required"]}
    return SAMPLES[param["type"]]


def foreign_values(param, theirs):
    """Values of this parameter that belong to another user."""
    name = param["name"]
    if name in theirs:
        return [theirs[name]]
    if name in LISTS:
        return [[theirs[LISTS[name]]], ["unknown", theirs[LISTS[name]]]]
    if name in REFS:
        return [theirs[REFS[name]]]
    assert param["type"] != "id" or name in WITHIN, f"{name}: add its owner to owned_ids.def and to this test"
    return []


def requests(method, own, theirs):
    """Every request with one id of the other user, and otherwise ids of the caller."""
    params = method["parameters"]
    base = {p["name"]: sample(p, own) for p in params if p["required"]}
    for p in params:
        for value in foreign_values(p, theirs):
            yield p["name"], dict(base, **{p["name"]: value})
        for member in p.get("members", []):
            for value in foreign_values(member, theirs):
                yield f"{p['name']}.{member['name']}", dict(base, **{p["name"]: dict(sample(p, own), **{member["name"]: value})})
    if method["name"] == "emit_events":
        for name in sorted(theirs):
            event = {"type": "model.requested", "threadId": own["threadId"], "turnId": own["turnId"], "payload": {}, name: theirs[name]}
            yield f"events[0].{name}", dict(base, events=[event])


def test_no_method_accepts_ids_of_another_user():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        theirs, own = things(alice, home), things(bob, home)
        methods = bob.call("list_methods")["methods"]
        seen = alice.events(after=None)
        tried = 0
        for method in methods:
            for field, params in requests(method, own, theirs):
                error = bob.fails(method["name"], params)
                assert error.code in (NOT_FOUND, CONFLICT), f"{method['name']} {params}: {error}"
                assert error.data.get("field", "").startswith(field.split("[")[0]), (method["name"], field, error.data)
                assert SECRET not in str(error), (method["name"], field, error)
                tried += 1
        assert tried > 150, tried
        # Nothing was written, or added to the other user's documents.
        after = [e for e in alice.events(after=None) if e["sequence"] > seen[-1]["sequence"]]
        assert not after, after[:3]
        with home.rpc() as root:
            for event in root.events(after=None):
                if event["sequence"] > seen[-1]["sequence"]:
                    assert not [i for i in theirs.values() if i in json.dumps(event)], event
        assert alice.call("get_process", processId=theirs["processId"])["status"] == "running"


def test_an_error_names_the_whole_path_of_an_id_in_a_nested_list():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        theirs = alice.call("create_session")["sessionId"]
        error = bob.fails("create_session", permissions={"prefixRules": [{"pattern": ["true"], "sessionId": theirs}]}, code=NOT_FOUND)
        assert error.data["field"] == "permissions.prefixRules[0].sessionId", error.data


def test_snapshot_ids_must_belong_together():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        theirs, own = things(alice, home), things(bob, home)
        other = bob.call("create_session")["sessionId"]
        elsewhere = bob.call("submit_turn", sessionId=other, input=[{"type": "text", "text": "go"}])["turnId"]
        kinds = next(p["enum"] for m in bob.call("list_methods")["methods"] if m["name"] == "get_snapshot" for p in m["parameters"] if p["name"] == "kind")
        for kind in kinds:
            for session in (theirs["sessionId"], other):
                for more in ({"threadId": own["threadId"]}, {"threadId": own["threadId"], "turnId": own["turnId"]}):
                    bob.fails("get_snapshot", kind=kind, sessionId=session, code=NOT_FOUND, **more)
            bob.fails("get_snapshot", kind=kind, sessionId=own["sessionId"], threadId=own["threadId"], turnId=elsewhere, code=NOT_FOUND)
            shown = json.dumps(bob.call("get_snapshot", kind=kind, sessionId=own["sessionId"], threadId=own["threadId"]))
            assert not [i for i in theirs.values() if i in shown], shown


def test_routing_requires_an_existing_own_task():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        theirs = alice.call("create_task", objective="hers")["taskId"]
        turn = bob.call("submit_turn", input=[{"type": "text", "text": "go"}])["turnId"]
        for task in (theirs, "task_nobody"):
            bob.fails("resolve_routing", turnId=turn, taskId=task, code=NOT_FOUND)
        assert bob.call("resolve_routing", turnId=turn)["taskId"]


def test_output_descriptor_is_given_only_to_its_user():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob, home.rpc() as root:
        process = alice.call("start_process", command=["sh", "-c", "echo hello; exec cat"], stdin="pipe", cwd=home.work)["processId"]
        until("its output is recorded", lambda: alice.call("get_process", processId=process)["outputs"]["stdout"]["bytes"] == 6)
        bob.fails("open_output", processId=process, stream="stdout", code=NOT_FOUND)
        root.fails("open_output", processId=process, stream="stdout", code=NOT_ALLOWED)
        assert alice.call("open_output", processId=process, stream="stdout")["outputRef"]
        alice.call("terminate_process", processId=process)


def test_daemon_wide_methods_require_root():
    with shared() as home, as_user(home, BOB) as bob, home.rpc() as root:
        for method, params in (("reload_policy", {}), ("verify_store", {}), ("compact_store", {}), ("rebuild_store", {}), ("prune_store", {"olderThanMs": 1}),
                               ("backup_store", {"dir": os.path.join(home.dir, "copy")})):
            bob.fails(method, params, code=NOT_ALLOWED)
        assert root.call("reload_policy")["status"] == "loaded"


def test_tool_of_one_session_is_unknown_in_another(home):
    with home.rpc() as rpc:
        first, second = (rpc.call("submit_turn", input=[{"type": "text", "text": "go"}], options={"cwd": home.work}) for _ in range(2))
        rpc.call("register_tools", tools=[{"name": "mine"}], sessionId=first["sessionId"])
        rpc.call("register_tools", tools=[{"name": "everywhere"}])
        rpc.fails("invoke_tool", turnId=second["turnId"], toolName="mine", code=NOT_FOUND)
        rpc.fails("submit_turn", sessionId=second["sessionId"], input=[{"type": "tool_call", "toolName": "mine"}], code=NOT_FOUND)
        rpc.fails("submit_turn", input=[{"type": "tool_call", "toolName": "mine"}], code=NOT_FOUND)
        for turn, tool in ((first, "mine"), (first, "everywhere"), (second, "everywhere")):
            assert rpc.call("invoke_tool", turnId=turn["turnId"], toolName=tool, timeoutMs=1)["status"] == "running", tool
        # The same name elsewhere is another tool.
        with home.rpc() as other:
            other.call("register_tools", tools=[{"name": "mine", "description": "another"}], sessionId=second["sessionId"])
            assert other.call("invoke_tool", turnId=second["turnId"], toolName="mine", timeoutMs=1)["status"] == "running"
        for session, has in ((first, True), (second, False)):
            until("the tools of a connection leave with it", lambda: ("mine" in [
                t["name"] for t in rpc.call("get_tool_inventory", sessionId=session["sessionId"])["tools"]]) == has)


def test_process_limit_per_user_leaves_slots_for_others():
    with shared({"maxProcesses": 6, "maxProcessesPerUid": 2}) as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob, home.rpc() as root:
        for _ in range(2):
            alice.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)
        error = alice.fails("start_process", command=["cat"], stdin="pipe", cwd=home.work, code=EXHAUSTED)
        assert "maxProcessesPerUid" in error.message, error
        first = bob.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)["processId"]
        bob.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)
        bob.call("terminate_process", processId=first)
        bob.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)
        for _ in range(2):
            root.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)
    with shared({"maxProcesses": 4}) as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        for _ in range(2):
            alice.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)
        alice.fails("start_process", command=["cat"], stdin="pipe", cwd=home.work, code=EXHAUSTED)
        bob.call("start_process", command=["cat"], stdin="pipe", cwd=home.work)


def test_tool_limit_per_user_leaves_slots_for_others():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        alice.call("register_tools", tools=[{"name": f"t{i}"} for i in range(256)])
        alice.fails("register_tools", tools=[{"name": "more"}], code=EXHAUSTED)
        bob.call("register_tools", tools=[{"name": "mine"}])


def test_agent_cannot_answer_its_own_question(home):
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = agent.call("submit_turn", input=[{"type": "text", "text": "go"}])["turnId"]
        for decisions, default in ((None, "allow"), (["yes", "no"], "yes"), (["allow_once", "deny"], "allow_once")):
            params = {"turnId": turn, "actionType": "approval", "prompt": "?", "timeoutMs": 1, "defaultDecision": default}
            if decisions:
                params["decisions"] = decisions
            error = agent.fails("request_action", params, code=NOT_ALLOWED)
            assert error.data["field"] == "defaultDecision" and "agent" in error.message, error
        action = agent.call("request_action", turnId=turn, actionType="approval", prompt="?", timeoutMs=1, defaultDecision="deny")["actionId"]
        rpc.fails("request_action", {"turnId": turn, "actionType": "approval", "timeoutMs": 1, "defaultDecision": "allow"}, code=NOT_ALLOWED)
        theirs = rpc.call("request_action", turnId=turn, actionType="plan", prompt="?", timeoutMs=1, decisions=["a", "b"], defaultDecision="b")["actionId"]

        def answered(which):
            return until("it is over", lambda: [e["payload"] for e in rpc.events() if e["type"] == "action.resolved" and e.get("actionId") == which])[0]
        assert answered(action)["decision"] == "deny"
        assert answered(theirs)["decision"] == "b", "an approver can set the default of an unanswered action, but not to an approval"


def test_kill_all_ends_only_the_users_own_processes():
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        his = bob.call("start_process", command=["sleep", "1000"], cwd=home.work)
        mine = alice.call("start_process", command=["sleep", "1000"], cwd=home.work)["processId"]
        say = harness.environment(BAILIFF_HOME=home.dir)

        def kill(*args):
            with home.cli_start("kill", *args, user=ALICE, group=ALICE, env=say) as killing:
                text = killing.stdout.read().decode()
                return killing.wait(harness.PATIENCE), text
        assert kill("--session", his["sessionId"]) == (1, "")
        assert kill("--all") == (0, f"terminated {mine}  sleep 1000\n")
        assert bob.call("get_process", processId=his["processId"])["status"] == "running"
        assert home.cli("kill", "--all").text == f"terminated {his['processId']}  sleep 1000\n", "root sees all"


if __name__ == "__main__":
    harness.main(globals())
