"""Sandboxes in user namespaces: root's where ids cannot be mapped or CAP_SYS_ADMIN is missing, and what is said where there can be none."""

import os
import shutil
import sys
import tempfile

import harness
from filesystems import mounted
from harness import Home, Skip, until

ROOT = os.geteuid() == 0
NO_SYS_ADMIN = ("setpriv", "--bounding-set=-sys_admin")
WITHOUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_without.py")
# In a user namespace of its own, in which no more can be made. Root keeps its rights and ids there: a child that stayed outside maps them.
NONE_LEFT = """
import ctypes, os, sys
me, uid, gid = os.getpid(), os.geteuid(), os.getegid()
maps = ("0 0 65536", "0 0 65536") if uid == 0 else (f"{uid} {uid} 1", f"{gid} {gid} 1")
apart = os.pipe()

def write(path, text):
    with open(path, "w") as f:
        f.write(text)

def write_maps():
    if uid:
        write(f"/proc/{me}/setgroups", "deny")
    write(f"/proc/{me}/uid_map", maps[0])
    write(f"/proc/{me}/gid_map", maps[1])

child = os.fork() if uid == 0 else -1
if child == 0:
    os.read(apart[0], 1)
    write_maps()
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000) < 0:
    sys.exit("unshare")
os.write(apart[1], b"x")
if uid:
    write_maps()
elif os.waitpid(child, 0)[1]:
    sys.exit("maps")
write("/proc/sys/user/max_user_namespaces", "0")
os.execvp(sys.argv[1], sys.argv[1:])
"""
# As a container masks it; nothing of another /proc is left that could be seen in full.
MASKED = """
grep ' - proc ' /proc/self/mountinfo | while read -r _ _ _ _ at _; do [ "$at" = /proc ] || umount -l "$at" || exit 1; done
mount -t tmpfs -o ro none /proc/scsi 2>/dev/null || mount --bind /dev/null /proc/timer_list || exit 1
exec "$@"
"""


def needs_root():
    if not ROOT:
        raise Skip("requires root")
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")


def writes_as_root(home, folder):
    """Owned by root outside; what only root may read stays shut; the changes of a copy are applied as root's."""
    os.makedirs(folder)
    done = home.cli("run", "--", "sh", "-c", "umask 022; mkdir sub && echo one >sub/made && chmod 600 sub/made && id -u; cat /etc/shadow", cwd=folder, status=None)
    assert done.status == 1 and int(done.out) >= 64700 and b"Permission denied" in done.err, (done.status, done.out, done.err)
    st = os.stat(os.path.join(folder, "sub", "made"))
    assert (st.st_uid, st.st_gid, st.st_mode & 0o7777) == (0, 0, 0o600), st
    with home.rpc() as rpc:
        process, end = rpc.run(["sh", "-c", "cat sub/made && echo two >>sub/made && echo new >other"], cwd=folder, cow=True)
        assert end.get("exitCode") == 0, end
    with open(os.path.join(folder, "sub", "made")) as f:
        assert f.read() == "one\n", "it was written to the files themselves"
    assert b"+two" in home.cli("diff", process["processId"]).out
    home.cli("apply", process["processId"])
    with open(os.path.join(folder, "sub", "made")) as f:
        assert f.read() == "one\ntwo\n"
    assert os.stat(os.path.join(folder, "other")).st_uid == 0


def each_file_system(home, kinds):
    tried, skipped = 0, []
    for kind in kinds:
        try:
            with mounted(kind) as where:
                writes_as_root(home, os.path.join(where, "work"))
                tried += 1
        except Skip as e:
            skipped.append(str(e))
    if not tried:
        raise Skip("; ".join(skipped))


def test_root_works_on_file_systems_without_idmapped_mounts(home):
    each_file_system(home, ("overlay", "ramfs"))


def test_root_works_in_folders_that_only_root_may_enter(home):
    """Such a folder cannot be found in the overlay that shows the system; siblings that everybody may read stay visible."""
    with mounted("overlay", "/srv") as where:
        os.makedirs(os.path.join(where, "sibling"))
        for way in ("private", os.path.join("closed", "within")):
            folder = os.path.join(where, way)
            os.makedirs(folder, mode=0o700)
            os.chmod(os.path.join(where, way.split(os.sep)[0]), 0o700)
            done = home.cli("run", "--", "sh", "-c", "echo one >made && ls ..", cwd=folder)
            assert os.stat(os.path.join(folder, "made")).st_uid == 0 and os.path.basename(folder).encode() in done.out, done.out
            if way == "private":
                assert b"sibling" in done.out, done.out


def test_root_works_on_every_other_file_system(home):
    each_file_system(home, ("tmpfs", "ext4", "xfs", "btrfs"))


def test_root_works_without_sys_admin():
    needs_root()
    with Home(through=NO_SYS_ADMIN) as home:
        writes_as_root(home, os.path.join(home.dir, "work"))
        each_file_system(home, ("overlay",))


