"""Copy-on-write runs: the host's files stay unchanged until a client applies the command's changes."""

import contextlib
import os
import stat
import struct
import subprocess
import time

import filesystems
import harness
from harness import Home, Skip, until
from files import get, put


def tree(top):
    """Everything below, by relative path: kind, mode, owner and content."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else get(path) if stat.S_ISREG(st.st_mode) else None
            found[os.path.relpath(path, top)] = (oct(st.st_mode), st.st_uid, st.st_gid, what)
    return found


def runs(cow):
    """The runs whose changes are kept, without the key next to them."""
    return [name for name in os.listdir(cow) if not name.startswith(".")]


def run(rpc, home, script, **more):
    started, result = rpc.run(["sh", "-ec", script], cwd=home.work, cow=True, **more)
    assert result["exitCode"] == 0, (result, rpc.outputs(started["processId"]))
    return started["processId"]


def changes(rpc, home, process, **more):
    answer = rpc.call("list_changes", processId=process, **more)
    return {os.path.relpath(c["path"], home.work): c for c in answer["changes"]}


def kinds(found):
    return {path: c["change"] for path, c in found.items()}


def settle(rpc, home, method, process, *paths):
    more = {"paths": [os.path.join(home.work, p) for p in paths]} if paths else {}
    answer = rpc.call(method, processId=process, **more)
    done = answer["applied"] if method == "apply_changes" else answer["discarded"]
    return {os.path.relpath(p, home.work) for p in done}, {os.path.relpath(c["path"], home.work): c["reason"] for c in answer["conflicts"]}


def old_enough(home):
    """File timestamps are coarse: waits until files created just now are older than the next run."""
    mark = os.path.join(home.dir, "mark")
    newest = max([os.lstat(os.path.join(d, n)).st_ctime_ns for d, ds, fs in os.walk(home.work) for n in ds + fs] + [0])

    def later():
        put(mark)
        return os.stat(mark).st_ctime_ns > newest
    until("the file system's clock advances", later)


SAMPLE = {"kept": "kept\n", "edited": "one\ntwo\nthree\n", "gone": "gone\n", "moved": "moved\n", "mode": "#!/bin/sh\n",
          "dir/a": "a\n", "dir/b": "b\n", "away/x/y": "y\n", "again/old": "old\n"}
SCRIPT = """
sed -i s/two/TWO/ edited; rm gone; mv moved there; chmod 755 mode; ln -s edited link; mkdir -p new/deep; echo new >new/deep/file
rm -r away; rm -r again; mkdir again; echo new >again/new; echo c >dir/c; : <kept; printf 'a\\0b' >binary; mkdir -m 700 private
"""
WANTED = {"edited": "modified", "gone": "deleted", "moved": "deleted", "there": "added", "mode": "modified", "link": "added",
          "new": "added", "new/deep": "added", "new/deep/file": "added", "away": "deleted", "again/old": "deleted",
          "again/new": "added", "dir/c": "added", "binary": "added", "private": "added"}


def sample(home):
    for path, text in SAMPLE.items():
        put(os.path.join(home.work, path), text, 0o644)
    old_enough(home)


def test_files_on_the_host_stay_unchanged(home):
    sample(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT + "cat again/new there; test ! -e gone; test ! -e again/old")
        assert rpc.outputs(process)["stdout"] == b"new\nmoved\n"
        assert tree(home.work) == before
        found = changes(rpc, home, process)
        assert kinds(found) == WANTED, found
        assert found["link"]["type"] == "symlink" and found["new"]["type"] == "directory" and found["binary"]["bytes"] == 3
        assert rpc.call("get_process", processId=process)["cow"] is True


def test_diffs_can_be_applied_with_git(home):
    sample(home)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        found = changes(rpc, home, process)
        text = rpc.output(found["edited"]["diffRef"]).decode()
        assert text == ("diff --git a/edited b/edited\n--- a/edited\n+++ b/edited\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"), text
        assert "Binary files /dev/null and b/binary differ" in rpc.output(found["binary"]["diffRef"]).decode()
        assert "new mode 100755" in rpc.output(found["mode"]["diffRef"]).decode()
        assert "+++ /dev/null" in rpc.output(found["gone"]["diffRef"]).decode()
        patch = home.cli("diff", process).out
        copy = os.path.join(home.dir, "copy")
        for path, content in SAMPLE.items():
            put(os.path.join(copy, path), content)
        if not os.path.exists("/usr/bin/git"):
            raise Skip("there is no git to apply the patch with")
        env = harness.environment(GIT_CEILING_DIRECTORIES=home.dir)
        subprocess.run(["git", "apply", "--exclude=binary", "-"], input=patch, cwd=copy, env=env, check=True)
        assert get(os.path.join(copy, "edited")) == "one\nTWO\nthree\n" and not os.path.exists(os.path.join(copy, "gone"))
        assert os.readlink(os.path.join(copy, "link")) == "edited" and os.stat(os.path.join(copy, "mode")).st_mode & 0o111


def test_diffs_show_what_replaces_a_directory_or_a_file(home):
    """Applying such a change removes everything that was there."""
    put(os.path.join(home.work, "folder", "inside"), "old\n")
    put(os.path.join(home.work, "file"), "content\n")
    with home.rpc() as rpc:
        process = run(rpc, home, "rm -r folder; echo new > folder; rm file; mkdir file; echo x > file/below")
        found = changes(rpc, home, process)
        text = rpc.output(found["folder"]["diffRef"]).decode()
        assert text == ("# it replaces a directory, with everything in it\ndiff --git a/folder b/folder\nnew file mode 100644\n"
                        "--- /dev/null\n+++ b/folder\n@@ -0,0 +1 @@\n+new\n"), text
    shown = home.cli("diff", process).text
    assert "deleted file mode" in shown and "-content" in shown and "# it replaces a directory" in shown, shown


NAMES = ["x\n--- /dev/null\n+++ b/planted\n@@ -0,0 +1 @@\n+planted", "tab\tand space", " around ", 'q"uo\\te', "es\x1b]52;c;\x07", "\xe4", "plain"]
WRITE_NAMES = f"""python3 - <<'END'
import os
for name in {NAMES!r}:
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    open(name, "w").write("text\\n")
END
"""


def test_file_names_cannot_forge_patch_headers(home):
    """Whatever the names of the files are, the patch creates these files and no others."""
    if not os.path.exists("/usr/bin/git"):
        raise Skip("there is no git to apply the patch with")
    with home.rpc() as rpc:
        patch = home.cli("diff", run(rpc, home, WRITE_NAMES)).out
    copy = os.path.join(home.dir, "copy")
    os.mkdir(copy)
    env = harness.environment(GIT_CEILING_DIRECTORIES=home.dir)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=copy, env=env, check=True)
    assert {p for p, (_, _, _, what) in tree(copy).items() if what is not None} == set(NAMES), patch
    lines = [line for line in patch.splitlines() if line.startswith(b"+++ ")]
    assert len(lines) == len(NAMES), lines


def test_mark_of_a_placeholder_hides_no_change(home):
    """What the sandbox creates to mount on is marked, and is no change. A command can set the mark, too."""
    mark = "import os, sys; [os.setxattr(p, 'user.bailiff.placeholder', b'y') for p in sys.argv[1:]]"
    with home.rpc() as rpc:
        process = run(rpc, home, f"""mkdir -p d/deep; echo 1 > new; echo 1 > d/deep/new; python3 -c "{mark}" new d d/deep""", sandbox={"hidden": [f"{home.work}/hidden"]})
        assert kinds(changes(rpc, home, process)) == dict.fromkeys(("d", "d/deep", "d/deep/new", "new"), "added")
        rpc.call("apply_changes", processId=process)
    assert get(f"{home.work}/new") == get(f"{home.work}/d/deep/new") == "1\n" and not os.path.exists(f"{home.work}/hidden")


def test_change_with_a_reset_timestamp_is_detected(home):
    """Content is compared where size and time are inconclusive."""
    put(os.path.join(home.work, "f"), "one\n")
    put(os.path.join(home.work, "opened"), "same\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "touch -r f /tmp/time; echo two >f; touch -r /tmp/time f; : >>opened")
        assert kinds(changes(rpc, home, process)) == {"f": "modified"}
        assert settle(rpc, home, "apply_changes", process) == ({"f"}, {}) and get(os.path.join(home.work, "f")) == "two\n"


def test_apply_is_exact(home):
    sample(home)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == set(WANTED) and not conflicts, (done, conflicts)
        me = (os.geteuid(), os.getegid())
        found = tree(home.work)
        assert {(uid, gid) for _, uid, gid, _ in found.values()} == {me}, found
        assert {p: what for p, (_, _, _, what) in found.items()} == {
            "kept": "kept\n", "edited": "one\nTWO\nthree\n", "there": "moved\n", "mode": "#!/bin/sh\n", "link": "edited",
            "new": None, "new/deep": None, "new/deep/file": "new\n", "dir": None, "dir/a": "a\n", "dir/b": "b\n", "dir/c": "c\n",
            "again": None, "again/new": "new\n", "binary": "a\0b", "private": None}, found
        assert found["mode"][0] == "0o100755" and found["private"][0] == "0o40700" and found["kept"][0] == "0o100644", found
        assert changes(rpc, home, process) == {}
        assert settle(rpc, home, "apply_changes", process) == (set(), {})


def test_holes_in_files_stay_holes(home):
    """A command can make a file that is longer than the disk."""
    with home.rpc() as rpc:
        process = run(rpc, home, "truncate -s 200M long; echo middle >>long; truncate -s 300M long")
        changes(rpc, home, process)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == {"long"} and not conflicts, (done, conflicts)
        with open(os.path.join(home.work, "long"), "rb") as f:
            assert os.fstat(f.fileno()).st_size == 300 << 20 and os.fstat(f.fileno()).st_blocks * 512 < 10 << 20, os.fstat(f.fileno())
            f.seek(200 << 20)
            assert f.read(8) == b"middle\n\0"


def test_changes_under_restrictive_modes_are_listed_and_applied(home):
    put(os.path.join(home.work, "shut/old"), "old\n")
    os.chmod(os.path.join(home.work, "shut"), 0o555)
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "mkdir ro; echo x >ro/x; chmod 444 ro/x; chmod 555 ro; mkdir -p dark/er; echo y >dark/er/y; chmod 0 dark/er/y;"
                      "chmod 0 dark/er; chmod 111 dark; chmod u+w shut; echo z >shut/new; rm shut/old; chmod u-w shut")
        wanted = {"ro": "added", "ro/x": "added", "dark": "added", "dark/er": "added", "dark/er/y": "added", "shut/new": "added",
                  "shut/old": "deleted"}
        assert kinds(changes(rpc, home, process)) == wanted, changes(rpc, home, process)
        assert "+y" in home.cli("diff", process, "dark").text
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == set(wanted) and not conflicts, (done, conflicts)
        mode = lambda path: oct(os.lstat(os.path.join(home.work, path)).st_mode & 0o7777)
        assert [mode(p) for p in ("ro", "ro/x", "dark", "shut", "shut/new")] == ["0o555", "0o444", "0o111", "0o555", "0o644"]
        os.chmod(os.path.join(home.work, "dark"), 0o700)
        assert mode("dark/er") == "0o0"
        os.chmod(os.path.join(home.work, "dark/er"), 0o700)
        assert mode("dark/er/y") == "0o0" and os.stat(os.path.join(home.work, "dark/er/y")).st_size == 2
        for path in ("ro", "shut"):
            os.chmod(os.path.join(home.work, path), 0o700)


def test_conflicts_are_reported_per_file(home):
    for name in ("a", "b", "c", "d", "e/x"):
        put(os.path.join(home.work, name), "old\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "for f in a b; do echo new >$f; done; rm c d; rm -r e; echo new >fresh; echo new >other")
        put(os.path.join(home.work, "a"), "host\n")
        put(os.path.join(home.work, "c"), "host\n")
        put(os.path.join(home.work, "e/y"), "host\n")
        put(os.path.join(home.work, "fresh"), "host\n")
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == {"b", "d", "other"} and set(conflicts) == {"a", "c", "e", "fresh"}, (done, conflicts)
        assert all("host" in reason for reason in conflicts.values()), conflicts
        assert [get(os.path.join(home.work, n)) for n in ("a", "b", "c", "e/x", "e/y", "fresh")] == \
            ["host\n", "new\n", "host\n", "old\n", "host\n", "host\n"]
        assert set(changes(rpc, home, process)) == {"a", "c", "e", "fresh"}
        told = [e["payload"] for e in rpc.events(processId=process, types=["artifact.changed"]) if e["payload"]["source"] == "apply"]
        assert [t["change"] for t in told][0] == "requested" and told[-1]["counts"]["conflict"] == 4, told
        assert told[0]["by"]["uid"] == os.geteuid(), told
        assert not [n for n in os.listdir(home.work) if n.startswith(".bailiff-")]
        done = home.cli("apply", process, status=1)
        assert b"conflict" in done.err and b"/a:" in done.err, done.err


def test_planted_links_are_not_followed(home):
    outside = os.path.join(home.dir, "outside")
    put(os.path.join(outside, "x"), "outside\n")
    put(os.path.join(home.work, "d/x"), "old\n")
    put(os.path.join(home.work, "f"), "old\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "echo new >d/x; echo new >d/n; echo new >f; echo new >g")
        os.rename(os.path.join(home.work, "d"), os.path.join(home.work, "d.away"))
        os.symlink(outside, os.path.join(home.work, "d"))
        os.unlink(os.path.join(home.work, "f"))
        os.symlink(os.path.join(outside, "x"), os.path.join(home.work, "f"))
        os.symlink(os.path.join(outside, "y"), os.path.join(home.work, "g"))
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == set(), (done, conflicts)
        assert os.listdir(outside) == ["x"] and get(os.path.join(outside, "x")) == "outside\n"
        assert os.path.islink(os.path.join(home.work, "g"))


def test_apply_fails_if_the_write_root_was_replaced(home):
    put(os.path.join(home.work, "f"), "old\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "echo new >f")
        os.rename(home.work, home.work + ".away")
        os.mkdir(home.work)
        put(os.path.join(home.work, "f"), "other\n")
        rpc.fails("apply_changes", {"processId": process})
        assert get(os.path.join(home.work, "f")) == "other\n"


def test_a_write_root_is_known_by_its_creation_time_not_by_the_clock(home):
    """The clock can be set, and a file system can have one of its own: a directory that seems to be younger than the run is still the same one."""
    put(os.path.join(home.work, "f"), "old\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "echo new >g")
        run_folder = os.path.join(home.dir, "cow", process)
        with open(os.path.join(run_folder, "owner"), "r+b") as f:    # struct cow_owner: started_s
            f.seek(24)
            f.write(struct.pack("=q", 1_000_000_000))
        assert b"+new" in home.cli("diff", process).out
        with open(os.path.join(run_folder, "0/root"), "r+b") as f:   # struct cow_root: created_s, created_ns
            f.seek(-16, os.SEEK_END)
            created = f.read()
            if any(created):
                f.seek(-16, os.SEEK_END)
                f.write(struct.pack("=qq", 1_000_000_000, 0))
                f.flush()
                rpc.fails("apply_changes", {"processId": process})
                f.seek(-16, os.SEEK_END)
                f.write(created)
        assert settle(rpc, home, "apply_changes", process) == ({"g"}, {})


def test_a_write_root_in_the_image_of_a_container_is_the_same_after_a_change(home):
    """There a directory is copied up from a lower layer when something in it changes, and then has another creation time."""
    with filesystems.mounted("overlay", fill=lambda lower: os.mkdir(os.path.join(lower, "project"))) as top, home.rpc() as rpc:
        folder = os.path.join(top, "project")
        processes = [rpc.run(["sh", "-ec", f"echo new >{name}"], cwd=folder, cow=True)[0]["processId"] for name in ("a", "b")]
        for process in processes:
            assert rpc.call("apply_changes", processId=process)["conflicts"] == []
        assert sorted(os.listdir(folder)) == ["a", "b"]


def test_changes_survive_a_missing_write_root(home):
    put(os.path.join(home.work, "f"), "old\n")
    old_enough(home)
    with home.rpc() as rpc:
        process = run(rpc, home, "echo new >f")
        os.rename(home.work, home.work + ".away")
        rpc.fails("apply_changes", {"processId": process})
        os.rename(home.work + ".away", home.work)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == {"f"} and not conflicts and get(os.path.join(home.work, "f")) == "new\n", (done, conflicts)


def test_set_user_id_bits_are_not_applied(home):
    with home.rpc() as rpc:
        process = run(rpc, home, "echo '#!/bin/sh' >tool; chmod 755 tool; chmod u+s tool || true; mkdir shared; mkfifo pipe")
        upper = os.path.join(home.dir, "cow", process, "0", "upper")
        os.chmod(os.path.join(upper, "tool"), 0o6755)
        os.chmod(os.path.join(upper, "shared"), 0o2775)
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == {"tool", "shared"} and set(conflicts) == {"pipe"}, (done, conflicts)
        assert os.stat(os.path.join(home.work, "tool")).st_mode == 0o100755
        assert os.stat(os.path.join(home.work, "shared")).st_mode & 0o7000 == 0
        assert not os.path.exists(os.path.join(home.work, "pipe"))
        settle(rpc, home, "discard_changes", process)


def test_discard_removes_changes_and_keeps_the_host_files(home):
    sample(home)
    before = tree(home.work)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        held = lambda which="held": [p["processId"] for p in rpc.call("list_processes", changes=which)["processes"]]
        rpc.run(["true"])
        live = rpc.start(["sleep", "1000"], cwd=home.work, cow=True)["processId"]
        assert held() == [process] and held("any") == [live, process]
        rpc.end(live)
        done, conflicts = settle(rpc, home, "discard_changes", process, "edited", "new", "again")
        assert held() == [process], "something is left"
        assert done == {"edited", "new", "new/deep", "new/deep/file", "again/old", "again/new"} and not conflicts, (done, conflicts)
        left = changes(rpc, home, process)
        assert set(left) == set(WANTED) - done, left
        done, conflicts = settle(rpc, home, "discard_changes", process)
        assert done == set(left) and not conflicts, (done, conflicts)
        assert tree(home.work) == before
        assert changes(rpc, home, process) == {}
        until("nothing is left to decide", lambda: held() == [])
        assert held("any") == [live, process]


def test_selected_paths_can_be_applied(home):
    sample(home)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        assert set(changes(rpc, home, process, paths=[os.path.join(home.work, "new")])) == {"new", "new/deep", "new/deep/file"}
        done, conflicts = settle(rpc, home, "apply_changes", process, "new/deep/file", "gone")
        assert done == {"new", "new/deep", "new/deep/file", "gone"} and not conflicts, (done, conflicts)
        assert get(os.path.join(home.work, "new/deep/file")) == "new\n" and not os.path.exists(os.path.join(home.work, "gone"))
        assert get(os.path.join(home.work, "edited")) == "one\ntwo\nthree\n"
        assert set(changes(rpc, home, process)) == set(WANTED) - done
        rpc.fails("apply_changes", {"processId": process, "paths": ["new"]})
        rpc.fails("apply_changes", {"processId": process, "paths": []})
        settle(rpc, home, "discard_changes", process)


def test_changes_survive_restarts(home):
    sample(home)
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        before = changes(rpc, home, process)
    home.restart()
    with home.rpc() as rpc:
        assert changes(rpc, home, process) == before
        live = rpc.start(["sh", "-c", "echo early >early; read line; echo late >late"], cwd=home.work, cow=True, stdin="pipe")["processId"]
    home.kill_part("runtime")
    home.kill_part("spawner")
    until("it answers again", home.answers)
    with home.rpc() as rpc:
        rpc.call("close_process_stdin", processId=live)
        rpc.wait(live)
        assert kinds(changes(rpc, home, live)) == {"early": "added", "late": "added"}
        done, conflicts = settle(rpc, home, "apply_changes", process)
        assert done == set(WANTED) and not conflicts, (done, conflicts)
        settle(rpc, home, "discard_changes", live)


def test_changes_are_recorded_as_artifact_events(home):
    sample(home)
    validators = harness.event_validators()
    with home.rpc() as rpc:
        process = run(rpc, home, SCRIPT)
        changes(rpc, home, process)
        events = rpc.events(processId=process, types=["artifact.changed"])
        told = [e["payload"] for e in events]
        assert {os.path.relpath(t["path"], home.work): t["change"] for t in told if "path" in t} == WANTED, told
        assert told[-1] == {"source": "run", "change": "summary", "counts": {"added": 9, "modified": 2, "deleted": 4}, "kept": True}, told
        assert {e["turnId"] for e in events} == {rpc.call("get_process", processId=process)["turnId"]}
        settle(rpc, home, "discard_changes", process)
        harness.validate(validators, rpc.events(processId=process, types=["artifact.changed"]))
        process = run(rpc, home, "true")
        changes(rpc, home, process)
        told = [e["payload"] for e in rpc.events(processId=process, types=["artifact.changed"])]
        assert [t["kept"] for t in told] == [False], told
        process = run(rpc, home, "i=0; while [ $i -lt 150 ]; do i=$((i + 1)); echo $i >f$i; done")
        assert len(changes(rpc, home, process)) == 150
        told = [e["payload"] for e in rpc.events(processId=process, types=["artifact.changed"])]
        assert len(told) == 101 and told[-1]["counts"]["added"] == 150, len(told)
        assert home.cli("diff", process).text.count("\nnew file mode 100644\n") == 150
        settle(rpc, home, "discard_changes", process)
        assert rpc.call("verify_store")["ok"]


def test_emitted_events_cannot_replace_the_recorded_changes(home):
    with home.rpc() as rpc:
        started = rpc.start(["sh", "-c", "echo true; echo changed >f"], cwd=home.work, cow=True)
        process, path = started["processId"], os.path.join(home.work, "f")
        rpc.wait(process)
        lie = rpc.run(["echo", "nothing to see"], cwd=home.work)[0]["outputRefs"][0]["outputRef"]
        true = changes(rpc, home, process)["f"]["diffRef"]
        for payload in ({"source": "run", "path": path, "change": "added", "diffRef": lie},
                        {"source": "run", "change": "summary", "kept": False}):
            rpc.call("emit_events", sessionId=started["sessionId"], events=[
                {"type": "artifact.changed", "processId": process, "payload": payload}])
        assert changes(rpc, home, process)["f"]["diffRef"] == true
    home.restart()
    with home.rpc() as rpc:
        assert changes(rpc, home, process)["f"]["diffRef"] == true and get(os.path.join(home.dir, "cow", process, "0", "upper", "f"))


def test_invalid_requests_about_changes_are_rejected(home):
    with home.rpc() as rpc:
        plain = rpc.run(["true"], cwd=home.work)[0]["processId"]
        assert rpc.fails("list_changes", {"processId": plain}).data["category"] == "invalid_state"
        live = rpc.start(["sleep", "1000"], cwd=home.work, cow=True)["processId"]
        for method in ("list_changes", "apply_changes", "discard_changes"):
            assert rpc.fails(method, {"processId": live}).data["category"] == "invalid_state"
            assert rpc.fails(method, {"processId": "proc_none"}).data["category"] == "not_found"
        rpc.call("terminate_process", processId=live)
        assert changes(rpc, home, live) == {}
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        rpc.fails("apply_changes", {"processId": live})


def test_nothing_is_left_when_all_changes_are_settled(home):
    """An apply keeps what it replaced until retention removes it."""
    cow = os.path.join(home.dir, "cow")
    with home.rpc() as rpc:
        first, second = run(rpc, home, "echo a >a"), run(rpc, home, "mkdir -p b/c; chmod 0 b/c; chmod 555 b")
        settle(rpc, home, "apply_changes", first)
        settle(rpc, home, "discard_changes", second)
        until("the folder is gone", lambda: runs(cow) == [first])
        assert changes(rpc, home, first) == {} == changes(rpc, home, second)
        new = rpc.run(["true"], cwd=home.work)[0]["processId"]
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=new)["endSequence"])
        until("the folders are gone", lambda: runs(cow) == [])


def test_more_requests_than_helpers_wait_for_their_turn(home):
    cow = os.path.join(home.dir, "cow")
    with home.rpc() as rpc:
        started = [rpc.reply(r)["processId"] for r in rpc.send_together(
            *[("start_process", {"commandLine": f"echo {i} >f{i}", "cow": True, "cwd": home.work}) for i in range(20)])]
        for process in started:
            rpc.wait(process)
        for process, request in zip(started, rpc.send_together(*[("list_changes", {"processId": p}) for p in started])):
            assert rpc.reply(request)["processId"] == process
        new = rpc.run(["true"], cwd=home.work)[0]["processId"]
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=new)["endSequence"])
        until("the directories are gone", lambda: runs(cow) == [])


NEST = """python3 - <<'END'
import os
for _ in range({count}):
    os.mkdir({name!r})
    os.chdir({name!r})
