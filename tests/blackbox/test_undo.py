"""bailiff undo: what an apply replaced on the host is put back, exactly or not at all."""

import os
import shutil
import threading

import harness
from faults import Faults
from harness import Home, INVALID_STATE, until
from test_cow import SAMPLE, SCRIPT, WANTED, as_user, changes, daemon_for_all, get, old_enough, put, run, sample, settle, tree


def times(top):
    return {os.path.relpath(os.path.join(d, n), top): os.lstat(os.path.join(d, n)).st_mtime_ns for d, _, fs in os.walk(top) for n in fs}


def undo(rpc, home, process):
    answer = rpc.call("undo_changes", processId=process)
    return {os.path.relpath(p, home.work) for p in answer["undone"]}, {os.path.relpath(c["path"], home.work): c["reason"] for c in answer["conflicts"]}


def applied(rpc, home, script, *paths):
    process = run(rpc, home, script)
    done, conflicts = settle(rpc, home, "apply_changes", process, *paths)
    assert done and not conflicts, (done, conflicts)
    return process


def test_undo_restores_every_file(home):
    sample(home)
    before, stamps = tree(home.work), times(home.work)
    validators = harness.event_validators()
    with home.rpc() as rpc:
        process = applied(rpc, home, SCRIPT)
        assert tree(home.work) != before
        answer = rpc.call("undo_changes", processId=process)
        below = {"away/x", "away/x/y"}
        assert {os.path.relpath(p, home.work) for p in answer["undone"]} == set(WANTED) | below and answer["undoable"] == 0, answer
        kinds = {os.path.relpath(c["path"], home.work): c["change"] for c in answer["changes"]}
        assert [kinds[n] for n in ("edited", "gone", "new")] == ["modified", "added", "deleted"], kinds
        assert tree(home.work) == before and times(home.work) == stamps
        told = [e for e in rpc.events(processId=process, types=["artifact.changed"]) if e["payload"]["source"] == "undo"]
        assert told[0]["payload"]["change"] == "requested" and told[-1]["payload"]["counts"]["undone"] == len(WANTED) + 2, told
        harness.validate(validators, told)
        assert "already undone" in rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE).message
        assert not [n for n in os.listdir(home.work) if n.startswith(".bailiff-")]
        other = run(rpc, home, "echo x >x")
        assert "nothing to undo" in rpc.fails("undo_changes", {"processId": other}, code=INVALID_STATE).message
        plain = rpc.run(["true"], cwd=home.work)[0]["processId"]
        rpc.fails("undo_changes", {"processId": plain}, code=INVALID_STATE)
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        rpc.fails("undo_changes", {"processId": process})


def test_an_init_that_exits_slowly_changes_nothing():
    """A busy disk delays it for seconds, in which the client can apply and undo what the run changed: that is listed once."""
    with Home(start=False) as home:
        report = os.path.join(home.dir, "nth")
        home.through = os.path.join(harness.BUILD, "nth"), report, *(f"init exit_group {n} delay 1500" for n in range(1, 5)), "--"
        home.start()
        with home.rpc() as rpc:
            process = rpc.start("echo x >n", cwd=home.work, cow=True)["processId"]
            until("it has completed", lambda: rpc.events(processId=process, types=["process.completed"]))
            assert rpc.call("list_changes", processId=process)["changes"]
            settle(rpc, home, "apply_changes", process)
            undo(rpc, home, process)
            rpc.wait(process)   # until its init is dead
            assert "already undone" in rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE).message
            told = [e["payload"] for e in rpc.events(processId=process, types=["artifact.changed"])]
            assert [(p["source"], p["kept"]) for p in told if p["change"] == "summary"] == [("run", True), ("apply", False), ("undo", True)], told
        with open(report) as f:
            assert "fired init exit_group" in f.read()


