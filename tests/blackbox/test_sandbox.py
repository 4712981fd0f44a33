"""Profiles: what each one shows, hides and makes writable; what a request can change; policy files; sandbox show."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import tempfile

import harness
from harness import Home, Skip, until

ROOT = os.geteuid() == 0
try:
    USER_HOME = pwd.getpwuid(os.geteuid()).pw_dir
except KeyError:
    USER_HOME = "/"   # a uid without an account
WALL = ("namespaces", "mounts", "seccomp", "capabilities")


def project(home, git=True):
    """A working tree with files that a hostile command would change."""
    tree = os.path.join(home.work, "proj")
    os.makedirs(os.path.join(tree, "src"))
    if git:
        os.makedirs(os.path.join(tree, ".git", "hooks"))
        with open(os.path.join(tree, ".git", "config"), "w") as f:
            f.write("[core]\n")
    with open(os.path.join(tree, "file"), "w") as f:
        f.write("as it was\n")
    return tree


def run(home, script, *options, profile="workspace", cwd=None, status=0):
    return home.cli("run", "--profile", profile, *options, "--", "/bin/sh", "-c", script, cwd=cwd, status=status)


def policy(home, text):
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))


@contextlib.contextmanager
def secret_in_home():
    if not os.access(USER_HOME, os.W_OK) or USER_HOME == "/":
        raise Skip("no writable home directory")
    with tempfile.NamedTemporaryFile("w", dir=USER_HOME, prefix=".bl-secret-") as f:
        f.write("a secret\n")
        f.flush()
        yield f.name


def test_the_workspace_is_writable_and_its_files_are_the_callers(home):
    tree = project(home)
    run(home, "echo new >made && mkdir -p a/b && echo more >>file && rm -r src", cwd=tree)
    st = os.stat(os.path.join(tree, "made"))
    assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid()), st
    assert os.stat(os.path.join(tree, "a", "b")).st_uid == os.geteuid()
    with open(os.path.join(tree, "file")) as f:
        assert f.read() == "as it was\nmore\n"
    assert not os.path.exists(os.path.join(tree, "src"))


def test_command_is_never_root(home):
    tree = project(home)
    uid = int(run(home, "id -u", cwd=tree).text)
    assert uid != 0 and (ROOT or uid == os.geteuid()), uid
    caps = run(home, "grep -E '^Cap(Prm|Eff|Bnd|Amb)' /proc/self/status", cwd=tree).text
    assert all(int(line.split()[1], 16) == 0 for line in caps.splitlines()), caps


def test_the_workspace_is_the_nearest_folder_with_git(home):
    tree = project(home)
    run(home, "echo x >../up && pwd", cwd=os.path.join(tree, "src"))
    assert os.path.exists(os.path.join(tree, "up"))
    # Folders above it are the sandbox's own, if they can be written at all.
    run(home, "echo x >../outside; true", cwd=tree)
    assert not os.path.exists(os.path.join(home.work, "outside"))
    bare = os.path.join(home.work, "bare", "deep")
    os.makedirs(bare)
    run(home, "echo x >here; echo x >../there; true", cwd=bare)
    assert os.path.exists(os.path.join(bare, "here")) and not os.path.exists(os.path.join(home.work, "bare", "there"))
    # A client need not name the workspace where the daemon can determine it.
    os.chmod(home.dir, 0o711)
    with home.rpc() as rpc:
        started, done = rpc.run("echo x >../by-socket", cwd=os.path.join(tree, "src"), profile="workspace")
        assert done["exitCode"] == 0, rpc.outputs(started["processId"])
        rpc.fails("start_process", command=["true"], profile="workspace", cwd=tree, sandbox={"workspace": home.dir + "/elsewhere"}, code=-32602)


def test_files_outside_the_workspace_are_read_only(home):
    tree = project(home)
    for path in ("/etc/bl-new", "/usr/bl-new", "/bl-new", "/var/bl-new"):
        run(home, f"! echo x >{path} && ! mkdir {path}.d", cwd=tree)
        assert not os.path.exists(path)
    run(home, "test -r /etc/passwd && ! chmod 777 /etc/passwd && ! touch /etc/passwd", cwd=tree)


def test_homes_are_hidden(home):
    tree = project(home)
    with secret_in_home() as name:
        run(home, f"! cat {name}; ! ls -a {USER_HOME} | grep -q bl-secret", cwd=tree)
        run(home, f"cat {name}", "--ro", name, cwd=tree)
    assert run(home, "ls -A /home 2>/dev/null | wc -l", cwd=tree).text.strip() in ("0", "1")
    # There is room for what tools keep in a home, but it is the sandbox's own.
    if USER_HOME != "/":
        run(home, 'echo x >"$HOME/.bl-private" && cat "$HOME/.bl-private"', cwd=tree)
    assert not os.path.exists(os.path.join(USER_HOME, ".bl-private"))


def test_hooks_and_config_of_git_are_protected(home):
    tree = project(home)
    for script in ("echo x >.git/hooks/pre-commit", "echo x >>.git/config", "rm .git/config", "rmdir .git/hooks", "mv .git .old",
                   "mv .git/hooks .git/h", "touch ../x && mv ../x .git/hooks/pre-commit", "ln -s /tmp/x .git/hooks/pre-commit"):
        run(home, f"! ( {script} )", cwd=tree)
    assert os.listdir(os.path.join(tree, ".git", "hooks")) == []
    with open(os.path.join(tree, ".git", "config")) as f:
        assert f.read() == "[core]\n"
    run(home, "echo x >.git/index && mkdir .git/objects", cwd=tree)


def test_targets_of_protected_links_are_protected(home):
    """The link stays, and its target is protected like the link; a link that cannot be resolved simply is rejected."""
    tree = project(home)
    hooks, own = os.path.join(tree, ".git", "hooks"), os.path.join(tree, "tools", "githooks")
    os.rmdir(hooks)
    os.makedirs(own)
    with open(os.path.join(own, "pre-commit"), "w") as f:
        f.write("mine\n")
    for target in ("../tools/githooks", own, "./../tools/./githooks/", "/usr/lib"):
        os.symlink(target, hooks)
        for options in ((), ("--cow",), ("--ro", hooks)):
            done = run(home, f"for try in 'echo x >.git/hooks/pre-commit' 'echo x >.git/hooks/new' 'echo x >tools/githooks/new' 'rm tools/githooks/pre-commit' "
                             f"'rm .git/hooks' 'mv .git/hooks x' 'mv tools/githooks x' 'mv tools x' 'mv .git x' 'ln -sfn /tmp .git/hooks' 'ln -sfn ../src .git/hooks'; do "
                             f"case \"$try\" in *tools*) [ {target} = /usr/lib ] && continue;; esac; sh -c \"$try\" 2>/dev/null && echo \"done: $try\"; rm -rf x; done; "
                             f"echo x >tools/other && [ \"$(readlink .git/hooks)\" = {target} ] && ls .git/hooks/ >/dev/null", *options, cwd=tree)
            assert b"done:" not in done.out, (target, options, done.out)
        os.unlink(hooks)
    assert os.listdir(own) == ["pre-commit"] and open(os.path.join(own, "pre-commit")).read() == "mine\n"
    os.symlink("githooks", os.path.join(tree, "tools", "again"))
    for target in ("../nowhere", "..", "../..", tree, "../tools/again", "../tools/../tools/githooks", "/", home.work, "hooks"):
        os.symlink(target, hooks)
        done = run(home, "true", cwd=tree, status=None)
        assert done.status and b".git/hooks: Too many levels of symbolic links" in done.err, (target, done.status, done.err)
        os.unlink(hooks)


def test_nested_repositories_are_protected(home):
    tree = project(home)
    inner = os.path.join(tree, "vendor", "inner")
    for folder in (os.path.join(inner, ".git", "hooks"), os.path.join(inner, ".claude", "hooks"), os.path.join(tree, "mod"),
                   os.path.join(tree, ".git", "modules", "libs", "mod", "hooks"), os.path.join(tree, "linked", ".git"), os.path.join(tree, "bare", ".git")):
        os.makedirs(folder)
    os.symlink("/etc", os.path.join(tree, "linked", ".git", "hooks"))
    files = {"vendor/inner/.git/config": "[core]\n", ".git/modules/libs/mod/config": "[core]\n", "mod/.git": "gitdir: ../.git/modules/libs/mod\n",
             "vendor/inner/.claude/hooks/check.sh": "exit 0\n"}
    for name, text in files.items():
        with open(os.path.join(tree, name), "w") as f:
            f.write(text)
    scripts = ["mv vendor x", "rm -rf vendor", "echo x >vendor/inner/.claude/hooks/new", "mkdir bare/.git/hooks", "echo x >.git/modules/libs/mod/hooks/post-checkout",
               "mv .git/modules x", "echo x >vendor/inner/.git/hooks/pre-commit", "mv vendor/inner/.git/hooks x", "rm -rf vendor/inner/.git", "rm mod/.git"]
    scripts += [f"echo x >>{name}" for name in files] + [f"echo x >y && mv y {name}" for name in files]
    for script in scripts:
        run(home, f"! ( {script} )", cwd=tree)
    for name, text in files.items():
        with open(os.path.join(tree, name)) as f:
            assert f.read() == text, name
    assert os.listdir(os.path.join(inner, ".git", "hooks")) == [] and os.listdir(os.path.join(inner, ".claude", "hooks")) == ["check.sh"]
    run(home, "echo x >vendor/inner/.git/index && echo x >.git/modules/libs/mod/index && mv mod/.git mod/.git || mv file vendor/inner/file", cwd=tree)
    # Files that the command creates stay writable for it.
    run(home, "mkdir -p new/.git/hooks && echo x >new/.git/config && echo x >new/.git/hooks/pre-commit", cwd=tree)
    run(home, "echo y >>new/.git/config && rm new/.git/hooks/pre-commit && mv new newer && rm -r newer", cwd=tree)
    shown = home.cli("sandbox", "show", "workspace", cwd=tree).text
    assert "vendor/inner/.git/config" in shown and "newer" not in shown, shown


def test_nested_repositories_stay_protected_in_a_nested_workspace(home):
    """A command turns a folder into a workspace with so many repositories that the protected one is not among the first."""
    tree = project(home)
    hooks = os.path.join(tree, "sub", "deep", "lib", ".git", "hooks")
    os.makedirs(hooks)
    run(home, "! echo x >sub/deep/lib/.git/hooks/pre-commit", cwd=tree)
    run(home, "mkdir sub/.git; for i in $(seq 70); do mkdir -p sub/f$i/.git; done", cwd=tree)
    run(home, "! echo x >deep/lib/.git/hooks/pre-commit", cwd=os.path.join(tree, "sub"))
    assert os.listdir(hooks) == []


def test_a_command_cannot_widen_its_workspace_to_the_repository_around_it(home):
    """By making its .git look like a placeholder, or unreadable for the daemon. The client does not name the workspace."""
    outer = os.path.join(home.work, "outer")
    os.makedirs(os.path.join(outer, ".git"))
    for folder in (home.work, os.path.dirname(home.work)):
        os.chmod(folder, 0o755)     # or the runtime of root's daemon sees none of it
    for i, script in enumerate(("chmod 1500 .git", "rm -r .git/objects; chmod 1500 .git", "chmod 700 .", "chmod 700 . && chmod 1500 .git")):
        inner = os.path.join(outer, f"inner{i}")
        os.makedirs(os.path.join(inner, ".git", "objects"))
        with open(os.path.join(inner, ".git", "config"), "w") as f:
            f.write("[core]\n")
        with home.rpc() as rpc:
            for command in ("echo x >../evil", script, "echo x >../evil"):
                _, result = rpc.run(["sh", "-c", command], cwd=inner)
                assert result["exitCode"] == 0 or command != script, (script, result)
                assert not os.path.exists(os.path.join(outer, "evil")), script
        os.chmod(os.path.join(inner, ".git"), 0o755)


def test_a_workspace_that_is_replaced_is_searched_again(home):
    tree = os.path.join(home.work, "replaced")
    for _ in range(3):
        os.makedirs(os.path.join(tree, ".git"))
        run(home, "true", cwd=tree)
        shutil.rmtree(tree)
        os.makedirs(os.path.join(tree, ".git"))
        hooks = os.path.join(tree, "lib", ".git", "hooks")
        os.makedirs(hooks)
        run(home, "! echo x >lib/.git/hooks/pre-commit", cwd=tree)
        assert os.listdir(hooks) == []
        shutil.rmtree(tree)


def test_raised_priority_of_the_daemon_is_not_inherited():
    """Commands do not inherit a negative nice value or real-time priority."""
    script = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))"
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    ways = [([], ours), (["nice", "-n", "5"], min(ours + 5, 19))]
    if os.geteuid() == 0:
        ways += [(["nice", "-n", str(-5 - ours)], 0)]
        if harness.real_time_is_permitted():
            ways += [(["chrt", "-f", "5"], 0), (["chrt", "-r", "5"], 0)]
    for way, wanted in ways:
        with Home(through=way) as home:
            for _ in range(5):  # with prebuilt sandboxes too
                told = run(home, f'python3 -c "{script}"').text.split()
                assert told == [str(wanted), "0"], (way, told, wanted)


def test_core_limit_is_zero_by_default():
    with Home(through=("prlimit", "--core=1000000:", "--")) as home:
        for _ in range(5):
            assert run(home, "ulimit -c; ulimit -c $(ulimit -Hc)").text.split()[0] == "0"


def test_a_crash_is_not_handled_outside():
    """The kernel runs the host's crash handler at any core limit except 1; if there is a handler, no process gets another limit."""
    with open("/proc/sys/kernel/core_pattern") as f:
        piped = f.read(1) == "|"
    raised = harness.subprocess.run(["prlimit", "--core=0:0", "--", "prlimit", "--core=0:1", "--", "true"], stderr=harness.subprocess.DEVNULL).returncode == 0
    script = "import resource as r; print(*r.getrlimit(r.RLIMIT_CORE))"
    for hard, wanted in ((0, "1 1" if raised else "0 0"), (1000000, "1 1" if piped else "1 1000000")):
        with Home(through=("prlimit", f"--core=0:{hard}", "--")) as home:
            for _ in range(3):
                assert run(home, f'python3 -c "{script}"').text.strip() == wanted, (hard, wanted)


