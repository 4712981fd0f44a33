"""System calls that fail where they hardly ever do: nothing is lost silently, nothing hangs, nothing crashes."""

import signal

import harness
from faults import Faults
from harness import Home, until

# Freed memory is overwritten: whoever uses it after all does not get away with it.
POISON = {"MALLOC_PERTURB_": "165"}


def test_a_stop_with_a_broken_disk_is_orderly():
    """Requests whose facts cannot be written are still under way: each is refused before what it belongs to goes."""
    with Faults() as faults, Home(env=dict(faults.env, **POISON)) as home:
        with home.rpc() as rpc:
            runs = [rpc.run(["sh", "-c", f"echo {i} >f{i}"], cwd=home.work, cow=True)[0]["processId"] for i in range(4)]
            assert all(rpc.call("list_changes", processId=p)["changes"] for p in runs)
            home.kill_part("spawner", signal.SIGSTOP)
            asked = rpc.call("get_health")["store"]["lastSequence"]
            for process in runs:
                rpc.send("discard_changes", {"processId": process})
            until("they are asked for", lambda: rpc.call("get_health")["store"]["lastSequence"] >= asked + len(runs))
            for call in ("fdatasync", "fsync", "pwrite"):
                faults.fail(call, "runtime", "EIO", count=-1)
            home.kill_part("spawner", signal.SIGCONT)
            until("what was done cannot be recorded", lambda: rpc.call("get_health")["store"]["queuedBatches"] >= len(runs))
            home.stop(expect=False)
        log = "".join(home.log())
        assert "killed by signal" not in log and "ERROR: AddressSanitizer" not in log, log
        faults.heal()
        home.start()
        with home.rpc() as rpc:
            assert rpc.call("verify_store")["ok"] is True


if __name__ == "__main__":
    harness.main(globals())
