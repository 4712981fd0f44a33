"""A file system that does not answer delays only the requests that concern it."""

import contextlib
import ctypes
import os
import select
import struct
import tempfile
import threading

import harness
from harness import Home, RpcError, Skip, until

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
GETATTR, INIT, FORGET, STATFS, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 3, 26, 2, 17, 27, 28, 29, 36, 42
LOOKUP, ENOENT, EIO, ENOSYS = 1, 2, 5, 38
STUCK_MAX = 32  # PEER_FILES_STUCK_MAX


class Hung:
    """A folder on a file system of its own (FUSE), whose server reads every request and, unless it answers, leaves it so."""

    def __init__(self, answers):
        self.answers, self.waiting, self.done, self.error = answers, 0, False, ENOENT

    def __enter__(self):
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        except OSError as e:
            raise Skip(f"/dev/fuse: {e.strerror}") from None
        self.path = tempfile.mkdtemp(prefix="bl-hung-")
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        if LIBC.mount(b"hung", self.path.encode(), b"fuse", 6, options.encode()) < 0: # MS_NOSUID | MS_NODEV
            error = os.strerror(ctypes.get_errno())
            os.close(self.fd)
            os.rmdir(self.path)
            raise Skip(f"mount a FUSE file system: {error}")
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()
        return self

    def __exit__(self, *_):
        LIBC.umount2(self.path.encode(), MNT_DETACH)
        self.done = True
        self.server.join()
        os.close(self.fd) # the last descriptor: the kernel ends all requests with an error
        os.rmdir(self.path)

    def reply(self, unique, data=b"", error=0):
        os.write(self.fd, struct.pack("=IiQ", 16 + len(data), -error, unique) + data)

    def serve(self):
        while not self.done:
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                request = os.read(self.fd, 1 << 17)
            except BlockingIOError:
                continue # its sender has given up
            _, op, unique, node = struct.unpack_from("=IIQQ", request)
            if op == INIT:
                self.reply(unique, struct.pack("=IIIIHHIIHH32x", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0))
            elif op in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            elif not self.answers:
                self.waiting += 1
            elif op == GETATTR and node == 1:
                self.reply(unique, struct.pack("=QII6Q3I7I", 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0))
            elif op == LOOKUP:
                self.reply(unique, error=self.error)
            elif op == OPENDIR:
                self.reply(unique, bytes(16))
            elif op in (READDIR, RELEASEDIR):
                self.reply(unique)
            elif op == STATFS:
                self.reply(unique, bytes(80))
            else:
                self.reply(unique, error=ENOSYS)


@contextlib.contextmanager
def hung(answers=False):
    if os.geteuid() != 0:
        raise Skip("only root can mount a file system that others see")
    # The daemon outlives the folder: what waits for it ends only then.
    with Home() as home, Hung(answers) as folder:
        yield home, folder


def failure(rpc, request):
    try:
        raise AssertionError(rpc.reply(request))
    except RpcError as e:
        return str(e)


def others_continue(home, rpc, before):
    for _ in range(3):
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        assert any(p["processId"] == before["processId"] for p in rpc.call("list_processes", liveOnly=True)["processes"])
    assert rpc.call("get_sandbox", cwd=home.work)["sandboxProfile"]["workspace"] == home.work
    home.cli("run", "--", "true")
    home.cli("ps")
    home.cli("kill", before["processId"])


def test_a_folder_that_does_not_answer_delays_no_other_request():
    with hung() as (home, folder), home.rpc() as a, home.rpc() as b:
        before = b.start(["sleep", "1000"], cwd=home.work)
        waiting = [a.send("start_process", command=["true"], cwd=folder.path),
                   a.send("start_process", command=["true"], cwd=folder.path, profile="host"),
                   a.send("get_sandbox", cwd=os.path.join(folder.path, "sub")),
                   a.send("submit_turn", input=[{"type": "command", "command": ["true"], "cwd": folder.path}])]
        until("the server has a request that it does not answer", lambda: folder.waiting)
        others_continue(home, b, before)
        for request in waiting:
            error = failure(a, request)
            assert folder.path in error and "its file system does not answer" in error, error
        home.stop()