def test_limits_of_the_daemon_are_not_inherited():
    raised = ["prlimit", "--rtprio=5", "--nice=30", "--memlock=1073741824", "--"]
    if harness.subprocess.run(raised + ["true"], stderr=harness.subprocess.DEVNULL).returncode:
        raise Skip("limits cannot be raised here")
    script = "import resource as r; print([r.getrlimit(x)[1] for x in (r.RLIMIT_RTPRIO, r.RLIMIT_NICE, r.RLIMIT_MEMLOCK)])"
    with Home(through=raised) as home:
        for _ in range(5):
            assert run(home, f'python3 -c "{script}"').text.strip() == f"[0, 0, {8 << 20}]"


def test_tmp_is_private(home):
    tree = project(home)
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="bl-outside-") as outside:
        run(home, f"! test -e {outside.name} && echo x >/tmp/bl-inside && echo x >/var/tmp/bl-inside && echo x >/dev/shm/bl-inside", cwd=tree)
    assert not os.path.exists("/tmp/bl-inside") and not os.path.exists("/var/tmp/bl-inside")
    run(home, "! test -e /tmp/bl-inside", cwd=tree)
    # /tmp itself is the private one, also where no folder is named.
    assert run(home, "pwd; ls -A | wc -l; touch x", cwd="/tmp").text.split() == ["/tmp", "0"]
    with home.rpc() as rpc:
        started, done = rpc.run("pwd", profile="workspace")
        assert rpc.outputs(started["processId"])["stdout"] == b"/tmp\n", done


