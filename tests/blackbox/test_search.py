"""Finding processes: current usage of running ones, and a search of all processes in the store."""

import os
import pwd
import time

import harness
from harness import until


def found(rpc, **conditions):
    """The commands that match, newest first, over all pages."""
    names, before = [], {}
    while True:
        page = rpc.call("search_history", **conditions, **before)
        names += [p["processId"] for p in page["processes"]]
        if "next" not in page:
            return names
        before = {"before": page["next"]}


def test_list_shows_the_usage_of_running_processes(home):
    work = "import threading, time\nx = bytearray(80 << 20)\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nwhile True: pass"
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = None     # an id without an account has no name
    with home.rpc() as rpc:
        busy = rpc.start(["/usr/bin/python3", "-c", work])["processId"]
        ended = rpc.run(["true"])[0]["processId"]

        def usage():
            listed = {p["processId"]: p for p in rpc.call("list_processes", usage=True)["processes"]}
            assert listed[busy].get("user") == name and listed[busy]["sessionId"]
            assert "cpuUs" not in listed[ended].get("usage", {})
            u = listed[busy]["usage"]
            return u["memoryBytes"] > 80 << 20 and u["tasks"] >= 3 and u["cpuUs"] > 100000 and u
        first = until("80 MB, two threads, and CPU time", usage)
        second = until("more CPU time", lambda: (u := usage()) and u["cpuUs"] > first["cpuUs"] + 50000 and u)
        share = (second["cpuUs"] - first["cpuUs"]) / (second["timeUs"] - first["timeUs"])
        assert 0 < share < 1.3, (first, second)
        assert "usage" not in rpc.call("list_processes", match=busy)["processes"][0]
        rpc.end(busy)


def test_usage_in_a_session_sandbox_is_each_commands_own(home):
    with home.rpc() as rpc:
        box = rpc.call("create_sandbox")["sandboxId"]
        idle = rpc.start(["sleep", "1000"], sandboxId=box)["processId"]
        busy = rpc.start(["sh", "-c", "while :; do :; done"], sandboxId=box)["processId"]

        def usage():
            return {p["processId"]: p["usage"] for p in rpc.call("list_processes", liveOnly=True, usage=True)["processes"] if "usage" in p}
        used = until("CPU time", lambda: (u := usage()) and u[busy]["cpuUs"] > 300000 and u)
        assert used[idle]["cpuUs"] < 200000, used
        rpc.call("close_sandbox", sandboxId=box)


def test_usage_is_without_that_of_earlier_commands_in_the_same_process(home):
    """A sandbox or a leader that is used again has counters that go on."""
    work = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done"]
    with home.rpc() as rpc:
        box = rpc.call("create_sandbox")["sandboxId"]

        def is_used_again(**more):
            earlier = {rpc.call("get_process", processId=rpc.run(work, **more)[0]["processId"])["pid"] for _ in range(4)}
            idle = rpc.start(["sleep", "1000"], **more)["processId"]
            used = until("it is listed", lambda: next((p for p in rpc.call("list_processes", liveOnly=True, usage=True)["processes"]
                                                       if p["processId"] == idle and "usage" in p), None))
            assert used["usage"]["cpuUs"] < 100000, used
            rpc.end(idle)
            return used["pid"] in earlier

        assert is_used_again() or os.getuid() or until("a sandbox is used again", is_used_again)
        is_used_again(sandboxId=box)
        rpc.call("close_sandbox", sandboxId=box)


def test_a_search_combines_conditions(home):
    with home.rpc() as rpc:
        a, _ = rpc.run(["echo", "Alpha beta"])
        b, _ = rpc.run(["sh", "-c", "echo gamma >&2; exit 3"], cwd="/usr")
        c, _ = rpc.run(["sh", "-c", "kill -9 $$"], sessionId=b["sessionId"])
        a, b, c, session = a["processId"], b["processId"], c["processId"], b["sessionId"]
        assert found(rpc) == [c, b, a]
        assert found(rpc, grep="ALPHA b") == [a] and found(rpc, grep="alphab") == []
        assert found(rpc, output="beta\n") == [a] and found(rpc, output="GAMMA") == [b]
        assert found(rpc, exit=3) == [b] and found(rpc, exit=0) == [a] and found(rpc, exit="nonzero") == [c, b]
        assert found(rpc, cwd="/usr/") == [b] and found(rpc, cwd="/us") == [] and len(found(rpc, cwd="/")) == 3
        assert found(rpc, session=session) == [c, b] and found(rpc, session=session, exit=3) == [b]
        assert found(rpc, limit=1) == [c, b, a]
        assert found(rpc, user=str(os.getuid())) == [c, b, a] and found(rpc, user="54321") == []
        assert found(rpc, path="/usr") == [b] and found(rpc, host="example.org") == []
        for field, value in (("exit", "some"), ("user", "no-such-account"), ("grep", ""), ("limit", 0)):
            assert rpc.fails("search_history", {field: value}).data["field"] == field


