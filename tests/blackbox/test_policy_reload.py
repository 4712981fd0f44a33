"""Policy files that change while the daemon runs: reloaded automatically, and on request."""

import hashlib
import json
import os
import signal

import harness
from harness import until
from test_policy import ASK, Policed, policy


def test_changed_policy_file_is_reloaded_automatically():
    """Written in place, replaced as editors do it, or removed; without a signal."""
    def denied(rpc, home):
        try:
            rpc.wait(rpc.call("start_process", command=["true"], cwd=home.work)["processId"])
            return False
        except harness.RpcError as e:
            return e.code == -32010
    with Policed(ASK) as home, home.rpc() as rpc:
        assert not denied(rpc, home)
        policy(home, {"permissions": {"deny": ["Bash(true)"]}})
        until("the file written in place is in effect", lambda: denied(rpc, home))
        path = os.path.join(home.dir, "policy.json")
        with open(path + ".new", "w") as f:
            json.dump(ASK, f)
        os.rename(path + ".new", path)
        until("the replacement is in effect", lambda: not denied(rpc, home))
        policy(home, {"permissions": {"deny": ["Bash(true)"]}})
        until("it is written again", lambda: denied(rpc, home))
        os.unlink(path)
        until("it is gone", lambda: not denied(rpc, home))
        with open(path + ".new", "w") as f:
            json.dump({"permissions": {"deny": ["Bash(true)"]}}, f)
        os.link(path + ".new", path)
        until("the linked file is in effect", lambda: denied(rpc, home))
        os.unlink(path)
        until("it is gone again", lambda: not denied(rpc, home))
        changed = [e["payload"]["summary"] for e in rpc.events(types=["policy.changed"])]
        assert len(changed) >= 4 and "gone" in changed[-1], changed


def test_reload_answers_after_the_change_is_recorded():
    with Policed({"permissions": {"deny": ["Bash(rm:*)"]}}) as home, home.rpc() as rpc:
        for n in range(20):
            # The guard notices the change, too. It is stopped, so that it gets the request before it can reload the file automatically.
            home.guard.send_signal(signal.SIGSTOP)
            try:
                policy(home, {"permissions": {"deny": ["Bash(rm:*)", "Bash(x%d:*)" % n]}})
                request = rpc.send("reload_policy")
                rpc.call("get_health")    # handled after the request
            finally:
                home.guard.send_signal(signal.SIGCONT)
            told = rpc.reply(request)
            with open(os.path.join(home.dir, "policy.json"), "rb") as f:
                now = hashlib.sha256(f.read()).hexdigest()
            changed, = [e for e in rpc.events(types=["policy.changed"]) if e["payload"].get("newHash") == now]
            assert changed["sequence"] <= told["sequence"] and told["rules"] == 2, (told, now)
            assert changed["payload"]["by"]["uid"] == os.getuid(), "a change that the client requested names it"


if __name__ == "__main__":
    harness.main(globals())