def test_workspace_profile_has_no_network(home):
    tree = project(home)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        run(home, connect, cwd=tree, status=1)
        run(home, connect, "--net", "host", cwd=tree)
    links = run(home, "cat /proc/net/dev | tail -n +3 | cut -d: -f1", cwd=tree).text.split()
    assert links == ["lo"], links


def test_readonly_profile_cannot_write(home):
    tree = project(home)
    run(home, "cat file && ! echo x >new && ! echo x >>file && ! touch file && ! rm file && echo x >/tmp/y", profile="readonly", cwd=tree)
    assert not os.path.exists(os.path.join(tree, "new"))


def test_isolated_profile_hides_the_host(home):
    tree = project(home)
    done = run(home, "pwd; ls -A; echo x >mine; ls /; ls -A /var 2>/dev/null", profile="isolated", cwd=tree)
    assert done.text.splitlines()[0] == tree
    assert "file" not in done.text.split() and "srv" not in done.text.split(), done.text
    assert not os.path.exists(os.path.join(tree, "mine"))
    assert run(home, "pwd", profile="isolated", cwd="/").text == "/workspace\n"


def test_ci_profile_is_writable_with_an_empty_home(home):
    tree = project(home)
    empty = 'test -z "$(ls -A $HOME)" &&' if USER_HOME != "/" else ""
    run(home, f'echo x >new && {empty} test "$(df -k --output=size /tmp | tail -1)" -le 4194304', profile="ci", cwd=tree)