def test_undo_restores_types_and_modes(home):
    for name in ("file", "link-old", "ro/x", "shut/old", "folder/a/b"):
        put(os.path.join(home.work, name), name + "\n")
    os.symlink("file", os.path.join(home.work, "link"))
    os.chmod(os.path.join(home.work, "shut"), 0o555)
    old_enough(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = applied(rpc, home, "rm file; mkdir file; echo 1 >file/in; rm link; echo file >link; rm link-old; ln -s nowhere link-old;"
                          "rm -r folder; echo file >folder; chmod 711 ro; mkdir -p dark/er; echo y >dark/er/y; chmod 0 dark/er/y; chmod 0 dark/er;"
                          "chmod 111 dark; chmod u+w shut; echo z >shut/new; rm shut/old; chmod u-w shut")
        assert os.path.isdir(os.path.join(home.work, "file")) and get(os.path.join(home.work, "folder")) == "file\n"
        _, conflicts = undo(rpc, home, process)
        assert not conflicts and tree(home.work) == before, (conflicts, tree(home.work), before)
    os.chmod(os.path.join(home.work, "shut"), 0o755)


def test_undo_with_a_conflict_changes_nothing(home):
    sample(home)
    before = tree(home.work)
    outside = os.path.join(home.dir, "outside")
    with home.rpc() as rpc:
        process = applied(rpc, home, SCRIPT)
        after = tree(home.work)

        def refused(path, change, back, reason):
            change()
            now = tree(home.work)
            done, conflicts = undo(rpc, home, process)
            assert not done and reason in conflicts.pop(path, ""), (path, done, conflicts)
            assert not conflicts and tree(home.work) == now, conflicts
            back()
            assert tree(home.work) == after

        at = lambda name: os.path.join(home.work, name)
        refused("edited", lambda: put(at("edited"), "mine\n"), lambda: put(at("edited"), "one\nTWO\nthree\n"), "changed since")
        refused("gone", lambda: put(at("gone"), "mine\n"), lambda: os.unlink(at("gone")), "changed since")
        refused("mode", lambda: os.chmod(at("mode"), 0o700), lambda: os.chmod(at("mode"), 0o755), "changed since")
        refused("new/deep", lambda: put(at("new/deep/mine"), "mine\n"), lambda: os.unlink(at("new/deep/mine")), "contains mine")
        # A link in place of a folder is not followed.
        shutil.copytree(at("dir"), outside)
        os.rename(at("dir"), at("dir.away"))
        os.symlink(outside, at("dir"))
        done = home.cli("undo", process, status=1)
        assert b"conflict" in done.err and b"dir/c" in done.err and b"nothing was undone" in done.err, done.err
        assert sorted(os.listdir(outside)) == ["a", "b", "c"]
        os.unlink(at("dir"))
        os.rename(at("dir.away"), at("dir"))
        assert not undo(rpc, home, process)[1] and tree(home.work) == before


def test_interrupted_undo_can_be_repeated(home):
    """It had removed a folder that the apply made, and had put a file back where the apply made a folder."""
    sample(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = applied(rpc, home, "mkdir -p more/deep; echo f >more/deep/file; echo 2 >>edited; rm gone; mkdir gone; echo in >gone/in")
        for name in ("more", "gone"):
            shutil.rmtree(os.path.join(home.work, name))
        put(os.path.join(home.work, "gone"), SAMPLE["gone"])
        _, conflicts = undo(rpc, home, process)
        assert not conflicts and tree(home.work) == before, (conflicts, tree(home.work))


def test_newest_apply_is_undone_first(home):
    sample(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = applied(rpc, home, SCRIPT, "edited", "gone")
        first = tree(home.work)
        settle(rpc, home, "apply_changes", process, "new")
        settle(rpc, home, "discard_changes", process)
        home.restart()
    with home.rpc() as rpc:
        assert rpc.call("list_changes", processId=process)["undoable"] == 2
        assert undo(rpc, home, process)[0] == {"new", "new/deep", "new/deep/file"} and tree(home.work) == first
        assert undo(rpc, home, process)[0] == {"edited", "gone"} and tree(home.work) == before
        rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE)


def test_undo_verb_reports_its_result(home):
    put(os.path.join(home.work, "f"), "one\n")
    old_enough(home)
    home.cli("run", "--cow", "--", "sh", "-c", "echo two >>f; echo new >n")
    home.cli("apply", "@last")
    done = home.cli("undo")
    assert "undone    modified" in done.text and "undone    deleted" in done.text, done
    assert get(os.path.join(home.work, "f")) == "one\n" and not os.path.exists(os.path.join(home.work, "n"))
    again = home.cli("undo", "@last", status=1).err
    assert b"already undone" in again, again
    home.cli("undo", "@last", "f", status=2)
    home.cli("run", "--cow", "--", "sh", "-c", "echo three >>f")
    home.cli("apply", "@last")
    assert home.cli("undo", "--json").json["undone"] == [os.path.join(home.work, "f")]


def test_undo_journal_has_a_size_limit(home):
    big = os.path.join(home.work, "big")
    with open(big, "w") as f:
        f.truncate(257 << 20)
    put(os.path.join(home.work, "small"), "small\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "rm big small")
        answer = rpc.call("apply_changes", processId=process)
        assert len(answer["applied"]) == 2 and answer["undoable"] == 0 and "more than is kept" in answer["undoLost"], answer
        rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE)
        kept = applied(rpc, home, "echo new >new")
        folder = os.path.join(home.dir, "cow", kept, "undo")
        assert os.path.isdir(folder)
        new = run(rpc, home, "true")
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=new)["endSequence"])
        until("retention removes it", lambda: not os.path.exists(folder))