open("file", "w").close()
os.chmod(".", 0)
END
"""


def test_excessively_deep_folders_are_reported_and_removed(home):
    """Deeper or with longer names than supported: reported as a conflict, never applied partially, and removed by discard and retention."""
    cow = os.path.join(home.dir, "cow")
    with home.rpc() as rpc:
        deep, long = run(rpc, home, NEST.format(count=270, name="d")), run(rpc, home, NEST.format(count=40, name="n" * 200))
        for process in (deep, long):
            _, conflicts = settle(rpc, home, "apply_changes", process)
            assert len(conflicts) == 1, conflicts
            assert settle(rpc, home, "discard_changes", process)[1] == {} == changes(rpc, home, process)
        process = run(rpc, home, NEST.format(count=270, name="e"))
        new = run(rpc, home, "true")
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=new)["endSequence"])
        until("what retention removes is gone", lambda: not {deep, long, process} & set(runs(cow)))
    subprocess.run(["rm", "-rf", home.work], check=True)
    os.mkdir(home.work)


def test_retention_removes_old_and_stray_changes(home):
    with home.rpc() as rpc:
        old, stray = run(rpc, home, "echo a >a"), os.path.join(home.dir, "cow", "proc_stray")
        os.mkdir(stray, 0o700)
        put(os.path.join(stray, "0", "upper", "x"))
        made = int(os.stat(stray).st_ctime)
        diff = changes(rpc, home, old)["a"]["diffRef"]
        new = run(rpc, home, "echo b >b")
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=new)["endSequence"])
        until("what retention removes is gone", lambda: old not in runs(os.path.join(home.dir, "cow")))
        assert changes(rpc, home, old) == {} and kinds(changes(rpc, home, new)) == {"b": "added"}
        assert rpc.fails("read_output", {"outputRef": diff}).data["category"] == "output_expired"
    until("a second has passed", lambda: time.time() > made + 2)
    home.restart()
    until("changes without events are removed", lambda: runs(os.path.join(home.dir, "cow")) == [new])
    with home.rpc() as rpc:
        assert kinds(changes(rpc, home, new)) == {"b": "added"}
        assert rpc.call("verify_store")["ok"]


def test_retention_removes_diffs_with_their_session(home):
    with home.rpc() as rpc:
        process = run(rpc, home, "echo a >a")
        diff = changes(rpc, home, process)["a"]["diffRef"]
        rpc.call("discard_changes", processId=process)
        rpc.call("prune_store", beforeSequence=rpc.call("get_process", processId=process)["endSequence"] + 1)
        assert rpc.fails("read_output", {"outputRef": diff}).data["category"] == "output_expired"
        rpc.call("prune_store", olderThanMs=0)
        rpc.fails("read_output", {"outputRef": diff}, code=-32004)
        assert rpc.call("verify_store")["ok"]


def test_changes_verbs_of_the_command_line(home):
    put(os.path.join(home.work, "f"), "one\n")
    old_enough(home)
    done = home.cli("run", "--cow", "--", "sh", "-c", "echo two >>f; echo new >n")
    assert b"2 changes are not applied yet" in done.err, done.err
    process = done.err.decode().split("bailiff diff|apply|discard ")[1].split()[0]
    assert "+two" in home.cli("diff", process, "f").text and "+++ b/n" not in home.cli("diff", process, "f").text
    assert {c["change"] for c in home.cli("diff", "--json", process).json["changes"]} == {"modified", "added"}
    assert "applied   modified" in home.cli("apply", process, "f").text and get(os.path.join(home.work, "f")) == "one\ntwo\n"
    assert "discarded added" in home.cli("discard", process).text and home.cli("diff", process).text == ""
    done = home.cli("apply", process)
    assert b"no changes left to be applied" in done.err and not done.out, done
    plain = home.cli("run", "-d", "--", "true").text.strip()
    home.cli("wait", plain)
    done = home.cli("diff", plain, status=None)
    assert done.status == 1 and b"not a copy-on-write run" in done.err and b"run --cow" in done.err and b"again later" not in done.err, done
    # A profile can request it as well as an option.
    put(os.path.join(home.dir, "policy.json"), '{"profiles": {"careful": {"cow": true}}}')
    home.cli("call", "reload_policy")
    done = home.cli("run", "--profile", "careful", "--", "sh", "-c", "echo three >>f")
    assert b"1 change is not applied yet" in done.err and get(os.path.join(home.work, "f")) == "one\ntwo\n", done


@contextlib.contextmanager
def daemon_for_all():
    if os.geteuid() != 0:
        raise Skip("other users' commands require root")
    home = Home(start=False, options=("--audit", "off", "--socket-mode", "0666"))
    os.chmod(home.dir, 0o755)
    home.start()
    with home:
        yield home


def as_user(uid, home, *args, status=0):
    """`bailiff ARGS` as another user of the daemon."""
    done = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", harness.CLI, *args], cwd=home.work,
                          env=harness.environment(BAILIFF_HOME=home.dir, HOME="/nonexistent"), capture_output=True, text=True)
    assert done.returncode == status, done
    return done


def test_changes_belong_to_the_user_of_the_run():
    with daemon_for_all() as home:
        put(os.path.join(home.work, "mine"), "old\n", 0o644)
        put(os.path.join(home.work, "shared"), "old\n", 0o666)
        os.chown(os.path.join(home.work, "mine"), 4321, 4321)
        os.chown(home.work, 4321, 4321)
        old_enough(home)
        run_it = lambda: as_user(4321, home, "run", "--cow", "--", "sh", "-c", "echo new >mine; echo new >>shared; echo new >made") \
            .stderr.split("bailiff diff|apply|discard ")[1].split()[0]
        process = run_it()
        as_user(4322, home, "apply", process, status=1)
        as_user(4321, home, "apply", process)
        found = tree(home.work)
        assert {n: (v[1], v[3]) for n, v in found.items()} == \
            {"mine": (4321, "new\n"), "shared": (0, "old\nnew\n"), "made": (4321, "new\n")}, found
        process = run_it()
        os.chmod(os.path.join(home.work, "shared"), 0o600)
        # Root can, but with the owner's rights: files that the owner cannot write stay unchanged.
        with home.rpc() as rpc:
            done, conflicts = settle(rpc, home, "apply_changes", process)
        assert "shared" in conflicts and "shared" not in done, (done, conflicts)
        assert get(os.path.join(home.work, "shared")) == "old\nnew\n"


if __name__ == "__main__":
    harness.main(globals())
