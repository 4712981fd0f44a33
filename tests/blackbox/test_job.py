"""Jobs: items with a status of their own, limits, retries that replace, cancellation that keeps, and restarts in the middle."""

import os
import signal

import harness
from harness import Home, Rpc, Skip, until
from test_task import check_all, crash, make, reaches, task

ENDED = ("completed", "failed", "cancelled")


def job(rpc, job_id, **more):
    return rpc.call("get_job", jobId=job_id, **more)


def ends(rpc, job_id):
    return until(f"{job_id} has ended", lambda: (lambda j: j if j["status"] in ENDED else None)(job(rpc, job_id)))


def events(rpc, job_id):
    return [e for e in rpc.events() if e.get("jobId") == job_id]


def out(rpc, item):
    return b"".join(rpc.output(o["outputRef"]) for o in item["outputRefs"] if o["stream"] == "stdout")


def test_template_expands_into_the_commands_of_items(home):
    with home.rpc() as rpc:
        made = rpc.call("create_job", items=[{"itemId": "a", "input": "one two"}, {"input": {"x": 1}}, {"command": ["echo", "own"]},
                                             {"commandLine": "exit 7"}], command=["echo", "{item}", "{index}"], maxParallel=2)
        assert made["jobId"].startswith("job_") and made["itemCount"] == 4, made
        record = ends(rpc, made["jobId"])
        assert record["status"] == "failed" and record["progress"] == {"total": 4, "pending": 0, "running": 0, "completed": 3, "failed": 1, "reported": 0}, record
        a, b, c, d = record["items"]
        assert out(rpc, a) == b"one two 0\n" and out(rpc, b) == b'{"x":1} 1\n' and out(rpc, c) == b"own\n", record
        assert d["lastError"]["exitCode"] == 7 and d["status"] == "failed" and record["failedItems"] == [d["itemId"]], d
        log = [e["type"] for e in events(rpc, made["jobId"]) if e["type"].startswith("job.")]
        assert log[0] == "job.created" and log[1] == "job.started" and log[-1] == "job.failed", log
        assert log.count("job.item.started") == 4 and log.count("job.item.completed") == 3 and log.count("job.item.failed") == 1, log
        started = [e for e in events(rpc, made["jobId"]) if e["type"] == "job.item.started"]
        assert [e["jobItemId"] for e in started][:2] == ["a", b["itemId"]] and all(e["processId"] for e in started)
        assert rpc.call("get_process", processId=a["processId"])["sessionId"] == made["sessionId"]
        quoted = rpc.call("create_job", items=[{"input": "a'b; echo no"}], commandLine="printf %s {item}")["jobId"]
        assert out(rpc, ends(rpc, quoted)["items"][0]) == b"a'b; echo no"
        for bad in ({"items": []}, {"items": [{"itemId": "a"}, {"itemId": "a"}]}, {"items": [{"nope": 1}]}, {"items": [{"command": "x"}]},
                    {"items": [{}], "maxParallel": 0}, {"items": [{}], "command": []}):
            rpc.fails("create_job", bad, code=-32602)
        same = dict(jobId="mine", items=[{"input": "x"}])
        assert rpc.call("create_job", same)["jobId"] == rpc.call("create_job", same)["jobId"] == "mine"
        rpc.fails("create_job", dict(same, items=[{"input": "y"}]), code=-32009)
        assert [j["jobId"] for j in rpc.call("list_jobs", liveOnly=True)["jobs"]] == ["mine"]
        assert {j["jobId"] for j in rpc.call("list_jobs")["jobs"]} == {"mine", quoted, made["jobId"]}
        check_all(home, rpc)


NOBODY = 65534


class Member(Rpc):
    """A connection of the user nobody with these groups: the kernel records them at connect()."""

    def __init__(self, path, groups):
        own = os.getgroups()
        os.setgroups(groups)
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            super().__init__(path)
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups(own)


def test_commands_have_the_groups_of_the_latest_connection():
    if os.geteuid() != 0:
        raise Skip("requires root")
    with Home(start=False, options=("--audit", "off", "--socket-mode", "0666")) as home:
        os.chmod(home.dir, 0o755)
        home.start()
        for n, groups in enumerate([[], [4242], [4242, 4243], [], [4243]]):
            if n == 3:
                home.kill_part("runtime")  # the guard has them, too
                until("there is another", home.answers)
            with Member(home.socket, groups) as rpc:
                record = ends(rpc, rpc.call("create_job", items=[{"input": "x"}], command=["id", "-G"], cwd="/tmp", profile="isolated")["jobId"])
                told = {int(g) for g in out(rpc, record["items"][0]).split()}
                assert told == {NOBODY, *groups}, (groups, told)


