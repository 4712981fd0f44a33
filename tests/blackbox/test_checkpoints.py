"""Checkpoints, restores and forks of copy-on-write sandboxes, and their changes."""

import contextlib
import os
import signal
import stat
import time

import harness
from harness import INVALID_STATE, Home, until
from test_cow import get, old_enough, put, runs

NOT_FOUND = -32004
EXHAUSTED = -32012


def create(rpc, home, **more):
    return rpc.call("create_sandbox", cow=True, cwd=home.work, **more)["sandboxId"]


def inside(rpc, sandbox, script):
    """Runs a script in the sandbox, which must succeed."""
    started, result = rpc.run(["sh", "-ec", script], sandboxId=sandbox)
    assert result["exitCode"] == 0, (result, rpc.outputs(started["processId"]))


def kept(home):
    return sorted(runs(os.path.join(home.dir, "cow")))


def checkpoints(rpc, sandbox):
    return [c["checkpointId"] for c in rpc.call("get_sandbox", sandboxId=sandbox).get("checkpoints", [])]


def changed(rpc, home, sandbox, **more):
    answer = rpc.call("list_changes", sandboxId=sandbox, **more)
    return {os.path.relpath(c["path"], home.work): c["change"] for c in answer["changes"]}


def test_restore_brings_the_checkpoint_back():
    with Home() as home, home.rpc() as rpc:
        put(f"{home.work}/kept", "kept\n")
        put(f"{home.work}/gone", "gone\n")
        put(f"{home.work}/dir/old", "old\n")
        old_enough(home)
        s = create(rpc, home)
        inside(rpc, s, "echo one >kept; rm gone; rm -r dir; mkdir dir; echo new >dir/new; ln kept hard; ln -s kept soft; "
                       "chmod 600 kept; mkfifo pipe; truncate -s 1M sparse; echo x >/tmp/scratch")
        answer = rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="first")
        assert answer["checkpointId"].startswith("ckp_"), answer
        inside(rpc, s, "echo two >kept; rm -r dir; echo more >more; test -e /tmp/scratch")
        before = rpc.call("get_sandbox", sandboxId=s)
        assert [c["name"] for c in before["checkpoints"]] == ["first"], before
        restored = rpc.call("restore_sandbox", sandboxId=s, checkpoint="first")
        assert "/tmp" in restored["lost"] and restored["processId"] != before["processId"], restored
        inside(rpc, s, 'test "$(cat kept)" = one; test ! -e gone; test "$(ls dir)" = new; test kept -ef hard; '
                       'test "$(readlink soft)" = kept; test "$(stat -c %a kept)" = 600; test -p pipe; test ! -e more; '
                       'test ! -e /tmp/scratch; test "$(stat -c %s sparse)" = 1048576')
        assert rpc.call("get_sandbox", sandboxId=s)["processId"] == restored["processId"]
        types = [e["type"] for e in rpc.events()]
        assert "sandbox.checkpointed" in types and "sandbox.restored" in types, types
        assert "sandbox.closed" not in types
        # The host has not changed, and nothing is left of the holder that was replaced.
        assert get(f"{home.work}/kept") == "kept\n" and get(f"{home.work}/gone") == "gone\n"
        until("the previous layers are gone", lambda: len(kept(home)) == 2)
        assert before["processId"] not in kept(home)