def test_root_without_sys_admin_writes_only_listed_system_folders():
    needs_root()
    folder = tempfile.mkdtemp(prefix="bl-root-", dir="/var/lib")
    try:
        with Home(through=NO_SYS_ADMIN) as home:
            done = home.cli("run", "--", "touch", "made", cwd=folder, status=None)
            assert done.status == 125 and b"root-write-roots" in done.err and os.listdir(folder) == [], done.err
    finally:
        shutil.rmtree(folder)


def test_trees_and_terminals_without_sys_admin():
    needs_root()
    with Home(through=NO_SYS_ADMIN) as home, home.rpc() as rpc:
        started = rpc.start(["sh", "-c", "sleep 1000 & echo $! && wait"], cwd=home.work)
        rpc.end(started["processId"])
        _, end = rpc.run(["sh", "-c", "tty && echo >/dev/tty"], cwd=home.work, tty={"rows": 24, "cols": 80})
        assert end.get("exitCode") == 0 and b"/dev/pts/" in rpc.output(end["outputs"]["pty"]["outputRef"]), end
        done = home.cli("run", "--", "sh", "-c", "echo to-stdout >/dev/stdout; echo to-stderr >/dev/stderr")
        assert done.out == b"to-stdout\n" and done.err.startswith(b"to-stderr\n"), (done.out, done.err)


def test_mounts_in_system_folders_are_visible_without_idmapped_mounts(home):
    """An overlay shows one file system: a file and a folder that are mounted in it are shown by themselves."""
    needs_root()
    with mounted("overlay") as where, mounted("tmpfs", "/var/lib") as other:
        work, inner = os.path.join(where, "work"), os.path.join(other, "inner")
        os.makedirs(work)
        os.mkdir(inner)
        for name, mode in (("public", 0o644), ("private", 0o600)):
            with open(os.path.join(inner, name), "w") as f:
                f.write(name)
            os.chmod(os.path.join(inner, name), mode)
        done = home.cli("run", "--", "sh", "-c", 'cat "$1/public"; cat "$1/private"', "sh", inner, cwd=work, status=None)
        assert done.out == b"public" and b"Permission denied" in done.err, (done.out, done.err)


def test_host_network_for_roots_uid_requires_landlock():
    """Services on abstract sockets may trust uid 0."""
    needs_root()
    calls = "landlock_create_ruleset,landlock_add_rule,landlock_restrict_self"
    with mounted("overlay") as where, Home(through=(sys.executable, WITHOUT, "ENOSYS", calls)) as home:
        os.mkdir(os.path.join(where, "work"))
        home.cli("run", "--", "true", cwd=os.path.join(where, "work"))
        done = home.cli("run", "--net", "host", "--", "true", cwd=os.path.join(where, "work"), status=None)
        assert done.status == 125 and b"abstract sockets" in done.err, done.err


def test_copy_on_write_on_an_overlay_is_rejected_with_the_reason():
    needs_root()
    before = tempfile.tempdir
    with mounted("overlay") as where:
        tempfile.tempdir = where
        try:
            with Home() as home:
                done = home.cli("run", "--cow", "--", "true", status=None)
                assert done.status == 125 and b"state folder" in done.err and b"volume" in done.err, done.err
        finally:
            tempfile.tempdir = before


def failed_start(through):
    with Home(through=through) as home:
        done = home.cli("run", "--", "true", status=None)
        assert done.status == 125, (done.status, done.err)
        return done.err.decode()


def test_exhausted_user_namespaces_are_reported():
    said = failed_start((sys.executable, "-c", NONE_LEFT))
    assert "user.max_user_namespaces" in said and "sysctl -w" in said, said


def test_masked_proc_is_reported():
    needs_root()
    said = failed_start(("unshare", "--mount", "--propagation", "private", "sh", "-c", MASKED, "sh", *NO_SYS_ADMIN))
    assert "/proc are masked" in said and "systempaths=unconfined" in said, said


def test_refused_mounts_are_reported():
    through = (sys.executable, WITHOUT, "EPERM", "mount")
    said = failed_start((*NO_SYS_ADMIN, "--no-new-privs", *through) if ROOT else through)
    assert "mounting is refused" in said and "containers.md" in said, said


def test_missing_capabilities_of_root_are_reported():
    needs_root()
    with Home(start=False, through=("setpriv", "--bounding-set=-setfcap,-sys_admin")) as home:
        home.start()
        done = home.cli("run", "--", "true", status=None)
        assert done.status == 125 and b"CAP_SETFCAP" in done.err, done.err
    with Home(start=False, through=("setpriv", "--bounding-set=-all")) as home:
        guard = home.spawn()
        until("the daemon has left", lambda: guard.poll() is not None)
        assert "CAP_CHOWN" in "".join(home.log()), home.log()
        home.guard = None


if __name__ == "__main__":
    harness.main(globals())
