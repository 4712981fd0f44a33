"""Where commands of a root client can write, and what runs after it disconnected. Only for root: other users have just their own rights."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import harness
from faults import Faults
from harness import Home, Skip, until

ROOT = os.geteuid() == 0


@contextlib.contextmanager
def system_folder():
    folder = tempfile.mkdtemp(prefix="bl-root-", dir="/var/lib")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_list(home, text, mode=0o644):
    path = os.path.join(home.dir, "root-write-roots")
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def only_root():
    if not ROOT:
        raise Skip("requires root")


def test_system_folders_are_written_only_where_root_lists_them(home):
    only_root()
    with system_folder() as folder:
        def attempt():
            return home.cli("run", "--", "touch", "made", cwd=folder, status=None)
        done = attempt()
        assert done.status == 125 and b"root-write-roots" in done.err and folder.encode() in done.err, done.err
        assert f">>{home.dir}/root-write-roots".encode() in done.err, done.err
        assert os.listdir(folder) == []
        write_list(home, f"# for this test\n{folder}\n", mode=0o666)
        assert attempt().status == 125, "a world-writable list was accepted"
        write_list(home, f"{folder}\n")
        assert attempt().status == 0 and os.listdir(folder) == ["made"]
        for path in ("/etc", "/usr/local/bin", "/root"):
            done = home.cli("run", "--rw", path, "--", "true", status=None)
            assert done.status == 125 and b"root-write-roots" in done.err, (path, done.err)


def test_nothing_of_a_system_folder_is_read_with_roots_rights(home):
    only_root()
    done = home.cli("run", "--ro", "/etc/shadow", "--", "cat", "/etc/shadow", status=None)
    assert done.status == 1 and not done.out, done.out[:100]


def test_task_continues_after_its_client_disconnected(home):
    """A task in a folder that is new to the daemon, created by a client that disconnects immediately; also if the parts die."""
    only_root()
    for part in (None, "spawner", "runtime"):
        tree = os.path.join(home.work, f"of-{part}")
        os.mkdir(tree)
        with home.rpc() as rpc:
            task = rpc.call("create_task", objective="later", commandLine="while ! test -e go; do sleep 0.02; done; echo done >made", cwd=tree,
                            retryPolicy={"maxAttempts": 3})["taskId"]
            rpc.call("start_task", taskId=task)
        if part:
            home.kill_part(part)
        with open(os.path.join(tree, "go"), "w"):
            pass
        until(f"the task of {tree} was done", lambda: os.path.exists(os.path.join(tree, "made")))


def test_turn_runs_after_its_client_disconnected(home):
    """The reply waits until the spawner has recorded what root authorised, so the client may leave then."""
    only_root()
    tree = os.path.join(home.work, "of-a-turn")
    subprocess.run(["git", "init", "-q", tree], check=True)
    # The stopped spawner cannot search it. What was found in a folder that has just changed is not remembered.
    until("the folder is older than its last change", lambda: time.time() - os.stat(tree).st_ctime > 0.1)
    home.cli("policy", "check", "--", "true", cwd=tree)     # its policy is known, without an authorisation

    def was_submitted():
        with home.rpc() as rpc:     # no root client stays connected
            return any(e["type"] == "turn.submitted" and e["payload"]["source"] == "client" for e in rpc.events())
    spawner = home.kill_part("spawner", signal.SIGSTOP)
    client = threading.Thread(target=lambda: home.cli("turn", "submit", "--line", "echo done > made", cwd=tree))
    client.start()
    until("it was submitted", was_submitted)
    client.join(0.5)    # a reply that does not wait has arrived then
    os.kill(spawner, signal.SIGCONT)
    client.join()
    until("the turn's command has run", lambda: os.path.exists(os.path.join(tree, "made")))


def test_approved_start_needs_no_connected_client():
    only_root()
    with Home(start=False) as home:
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            f.write('{"permissions": {"ask": ["Bash(touch:*)"]}}')
        home.start()
        with home.rpc() as rpc:
            started = rpc.start(["touch", "made"], cwd=home.work)
            assert started["status"] == "waiting_permission", started
        home.cli("approve", started["actionId"])
        until("it was run", lambda: os.path.exists(os.path.join(home.work, "made")))


def test_root_authority_list_is_out_of_reach(home):
    only_root()
    home.cli("run", "--", "true")
    path = os.path.join(home.dir, "root-authority")
    assert os.stat(path).st_uid == 0 and os.stat(path).st_mode & 0o777 == 0o600
    done = home.cli("run", "--rw", path, "--", "true", status=None)
    assert done.status == 125, done.err
    assert home.cli("run", "--", "cat", path, status=None).status != 0


def test_root_authority_list_is_synced_before_its_rename():
    """A power cut right after the rename must not leave an empty list. If the sync fails, the old list stays."""
    only_root()
    with Faults() as faults, Home(env=faults.env) as home:
        faults.fail("fdatasync", "spawner", "EIO", link=os.path.join(home.dir, "root-authority"))
        home.cli("run", "--", "true")
        assert faults.done("fdatasync") and not os.path.exists(os.path.join(home.dir, "root-authority"))


if __name__ == "__main__":
    harness.main(globals())