def test_apply_that_cannot_be_recorded_blocks_older_undos():
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        sample(home)
        before = tree(home.work)

        def apply(process, *paths):
            return rpc.call("apply_changes", processId=process, paths=[os.path.join(home.work, p) for p in paths])

        def undo_folder(process):
            return os.path.join(home.dir, "cow", process, "undo")

        # Nothing is applied: the apply before it can still be undone.
        process = applied(rpc, home, SCRIPT, "edited")
        put(os.path.join(home.work, "gone"), SAMPLE["gone"])
        faults.fail("mkdirat", "spawner", "ENOSPC", link=undo_folder(process))
        answer = apply(process, "gone")
        assert faults.done("mkdirat") and answer["conflicts"] and answer["undoable"] == 1 and "undoLost" not in answer, answer
        assert undo(rpc, home, process)[0] == {"edited"} and tree(home.work) == before

        # It is applied: neither it nor the one beneath it can be undone, whether no record or only the first can be written.
        # The second sync is of the entries in the new folder.
        for call, error, skip in (("mkdirat", "ENOSPC", 0), ("fdatasync", "EIO", 1)):
            old_enough(home)
            process = applied(rpc, home, "echo more >>edited; echo 1 >first; mkdir sub; echo 2 >sub/second; echo 3 >sub/third; echo 4 >fourth", "edited")
            faults.fail(call, "spawner", error, link=undo_folder(process), skip=skip)
            answer = apply(process, "first", "sub")
            assert faults.done(call) and len(answer["applied"]) == 4 and answer["undoable"] == 0 and answer["undoLost"], answer
            now = tree(home.work)
            assert "nothing to undo" in rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE).message
            apply(process, "fourth")
            assert undo(rpc, home, process)[0] == {"fourth"} and tree(home.work) == now
            rpc.fails("undo_changes", {"processId": process}, code=INVALID_STATE)
            os.unlink(os.path.join(home.work, "first"))
            shutil.rmtree(os.path.join(home.work, "sub"))

        # The folder of all journals cannot be made, or not given to the owner.
        for call in ("mkdirat", "fchown") if os.geteuid() == 0 else ("mkdirat",):
            process = run(rpc, home, "echo 1 >first; echo 2 >second")
            faults.fail(call, "spawner", "EDQUOT", link=os.path.dirname(undo_folder(process)))
            answer = apply(process, "first")
            assert faults.done(call) and len(answer["applied"]) == 1 and answer["undoable"] == 0 and answer["undoLost"], answer
            assert apply(process, "second")["undoable"] == 1 and undo(rpc, home, process)[0] == {"second"}
            os.unlink(os.path.join(home.work, "first"))


def test_apply_without_a_durable_journal_changes_nothing():
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        sample(home)
        before = tree(home.work)
        process = run(rpc, home, SCRIPT)
        faults.fail("fsync", "spawner", "EIO", count=-1, link=os.path.join(home.dir, "cow", process, "undo"))
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert not done and "can no longer be undone" in conflicts["edited"] and tree(home.work) == before, (done, conflicts)
        faults.heal()
        assert settle(rpc, home, "apply_changes", process) == (set(WANTED), {})
        undo(rpc, home, process)
        assert tree(home.work) == before