def test_several_attempts_start_from_one_state_and_one_is_applied():
    with Home() as home, home.rpc() as rpc:
        put(f"{home.work}/code", "base\n")
        old_enough(home)
        s = create(rpc, home)
        inside(rpc, s, "echo prepared >code; echo common >common")
        rpc.call("checkpoint_sandbox", sandboxId=s)
        a = rpc.call("fork_sandbox", sandboxId=s, name="attempt-a")["sandboxId"]
        b = rpc.call("fork_sandbox", sandboxId=s, checkpoint=checkpoints(rpc, s)[0])["sandboxId"]
        assert len({s, a, b}) == 3
        inside(rpc, "attempt-a", 'test "$(cat code)" = prepared; echo a >>code; echo a >only-a')
        inside(rpc, b, 'test "$(cat code)" = prepared; test ! -e only-a; echo b >>code; rm common')
        inside(rpc, s, 'test "$(cat code)" = prepared; test ! -e only-a')
        assert changed(rpc, home, a) == {"code": "modified", "common": "added", "only-a": "added"}
        assert changed(rpc, home, b) == {"code": "modified"}
        origin = rpc.call("get_sandbox", sandboxId=b)["forkedFrom"]
        assert origin == {"sandboxId": s, "checkpointId": checkpoints(rpc, s)[0]}, origin
        rpc.fails("apply_changes", sandboxId=a, code=INVALID_STATE)
        rpc.call("close_sandbox", sandboxId=a)
        answer = rpc.call("apply_changes", sandboxId=a)
        assert not answer["conflicts"], answer
        assert get(f"{home.work}/code") == "prepared\na\n" and get(f"{home.work}/only-a") == "a\n"
        rpc.call("close_sandbox", sandboxId=b)
        rpc.call("discard_changes", sandboxId=b)
        rpc.call("close_sandbox", sandboxId=s)
        rpc.call("discard_changes", sandboxId=s)
        holder = rpc.call("get_sandbox", sandboxId=a)["processId"]
        until("nothing is left but what the apply replaced", lambda: kept(home) == [holder])
        assert rpc.call("undo_changes", sandboxId=a)["undoable"] == 0 and get(f"{home.work}/code") == "base\n"


def test_changes_of_an_open_sandbox_can_be_read_while_nothing_runs():
    with Home() as home, home.rpc() as rpc:
        put(f"{home.work}/f", "one\n")
        old_enough(home)
        s = create(rpc, home, name="open")
        inside(rpc, s, "echo two >f")
        answer = rpc.call("list_changes", sandboxId="open", diffs=True)
        assert "+two" in answer["changes"][0]["diff"], answer
        process = rpc.start(["sleep", "1000"], sandboxId=s)["processId"]
        error = rpc.fails("list_changes", sandboxId=s, code=INVALID_STATE)
        assert process in str(error), error
        for method in ("checkpoint_sandbox", "fork_sandbox"):
            error = rpc.fails(method, sandboxId=s, code=INVALID_STATE)
            assert process in str(error) and "sleep 1000" in str(error), error
        rpc.end(process)
        until("nothing runs in it", lambda: not rpc.call("get_sandbox", sandboxId=s)["processes"])
        for method in ("apply_changes", "discard_changes"):
            error = rpc.fails(method, sandboxId=s, code=INVALID_STATE)
            assert "close it first" in str(error), error
        inside(rpc, s, 'test "$(cat f)" = two')
        # A command in the sandbox is not a copy-on-write run of its own.
        rpc.fails("list_changes", processId=process, code=INVALID_STATE)


def test_invalid_checkpoint_requests_are_rejected_with_a_reason():
    with Home() as home, home.rpc() as rpc:
        plain = rpc.call("create_sandbox", cwd=home.work)["sandboxId"]
        s = create(rpc, home)
        for method in ("checkpoint_sandbox", "restore_sandbox", "fork_sandbox"):
            assert "copy-on-write" in str(rpc.fails(method, sandboxId=plain, code=INVALID_STATE)), method
            rpc.fails(method, sandboxId="sbx_unknown", code=NOT_FOUND)
        assert "no checkpoint" in str(rpc.fails("restore_sandbox", sandboxId=s, code=INVALID_STATE))
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="one")
        assert "use another name" in str(rpc.fails("checkpoint_sandbox", sandboxId=s, checkpoint="one"))
        assert "checkpoint" in str(rpc.fails("checkpoint_sandbox", sandboxId=s, checkpoint="a b"))
        rpc.fails("checkpoint_sandbox", sandboxId=s, checkpoint="ckp_mine")
        rpc.fails("restore_sandbox", sandboxId=s, checkpoint="two", code=NOT_FOUND)
        rpc.fails("fork_sandbox", sandboxId=s, checkpoint="two", code=NOT_FOUND)
        rpc.fails("list_changes", sandboxId=s, processId="proc_x")
        rpc.fails("list_changes")
        inside(rpc, s, "echo it still works")