def test_host_profile_is_reported_as_unconfined(home):
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        assert "decision" in rpc.fails("start_process", command=["true"], profile="host", code=-32010).data["permissionDecision"]
    with home.rpc() as rpc:
        shown = rpc.call("get_sandbox", profile="host")
        assert shown["confined"] is False and shown["mounts"] == [], shown


def test_host_profile_requires_mode_bypass_and_the_host_policy():
    with Home(options=("--audit", "off", "--allow-host", *harness.host_policy(deny=["Bash(shred:*)"]))) as home, home.rpc() as rpc:
        session = rpc.call("create_session", title="t")["sessionId"]
        for mode in (None, "default", "on_request", "on_failure", "never", "auto", "untrusted", "plan"):
            if mode:
                rpc.call("set_permission_mode", sessionId=session, mode=mode)
            error = rpc.fails("start_process", command=["ls"], profile="host", sessionId=session, code=-32010)
            assert error.data["permissionDecision"]["decision"] == "deny" and "bypass" in error.message, (mode, error.message)
        rpc.fails("set_permission_mode", sessionId=session, mode="bypass", code=-32010)
        # Nor by the user's policy file.
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            f.write('{"permissions": {"allowBypass": true, "defaultMode": "bypass", "allow": ["Bash"]}}')
        rpc.call("reload_policy")
        rpc.fails("start_process", command=["ls"], profile="host", code=-32010)
        rpc.fails("start_process", command=["ls"], cwd=home.work, code=-32010)
    with Home(options=("--audit", "off", "--allow-host", *harness.host_policy(allowBypass=True, deny=["Bash(shred:*)"]))) as home, home.rpc() as rpc:
        rpc.fails("start_process", command=["ls"], profile="host", code=-32010)
        session = rpc.call("create_session", title="t")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="bypass")
        started, done = rpc.run("true", profile="host", sessionId=session)
        assert done["exitCode"] == 0
        applied = [e for e in rpc.events() if e["type"] == "sandbox.applied" and e["processId"] == started["processId"]][0]["payload"]
        layers = dict(applied["layers"])
        assert layers.pop("cgroup") in (("enforced",) if os.geteuid() == 0 else ("enforced", "unavailable")), applied # a plain user may have none
        assert applied["sandboxProfile"]["mode"] == "host" and set(layers.values()) <= {"not_requested", "enforced"}, applied
        rpc.fails("start_process", command=["shred", "x"], profile="host", sessionId=session, code=-32010)
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("start_process", command=["true"], profile="host", sessionId=session, code=-32010)