def test_retry_replaces_the_result_of_an_item(home):
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{"itemId": "i"}], commandLine="echo x >> log; echo $(wc -l < log); test $(wc -l < log) -ge 2", cwd=home.work,
                      retryPolicy={"maxAttempts": 3, "backoffMs": 10})["jobId"]
        record = ends(rpc, id)
        assert record["status"] == "completed" and record["items"][0]["attemptCount"] == 2, record
        assert out(rpc, record["items"][0]) == b"2\n"
        failed = [e["payload"] for e in events(rpc, id) if e["type"] == "job.item.failed"]
        assert len(failed) == 1 and failed[0]["again"] and failed[0]["dueAt"], failed
        again = rpc.call("retry_job_item", jobId=id, itemId="i", reason="fresh")
        assert again["attempt"] == 3, again
        record = until("it ended again", lambda: (lambda j: j if j["status"] in ENDED and j["items"][0]["attemptCount"] == 3 else None)(job(rpc, id)))
        assert record["progress"]["completed"] == 1 and out(rpc, record["items"][0]) == b"3\n", record
        assert len(record["items"]) == 1 and len(record["items"][0]["outputRefs"]) == 2, record
        rpc.fails("retry_job_item", {"jobId": id, "itemId": "none"}, code=-32004)
        check_all(home, rpc)


def test_parallel_limit_applies_and_cancel_ends_all_items(home):
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{"itemId": f"i{n}"} for n in range(8)], maxParallel=3,
                      commandLine="test {index} = 0 && exit 0; while :; do sleep 0.05; done")["jobId"]
        until("one is done and three run", lambda: job(rpc, id)["progress"]["completed"] == 1 and
              len(rpc.call("list_processes", liveOnly=True)["processes"]) == 3)
        assert rpc.call("cancel_job", jobId=id, reason="enough")["status"] == "cancelling"
        record = ends(rpc, id)
        assert record["status"] == "cancelled" and record["progress"]["completed"] == 1, record
        said = next(e for e in events(rpc, id) if e["type"] == "job.cancelled")["payload"]
        assert said["finished"] == ["i0"] and sorted(said["ended"]) == ["i1", "i2", "i3"] and said["neverStarted"] == ["i4", "i5", "i6", "i7"], said
        ended = [e for e in rpc.events() if e["type"] == "process.terminated"]
        assert len(ended) == 3 and all(e["payload"]["reason"] == "parent_cancelled" for e in ended), ended
        assert [i["status"] for i in record["items"]] == ["completed"] + ["failed"] * 3 + ["pending"] * 4, record["items"]
        rpc.fails("retry_job_item", {"jobId": id, "itemId": "i1"}, code=-32015)
        rpc.fails("cancel_job", {"jobId": id}, code=-32015)
        check_all(home, rpc)


def test_time_limits_of_jobs_and_items(home):
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{}, {}], commandLine="sleep 100", maxParallel=1, maxRuntimeMs=200)["jobId"]
        record = ends(rpc, id)
        assert record["status"] == "failed", record
        said = next(e for e in events(rpc, id) if e["type"] == "job.failed")["payload"]
        assert said["reason"] == "max_runtime" and said["counts"]["pending"] == 1, said
        each = rpc.call("create_job", items=[{}], commandLine="sleep 100", retryPolicy={"timeoutMs": 100})["jobId"]
        assert ends(rpc, each)["items"][0]["lastError"]["category"] == "timeout"
        check_all(home, rpc)


