"""Kernel features are probed: a daemon that cannot work reports the reason in one sentence, `version` lists the features."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import harness
from harness import CLI, DAEMON, Home, Skip, kernel_without

# System calls that nothing can be built without, and what the sentence calls them.
REQUIRED = {"clone3": "clone3", "pidfd_open": "pidfd_open", "openat2": "openat2", "close_range": "close_range", "fsopen": "fsopen and move_mount",
            "mount_setattr": "mount_setattr", "memfd_create": "memfd_create"}
OLD_NAME = ("/usr/bin/setarch", "--uname-2.6")     # uname says 2.6, nothing else changes


def run(*command, status=None):
    with tempfile.TemporaryDirectory(prefix="bl-") as base:
        done = subprocess.run(command, env=harness.environment(BAILIFF_HOME=base), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=harness.PATIENCE, cwd="/")
        left = os.listdir(base)
    if status is not None:
        assert done.returncode == status, (command, done)
    return done.returncode, done.stdout.decode(), done.stderr.decode(), left


def features(*through):
    status, out, err, _ = run(*through, DAEMON, "--version", "--json")
    assert status == 0, err
    return {f["name"]: f for f in json.loads(out)["features"]}


def has_old_name():
    if not os.path.exists(OLD_NAME[0]):
        raise Skip("setarch is not installed")


def test_a_missing_call_is_named_in_one_sentence():
    for call, name in REQUIRED.items():
        _, _, said, left = run(*kernel_without(call), DAEMON, "--foreground", status=3)
        assert said.count("\n") == 1 and said.startswith("bailiffd: ") and name in said and "seccomp profile" in said, said
        assert not left, f"{left} in a home that was never used"


def test_several_missing_calls_are_all_named():
    _, _, said, _ = run(*kernel_without("openat2", "mount_setattr"), DAEMON, "--foreground", status=3)
    assert said.count("\n") == 1 and "openat2, mount_setattr" in said, said


def test_old_kernel_is_reported_with_found_and_required_version():
    has_old_name()
    _, _, said, _ = run(*kernel_without("mount_setattr"), *OLD_NAME, DAEMON, "--foreground", status=3)
    assert re.fullmatch(r"bailiffd: Linux 2\.6 is too old: bailiff needs 5\.12 or newer \(found 2\.6\.[^ ,]+, which lacks mount_setattr\)\n", said), said


def test_the_needed_version_is_that_of_the_newest_required_feature():
    required = [f["since"] for f in features().values() if f["required"]]
    assert max(tuple(map(int, since.split("."))) for since in required) == (5, 12), required


def test_old_version_number_alone_is_accepted():
    has_old_name()
    with Home(through=OLD_NAME) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


def test_command_line_prints_the_daemons_reason():
    for verb, status in ((("run", "--", "true"), 125), (("session", "list"), None), (("doctor",), 1)):
        _, _, said, _ = run(*kernel_without("mount_setattr"), CLI, *verb, status=status)
        assert verb[0] == "session" or "refuses mount_setattr, so the host's files cannot be shown read-only" in said, (verb, said)


def test_missing_optional_feature_is_reported_with_its_consequence():
    for call, error, names in (("landlock_create_ruleset", "ENOSYS", ("landlock", "landlock_truncate", "landlock_scopes", "landlock_audit")),
                               ("landlock_create_ruleset", "EOPNOTSUPP", ("landlock",)), ("mount", "EPERM", ("user_namespaces",))):
        found = features(*kernel_without(call, error=error))
        for name in names:
            assert found[name]["state"] == "unavailable" and found[name]["lost"] and found[name]["detail"], found[name]
        assert error != "EOPNOTSUPP" or "lsm=" in found["landlock"]["detail"], found["landlock"]
        assert all(f["state"] == "available" for f in found.values() if f["required"]), found


def test_a_daemon_without_optional_features_runs_commands():
    with Home(through=kernel_without("landlock_create_ruleset")) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


def test_version_reports_build_and_machine():
    own = harness.cli("version", "--json").json
    machine = own["daemon"]
    assert own["version"] == machine["version"] and own["build"] == machine["build"], own
    assert machine["kernel"] == os.uname().release and machine["architecture"] == os.uname().machine, machine
    assert set(machine["libraries"]) == {"libevent", "lmdb", "libseccomp", "jansson"} and all(machine["libraries"].values()), machine
    assert machine["cgroup"]["version"] in ("none", "v1", "v2", "v1 and v2"), machine
    for words in (("version",), ("--version",)):
        said = harness.cli(*words).text
        assert said.startswith(f"bailiff {own['version']}\n") and own["build"] in said and os.uname().release in said, said
    _, said, _, _ = run(DAEMON, "--version", status=0)
    assert said.startswith(f"bailiffd {own['version']}\n") and own["build"] in said, said


def test_version_works_without_the_daemons_program():
    with tempfile.TemporaryDirectory(prefix="bl-") as base:
        alone = shutil.copy(CLI, base)
        done = subprocess.run([alone, "version"], env=harness.environment(PATH=base), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE)
        assert done.returncode == 0 and b"bailiffd" in done.stdout and b"No such file" in done.stdout, done


if __name__ == "__main__":
    harness.main(globals())