def test_root_daemon_requires_allow_host_for_the_host_profile():
    if not ROOT:
        raise Skip("only a root daemon acts for others")
    with Home(options=("--audit", "off", *harness.host_policy(allowBypass=True, defaultMode="bypass"))) as home, home.rpc() as rpc:
        assert "--allow-host" in rpc.fails("start_process", command=["true"], profile="host").message
    with Home(options=("--audit", "off", *harness.no_sandbox())) as home, home.rpc() as rpc:
        _, done = rpc.run("true", profile="host")
        assert done["exitCode"] == 0


def test_root_and_home_directories_are_rejected_as_workspace(home):
    for where in ("/", USER_HOME):
        done = run(home, "true", cwd=where, status=None)
        assert done.status == 125 and b"workspace" in done.err and b"--cwd" in done.err, (where, done.status, done.err)
    with home.rpc() as rpc:
        assert rpc.fails("start_process", command=["true"], profile="workspace", cwd="/", code=-32602).data["field"] == "cwd"


def test_files_of_the_daemon_are_hidden(home):
    tree = project(home)
    policy(home, {})
    script = "; ".join(f"test -s {home.dir}/{name} && echo seen {name}" for name in ("control.sock", "policy.json", "store/data.mdb", "log"))
    assert "seen" not in run(home, script + f"; ls {home.dir}/store; true", cwd=tree).text
    done = run(home, "true", "--ro", os.path.join(home.dir, "store"), cwd=tree, status=None)
    assert done.status == 125 and b"bailiff's own" in done.err, done.err


def test_loginuid_cannot_be_changed(home):
    if not os.path.exists("/proc/self/loginuid"):
        raise Skip("a kernel without audit")
    for _ in range(6):  # also in prebuilt sandboxes
        run(home, "! (echo 12345 >/proc/self/loginuid) 2>/dev/null && test \"$(cat /proc/self/loginuid)\" != 12345", cwd=home.work)


