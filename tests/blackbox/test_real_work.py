"""Everyday development work inside the profile workspace, without adaptations."""

import os
import pwd
import shutil
import socket
import subprocess
import textwrap

import harness
from harness import Skip
from net import need

SOURCE = harness.ROOT


def write(home, name, text):
    path = os.path.join(home.work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(textwrap.dedent(text).lstrip("\n"))
    return path


def shell(home, script, status=0, profile="workspace", patience=300, options=(), cwd=None):
    """A script that stops at the first failure; its output."""
    done = home.cli("run", "--profile", profile, *options, "--", "bash", "-euo", "pipefail", "-c", script, status=None, patience=patience,
                    cwd=cwd)
    assert done.status == status, f"status {done.status}\n{done.out.decode()[-1500:]}\n{done.err.decode()[-1500:]}"
    return done.text


def repository(home):
    need("git")
    env = dict(harness.environment(), GIT_CONFIG_NOSYSTEM="1", HOME=home.dir)
    for args in (["init", "-q", "."], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        subprocess.run(["git", *args], cwd=home.work, env=env, check=True)


def test_c_project_builds(home):
    need("gcc", "make")
    write(home, "hello.c", """
        #include <stdio.h>
        #include <pthread.h>
        static void *run(void *p) { *(int *)p = 42; return NULL; }
        int main(void) { int n = 0; pthread_t t; pthread_create(&t, NULL, run, &n); pthread_join(t, NULL); printf("%d\\n", n); return n != 42; }
        """)
    write(home, "Makefile", "all: hello\nhello: hello.c\n\t$(CC) -O1 -g -o $@ $< -lpthread\ncheck: hello\n\t./hello\n\t@echo checked\n"
                            "clean:\n\trm -f hello\n.PHONY: all check clean\n")
    for _ in range(2):
        assert shell(home, "make -s -j2 && make -s check && make -s clean") == "42\nchecked\n"
    assert sorted(os.listdir(home.work)) == ["Makefile", "hello.c"]


def test_files_belong_to_the_caller(home):
    shell(home, "mkdir -p a/b && echo x >a/b/c && ln -s c a/b/l && mkfifo a/p && cp /bin/true a/run && chmod 755 a/run && ./a/run")
    for name in ("a", "a/b", "a/b/c", "a/p", "a/run"):
        st = os.lstat(os.path.join(home.work, name))
        assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid()), (name, st.st_uid, st.st_gid)
    # and files that exist already belong to the command
    owner, own = shell(home, "stat -c %u a/b/c; id -u").split()
    assert owner == own, "inside, they are the command's own"
    shell(home, "rm -r a && touch -d yesterday new && chmod 600 new && mv new newer")
    os.unlink(os.path.join(home.work, "newer"))


def test_bailiff_builds_itself(home):
    need("gcc", "make", "pkg-config")
    if not os.path.exists(os.path.join(SOURCE, "Makefile")):
        raise Skip("no source tree here")
    for name in ("runtime/base", "tests/unit/runtime/base"):
        shutil.copytree(os.path.join(SOURCE, name), os.path.join(home.work, name))
    for name in ("Makefile", "tests/unit/suite.h"):
        os.makedirs(os.path.dirname(os.path.join(home.work, name)), exist_ok=True)
        if os.path.exists(os.path.join(SOURCE, name)):
            shutil.copy(os.path.join(SOURCE, name), os.path.join(home.work, name))
    shell(home, "make -s -j2 build/lib/runtime_base.a && test -s build/lib/runtime_base.a")
    if shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", "check"]).returncode == 0:
        shell(home, "make -s -j2 LAYERS=runtime/base build/unit/runtime/base/test_text && build/unit/runtime/base/test_text >/dev/null")


def test_git_works_in_a_repository(home):
    repository(home)
    write(home, "file", "one\n")
    shell(home, "git add file && git commit -qm first && echo two >>file && git commit -qam second && git tag v1 && git checkout -qb other && "
                "git stash list && git gc -q && git log --oneline | wc -l")
    done = subprocess.run(["git", "log", "--format=%s"], cwd=home.work, env=harness.environment(HOME=home.dir), stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"second\nfirst\n", done.stdout
    assert "read-only" in home.cli("run", "--profile", "workspace", "--", "sh", "-c", "LC_ALL=C; export LC_ALL; echo x >>.git/config",
                                   status=None).err.decode().lower()
    # From a folder below it is the same repository.
    os.mkdir(os.path.join(home.work, "below"))
    shell(home, "echo 3 >f && git add f && git commit -qm third", cwd=os.path.join(home.work, "below"))


def test_git_init_clone_and_worktrees_work(home):
    need("git")
    shell(home, """
        export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
        git init -q new && cd new && echo x >f && git add f && git commit -qm first && git worktree add -q ../tree2 && cd .. &&
        git clone -q new copy && cd copy && git log --oneline && cd .. && rm -rf new copy tree2
        """)
    shell(home, "git init -q . && git status --short")


def test_git_works_in_nested_repositories(home):
    """A submodule and a checkout that are there can be worked in; one that a command clones is its own."""
    repository(home)
    who = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; "

    def outside(script):
        subprocess.run(["sh", "-ec", who + script], cwd=home.work, env=harness.environment(HOME=home.dir), check=True, stdout=subprocess.DEVNULL)
    outside("git init -q src && cd src && echo x >f && git add f && git commit -qm first && cd .. && git clone -q src checkout && "
            "git -c protocol.file.allow=always submodule --quiet add ./src mod && git commit -qam start")
    for where in ("checkout", "mod"):
        shell(home, who + f"cd {where} && echo y >>f && git commit -qam second && git checkout -qb other && git tag t && git gc -q && git status --short")
        assert shell(home, f"git -C {where} log --format=%s").split() == ["second", "first"]
        shell(home, f"cd {where} && ! git config core.fsmonitor /tmp/evil && ! echo x >$(git rev-parse --git-path hooks/post-checkout)")
    shell(home, "git status --short && git submodule status && git add mod && git diff --cached --quiet || true")
    shell(home, "git clone -q src mine && cd mine && git config a.b c")
    shell(home, "git -C mine config a.c d && echo exit 0 >mine/.git/hooks/post-commit && mv mine other && rm -rf other")


def test_python_venv_and_pip_work(home):
    need("python3")
    if subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("python3-venv is not installed")
    write(home, "package/setup.py", "from setuptools import setup\nsetup(name='thing', version='1', py_modules=['thing'])\n")
    write(home, "package/thing.py", "print('a thing')\n")
    shell(home, "/usr/bin/python3 -m venv v && ./v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix' && ./v/bin/pip --version")
    shell(home, "./v/bin/pip install -q --no-index --no-build-isolation ./package && ./v/bin/python -c 'import thing'")
    out = shell(home, "./v/bin/python -c 'import multiprocessing as m; p = m.Pool(2); print(sum(p.map(abs, range(5)))); p.close(); p.join()'")
    assert out == "10\n", out


def test_npm_installs_from_a_folder(home):
    need("node", "npm")
    write(home, "dep/package.json", '{"name": "dep", "version": "1.0.0", "main": "index.js", "scripts": {"postinstall": "node -e 0"}}')
    write(home, "dep/index.js", "module.exports = () => 'dep works'\n")
    write(home, "app/package.json", '{"name": "app", "version": "1.0.0", "scripts": {"test": "node -e \\"console.log(require(\'dep\')())\\""}}')
    out = shell(home, "cd dep && npm pack --silent >/dev/null && cd ../app && npm install --offline --no-audit --no-fund --silent ../dep/dep-1.0.0.tgz && "
                      "npm test --silent")
    assert "dep works" in out, out


def test_cargo_builds(home):
    # rustup's proxies live in the home; the profile shows them.
    cargo = shutil.which("cargo") or os.path.expanduser("~/.cargo/bin/cargo")
    if not os.access(cargo, os.X_OK) or subprocess.run([cargo, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("cargo is not installed")
    write(home, "Cargo.toml", '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n')
    write(home, "src/main.rs", 'fn main() { let t = std::thread::spawn(|| 41 + 1); println!("{}", t.join().unwrap()); }\n')
    # In its usual place it is found by name. The daemon takes the home from the user's account alone.
    homes = [u.pw_dir for u in pwd.getpwall() if u.pw_uid == os.getuid()]
    if os.path.dirname(cargo) in [os.path.join(h, ".cargo/bin") for h in homes] + harness.PATH.split(":"):
        cargo = "cargo"
    out = shell(home, f"{cargo} build --offline -q && ./target/debug/small && {cargo} test --offline -q >/dev/null")
    assert out == "42\n", out


def test_shell_features_work(home):
    out = shell(home, r"""
        seq 1 1000 | sort -rn | head -n1; tar cf - /etc/hostname 2>/dev/null | tar tf - | wc -l; perl -e 'print 6*7, "\n"'
        mkfifo p; (echo through >p &) ; cat p; rm p
        echo x >/dev/shm/f; cat /dev/shm/f; t=$(mktemp); echo y >"$t"; cat "$t"; echo z >/var/tmp/f; cat /var/tmp/f
        cat <(echo sub); sleep 0.01 & wait $!; echo $?; for i in 1 2 3; do sleep 0 & done; wait; echo done
        (trap 'echo caught' USR1; kill -USR1 $BASHPID); echo err >/dev/stderr; echo out >/dev/stdout; head -c4 /dev/urandom | wc -c
        nproc >/dev/null; df . >/dev/null; ps ax >/dev/null; id >/dev/null; hostname >/dev/null; date >/dev/null
        """)
    assert out.split() == "1000 1 42 through x y z sub 0 done caught out 4".split(), out


def test_job_control_works(home):
    out = shell(home, "set -m; sleep 100 & kill -STOP %1; jobs | grep -c Stopped || true; kill -CONT %1; kill %1; wait %1 || echo ended")
    assert "ended" in out, out


def test_a_thousand_forks_succeed(home):
    assert shell(home, "for i in $(seq 1000); do (exit 0); done; echo done") == "done\n"
    need("perl")
    assert shell(home, "perl -e 'for (1..1000) { my $p = fork; exit 0 if !$p; waitpid $p, 0 } print \"done\\n\"'") == "done\n"


def knows_localhost():
    """Some machines have an empty /etc/hosts; then there is nothing to find inside either."""
    try:
        return bool(socket.getaddrinfo("localhost", 80))
    except OSError:
        return False


def test_sockets_on_loopback_work(home):
    need("python3")
    write(home, "talk.py", """
        import os, socket, threading
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.create_server((address, 0), family=family) as server:
                threading.Thread(target=lambda: server.accept()[0].sendall(b"hello")).start()
                with socket.create_connection(server.getsockname()[:2]) as s:
                    assert s.recv(10) == b"hello"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock"); server.listen()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect("sock")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\\0abstract"); server.listen()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect("\\0abstract")
        os.unlink("sock")
        if names:
            socket.getaddrinfo("localhost", 80)
        print("talked")
        """.replace("if names:", f"if {knows_localhost()}:"))
    assert shell(home, "/usr/bin/python3 talk.py") == "talked\n"


def test_debuggers_work(home):
    need("gcc")
    write(home, "crash.c", "#include <stdlib.h>\nstatic void deep(void) { abort(); }\nint main(void) { deep(); return 0; }\n")
    shell(home, "gcc -g -O0 -o crash crash.c")
    tried = 0
    if shutil.which("gdb"):
        out = shell(home, "gdb -q -batch -ex run -ex bt ./crash 2>&1 || true")
        assert "deep ()" in out or "in deep" in out, out
        tried += 1
    if shutil.which("strace"):
        out = shell(home, "strace -f -o trace sh -c '/bin/true; :' && grep -c execve trace")
        assert int(out) >= 2, out
        tried += 1
    if not tried:
        raise Skip("neither gdb nor strace is installed")


def test_caches_are_writable_and_do_not_reach_the_host(home):
    """Tools can write their caches, and none of that reaches the host."""
    mark = f"mark-{os.getpid()}"
    for profile in ("workspace", "ci", "isolated"):
        shell(home, f'test -n "$HOME" && mkdir -p "$HOME/.cache/x" && echo {mark} >"$HOME/.cache/x/{mark}"', profile=profile)
    for base in {os.path.expanduser("~"), os.environ.get("HOME", "/")}:
        assert not os.path.exists(os.path.join(base, ".cache", "x", mark))


def test_ordinary_work_causes_no_violation(home):
    need("gcc", "make")
    write(home, "x.c", "int main(void) { return 0; }\n")
    shell(home, "gcc -o x x.c && ./x && ls -l / >/dev/null && find /etc -name hostname >/dev/null 2>&1 || true")
    with home.rpc() as rpc:
        odd = [e["payload"] for e in rpc.events() if e["type"] == "sandbox.violation" and e["payload"]["kind"] == "syscall"]
        assert not odd, odd


if __name__ == "__main__":
    harness.main(globals())