def test_checkpoints_are_removed_on_close_and_kept_after_an_idle_timeout():
    with Home() as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "echo x >f")
        rpc.call("checkpoint_sandbox", sandboxId=s)
        rpc.call("close_sandbox", sandboxId=s)
        rpc.call("discard_changes", sandboxId=s)
        until("all of it is removed", lambda: kept(home) == [])
        assert checkpoints(rpc, s) == []
        s = create(rpc, home, idleMs=2000)
        inside(rpc, s, "echo y >f")
        rpc.call("checkpoint_sandbox", sandboxId=s)
        inside(rpc, s, "echo z >f")
        until("it has ended", lambda: rpc.call("get_sandbox", sandboxId=s)["status"] == "closed")
        assert len(checkpoints(rpc, s)) == 1
        # It continues as a fork: of a checkpoint, or of what it was at its end.
        again = rpc.call("fork_sandbox", sandboxId=s, checkpoint=checkpoints(rpc, s)[0])["sandboxId"]
        inside(rpc, again, 'test "$(cat f)" = y')
        last = rpc.call("fork_sandbox", sandboxId=s)["sandboxId"]
        inside(rpc, last, 'test "$(cat f)" = z')


def test_checkpoints_survive_the_death_of_every_part():
    with Home() as home:
        with home.rpc() as rpc:
            s = create(rpc, home)
            inside(rpc, s, "echo x >f")
            rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="c")
            inside(rpc, s, "echo y >f")
        for part in ("runtime", "spawner"):
            home.kill_part(part)
            with home.rpc() as rpc:
                inside(rpc, s, "cat f")
                rpc.call("restore_sandbox", sandboxId=s, checkpoint="c")
                inside(rpc, s, 'test "$(cat f)" = x; echo y >f')


def test_copies_are_repeated_when_the_spawner_dies():
    with Home() as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "for i in 1 2 3 4 5 6 7 8; do head -c 4M /dev/urandom >big$i; done; echo x >f")
        for i, delay in enumerate((0, 0.01, 0.02, 0.05, 0.1, 0.2)):
            asked = rpc.send("checkpoint_sandbox", sandboxId=s, checkpoint=f"c{i}")
            time.sleep(delay)
            home.kill_part("spawner")
            rpc.reply(asked)
            inside(rpc, s, "echo y >f")
            asked = rpc.send("restore_sandbox", sandboxId=s, checkpoint=f"c{i}")
            time.sleep(delay)
            home.kill_part("spawner")
            rpc.reply(asked)
            inside(rpc, s, 'test "$(cat f)" = x; test -s big8')
        until("no half of a copy is left", lambda: not [n for n in os.listdir(os.path.join(home.dir, "cow")) if n.endswith(".partial")])


def test_a_crash_during_a_restore_leaves_one_holder():
    with Home() as home:
        with home.rpc() as rpc:
            s = create(rpc, home)
            inside(rpc, s, "for i in 1 2 3 4 5 6 7 8; do head -c 4M /dev/urandom >big$i; done; echo x >f")
            rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="c")
        for delay in (0, 0.02, 0.05, 0.1, 0.2):
            with home.rpc() as rpc:
                inside(rpc, s, "echo y >f")
                rpc.send("restore_sandbox", sandboxId=s, checkpoint="c")
                time.sleep(delay)
                home.kill_part("runtime")
            with home.rpc() as rpc:
                holder = rpc.call("get_sandbox", sandboxId=s)["processId"]
                until("there is one holder", lambda: [p["processId"] for p in rpc.call("list_processes", holders=True)["processes"]
                                                      if p["status"] == "running"] == [holder])
                inside(rpc, s, "cat f; test -s big8")
        with home.rpc() as rpc:
            rpc.call("restore_sandbox", sandboxId=s, checkpoint="c")
            inside(rpc, s, 'test "$(cat f)" = x')


def test_partial_copies_are_removed_at_the_next_start():
    with Home() as home:
        with home.rpc() as rpc:
            s = create(rpc, home)
            inside(rpc, s, "echo x >f")
            known = rpc.call("checkpoint_sandbox", sandboxId=s)["checkpointId"]
        home.stop()
        os.makedirs(f"{home.dir}/cow/ckp_cut.partial/0/upper")
        os.makedirs(f"{home.dir}/cow/ckp_unknown/0/upper")
        home.start()
        until("the half is removed", lambda: not [n for n in kept(home) if n.startswith("ckp_") and n != known])
        assert known in kept(home)