def test_damaged_journal_is_an_error_that_names_the_file(home):
    """Only the torn end of an interrupted apply is tolerated; any other damage is an error that names the file."""
    for i in range(12):
        put(os.path.join(home.work, f"f{i}"), f"old {i}\n")
    old_enough(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = applied(rpc, home, "for i in 0 1 2 3 4 5 6 7 8 9 10 11; do echo new $i >f$i; done")
        after = tree(home.work)
        name = f"cow/{process}/undo/00000001/journal"
        path = os.path.join(home.dir, name)
        with open(path, "rb") as f:
            good = f.read()

        def journal(data):
            with open(path, "r+b") as f:
                f.truncate(0)
                f.write(data)

        damaged = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1:] for at in range(0, len(good) - 400, len(good) // 9)]
        hole = len(good) // 2
        damaged += [good[:hole] + bytes(512) + good[hole + 512:], bytes(len(good) // 2) + good[len(good) // 2:]]
        for data in damaged:
            journal(data)
            error = rpc.fails("undo_changes", {"processId": process}, code=-32603)
            assert name in error.message and "nothing was undone" in error.message, error.message
            assert tree(home.work) == after
            assert name.encode() in home.cli("undo", process, status=1).err
            with open(path, "rb") as f:
                assert f.read() == data
        # A power cut loses the end: the mark of the complete apply, and records behind zeros.
        journal(good[:-100] + bytes(60))
        answer = rpc.call("undo_changes", processId=process)
        assert answer["interrupted"] is True and len(answer["undone"]) == 12 and tree(home.work) == before, answer
        process = applied(rpc, home, "echo x >f0")
        assert "interrupted" not in rpc.call("undo_changes", processId=process)


def killed(home, request, begun):
    """Sends a request and kills the spawner, with its helpers, once it has begun."""
    failed = []

    def send():
        try:
            with home.rpc() as rpc:
                request(rpc)
        except Exception as e:  # the answer is lost with the spawner
            failed.append(e)
    thread = threading.Thread(target=send)
    thread.start()
    until("it has begun", lambda: begun() or not thread.is_alive())
    home.kill_part("spawner")
    thread.join()

    def runs():
        try:
            with home.rpc() as rpc:
                return rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        except harness.RpcError:
            return False
    until("the new spawner starts commands", runs)  # before, a request may still go to the dead one
    return bool(failed)


def test_undo_and_apply_survive_kills(home):
    count = 400
    for i in range(count):
        put(os.path.join(home.work, f"d{i % 7}/f{i}"), f"old {i}\n")
    old_enough(home)
    before = tree(home.work)
    path = lambda i: os.path.join(home.work, f"d{i % 7}/f{i}")
    with home.rpc() as rpc:
        process = run(rpc, home, f"for i in $(seq 0 {count - 1}); do f=d$((i % 7))/f$i; if test $((i % 2)) = 0; then rm $f; else echo new $i >$f; fi;"
                      "echo n >$f.new; done")
    apply = lambda rpc: rpc.call("apply_changes", processId=process)
    cut = killed(home, apply, lambda: os.path.exists(path(0) + ".new"))
    assert tree(home.work) != before
    for attempt in range(3):
        start = sum(os.path.exists(path(i) + ".new") for i in range(count))
        cut |= killed(home, lambda rpc: rpc.call("undo_changes", processId=process),
                      lambda: sum(os.path.exists(path(i) + ".new") for i in range(count)) < start)
    assert cut, "nothing was interrupted"
    with home.rpc() as rpc:
        try:
            assert not undo(rpc, home, process)[1]
        except harness.RpcError as e:
            assert "already undone" in e.message, e
        found = tree(home.work)
        assert found == before, {n: (found.get(n), before.get(n)) for n in {*found, *before} if found.get(n) != before.get(n)}
        assert set(changes(rpc, home, process)) <= {os.path.relpath(path(i), home.work) + s for i in range(count) for s in ("", ".new")}


def temporaries(home):
    return [os.path.join(d, n) for d, _, names in os.walk(home.work) for n in names if n.startswith(".bailiff-")]


def test_temporary_files_of_a_killed_apply_are_removed(home):
    """The next apply, of whatever paths, removes them, and so does an undo."""
    for name in ("a", "d/b"):
        put(os.path.join(home.work, name), "old\n")
    old_enough(home)
    before = tree(home.work)

    def interrupted():
        """A process whose apply was killed while it wrote; None if it was faster."""
        with home.rpc() as rpc:
            process = run(rpc, home, "echo new >a; echo other >other; echo new >d/b; echo c >d/c; head -c 80000000 /dev/zero >d/large")
        killed(home, lambda rpc: rpc.call("apply_changes", processId=process), lambda: len(temporaries(home)) >= 3)
        if temporaries(home):
            return process
        with home.rpc() as rpc:
            undo(rpc, home, process)
        assert tree(home.work) == before
        return None
    for after in ("apply", "undo"):
        process = harness.until("it is interrupted while it writes", interrupted)
        with home.rpc() as rpc:
            if after == "apply":
                settle(rpc, home, "apply_changes", process, "d/c")
                assert not temporaries(home)
                assert undo(rpc, home, process)[0] == {"d/c"}
            answer = rpc.call("undo_changes", processId=process)
            assert answer["interrupted"] is True and not answer["conflicts"] and not temporaries(home), answer
            assert tree(home.work) == before


def test_undo_covers_several_batches_and_skips_conflicts(home):
    """More than one batch, and a conflict in the middle of one, which is not part of the undo."""
    count = 300
    for i in range(count):
        put(os.path.join(home.work, f"f{i:03}"), f"old {i}\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, f"for i in $(seq -w 0 {count - 1}); do echo new >f$i; echo n >n$i; done; rm f007; ln -s x f008.link")
        put(os.path.join(home.work, "f150"), "mine\n")
        before = tree(home.work)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert set(conflicts) == {"f150"} and len(done) == 2 * count, (conflicts, len(done))
        assert set(changes(rpc, home, process)) == {"f150"}
        put(os.path.join(home.work, "f150"), "mine again\n")
        assert len(undo(rpc, home, process)[0]) == 2 * count
        put(os.path.join(home.work, "f150"), "mine\n")
        assert tree(home.work) == before


def test_apply_syncs_in_batches():
    """Syncs take the time of an apply: 400 files need no more than a few."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        for i in range(200):
            put(os.path.join(home.work, f"f{i}"), "old\n")
        old_enough(home)
        process = run(rpc, home, "for i in $(seq 0 199); do echo new >f$i; echo n >n$i; done")
        # The calls after so many would fail.
        for call in ("fsync", "fdatasync"):
            faults.fail(call, "spawner", "EIO", count=-1, skip=40)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert len(done) == 400 and not conflicts, conflicts


def test_undo_keeps_owners_and_rejects_other_users():
    """As the run's owner: a file that it may only write to keeps its owner, and others cannot undo anything."""
    with daemon_for_all() as home:
        put(os.path.join(home.work, "mine"), "old\n", 0o644)
        put(os.path.join(home.work, "shared"), "old\n", 0o666)
        os.chown(os.path.join(home.work, "mine"), 4321, 4321)
        os.chown(home.work, 4321, 4321)
        old_enough(home)
        before = tree(home.work)
        process = as_user(4321, home, "run", "--cow", "--", "sh", "-c", "echo new >mine; echo new >>shared; echo new >made") \
            .stderr.split("bailiff diff|apply|discard ")[1].split()[0]
        as_user(4321, home, "apply", process)
        after = tree(home.work)
        as_user(4322, home, "undo", process, status=1)
        assert tree(home.work) == after != before
        os.chmod(os.path.join(home.work, "shared"), 0o600)
        with home.rpc() as rpc:
            done, conflicts = undo(rpc, home, process)  # root may, with the owner's rights
        assert not done and "shared" in conflicts, (done, conflicts)
        os.chmod(os.path.join(home.work, "shared"), 0o666)
        as_user(4321, home, "undo", process)
        assert tree(home.work) == before


if __name__ == "__main__":
    harness.main(globals())