def test_a_search_by_time_and_by_denials(home):
    with home.rpc() as rpc:
        first = rpc.run(["true"])[0]["processId"]
        border = time.time_ns() // 1000000 + 1
        until("the clock has passed", lambda: time.time_ns() // 1000000 > border)
        second = rpc.run(["sh", "-c", "echo x > /usr/denied-here"])[0]["processId"]
        assert found(rpc, until=border) == [first] and found(rpc, since=border) == [second]
        assert found(rpc, since=border, until=border) == []
        assert found(rpc, until=border, limit=1) == [first]
        if found(rpc, denied=True):              # where the kernel or a shell's message tells of denials
            assert found(rpc, denied=True) == [second] == found(rpc, path="denied-here")


def test_a_search_finds_text_across_portions_of_an_output(home):
    with home.rpc() as rpc:
        far, _ = rpc.run(["sh", "-c", "head -c 1048573 /dev/zero | tr '\\0' x; echo needle"])
        assert found(rpc, output="needle") == [far["processId"]]
        assert found(rpc, output="xxneedle\n") == [far["processId"]]


def test_history_searches_from_the_command_line(home):
    with home.rpc() as rpc:
        ok, _ = rpc.run(["echo", "first"])
        bad, _ = rpc.run(["sh", "-c", "echo second; exit 4"], cwd="/usr")

    def ids(*conditions):
        return [p["processId"] for p in home.cli("history", "--json", *conditions).json]
    assert ids() == [bad["processId"], ok["processId"]]
    assert ids("--exit", "4") == ids("--exit", "nonzero") == ids("--cwd", "/usr") == ids("--output", "SECOND") == [bad["processId"]]
    assert ids("--grep", "first", "--since", "1h") == [ok["processId"]] and ids("--until", "1h") == []
    assert ids("--since", "2020-01-02", "--until", "2021-01-01 10:30") == [] and len(ids("--since", "2020-01-02T00:00:00Z")) == 2
    assert ids("-n", "1") == [bad["processId"]] and ids("--user", str(os.getuid()), "--session", ok["sessionId"]) == [ok["processId"]]
    table = home.cli("history", "--grep", "second").text
    assert bad["processId"] in table and "USER" in table and ok["processId"] not in table, table
    for option, value in (("--exit", "x"), ("--since", "yesterday"), ("--limit", "0")):
        assert option.encode() in home.cli("history", option, value, status=2).err


def test_ids_have_short_handles_and_names(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="the work")["sessionId"]
        first = rpc.run(["echo", "one"], sessionId=session)[0]["processId"]
        last = rpc.run(["echo", "two"], sessionId=session)[0]["processId"]
        task = rpc.call("create_task", objective="x", title="build it")["taskId"]
    assert home.cli("logs", "@last").text == "two\n" and home.cli("logs", first[-6:]).text == "one\n"
    for name in ("the work", session[-5:], "@last" if session == home.cli("session", "list", "--json").json[0]["sessionId"] else session):
        assert home.cli("session", "show", "--json", name).json["sessionId"] == session
    for name in ("build it", task[-5:], "@last"):
        assert home.cli("task", "show", "--json", name).json["taskId"] == task
    assert last in home.cli("history", "--session", "the work").text


def test_threads_and_turns_have_short_handles(home):
    with home.rpc() as rpc:
        made = rpc.call("create_session")
        thread = made["threadId"]
        turn = rpc.call("submit_turn", threadId=thread, input=[{"type": "text", "text": "x"}])["turnId"]
        other = rpc.call("submit_turn", threadId=thread, input=[{"type": "text", "text": "y"}])["turnId"]
    for name in (thread, thread[-6:], thread[:-2]):
        assert home.cli("thread", "show", "--json", name).json["threadId"] == thread
    assert "ambiguous" in home.cli("turn", "complete", turn[:8], status=1).err.decode()
    home.cli("turn", "remove", other[-6:])
    home.cli("turn", "complete", turn[-6:])
    assert [t["status"] for t in home.cli("thread", "show", "--json", thread).json["turns"]][0] == "completed"
    assert b"thr_none" in home.cli("thread", "show", "thr_none", status=1).err


if __name__ == "__main__":
    harness.main(globals())
