"""Paused tasks: what stops and continues, retries and approvals during a pause, all of it across restarts."""

import datetime
import os
import signal
import time

import harness
from harness import until
from test_policy import Policed, pending
from test_task import ENDED, check_all, crash, make, reaches, task


def test_pause_and_resume(home):
    with home.rpc() as rpc:
        id = make(rpc, commandLine="while :; do echo tick; sleep 0.02; done", idleMs=60000)
        process = rpc.call("start_task", taskId=id)["processId"]
        reaches(rpc, id, "running")
        pid = rpc.call("get_process", processId=process)["pid"]
        # What ended just before it has a parent that stands still, and stays a zombie.
        stopped = lambda: all(st[1] in "TZ" for st in (harness.stat_of(p) for p, _ in harness.descendants_of(pid)) if st)
        until("it prints", lambda: rpc.outputs(process)["stdout"])
        rpc.call("pause_task", taskId=id, reason="lunch")
        record = task(rpc, id)
        assert record["status"] == "paused" and record["statusReason"] == "lunch", record
        until("everything stands still", stopped)
        said = next(e for e in rpc.events(taskId=id) if e["type"] == "task.paused")
        assert said["payload"]["stopped"][0]["processId"] == process, said
        rpc.fails("append_task_progress", {"taskId": id, "percent": 1}, code=-32015)
    crash(home)
    with home.rpc() as rpc:
        assert task(rpc, id)["status"] == "paused"
        rpc.call("resume_task", taskId=id)
        assert task(rpc, id)["status"] == "running"
        size = len(rpc.outputs(process)["stdout"])
        until("it prints again", lambda: len(rpc.outputs(process)["stdout"]) > size)
        rpc.call("pause_task", taskId=id)
        rpc.call("cancel_task", taskId=id)
        assert reaches(rpc, id, *ENDED)["status"] == "cancelled"
        queued, first = make(rpc), make(rpc)
        rpc.call("link_tasks", taskId=queued, kind="blocked_by", targetId=first)
        rpc.call("start_task", taskId=queued)
        rpc.call("pause_task", taskId=queued)
        assert rpc.call("resume_task", taskId=queued)["status"] == "queued"
        check_all(home, rpc)


def written(rpc, process):
    return rpc.call("get_process", processId=process)["outputs"].get("stdout", {}).get("bytes", 0)


def test_a_pause_covers_all_processes_of_the_task_across_a_restart(home):
    ticks = "while :; do echo tick; sleep 0.02; done"
    with home.rpc() as rpc:
        id = make(rpc)
        rpc.call("start_task", taskId=id)
        process = rpc.call("start_process", taskId=id, commandLine=ticks)["processId"]
        rpc.call("create_job", taskId=id, items=[{"commandLine": ticks}])
        until("the item runs", lambda: len(rpc.call("list_processes", taskId=id)["processes"]) == 2)
        all_of_it = [p["processId"] for p in rpc.call("list_processes", taskId=id)["processes"]]
        until("all of them print", lambda: all(written(rpc, p) for p in all_of_it))
        rpc.call("pause_task", taskId=id)
        said = next(e for e in rpc.events(taskId=id) if e["type"] == "task.paused")
        assert sorted(p["processId"] for p in said["payload"]["stopped"]) == sorted(all_of_it), said
    crash(home)
    with home.rpc() as rpc:
        before = {p: written(rpc, p) for p in all_of_it}
        rpc.call("resume_task", taskId=id)
        until("all of them print again", lambda: all(written(rpc, p) > before[p] for p in all_of_it))
        rpc.call("terminate_process", processId=process)
        rpc.call("cancel_task", taskId=id)
        assert reaches(rpc, id, *ENDED)["status"] == "cancelled"
        check_all(home, rpc)