def test_clients_report_the_items_that_they_work_on(home):
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{"itemId": n, "input": n} for n in "abcd"], instructionRef="out_i", retryPolicy={"maxAttempts": 2})["jobId"]
        assert job(rpc, id)["status"] == "accepted" and job(rpc, id)["items"][1]["input"] == "b"
        rpc.call("report_job_item", jobId=id, itemId="c", status="running")
        rpc.fails("report_job_item", {"jobId": id, "itemId": "c", "status": "running"}, code=-32009)
        rpc.call("report_job_item", jobId=id, itemId="c", status="completed", outputRefs=["out_c"])
        rpc.fails("report_job_item", {"jobId": id, "itemId": "c", "status": "completed"}, code=-32015)
        rpc.call("report_job_item", jobId=id, itemId="a", status="reported", outputRefs=["out_a"], summary="see")
        assert rpc.call("report_job_item", jobId=id, itemId="b", status="failed", error="no")["attempt"] == 1
        assert job(rpc, id)["items"][1]["status"] == "pending"
    crash(home)
    with home.rpc() as rpc:
        rpc.call("report_job_item", jobId=id, itemId="b", status="failed", error={"category": "bad", "message": "no"})
        rpc.call("report_job_item", jobId=id, itemId="d", status="completed")
        record = ends(rpc, id)
        assert record["status"] == "failed" and record["progress"]["reported"] == 1 and record["items"][1]["attemptCount"] == 2, record
        rpc.call("retry_job_item", jobId=id, itemId="b")
        assert job(rpc, id)["status"] == "running"
        rpc.call("report_job_item", jobId=id, itemId="b", status="completed", outputRefs=["out_b"])
        record = ends(rpc, id)
        assert record["status"] == "completed" and record["items"][1]["outputRefs"] == [{"outputRef": "out_b"}], record
        supervised = rpc.call("create_job", items=[{}], commandLine="true")["jobId"]
        item = ends(rpc, supervised)["items"][0]["itemId"]
        rpc.fails("report_job_item", {"jobId": supervised, "itemId": item, "status": "completed"}, code=-32015)
        check_all(home, rpc)


def test_task_waits_for_its_job_and_cancels_it(home):
    with home.rpc() as rpc:
        parent = make(rpc)
        rpc.call("start_task", taskId=parent)
        id = rpc.call("create_job", taskId=parent, items=[{}, {}], commandLine="while ! test -e go; do sleep 0.02; done", cwd=home.work)["jobId"]
        assert task(rpc, parent)["jobIds"] == [id]
        assert rpc.fails("complete_task", {"taskId": parent}, code=-32015).data["missing"][0] == {"what": "job_unfinished", "id": id}
        assert [e["payload"] for e in rpc.events(taskId=parent) if e["type"] == "task.delegated"] == [{"delegateKind": "job", "delegateId": id}]
        open(f"{home.work}/go", "w").close()
        assert ends(rpc, id)["status"] == "completed"
        assert task(rpc, parent)["progress"]["counters"]["itemsCompleted"] == 2
        endless = rpc.call("create_job", taskId=parent, items=[{}] * 3, maxParallel=2, commandLine="sleep 1000")["jobId"]
        until("two run", lambda: job(rpc, endless)["progress"]["running"] == 2)
        rpc.call("cancel_task", taskId=parent)
        assert reaches(rpc, parent, "cancelled") and job(rpc, endless)["status"] == "cancelled"
        at = {e["type"]: e["sequence"] for e in rpc.events() if e.get("taskId") == parent}
        assert at["task.cancel_requested"] < at["job.cancelled"] < at["task.cancelled"], at
        rpc.fails("create_job", {"taskId": parent, "items": [{}]}, code=-32015)
        failing = make(rpc)
        rpc.call("start_task", taskId=failing)
        lasting = rpc.call("create_job", taskId=failing, items=[{}], commandLine="sleep 1000", retryPolicy={"maxAttempts": 5})["jobId"]
        rpc.call("fail_task", taskId=failing, error="no")
        assert ends(rpc, lasting)["status"] == "cancelled"
        check_all(home, rpc)


def test_jobs_survive_restarts(home):
    """The runtime crashes: items continue. The daemon is killed: running ones are lost, and retried if that is allowed."""
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{} for _ in range(6)], maxParallel=2, retryPolicy={"maxAttempts": 2},
                      commandLine="echo up; while ! test -e go; do sleep 0.02; done", cwd=home.work)["jobId"]
        never = rpc.call("create_job", items=[{}], commandLine="echo up; sleep 1000")["jobId"]
        until("they run", lambda: len([e for e in rpc.events() if e["type"] == "process.output"]) == 3)
    crash(home)
    with home.rpc() as rpc:
        assert job(rpc, id)["progress"]["running"] == 2
        harness.until("their processes live", lambda: len(rpc.call("list_processes", liveOnly=True)["processes"]) == 3)
    home.note_tree()
    os.kill(home.part("runtime"), signal.SIGSTOP)
    open(f"{home.work}/go", "w").close()
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        record = ends(rpc, id)
        assert record["status"] == "completed" and record["progress"]["completed"] == 6, record
        lost = [e for e in events(rpc, id) if e["type"] == "job.item.failed"]
        assert len(lost) == 2 and all(e["status"] == "lost" for e in lost), lost
        record = ends(rpc, never)
        assert record["status"] == "failed" and record["items"][0]["lastError"]["category"] == "lost", record
        check_all(home, rpc)


