#!/usr/bin/python3
"""packaging/: the list of files names what is there and all that is built, install and uninstall are each other's inverse, the versions
agree, units and profiles are correct as far as this machine's tools can tell, and the CI examples are YAML."""

import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", "build")
UNITS = ("packaging/bailiff.service", "packaging/user/bailiff.service", "packaging/user/bailiff-serve.service")
problems = []


def run(*argv, env=None):
    done = subprocess.run(argv, cwd=ROOT, env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def files_below(top):
    return sorted(os.path.relpath(os.path.join(d, f), top) for d, _, names in os.walk(top) for f in names)


def check_list():
    rows = [line.split() for line in read("packaging/files").splitlines() if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 4:
            problems.append(f"packaging/files: not four words: {' '.join(row)}")
        elif not row[2].startswith("@BUILD@") and not glob.glob(os.path.join(ROOT, row[2])):
            problems.append(f"packaging/files: {row[2]} matches nothing")
    listed = {os.path.basename(row[2]) for row in rows if row[2].startswith("@BUILD@")}
    linked = set(re.findall(r"\$\(BUILD\)/(bailiff[a-z-]*)", read("Makefile")))
    if listed != linked:
        problems.append(f"packaging/files: programs that are built and not listed, or listed and not built: {sorted(listed ^ linked)}")


def check_install():
    with tempfile.TemporaryDirectory(prefix="a path with 'quotes' ") as top:
        env = {"DESTDIR": top, "PREFIX": "/opt/x/", "SETS": "program curl nats doc license data system apparmor config"}
        status, said = run("packaging/install.sh", "install", BUILD, env=env)
        if status:
            problems.append(f"install.sh install: {said}")
            return
        for name in files_below(top):
            if name.endswith((".service", "apparmor.d/bailiff")):
                with open(os.path.join(top, name)) as f:
                    if "/usr/local" in f.read():
                        problems.append(f"{name}: names /usr/local instead of the prefix")
        check_upgrade(top, env)
        status, said = run("make", "uninstall", f"DESTDIR={top}", "PREFIX=/opt/x")
        if status:
            problems.append(f"make uninstall: {said}")
        left = files_below(top)
        if left != ["etc/bailiff/config.json", "etc/bailiff/policy.json"]:
            problems.append(f"install.sh uninstall leaves {left}")


def check_prefix():
    for prefix in ("/opt/with space", "/opt/a|b", "opt/x"):
        status, said = run("make", "uninstall", f"PREFIX={prefix}", "DESTDIR=/nowhere")
        if status == 0 or f"PREFIX '{prefix}'" not in said:
            problems.append(f"make uninstall with PREFIX={prefix}: status {status}: {said}")


def check_upgrade(top, env):
    """A running daemon executes the programs at any time: each is replaced as a whole, and one that cannot be written stays as it was."""
    before = {name: os.stat(os.path.join(top, name)) for name in files_below(top)}

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    failed = subprocess.run([os.path.join(ROOT, "packaging/install.sh"), "install", BUILD], env=dict(os.environ, **env), stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT,
                            preexec_fn=limit)
    after = {name: os.stat(os.path.join(top, name)) for name in files_below(top)}
    changed = [name for name in before.keys() | after.keys() if name not in before or name not in after or before[name].st_size != after[name].st_size]
    if failed.returncode == 0 or changed:
        problems.append(f"install.sh with a full disk: status {failed.returncode}, changed {changed}")


def check_versions():
    made = re.search(r"^VERSION := (\S+)", read("Makefile"), re.M).group(1)
    packed = re.match(r"bailiff \((\S+)\)", read("packaging/debian/changelog")).group(1)
    if made != packed:
        problems.append(f"packaging/debian/changelog: version {packed}, but the Makefile says {made}")


def check_units():
    """With programs that exist: systemd-analyze looks for them."""
    if not shutil.which("systemd-analyze"):
        return "systemd-analyze is not installed"
    with tempfile.TemporaryDirectory() as top:
        for unit in UNITS:
            path = os.path.join(top, os.path.basename(unit))
            with open(path, "w") as f:
                f.write(re.sub(r"/usr/local/s?bin/bailiffd?", "/bin/true", read(unit)))
            status, said = run("systemd-analyze", "verify", "--man=no", *(["--user"] if "user/" in unit else []), path,
                               env={"XDG_RUNTIME_DIR": top, "SYSTEMD_LOG_LEVEL": "warning"})
            if os.path.basename(unit) in said and (status or "nknown" in said):
                problems.append(f"{unit}: {said.strip()}")
    return ""


def check_profile():
    if not shutil.which("apparmor_parser") or not os.path.exists("/etc/apparmor.d/abi/4.0"):
        return "apparmor_parser 4.0 is not installed"
    status, said = run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "packaging/apparmor/bailiff")
    if status:
        problems.append(f"packaging/apparmor/bailiff: {said.strip()}")
    return ""


def check_examples():
    try:
        import yaml
    except ImportError:
        return "python3-yaml is not installed"
    for path in glob.glob(os.path.join(ROOT, "packaging/ci/*.yml")):
        try:
            with open(path) as f:
                assert isinstance(yaml.safe_load(f), dict), "not a mapping"
        except (yaml.YAMLError, AssertionError) as e:
            problems.append(f"{os.path.relpath(path, ROOT)}: {e}")
    return ""


def main():
    check_list()
    check_install()
    check_prefix()
    check_versions()
    skipped = [why for why in (check_units(), check_profile(), check_examples()) if why]
    for problem in problems:
        print(problem)
    print("packaging: " + (f"{len(problems)} problems" if problems else "in order") + "".join(f"; not checked: {why}" for why in skipped))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
