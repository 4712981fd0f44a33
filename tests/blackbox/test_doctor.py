"""bailiff doctor: tries each layer in a real sandbox and reports broken ones with cause and fix; its exit status predicts `run`."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import CLI, Home, Skip, kernel_without, until

REQUIRED = {"sandbox", "namespaces", "root_filesystem", "home", "processes", "network", "seccomp", "capabilities", "no_new_privs"}


class Found:
    def __init__(self, done):
        self.status, self.err = done.returncode, done.stderr.decode()
        self.all = json.loads(done.stdout)
        self.rows = {row["layer"]: row for row in self.all.get("layers", [])}
        assert self.status == (0 if self.all["safe"] else 1), (self.status, self.all)
        for row in self.rows.values():
            assert row["state"] in ("enforced", "unavailable", "not needed"), row
            assert row.get("cause") if row["state"] == "unavailable" else row.get("seen"), row
            # the fix for layers that could not be tried is in the row "sandbox"
            assert row["state"] != "unavailable" or row.get("fix") or row["cause"].startswith("not tried"), row

    def state(self, layer):
        return self.rows[layer]["state"]


def bailiff(home, *args, through=(), cwd=None):
    return subprocess.run([*through, CLI, *args], env=harness.environment(BAILIFF_HOME=home.dir), cwd=cwd or home.work, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE)


def examine(home, through=(), cwd=None):
    return Found(bailiff(home, "doctor", "--json", through=through, cwd=cwd))


@harness.audit_turn()    # a root daemon takes audit by default
def examine_started_by(*through):
    """Doctor's report if it has to start a daemon through that command, and whether that daemon then runs commands."""
    base = tempfile.mkdtemp(prefix="bl-")
    work = os.path.join(base, "tree")
    os.mkdir(work)
    try:
        def call(*args):
            return subprocess.run([*through, CLI, *args], env=harness.environment(BAILIFF_HOME=base), cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=harness.PATIENCE)
        found = Found(call("doctor", "--json"))
        return found, call("run", "--", "true").returncode == 0
    finally:
        if os.path.exists(os.path.join(base, "bailiffd.pid")):
            with open(os.path.join(base, "bailiffd.pid")) as f:
                pid = int(f.read())
            os.kill(pid, signal.SIGTERM)
            until("the daemon has gone", lambda: not harness.alive(pid))
        shutil.rmtree(base, ignore_errors=True)


def test_every_layer_is_checked_in_a_real_sandbox(home):
    found = examine(home)
    assert found.status == 0, found.all
    assert {name for name, row in found.rows.items() if row["required"]} >= REQUIRED, found.rows
    for layer in REQUIRED - {"home"} | {"workspace", "terminal"}:
        assert found.state(layer) == "enforced", found.rows[layer]
    assert found.state("home") != "unavailable", found.rows["home"]     # the tests' plain user has none
    assert found.state("user_namespaces") == ("enforced" if os.geteuid() else "not needed") or os.geteuid() == 0, found.rows["user_namespaces"]
    features = {f["name"]: f["state"] for f in found.all["machine"]["features"]}
    assert (found.state("landlock") == "enforced") == (features["landlock"] == "available"), found.rows["landlock"]
    assert f"belongs to uid {os.geteuid()} outside" in found.rows["workspace"]["seen"], found.rows["workspace"]


def test_reported_limits_match_those_of_a_command(home):
    found = examine(home)
    for layer, *option in (("memory_limit", "--memory", "64M"), ("pids_limit", "--pids", "64"), ("cpu_limit", "--cpus", "0.5")):
        runs = bailiff(home, "run", *option, "--", "true").returncode == 0
        assert (found.state(layer) == "enforced") == runs, found.rows[layer]


def test_doctor_leaves_no_files_or_processes(home):
    examine(home)
    assert os.listdir(home.work) == [], os.listdir(home.work)
    with home.rpc() as rpc:
        assert not rpc.call("list_processes", liveOnly=True)["processes"]
        # A process that could not be started has no command to recognise it by.
        shown = [p for p in rpc.call("list_processes", helpers=False)["processes"] if "bailiff-tool" in json.dumps(p)]
        assert not shown, f"ps shows doctor's own commands: {shown}"


def test_text_output_has_the_same_rows_as_json(home):
    said = home.cli("doctor").text
    for layer, row in examine(home).rows.items():
        line = [line for line in said.splitlines() if line.startswith(layer + " ")]
        assert len(line) == 1 and row["state"] in line[0], (layer, line)
    assert "Commands run in a sandbox" in said, said


def test_fixes_are_in_terms_of_the_command_line(home):
    """The daemon's own advice names methods and parameters of its socket."""
    with home.rpc() as rpc:
        rpc.start("sleep 1000")     # without it a drain ends at once
        rpc.call("drain", on=True)
        row = examine(home).rows["sandbox"]
        assert row["state"] == "unavailable" and "bailiff daemon drain --cancel" in row["fix"], row
        assert f"  fix: {row['fix']}\n" in bailiff(home, "doctor").stdout.decode()
        rpc.call("drain", on=False)


