"""Ways out for a command that has root's uid outside: root's workspace where ids cannot be mapped, and a daemon that is root without CAP_SYS_ADMIN.

The tables are those of test_escape, where a command of root's has an id of its own; what that id cannot do, root's uid must not be able to do either
(sandbox/steps/public_view.c). In addition: what trusts uid 0 and nothing else.
"""

import contextlib
import os
import shutil
import socket
import tempfile

import test_escape
from tries import GONE, REFUSED, ROOT, check, collected, harness, inside, outside, repository, words_of
import filesystems
from harness import Home, Skip

NO_SYS_ADMIN = ("setpriv", "--bounding-set=-sys_admin")
# Each needs no more than uid 0: no capability is asked for. Outside they are tried by root without any.
UID_ZERO = [
    ("read=/etc/shadow", "root", REFUSED), ("read=/etc/gshadow", "root", REFUSED), ("list=/etc/ssl/private", "-", REFUSED | GONE),
    ("list=/var/cache/ldconfig", "-", REFUSED | GONE), ("read=/proc/kpagecount", "-", REFUSED | GONE), ("read=/proc/kpageflags", "-", REFUSED | GONE),
    ("read=/proc/slabinfo", "-", REFUSED | GONE), ("read=/proc/vmallocinfo", "-", REFUSED | GONE), 
    ("write=/proc/dynamic_debug/control", "-", REFUSED | GONE), ("write=/proc/sys/vm/drop_caches", "root", REFUSED),
    ("read=/proc/sys/kernel/cad_pid", "-", REFUSED | GONE), ("write=/proc/sys/kernel/core_pattern", "root", REFUSED),
    ("write=/sys/devices/system/cpu/cpu0/online", "-", REFUSED | GONE), ("write=/sys/devices/system/cpu/cpu1/online", "-", REFUSED | GONE),
    ("write=/proc/pressure/cpu", "-", REFUSED | GONE), ("write=/proc/mtrr", "-", REFUSED | GONE), ("write=/proc/1/oom_score_adj", "-", REFUSED),
    ("write=/proc/1/clear_refs", "-", REFUSED), ("list=/proc/1/fd", "-", REFUSED | GONE), ("list=/proc/1/map_files", "-", REFUSED | GONE),
]
TABLES = ("kernel_interfaces_are_out_of_reach", "terminals_of_the_host_are_out_of_reach", "mounting_is_denied",
          "protected_paths_cannot_be_changed", "readonly_workspace_cannot_be_written", "processes_of_the_host_are_out_of_reach",
          "shared_memory_and_queues_are_private", "network_is_out_of_reach", "sockets_of_the_host_are_out_of_reach",
          "files_of_bailiff_are_hidden", "set_uid_programs_gain_nothing", "devices_in_the_workspace_are_inert",
          "links_in_place_of_protected_paths_are_rejected_or_closed", "hidden_paths_cannot_be_created",
          "folder_swapped_during_setup_is_not_escaped", "host_network_shares_nothing_else", "signals_to_the_init_change_nothing",
          "ordinary_programs_work")


@contextlib.contextmanager
def unmapped_folder():
    """A file system without idmapped mounts, where this file's tests keep everything meanwhile."""
    before = tempfile.tempdir
    with filesystems.mounted("overlay") as where:
        try:
            tempfile.tempdir = where
            yield where
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def without_sys_admin():
    if not ROOT:
        raise Skip("a plain user has no capabilities to lose")
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    yield NO_SYS_ADMIN


def runs_with_roots_uid(home, cwd):
    """Root's uid outside, under another name inside: the map has a row of its own for it, and the file is root's."""
    done = home.cli("run", "--", "sh", "-c", "touch made && id -u && cat /proc/self/uid_map", cwd=cwd)
    uid, *rows = done.text.splitlines()
    assert int(uid) >= 64700 and [uid, "0", "1"] in [row.split() for row in rows], done.text
    st = os.stat(os.path.join(cwd, "made"))
    assert (st.st_uid, st.st_gid) == (0, 0), st


def try_uid_zero(home):
    work = repository(home)
    with collected() as part:
        with part():
            check(UID_ZERO, outside(UID_ZERO, work), "outside", "open")
        with part():
            check(UID_ZERO, inside(home, "workspace", words_of(UID_ZERO), work, cwd=work), "workspace", "shut")
        with part():
            check(test_escape.PLACES, inside(home, "workspace", words_of(test_escape.PLACES), work, cwd=work), "workspace", "shut")


def try_all(through=()):
    with collected() as part:
        for name in TABLES:
            with part(), contextlib.suppress(Skip), Home(through=through) as home:
                getattr(test_escape, "test_" + name)(home)


def test_root_uid_gives_no_access_where_ids_cannot_be_mapped():
    with unmapped_folder(), Home() as home:
        runs_with_roots_uid(home, home.work)
        try_uid_zero(home)


def test_escapes_fail_where_ids_cannot_be_mapped():
    with unmapped_folder():
        try_all()


def test_root_uid_gives_no_access_without_sys_admin():
    with without_sys_admin() as through, Home(through=through) as home:
        runs_with_roots_uid(home, home.work)
        try_uid_zero(home)


def test_escapes_fail_without_sys_admin():
    with without_sys_admin() as through:
        try_all(through)


def test_services_that_trust_uid_zero_are_out_of_reach():
    """By a name that is shown, and by an abstract one with the host's network, where Landlock cannot shut it."""
    folder = None
    with unmapped_folder(), Home() as home, socket.socket(socket.AF_UNIX) as service:
        folder = tempfile.mkdtemp(prefix="bl-service-", dir="/var/lib")
        try:
            os.chmod(folder, 0o755)
            service.bind(os.path.join(folder, "socket"))
            os.chmod(os.path.join(folder, "socket"), 0o600)
            service.listen()
            rows = [(f"unix={folder}/socket", "root", REFUSED | {"ECONNREFUSED"})]
            check(rows, outside(rows, "/"), "outside", "open")
            check(rows, inside(home, "workspace", words_of(rows), home.work, cwd=home.work), "workspace", "shut")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    harness.main(globals())