def prebuilt_dedicated(home):
    """Dedicated prebuilt sandboxes, recognisable by NoNewPrivs."""
    found = []
    for pid in harness.children_of(home.guard.pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
            status = f.read()
            if "Name:\tbailiff-zygote" in status and "NoNewPrivs:\t1" in status and "State:\tS" in status:
                found.append(pid)
    return found


def test_dedicated_prebuilt_sandbox_is_not_used_after_rights_changed():
    """A path that the peer can no longer reach is not shown by a sandbox that was prebuilt when it could."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    from test_job import Member, NOBODY
    with Home(start=False, options=("--audit", "off", "--socket-mode", "0666")) as home, tempfile.TemporaryDirectory() as outer:
        os.chmod(home.dir, 0o755)
        os.chmod(outer, 0o755)
        home.start()
        inner, work = os.path.join(outer, "inner"), os.path.join(home.dir, "nobodys")
        os.mkdir(inner)
        os.mkdir(work)
        os.chown(work, NOBODY, NOBODY)
        with open(os.path.join(inner, "file"), "w") as f:
            f.write("seen\n")
        with Member(home.socket, [4242]) as rpc:
            def reads():
                return rpc.run(["cat", os.path.join(inner, "file")], cwd=work, sandbox={"readRoots": [inner]})
            for _ in range(2):
                assert reads()[1]["exitCode"] == 0
            def uses_one():
                waiting = prebuilt_dedicated(home)
                if not waiting:     # a slow machine that runs commands all the time prepares none
                    return False
                started, end = reads()
                assert end["exitCode"] == 0, end
                return started["pid"] in waiting
            until("a prebuilt one is used", uses_one)
            until("two wait", lambda: len(prebuilt_dedicated(home)) >= 2)
            os.chmod(outer, 0o750)
            assert "inner" in str(rpc.fails("start_process", command=["true"], cwd=work, sandbox={"readRoots": [inner]}, code=-32014).message)
            os.chown(outer, 0, 4242)  # by a group that it has
            assert reads()[1]["exitCode"] == 0


def test_daemons_home_as_workspace_protects_its_files(home):
    run(home, "! echo x >policy.json; ! echo x >new; ! ls store/.; cat tree/seen", "--rw", home.work, cwd=home.dir, status=1)
    with open(os.path.join(home.work, "seen"), "w") as f:
        f.write("seen\n")
    process = home.cli("run", "-d", "--", "/bin/sh", "-c", "sleep 0.5; cat tree/seen", cwd=home.dir).text.strip()
    home.kill_part("runtime")
    assert home.cli("wait", process).status == 0
    assert home.cli("logs", process).out == b"seen\n"
    assert not {"policy.json", "config.json", "new"} & set(os.listdir(home.dir)), os.listdir(home.dir)


def test_write_roots_and_hidden_paths_can_be_added(home):
    tree = project(home)
    other = os.path.join(home.work, "other")
    os.makedirs(os.path.join(other, ".git", "hooks"))
    run(home, f"echo x >{other}/new && ! echo x >{other}/.git/hooks/pre-push", "--rw", other, cwd=tree)
    assert os.stat(os.path.join(other, "new")).st_uid == os.geteuid()
    run(home, "! cat file && ! echo x >file", "--hide", os.path.join(tree, "file"), cwd=tree)
    run(home, "! echo x >src/new", "--ro", os.path.join(tree, "src"), cwd=tree)
    run(home, "! echo x >missing", "--hide", os.path.join(tree, "missing"), cwd=tree)
    assert not os.path.exists(os.path.join(tree, "missing")), "a placeholder is left"


def test_agents_can_narrow_but_not_widen_a_profile(home):
    tree = project(home)
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        base = dict(profile="workspace", cwd=tree)
        _, done = rpc.run("! cat file && ! echo x >src/new", **base,
                          sandbox={"hidden": [tree + "/file"], "readRoots": [tree + "/src", "/usr"], "network": "none", "tmpBytes": 1 << 20})
        assert done["exitCode"] == 0
        for more in ({"writeRoots": [home.work]}, {"readRoots": ["/home/other/.ssh"]}, {"network": "host"}):
            error = rpc.fails("start_process", command=["true"], **base, sandbox=more, code=-32010)
            assert error.data["permissionDecision"]["decision"] == "deny", error.data
            assert error.data["field"] == "sandbox." + list(more)[0], error.data
        rpc.fails("start_process", command=["true"], **base, limits={"pids": 1 << 20}, code=-32010)
        if USER_HOME != "/":
            rpc.fails("start_process", command=["true"], profile="workspace", cwd=USER_HOME + "/.ssh", code=-32010)


def test_agents_can_keep_a_writable_folder_in_a_read_only_workspace(home):
    tree = project(home)
    os.symlink("/etc", os.path.join(tree, "elsewhere"))
    os.symlink(home.dir, os.path.join(tree, "home"))
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        base = dict(profile="workspace", cwd=tree)
        _, done = rpc.run("echo x >src/new && ! echo x >file && ! echo x >new && ! mv src other && ! mkdir src/.git/hooks 2>/dev/null", **base,
                          sandbox={"readRoots": [tree], "writeRoots": [tree + "/src"]})
        assert done["exitCode"] == 0 and os.path.exists(os.path.join(tree, "src", "new"))
        for name in ("/.git/hooks", "/.git/config", "/src/.bailiff", "/../x"):
            rpc.fails("start_process", command=["true"], **base, sandbox={"readRoots": [tree], "writeRoots": [tree + name]}, code=-32010)
        for name in ("/elsewhere", "/elsewhere/ssh", "/home", "/home/store"):
            rpc.fails("start_process", command=["true"], **base, sandbox={"readRoots": [tree], "writeRoots": [tree + name]}, code=-32014)


def test_invalid_parameters_are_named(home):
    tree = project(home)
    with home.rpc() as rpc:
        for sandbox, field in (({"readRoots": ["x"]}, "sandbox.readRoots[0]"), ({"network": "lan"}, "sandbox.network"),
                               ({"writeRoots": ["/"]}, "sandbox.writeRoots"), ({"hidden": [tree]}, "sandbox.hidden"),
                               ({"roots": []}, "sandbox.roots"), ({"tmpBytes": 0}, "sandbox.tmpBytes"),
                               ({"tmpBytes": 4096}, "sandbox.tmpBytes")):
            error = rpc.fails("start_process", command=["true"], cwd=tree, profile="workspace", sandbox=sandbox, code=-32602)
            assert error.data["field"] == field, (sandbox, error.data)
        error = rpc.fails("start_process", command=["true"], cwd=tree, profile="workspace", limits={"memoryBytes": 4096}, code=-32602)
        assert error.data["field"] == "limits.memoryBytes" and "at least 1048576" in error.message, error.message
        error = rpc.fails("start_process", command=["true"], cwd=tree, profile="castle", code=-32004)
        for name in ("workspace", "readonly", "isolated", "ci", "host"):
            assert name in error.message, error.message
        assert not [e for e in rpc.events() if e["type"] == "process.started"]


def test_events_describe_the_applied_sandbox(home):
    tree = project(home)
    os.chmod(home.dir, 0o711)
    with home.rpc() as rpc:
        started, _ = rpc.run("true", profile="workspace", cwd=os.path.join(tree, "src"), sandbox={"hidden": ["/srv"]})
        events = rpc.events(processId=started["processId"])
        applied = [e for e in events if e["type"] == "sandbox.applied"][0]
        profile = applied["payload"]["sandboxProfile"]
        assert applied["sandboxProfile"] == profile
        assert (profile["mode"], profile["network"], profile["cwd"]) == ("workspace", "none", os.path.join(tree, "src")), profile
        assert profile["writeRoots"] == [tree] and "/" in profile["readRoots"] and "/srv" in profile["hidden"], profile
        assert profile["violationRefs"] == [] and profile["processLimits"]["pids"] > 0, profile
        for layer in WALL:
            assert applied["payload"]["layers"][layer] == "enforced", applied["payload"]["layers"]
        assert applied["payload"]["violations"] == rpc.call("get_health")["violations"]["state"] == "unavailable", applied
        start = [e for e in events if e["type"] == "process.started"][0]
        assert start["payload"]["planHash"] == applied["payload"]["planHash"] and start["payload"]["profile"] == "workspace"
        assert started["sandboxProfile"] == "workspace"


def test_sandbox_show_prints_profiles_and_processes(home):
    tree = project(home)
    shown = home.cli("sandbox", "show", "workspace", cwd=tree).text
    assert tree in shown and ".git/hooks" in shown and "\x1b" not in shown, shown
    as_json = home.cli("sandbox", "show", "readonly", "--json", "--hide", "/srv", cwd=tree).json
    kinds = {m["path"]: m["kind"] for m in as_json["mounts"]}
    assert kinds["/"] == "system" and kinds[tree] == "read" and kinds["/srv"] == "hide", kinds
    process = home.cli("run", "-d", "--profile", "workspace", "--", "true", cwd=tree).text.strip()
    shown = home.cli("sandbox", "show", process, cwd=tree).text
    assert "enforced" in shown and tree in shown, shown
    assert home.cli("sandbox", "show", process, "--json", cwd=tree).json["sandboxProfile"]["mode"] == "workspace"
    listed = home.cli("sandbox", "list").text
    assert all(name in listed for name in ("workspace", "readonly", "isolated", "ci", "host")), listed
    done = home.cli("sandbox", "show", "castle", cwd=tree, status=1)
    assert b"castle" in done.err, done.err


def test_custom_profiles_extend_builtin_ones():
    with Home(start=False) as home:
        tree, extra = project(home), os.path.join(home.work, "extra")
        os.mkdir(extra)
        policy(home, {"profiles": {
            "wide": {"writeRoots": [extra], "protect": ["file"], "pids": 99},
            "narrow": {"extends": "wide", "hidden": ["$WORKSPACE/src"], "network": "none"}}})
        home.start()
        run(home, f"echo x >{extra}/a && ! echo x >>file && echo x >new", profile="wide", cwd=tree)
        run(home, f'touch src/x; echo x >{extra}/b && test -z "$(ls -A src)"', profile="narrow", cwd=tree)
        assert "wide" in home.cli("sandbox", "list").text
        with home.rpc() as rpc:
            changed = [e for e in rpc.events() if e["type"] == "policy.changed"]
            assert [e["payload"]["layer"] for e in changed] == ["user"] and "newHash" in changed[0]["payload"], changed
            # What the owner of the policy gave is not more than the profile.
            rpc.call("initialize", role="agent")
            rpc.run("true", profile="wide", cwd=tree)


def changes(home):
    with home.rpc() as rpc:
        return [e for e in rpc.events() if e["type"] in ("policy.changed", "runtime.warning")]


def test_policy_is_reloaded_by_watch_and_signal():
    with Home(start=False) as home:
        tree = project(home)
        policy(home, {"profiles": {"mine": {}}})
        home.start()
        run(home, "true", profile="mine", cwd=tree)
        home.restart()
        assert len(changes(home)) == 1, "the same file is no change"
        policy(home, {"profiles": {"yours": {}}})
        home.guard.send_signal(signal.SIGHUP)
        until("the policy is another", lambda: len(changes(home)) == 2)
        run(home, "true", profile="yours", cwd=tree)
        run(home, "true", profile="mine", cwd=tree, status=125)
        policy(home, '{\n "profiles": {\n  "yours": {"pids": "many"}}}')
        home.guard.send_signal(signal.SIGHUP)
        until("the bad file is reported", lambda: len(changes(home)) >= 3)  # by the watch and by the signal
        bad = changes(home)[-1]
        assert bad["type"] == "runtime.warning", bad
        for word in ("policy.json", "line 3", "profiles.yours.pids"):
            assert word in bad["payload"]["detail"], bad
        run(home, "true", profile="yours", cwd=tree)
        # From the start, there is nothing to fall back on: nothing runs rather than with less than was asked for.
        home.restart()
        done = run(home, "true", cwd=tree, status=125)
        assert b"line 3" in done.err, done.err
        os.unlink(os.path.join(home.dir, "policy.json"))
        home.guard.send_signal(signal.SIGHUP)
        until("it runs again", lambda: run(home, "true", cwd=tree, status=None).status == 0)
        assert changes(home)[-1]["type"] == "policy.changed"


def test_profiles_survive_the_death_of_the_runtime():
    with Home(start=False) as home:
        tree = project(home)
        policy(home, {"profiles": {"mine": {}}})
        home.start()
        home.kill_part("runtime")
        until("it serves again", home.answers)
        run(home, "true", profile="mine", cwd=tree)


def test_reachable_abstract_sockets_are_reported():
    """With the host's network and no Landlock scopes: events, reply and command line report it; a profile can require the protection."""
    script = ("import socket; s = socket.socket(socket.AF_UNIX)\n"
              "try: s.connect('\\0{}'); print('reached')\n"
              "except OSError as e: print(e.strerror)")
    older = harness.kernel_without("landlock_create_ruleset", error="EOPNOTSUPP")
    with socket.socket(socket.AF_UNIX) as service:
        name = f"bailiff-abstract-{os.getpid()}"
        service.bind("\0" + name)
        service.listen(16)
        for through in (older, ()):
            with Home(through=through) as home, home.rpc() as rpc:
                missing = False
                for network in ("none", "host", "host"):
                    started, _ = rpc.run(["/usr/bin/python3", "-c", script.format(name)], sandbox={"network": network})
                    process = started["processId"]
                    applied = next(e["payload"] for e in rpc.events() if e["type"] == "sandbox.applied" and e["processId"] == process)
                    missing = b"reached" in rpc.outputs(process)["stdout"]
                    assert ("abstractSockets" in started.get("missingLayers", [])) == missing, (through, network, started)
                    assert applied["layers"]["abstractSockets"] == ("unavailable" if missing else "enforced"), applied["layers"]
                    assert not (missing and network == "none")
                assert missing or not through, "without Landlock nothing shuts them"
                assert (b"abstract sockets" in home.cli("run", "--net", "host", "--", "true").err) == missing
                assert b"abstract sockets" not in home.cli("run", "--", "true").err
                policy(home, {"profiles": {"strict": {"network": "host", "require": ["abstractSockets"]}}})
                rpc.call("reload_policy")
                until("the profile is known", lambda: "strict" in home.cli("sandbox", "list").text)
                done = home.cli("run", "--profile", "strict", "--", "true", status=None)
                assert (done.status != 0) == missing and (b"landlock" in done.err) == missing, done.err


def test_required_layers_are_enforced_or_the_start_fails(home):
    tree = project(home)
    with home.rpc() as rpc:
        layers = rpc.call("get_sandbox", profile="workspace", cwd=tree)
        assert set(WALL) <= set(layers["require"]), layers
        started, _ = rpc.run("true", profile="workspace", cwd=tree)
        applied = [e for e in rpc.events(processId=started["processId"]) if e["type"] == "sandbox.applied"][0]["payload"]["layers"]
    done = run(home, "true", "--pids", "64", cwd=tree, status=None)
    if applied["cgroup"] == "enforced":
        assert done.status == 0, done.err
    else:
        assert done.status != 0, "a limit that cannot be enforced was left out"
        assert b"option '--pids': cannot be enforced here: " in done.err and b"not supported" not in done.err, done.err


def test_environment_is_recorded_without_values(home):
    def profile(**env):
        started, _ = rpc.run(["true"], env=env)
        return next(e for e in rpc.events(processId=started["processId"]) if e["type"] == "sandbox.applied")["payload"]["sandboxProfile"]

    with home.rpc() as rpc:
        plain, secret, same, other = profile(), profile(TOKEN="s3cret-value"), profile(TOKEN="s3cret-value"), profile(TOKEN="else")
        assert "PATH" in plain["environment"] and "TOKEN" not in plain["environment"] and "TOKEN" in secret["environment"], plain
        assert secret["environmentRef"] == same["environmentRef"], "the same environment has the same reference"
        assert len({plain["environmentRef"], secret["environmentRef"], other["environmentRef"]}) == 3
        assert "s3cret-value" not in str(rpc.events())


def test_a_command_may_use_every_processor_that_the_daemon_was_given(home):
    ours = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    told = ["/usr/bin/python3", "-c", "import os; print(*sorted(os.sched_getaffinity(0)), sep=',', end='')"]
    with home.rpc() as rpc:
        for _ in range(4):   # also in prebuilt sandboxes
            started, _ = rpc.run(told)
            assert rpc.outputs(started["processId"])["stdout"].decode() == ours, (rpc.outputs(started["processId"]), ours)
    one = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {one})
    try:
        with harness.Home() as narrow, narrow.rpc() as rpc:
            for _ in range(4):
                started, _ = rpc.run(told)
                assert rpc.outputs(started["processId"])["stdout"].decode() == str(one), rpc.outputs(started["processId"])
    finally:
        os.sched_setaffinity(0, {int(c) for c in ours.split(",")})


if __name__ == "__main__":
    harness.main(globals())