def test_autorun_files_of_all_commands_before_are_held_back():
    with Home() as home, home.rpc() as rpc:
        put(f"{home.work}/f", "one\n")
        old_enough(home)
        s = create(rpc, home)
        inside(rpc, s, "mkdir -p new/.git/hooks new/.git/objects new/.git/refs; echo ref: refs/heads/x >new/.git/HEAD; "
                       "printf '#!/bin/sh\\n' >new/.git/hooks/pre-commit; chmod +x new/.git/hooks/pre-commit; echo two >f")
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="c")
        fork = rpc.call("fork_sandbox", sandboxId=s, checkpoint="c")["sandboxId"]
        inside(rpc, fork, "echo three >f")
        rpc.call("close_sandbox", sandboxId=fork)
        answer = rpc.call("apply_changes", sandboxId=fork)
        reasons = {os.path.relpath(c["path"], home.work): c["reason"] for c in answer["conflicts"]}
        assert "held back" in reasons.get("new/.git/hooks/pre-commit", ""), answer
        assert get(f"{home.work}/f") == "three\n"
        assert not os.path.exists(f"{home.work}/new/.git/hooks/pre-commit")


def test_the_advice_about_changes_of_a_command_names_its_sandbox():
    """They are not in the files themselves: a revert would compare with what was never there."""
    with Home() as home:
        s = home.cli("sandbox", "create", "--cow", "--name", "try", cwd=home.work).text.strip()
        advice = home.cli("exec", "try", "sh", "-c", "echo x >.envrc").err.decode()
        assert f"bailiff apply {s} leaves these out" in advice and "revert" not in advice, advice
        process = home.cli("exec", "-d", "try", "sh", "-c", "echo y >.envrc").text.strip()
        assert home.cli("wait", process).err.decode().endswith(advice[advice.index("bailiff apply"):])
        for verb in ("revert", "diff", "apply"):
            assert f"copy-on-write sandbox {s}" in home.cli(verb, process, status=1).err.decode(), verb
        assert home.cli("diff", s).text


def test_checkpoint_verbs_of_the_command_line():
    with Home() as home:
        put(f"{home.work}/f", "one\n")
        old_enough(home)
        s = home.cli("sandbox", "create", "--cow", "--name", "try", cwd=home.work).text.strip()
        home.cli("exec", "try", "--", "sh", "-c", "echo two >f", cwd=home.work)
        assert f"bailiff sandbox show {s} lists its checkpoints" in home.cli("sandbox", "restore", "try", "good", status=1).err.decode()
        made = home.cli("sandbox", "checkpoint", "try", "good").text.strip()
        assert made.startswith("ckp_"), made
        home.cli("exec", "try", "--", "sh", "-c", "echo three >f", cwd=home.work)
        diff = home.cli("diff", "try").text
        assert "+three" in diff and "-one" in diff, diff
        out = home.cli("sandbox", "restore", "try", "good")
        assert "/tmp" in out.err.decode(), out.err
        assert "+two" in home.cli("diff", "try").text
        assert "good" in home.cli("sandbox", "show", "try").text
        fork = home.cli("sandbox", "fork", "try", "good", "--name", "second").text.strip()
        assert fork.startswith("sbx_") and fork != s
        home.cli("exec", "second", "--", "sh", "-c", "echo four >f", cwd=home.work)
        refused = home.cli("apply", "second", status=1)
        assert "close" in refused.err.decode(), refused.err
        home.cli("sandbox", "close", "second")
        home.cli("apply", fork)
        assert get(f"{home.work}/f") == "four\n"
        home.cli("sandbox", "close", "try")
        home.cli("discard", s)
        home.cli("sandbox", "restore", "try", status=1)
        home.cli("sandbox", "checkpoint", status=2)


def test_many_copies_wait_for_each_other_and_not_others_for_them():
    """A dozen at a time, of many files: each is made, and short requests find a helper meanwhile."""
    with Home() as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "mkdir many; cd many; seq 1500 | xargs touch")
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="base")
        asked = [rpc.send("fork_sandbox", {"sandboxId": s, "checkpoint": "base"}) for _ in range(12)]
        with home.rpc() as other:
            assert len(changed(other, home, s)) == 1501
        forks = [rpc.reply(each)["sandboxId"] for each in asked]
        assert len(set(forks)) == 12
        inside(rpc, forks[-1], "test -e many/1500")


