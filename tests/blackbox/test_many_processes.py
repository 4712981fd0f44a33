"""200 commands at once: exact outputs and exit codes, a gapless log, one terminal event each, valid under both schemas."""

import harness
from harness import TALKER

COUNT = 200


def test_200_commands_run_in_parallel(home):
    with home.rpc() as rpc:
        requests = [rpc.send("start_process", command=[TALKER, "talk", str(n), str(n % 40), "500", str(n % 100)]) for n in range(COUNT)]
        started = [rpc.reply(i) for i in requests]
        waits = [rpc.send("wait_process", processId=s["processId"]) for s in started]
        for n, i in enumerate(waits):
            end = rpc.reply(i)
            assert (end["status"], end["exitCode"]) == ("completed", n % 100), (n, end)
        for n, s in enumerate(started):
            out = rpc.outputs(s["processId"])
            assert (out["stdout"], out["stderr"]) == harness.talker_output(n, n % 40), n
        log = rpc.events()
        assert len(harness.check_log(log)) == COUNT
        harness.validate(harness.event_validators(), log)
        report = rpc.call("verify_store")
        assert report["ok"] is True, report
    home.cli("store", "verify")
    home.restart()
    with home.rpc() as rpc:
        assert rpc.events()[:len(log)] == log
        assert rpc.call("verify_store")["ok"] is True


def test_50_clients_run_200_commands(home):
    links = [home.rpc() for _ in range(50)]
    try:
        requests = [(r, r.send("start_process", commandLine=f"echo {n}-{k}; exit {k}")) for n, r in enumerate(links) for k in range(4)]
        ids = [(r, r.reply(i)["processId"], n // 4, n % 4) for n, (r, i) in enumerate(requests)]
        for rpc, process, n, k in ids:
            assert rpc.wait(process)["exitCode"] == k
            assert rpc.outputs(process)["stdout"] == f"{n}-{k}\n".encode()
        harness.check_log(links[0].events())
    finally:
        for rpc in links:
            rpc.close()


def test_many_commands_are_killed_together(home):
    import os
    mark = f"mark-{os.getpid()}-many"
    with home.rpc() as rpc:
        ids = [rpc.reply(i)["processId"] for i in [rpc.send("start_process", command=[TALKER, "hold", ("plain", "daemon", "ignore", "many")[n % 4], mark])
                                                  for n in range(40)]]
        for process in ids:
            harness.until("ready", lambda p=process: b"ready" in rpc.outputs(p)["stdout"])
        for i in [rpc.send("terminate_process", processId=p, graceMs=50) for p in ids]:
            rpc.reply(i)
        assert not harness.marked(mark)
        harness.check_log(rpc.events())


if __name__ == "__main__":
    harness.main(globals())