def test_item_whose_start_waits_for_the_policy_is_started_once(home):
    """In a folder that is new to the daemon a start waits for the policy there, while other items come and go."""
    with home.rpc() as rpc:
        for n in range(12):
            tree = os.path.join(home.work, f"new{n}")
            os.mkdir(tree)
            items = [{"cwd": home.work if i % 2 else tree} for i in range(8)]
            id = rpc.call("create_job", items=[{"commandLine": "true", **i} for i in items], maxParallel=3)["jobId"]
            record = ends(rpc, id)
            assert record["progress"]["completed"] == 8, record
            started = [e["jobItemId"] for e in rpc.events() if e["type"] == "process.started" and e.get("jobId") == id]
            assert len(started) == len(set(started)) == 8, started
    home.stop()   # which waits for every process of the daemon
    home.start()


def test_ten_thousand_items(home):
    with home.rpc() as rpc:
        id = rpc.call("create_job", items=[{"itemId": f"i{n}", "input": n} for n in range(10000)])["jobId"]
        seen, cursor = [], None
        while True:
            page = job(rpc, id, **({"cursor": cursor} if cursor else {}))
            seen += [i["itemId"] for i in page["items"]]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        assert seen == [f"i{n}" for n in range(10000)], len(seen)
        for part in range(0, 10000, 500):
            for request in [rpc.send("report_job_item", jobId=id, itemId=f"i{n}", status="completed") for n in range(part, part + 500)]:
                rpc.reply(request)
        record = harness.until("the job has ended", lambda: (lambda r: r if r["status"] == "completed" else None)(job(rpc, id, limit=1)))
        assert record["progress"]["completed"] == 10000, record
        progress = [e for e in events(rpc, id) if e["type"] == "job.progress"]
        assert len(progress) < 200, len(progress)
        assert home.cli("store", "verify").status == 0


def test_long_items_are_listed_and_run(home):
    with home.rpc() as rpc:
        items = [{"itemId": f"i{n}", "input": f"{n} " + "x" * 20000} for n in range(300)]
        items[200] = {"itemId": "i200", "command": ["sh", "-c", "echo ran # " + "x" * 20000]}
        id = rpc.call("create_job", items=items, maxParallel=1)["jobId"]
        seen, cursor = [], None
        while cursor or not seen:
            page = job(rpc, id, limit=100, **({"cursor": cursor} if cursor else {}))
            seen, cursor = seen + page["items"], page.get("nextCursor")
        assert [i["itemId"] for i in seen] == [i["itemId"] for i in items]
        ran = harness.until("the one with a command has run", lambda: [i for i in job(rpc, id, cursor="200", limit=1)["items"] if i["status"] == "completed"])
        assert out(rpc, ran[0]) == b"ran\n", ran


def test_job_verbs_of_the_command_line(home):
    id = home.cli("job", "create", "--wait", "-j", "2", "--", "sh", "-c", 'echo "$1"', "-", "{item}", stdin=b"one\ntwo\n\nthree\n").text.strip()
    assert id.startswith("job_")
    record = home.cli("job", "show", "--json", id).json
    assert record["status"] == "completed" and [i["input"] for i in record["items"]] == ["one", "two", "three"], record
    with home.rpc() as rpc:
        assert [out(rpc, i) for i in record["items"]] == [b"one\n", b"two\n", b"three\n"]
    assert "3/3" in home.cli("job", "list", "-a").text and id not in home.cli("job", "list").text
    failed = home.cli("job", "create", "--wait", "--item", "x", "--attempts", "2", "--", "false", status=1).text.strip()
    shown = home.cli("job", "show", failed).text
    assert "failed" in shown and "exit code 1" in shown, shown
    item = home.cli("job", "show", "--json", failed).json["items"][0]["itemId"]
    assert home.cli("job", "retry", failed, item).text == "pending\n"
    with home.rpc() as rpc:
        until("it was tried", lambda: job(rpc, failed)["items"][0]["attemptCount"] == 3)
        ends(rpc, failed)
    lasting = home.cli("job", "create", "--item", "x", "--", "sleep", "1000").text.strip()
    assert home.cli("job", "cancel", lasting, "--reason", "no").text == "cancelling\n"
    with home.rpc() as rpc:
        assert ends(rpc, lasting)["status"] == "cancelled"


if __name__ == "__main__":
    harness.main({k: v for k, v in globals().items() if not k.startswith("test_") or v.__module__ == "__main__"})