def test_a_start_that_waits_for_a_file_system_delays_no_other_start():
    """The folder is not the command's, so that only its own init, and the spawner's preparations, concern it."""
    with hung() as (home, folder), home.rpc() as a, home.rpc() as b:
        before = b.start(["sleep", "1000"], cwd=home.work)
        for which in "readRoots", "writeRoots":
            a.send("start_process", command=["true"], cwd=home.work, sandbox={"workspace": home.work, which: [folder.path]})
        until("the server has a request that it does not answer", lambda: folder.waiting)
        others_continue(home, b, before)


def test_a_folder_that_stops_answering_delays_no_other_request():
    with hung(answers=True) as (home, folder), home.rpc() as a, home.rpc() as b:
        assert a.call("get_sandbox", cwd=folder.path)["sandboxProfile"]["workspace"] == folder.path
        for _ in range(3):
            with contextlib.suppress(RpcError):
                a.run(["true"], cwd=folder.path)
        before = b.start(["sleep", "1000"], cwd=home.work)
        folder.answers = False
        a.send("start_process", command=["true"], cwd=folder.path)
        a.send("start_process", command=["true"], cwd=folder.path, sandbox={"workspace": folder.path})
        until("the server has a request that it does not answer", lambda: folder.waiting)
        others_continue(home, b, before)

        def noticed():
            try:
                return b.call("get_sandbox", cwd=folder.path) and None
            except RpcError as e:
                return folder.path in str(e) and "its file system does not answer" in str(e)
        until("requests for the folder fail", noticed)


def test_a_start_in_a_session_sandbox_fails_if_the_folder_of_a_hidden_path_does_not_answer():
    """Only its leader looks for the path: the other commands continue, and can be ended."""
    with hung(answers=True) as (home, folder), home.rpc() as a, home.rpc() as b:
        secret = os.path.join(folder.path, "secret")
        sandbox = b.call("create_sandbox", cwd=home.work, sandbox={"readRoots": [folder.path], "hidden": [secret]})["sandboxId"]
        before, other = (b.start(["sleep", "1000"], sandboxId=sandbox) for _ in range(2))
        folder.answers = False
        started = a.send("start_process", command=["true"], sandboxId=sandbox)
        until("the server has a request that it does not answer", lambda: folder.waiting)
        others_continue(home, b, before)
        b.call("terminate_process", processId=other["processId"])
        assert b.wait(other["processId"])["status"] == "terminated"
        error = failure(a, started)
        assert f"the file system of the hidden path {secret} does not answer" in error, error


def test_a_start_in_a_session_sandbox_fails_if_a_hidden_path_cannot_be_examined():
    """That is no proof that the path exists: the sandbox stays, with its other commands."""
    with hung(answers=True) as (home, folder), home.rpc() as rpc:
        secret = os.path.join(folder.path, "secret")
        sandbox = rpc.call("create_sandbox", cwd=home.work, sandbox={"readRoots": [folder.path], "hidden": [secret]})["sandboxId"]
        before = rpc.start(["sleep", "1000"], sandboxId=sandbox)
        folder.error = EIO
        error = rpc.fails("start_process", command=["true"], sandboxId=sandbox)
        assert f"the hidden path {secret} cannot be examined (if that stays, use a new sandbox): Input/output error" in error.message, error
        folder.error = ENOENT
        assert rpc.run(["true"], sandboxId=sandbox)[1]["exitCode"] == 0
        assert rpc.call("get_process", processId=before["processId"])["status"] == "running"


def test_helpers_that_wait_are_bounded():
    with hung() as (home, folder), home.rpc() as a, home.rpc() as b:
        requests = [a.send("get_sandbox", cwd=os.path.join(folder.path, str(i))) for i in range(STUCK_MAX + 4)]
        errors = [failure(a, request) for request in requests]
        refused = [e for e in errors if "too many helpers of this user wait" in e]
        assert len(refused) == 4, errors
        b.call("list_processes")
        home.stop()


if __name__ == "__main__":
    harness.main(globals())