def test_a_paused_task_is_not_tried_again_before_it_is_resumed(home):
    with home.rpc() as rpc:
        id = make(rpc, commandLine="echo x >>ran; test $(wc -l <ran) = 2 || sleep 1000", cwd=home.work, autoComplete=True, retryPolicy={"maxAttempts": 2})
        process = rpc.call("start_task", taskId=id)["processId"]
        reaches(rpc, id, "running")
        until("the first attempt has left its mark", lambda: os.path.exists(os.path.join(home.work, "ran")))
        rpc.call("pause_task", taskId=id, reason="lunch")
        os.kill(rpc.call("get_process", processId=process)["pid"], signal.SIGKILL)
        record = until("the attempt has failed", lambda: (lambda t: t if t["attempts"][0]["status"] == "failed" else None)(task(rpc, id)))
        assert (record["status"], record["statusReason"], record["attemptCount"]) == ("paused", "lunch", 1), record
        rpc.call("resume_task", taskId=id)
        record = reaches(rpc, id, *ENDED)
        assert record["status"] in ("completed", "failed") and record["attemptCount"] == 2, record
        check_all(home, rpc)


def test_what_is_approved_during_a_pause_runs_when_it_is_resumed():
    with Policed({"permissions": {"ask": ["Bash(cat:*)"]}}) as home, home.rpc() as rpc:
        id = make(rpc, commandLine="cat /dev/null; while :; do echo tick; sleep 0.02; done")
        process = rpc.call("start_task", taskId=id)["processId"]
        until("a person is asked", lambda: pending(rpc))
        rpc.call("pause_task", taskId=id)
        assert rpc.call("resume_task", taskId=id)["status"] == "waiting_permission"
        assert task(rpc, id)["actionId"] == pending(rpc)[0]["actionId"]
        rpc.call("pause_task", taskId=id)
        item = make(rpc)
        rpc.call("start_task", taskId=item)
        rpc.call("create_job", taskId=item, items=[{"commandLine": "cat /dev/null; while :; do echo tick; sleep 0.02; done"}])
        until("about the item, too", lambda: len(pending(rpc)) == 2)
        rpc.call("pause_task", taskId=item)
        for a in pending(rpc):
            rpc.call("respond_action", actionId=a["actionId"], decision="allow")
        processes = [process, rpc.call("list_processes", taskId=item)["processes"][0]["processId"]]
        until("they have begun", lambda: all(rpc.call("get_process", processId=p)["status"] == "running" for p in processes))
        for p in processes:
            pid = rpc.call("get_process", processId=p)["pid"]
            # A shell waits in D for a child that was stopped before its exec (vfork).
            until("it stands still", lambda: all(st[1] in "TZD" for st in (harness.stat_of(x) for x, _ in harness.descendants_of(pid)) if st))
        assert task(rpc, id)["status"] == task(rpc, item)["status"] == "paused"
        before = {p: written(rpc, p) for p in processes}
        assert rpc.call("resume_task", taskId=id)["status"] == task(rpc, id)["status"] == "running"
        rpc.call("resume_task", taskId=item)
        until("they continue", lambda: all(written(rpc, p) > before[p] for p in processes))
        for x in (id, item):
            rpc.call("cancel_task", taskId=x)
            assert reaches(rpc, x, *ENDED)["status"] == "cancelled"
        check_all(home, rpc)


def test_who_resumes_a_task_without_a_command_works_on_it(home):
    with home.rpc() as rpc:
        first, id = make(rpc), make(rpc, heartbeatMs=200)
        rpc.call("link_tasks", taskId=id, kind="blocked_by", targetId=first)
        rpc.call("start_task", taskId=id)
        rpc.call("pause_task", taskId=id)
        rpc.call("unlink_tasks", taskId=id, kind="blocked_by", targetId=first)
        rpc.call("resume_task", taskId=id)
        other = make(rpc, idleMs=400)
        rpc.call("start_task", taskId=other)
        reaches(rpc, other, "timed_out")
        assert task(rpc, id)["status"] == "running", "its worker is connected"


def test_resume_after_a_completed_attempt_runs_nothing_again(home):
    with home.rpc() as rpc:
        id = make(rpc, commandLine="echo x >>ran", cwd=home.work, autoComplete=False)
        rpc.call("start_task", taskId=id)
        reaches(rpc, id, "waiting_input")
        rpc.call("pause_task", taskId=id)
        assert rpc.call("resume_task", taskId=id)["status"] == "waiting_input"
        record = task(rpc, id)
        assert record["status"] == "waiting_input" and record["attemptCount"] == 1, record
        rpc.call("complete_task", taskId=id)
        with open(os.path.join(home.work, "ran")) as f:
            assert f.read() == "x\n"
        check_all(home, rpc)