def test_missing_landlock_is_reported_with_the_fix():
    for error, cause, fix in (("EOPNOTSUPP", "lsm=", "lsm=landlock"), ("ENOSYS", "not implemented", "5.13")):
        found, runs = examine_started_by(*kernel_without("landlock_create_ruleset", error=error))
        row = found.rows["landlock"]
        assert row["state"] == "unavailable" and not row["required"] and cause in row["cause"] and fix in row["fix"], row
        assert found.status == 0 and runs, found.rows


def test_landlock_that_is_blocked_for_the_daemon_is_reported():
    if os.geteuid():
        through = kernel_without("landlock_create_ruleset", error="EPERM")
    else:
        through = kernel_without("landlock_create_ruleset", error="EOPNOTSUPP")
    with Home(through=through) as home:
        found = examine(home)       # the kernel has it, as far as doctor's own process is concerned
        features = {f["name"]: f["state"] for f in found.all["machine"]["features"]}
        if features["landlock"] != "available":
            raise Skip("this kernel has no Landlock")
        row = found.rows["landlock"]
        assert row["state"] == "unavailable" and "blocks Landlock" in row["cause"] and "seccomp" in row["fix"], row


def test_blocked_mounts_are_reported_and_no_layer_is_enforced():
    found, runs = examine_started_by(*kernel_without("mount", "fsopen", error="EPERM"))
    assert not runs and found.status == 1, found.rows
    assert found.state("sandbox") == "unavailable" and found.rows["sandbox"]["fix"], found.rows["sandbox"]
    tried = {"sandbox", "user_namespaces", "denials"}
    assert all(row["state"] == "unavailable" for name, row in found.rows.items() if name not in tried), found.rows


def test_missing_system_call_is_reported_without_a_daemon():
    done = subprocess.run([*kernel_without("mount_setattr"), CLI, "doctor", "--json"], env=harness.environment(BAILIFF_HOME="/nonexistent/home"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE)
    found = Found(done)
    assert found.status == 1 and "mount_setattr" in found.all["error"] and "mount_setattr" in found.err, done
    missing = {f["name"]: f["lost"] for f in found.all["machine"]["features"] if f["required"] and f["state"] != "available"}
    assert list(missing) == ["mount_setattr"], missing


def test_status_is_right_for_root_without_sys_admin():
    if os.geteuid():
        raise Skip("requires root")
    found, runs = examine_started_by("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--")
    assert runs == (found.status == 0) == (found.state("sandbox") == "enforced"), found.rows
    if runs:
        assert found.state("user_namespaces") == "enforced", found.rows


def test_disabled_user_namespaces_are_reported_with_the_fix():
    """In a user namespace of its own, so that the limit affects no other process."""
    if os.geteuid() == 0:
        raise Skip("root needs no user namespaces")
    script = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'
    nested = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"]
    if subprocess.run([*nested, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Skip("user namespaces cannot be limited here")
    found, runs = examine_started_by(*nested)
    assert not runs and found.status == 1 and found.state("sandbox") == "unavailable", found.rows
    assert "user_namespaces" in found.rows["sandbox"]["fix"] or "user namespaces" in found.rows["sandbox"]["cause"], found.rows["sandbox"]
    features = {f["name"]: f for f in found.all["machine"]["features"]}
    assert features["user_namespaces"]["state"] == "unavailable", features["user_namespaces"]


def test_read_only_cgroups_are_reported():
    if os.geteuid():
        raise Skip("requires root")
    script = 'for m in $(awk \'$3 ~ /^cgroup/ { print $2 }\' /proc/mounts); do mount -o remount,bind,ro "$m" || exit 99; done; exec "$@"'
    found, runs = examine_started_by("unshare", "--mount", "sh", "-c", script, "sh")
    assert runs and found.status == 0, found.rows
    for layer in ("memory_limit", "pids_limit", "cpu_limit"):
        assert found.state(layer) == "unavailable", found.rows[layer]


def test_unusable_workspace_is_distinguished_from_a_broken_machine(home):
    place = "/root" if os.geteuid() == 0 else "/"
    found = examine(home, cwd=place)
    assert found.status == 0 and found.state("sandbox") == "enforced", found.rows
    row = found.rows["workspace"]
    assert row["state"] == "unavailable" and f"not in {place}" in row["cause"] and row["fix"], row


def test_policy_that_asks_or_denies_is_reported_without_waiting():
    for rule in ("ask", "deny"):
        with Home(start=False) as home:
            with open(os.path.join(home.dir, "policy.json"), "w") as f:
                json.dump({"permissions": {rule: ["Bash(*)"]}}, f)
            home.start()
            found = examine(home)
            row = found.rows["sandbox"]
            assert row["state"] == "unavailable" and "policy denies it" in row["cause"] and "policy" in row["fix"], row
            assert found.rows["workspace"]["cause"].startswith("not tried"), found.rows["workspace"]
            with home.rpc() as rpc:
                assert not rpc.call("list_processes", liveOnly=True)["processes"]


def test_without_a_sandbox_no_layer_is_enforced():
    with Home(options=("--audit", "off", *harness.no_sandbox())) as home:
        found = examine(home)
        with home.rpc() as rpc:
            confined = rpc.start(["true"], cwd=home.work)["sandboxProfile"] != "host"
        assert (found.status == 0) == confined == (found.state("sandbox") == "enforced"), found.rows


if __name__ == "__main__":
    harness.main(globals())