def test_requests_of_one_user_have_a_limit():
    """While the spawner does not respond: the 33rd fork and the 65th request about changes are rejected, the others wait."""
    with Home() as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "echo x >f")
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="base")
        home.kill_part("spawner", signal.SIGSTOP)
        with contextlib.ExitStack() as stack:
            stack.callback(home.kill_part, "spawner", signal.SIGCONT)
            clients = [stack.enter_context(home.rpc()) for _ in range(4)]
            listed = [(c, c.send("list_changes", sandboxId=s)) for c in clients for _ in range(16)]
            for c in clients:
                c.call("get_health")    # the requests before it were read
            error = rpc.fails("list_changes", sandboxId=s, code=EXHAUSTED)
            assert "64 requests" in error.message and error.data["retryable"], error
            forks = [(c, c.send("fork_sandbox", {"sandboxId": s, "checkpoint": "base"})) for c in clients for _ in range(8)]
            for c in clients:
                c.call("get_health")
            error = rpc.fails("fork_sandbox", sandboxId=s, checkpoint="base", code=EXHAUSTED)
            assert "32 checkpoints, restores and forks" in error.message and error.data["retryable"], error
            home.kill_part("spawner", signal.SIGCONT)
            for c, request in listed:
                assert c.reply(request)["changes"]
            ids = {c.reply(request)["sandboxId"] for c, request in forks}
            assert len(ids) == 32, ids
        rpc.call("list_changes", sandboxId=s)


def test_checkpoints_and_forks_have_a_disk_limit():
    with Home({"maxCheckpointBytesPerUid": 10 << 20}) as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "head -c 3M /dev/zero >large; sync large")
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="first")
        fork = rpc.call("fork_sandbox", sandboxId=s)["sandboxId"]
        rpc.call("checkpoint_sandbox", sandboxId=fork)
        before = kept(home)
        for method, params in (("checkpoint_sandbox", {}), ("fork_sandbox", {}), ("restore_sandbox", {"checkpoint": "first"})):
            error = rpc.fails(method, sandboxId=s, code=EXHAUSTED, **params)
            assert "maxCheckpointBytesPerUid (10485760 bytes)" in error.message, error
            assert "bailiff discard" in error.message and "config.json" in error.message, error
        assert kept(home) == before
        inside(rpc, s, "test -s large")     # the sandbox can still be used
        rpc.call("close_sandbox", sandboxId=fork)   # removes its checkpoint
        until("the checkpoint is removed", lambda: len(kept(home)) == len(before) - 1)
        rpc.call("checkpoint_sandbox", sandboxId=s)
        # The limit does not depend on what the runtime remembers.
        home.kill_part("runtime")
        until("the next runtime answers", home.answers)
        with home.rpc() as later:
            later.fails("checkpoint_sandbox", sandboxId=s, code=EXHAUSTED)
            later.call("discard_changes", sandboxId=fork)
            later.call("checkpoint_sandbox", sandboxId=s)


def test_restore_fails_if_the_root_directory_was_replaced():
    with Home() as home, home.rpc() as rpc:
        s = create(rpc, home)
        inside(rpc, s, "echo x >f")
        rpc.call("checkpoint_sandbox", sandboxId=s, checkpoint="c")
        os.rename(home.work, home.work + ".away")
        os.mkdir(home.work)
        os.chmod(home.work, stat.S_IMODE(os.stat(home.work + ".away").st_mode))
        os.chown(home.work, os.stat(home.work + ".away").st_uid, os.stat(home.work + ".away").st_gid)
        before = rpc.call("get_sandbox", sandboxId=s)["processId"]
        rpc.fails("restore_sandbox", sandboxId=s, checkpoint="c")
        assert rpc.call("get_sandbox", sandboxId=s)["processId"] == before
        os.rmdir(home.work)
        os.rename(home.work + ".away", home.work)
        inside(rpc, s, 'test "$(cat f)" = x')


if __name__ == "__main__":
    harness.main(globals())