def at(event):
    return datetime.datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()


def test_time_limits_do_not_run_during_a_pause_across_a_restart(home):
    limit, slack = 3.0, 0.1
    ms = int(limit * 1000)
    with home.rpc() as rpc:
        supervised = make(rpc, commandLine="sleep 1000", timeoutMs=ms)
        clients = [make(rpc, timeoutMs=ms), make(rpc, retryPolicy={"timeoutMs": ms}), make(rpc, idleMs=ms)]
        of_a_job, with_a_process = make(rpc), make(rpc)
        tasks = [supervised, *clients, of_a_job, with_a_process]
        for id in tasks:
            rpc.call("start_task", taskId=id)
        job = rpc.call("create_job", taskId=of_a_job, items=[{"commandLine": "sleep 1000"}], maxRuntimeMs=ms)["jobId"]
        process = rpc.call("start_process", taskId=with_a_process, command=["sleep", "1000"], limits={"wallMs": ms})["processId"]
        until("they run", lambda: len(rpc.call("list_processes", status="running")["processes"]) == 3)
        for id in tasks:
            rpc.call("pause_task", taskId=id)
        paused = time.monotonic()
    crash(home)
    with home.rpc() as rpc:
        until("the pause has lasted longer than what is left", lambda: time.monotonic() > paused + limit)
        pause = time.monotonic() - paused
        for id in tasks:
            assert rpc.call("resume_task", taskId=id)["status"] == "running"
        resumed = time.time()
        for id in (supervised, *clients):
            assert reaches(rpc, id, *ENDED)["status"] == "timed_out", task(rpc, id)
            said = {e["type"]: e for e in rpc.events(taskId=id)}
            assert at(said["task.timed_out"]) - at(said["task.started"]) > limit + pause - slack, said
        assert at(said["task.timed_out"]) > resumed + limit - slack, "the last one is limited by idleMs, which begins again"
        until("the job ends", lambda: rpc.call("get_job", jobId=job)["status"] == "failed")
        said = {e["type"]: e for e in rpc.events() if e.get("jobId") == job}
        assert at(said["job.failed"]) - at(said["job.started"]) > limit + pause - slack, said
        ended = rpc.wait(process)
        assert ended["limit"] == "wall" and ended["durationMs"] > (limit + pause - slack) * 1000, ended
        # What starts later has its own time: this pause is over.
        later = rpc.call("start_process", taskId=with_a_process, command=["true"])["processId"]
        started = [e["payload"] for e in rpc.events(processId=later) if e["type"] == "process.started"]
        assert started[0]["taskPausedMs"] > (pause - slack) * 1000, started
        check_all(home, rpc)


def test_a_question_that_is_answered_during_a_pause_waits_no_more(home):
    with home.rpc() as rpc:
        def ask(id):
            return rpc.call("request_action", taskId=id, actionType="input", prompt="which?")["actionId"]

        client, supervised, accepted = make(rpc), make(rpc, commandLine="sleep 1000"), make(rpc)
        for id in (client, supervised):
            rpc.call("start_task", taskId=id)
            reaches(rpc, id, "running")
        questions = {id: ask(id) for id in (client, supervised, accepted)}
        for id in questions:
            assert task(rpc, id)["status"] == "waiting_input"
            rpc.call("pause_task", taskId=id)
    crash(home)
    with home.rpc() as rpc:
        for id in questions:
            assert rpc.call("resume_task", taskId=id)["status"] == "waiting_input", "the question is still open"
            rpc.call("pause_task", taskId=id)
            rpc.call("respond_action", actionId=questions[id], decision="allow")
        for id, status in ((client, "running"), (supervised, "running"), (accepted, "accepted")):
            assert rpc.call("resume_task", taskId=id)["status"] == task(rpc, id)["status"] == status, task(rpc, id)
            assert "actionId" not in task(rpc, id)
        # The client's own word is kept.
        rpc.call("update_task", taskId=client, status="waiting_input", reason="which branch?")
        rpc.call("pause_task", taskId=client)
        assert rpc.call("resume_task", taskId=client)["status"] == "waiting_input"
        rpc.call("cancel_task", taskId=supervised)
        reaches(rpc, supervised, *ENDED)
        check_all(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
