"""Programs of others that tests drive bailiff with, from npm: fetched once into a cache outside the tree, never needed to build.

    python3 tests/blackbox/npm.py [SET…]      fetches what is missing (tests/run does so before black-box tests)

The cache is BAILIFF_TEST_CACHE, else a folder of root's or one's own in /var/tmp. Where npm, a Node that is new enough or the
packages cannot be had, the tests skip and say why.
"""

import fcntl
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile

try:
    from harness import Skip
except ImportError:     # on its own, as the step that fetches
    class Skip(Exception):
        pass

SETS = {
    "mcp-conformance": ["@modelcontextprotocol/conformance@0.2.0-alpha.12"],
    "mcp-sdk": ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"],
    "mcp-server": ["@modelcontextprotocol/server-filesystem@2026.8.31"],
    "acp-sdk": ["@agentclientprotocol/sdk@2.4.0"],
    "codex": ["@openai/codex@0.166.0"],
    "console": ["playwright-core@1.65.0", "axe-core@4.14.0"],
    "model-sdk": ["@anthropic-ai/sdk@1.8.0", "openai@7.53.0", "@google/genai@2.32.0"],
}
NODE = "node-linux-" + {"aarch64": "arm64", "x86_64": "x64"}.get(platform.machine(), platform.machine()) + "@22.23.3"
CONFORMANCE_NODE = 22   # what the conformance suite runs on
FETCH_S = 240
failed = {}     # packages that are not available, and why: tried once per program


def caches():
    """Where packages may lie already; the last is where this user puts them."""
    if os.environ.get("BAILIFF_TEST_CACHE"):
        return [os.environ["BAILIFF_TEST_CACHE"]]
    return [f"/var/tmp/bailiff-tests-{uid}" for uid in dict.fromkeys((0, os.geteuid()))]


def trusted(folder):
    """Any user can create names in /var/tmp: programs are run only from a directory that only root or this user can write."""
    try:
        st = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(st.st_mode) and st.st_uid in (0, os.geteuid()) and not st.st_mode & 0o022


def install(folder, specs):
    npm = shutil.which("npm")
    if not npm:
        raise Skip("there is no npm on this machine")
    if os.environ.get("BAILIFF_TEST_NO_FETCH"):
        raise Skip("npm could not fetch packages at the beginning of this run")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=os.path.dirname(folder)) as work:
        argv = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--fetch-retries=1", "--fetch-timeout=30000",
                "--loglevel=error",
                "--prefix", work, *specs]
        try:
            done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            raise Skip(f"npm did not fetch {specs[0]} in {FETCH_S} s") from None
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace")
            words = re.findall(r"code (E\w+)", said) or [line.strip()[:100] for line in said.splitlines() if line.strip()] or [f"status {done.returncode}"]
            raise Skip(f"npm cannot fetch {specs[0]} ({words[0]})")
        os.chmod(work, 0o755)
        os.rename(work, folder)
        os.mkdir(work)      # for the end of the with


def fetch(name, specs):
    """The folder that has them in node_modules."""
    if name in failed:
        raise Skip(failed[name])
    tag = name + "-" + re.sub(r"[^a-z0-9.]+", "-", "-".join(s.rsplit("@", 1)[1] for s in specs))
    for cache in caches():
        if trusted(cache) and os.path.isdir(os.path.join(cache, tag, "node_modules")):
            return os.path.join(cache, tag)
    cache = caches()[-1]
    folder = os.path.join(cache, tag)
    try:
        os.makedirs(cache, mode=0o755, exist_ok=True)
        if not trusted(cache):
            raise Skip(f"{cache} is not ours alone")
        with open(os.path.join(cache, ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.isdir(folder):
                install(folder, specs)
    except OSError as e:
        failed[name] = f"{cache}: {e.strerror}"
        raise Skip(failed[name]) from None
    except Skip as e:
        failed[name] = str(e)
        raise
    return folder


def packages(name):
    """The folder of a set; its packages are in node_modules."""
    return fetch(name, SETS[name])


def version_of(node):
    try:
        done = subprocess.run([node, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        return int(done.stdout.decode().lstrip("v").split(".")[0])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


def node(least=20):
    """A node of at least this version: the machine's, or one from npm."""
    own = shutil.which("node")
    if own and version_of(own) >= least:
        return own
    program = os.path.join(fetch("node", [NODE]), "node_modules", NODE.split("@")[0], "bin", "node")
    if version_of(program) < least:
        raise Skip(f"there is no Node {least} or newer for this machine")
    return program


def main(names):
    """Stops at the first failure: without a network every package would time out."""
    for name in names or SETS:
        try:
            print(f"{name}: {packages(name)}", flush=True)
        except Skip as e:
            print(f"{name}: not to be had: {e}")
            sys.exit(1)
    try:
        print(f"node: {node(CONFORMANCE_NODE)}", flush=True)
    except Skip as e:
        print(f"node: not to be had: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
