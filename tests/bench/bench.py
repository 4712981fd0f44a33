#!/usr/bin/python3
"""The figures of docs/performance.md, measured together in one run.

    bench.py BUILD [spawn] [cost] [parts] [floor] [threads] [shell] [output] [foreground] [events] [terminal] [session] [agent] [turns] [conversation] [store] [growth] [fleet]

spawn   spawn to exit of /bin/true: vfork+exec, bwrap and unshare where installed, and bailiff over its socket, by profile
cost    CPU time per command: bailiff (all of its processes and the command), posix_spawn and bwrap; commands/s with 8 clients; what an idle daemon keeps
parts   exact CPU time per command by process, of BUILD and, in turns with it, of the build REFERENCE (ROUNDS of COMMANDS each; WAYS=session: only that)
floor   CPU time and latency of a minimal sandbox, by stage, and of commits: the lower bound
threads  CPU time of the runtime's threads for COMMANDS times /bin/true
output  1 GiB of output: bailiff against `cmd > file`, and the runtime's peak memory
shell   `bailiff run -- true` and `bwrap … true`, both from a shell, without other load and next to LOAD (8) busy programs
foreground  300 MB through `bailiff run` to a pipe, against a plain pipe; CPU time of the command line
events  events acknowledged after commit, alone and with subscribers that never read
terminal  a key written until its echo is seen: a bare pty, script and tmux where installed, and bailiff's subscribers
session  reading a session with 100,000 events, and starting on a store with 1,000,000 (EVENTS, of both)
agent   CPU time of a turn of the loop, and of a token of its stream, against a bare libcurl reader of the same stream (ROUNDS turns)
turns   the runtime's memory, and its CPU time per turn, during TURNS (2,000) turns of the loop without a history
conversation  the same, all in one thread: each request has the conversation so far
growth  what COMMANDS times /bin/true add to the store's database, by table, event type and read model
fleet   TASKS (200) short tasks a second with 1, 2 and 3 nodes, against one daemon; from submission to claim and start; what the server spends
"""

import contextlib
import glob
import json
import os
import platform
import pty
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

if len(sys.argv) > 1:
    os.environ["BUILD"] = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "blackbox"))
import harness  # noqa: E402
from harness import BUILD, Home, TALKER  # noqa: E402

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "fakes"))
from provider import Provider  # noqa: E402
from cost_parts import bench_parts, threads_of  # noqa: E402,F401
from fleet_figures import bench_fleet  # noqa: E402,F401

GIB = 1 << 30
PAUSE_MS = 10  # after each command: cleanup and prebuilding must not count against the next one


def status_kib(pid, field):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


SPAWN_NAMES = {"vfork+exec": "vfork+exec", "unshare": "unshare --pid --fork --mount-proc", "bwrap": "bwrap, like the profile workspace",
               "workspace": "bailiff, profile workspace", "isolated": "bailiff, profile isolated", "session": "bailiff, in a session sandbox"}


def bench_spawn(rounds=int(os.environ.get("ROUNDS", "400"))):
    """Interleaved, so that noise affects all of them equally; measured by a separate program (bench_spawn.c)."""
    bwrap = shutil.which("bwrap")
    with Home() as home, home.rpc() as rpc:
        def bailiff(profile):
            process = rpc.call("start_process", command=["/bin/true"], profile=profile, cwd=home.work)["processId"]
            end = rpc.call("wait_process", processId=process)
            assert end["exitCode"] == 0, end
        rpc.call("create_sandbox", name="bench", profile="workspace", cwd=home.work)
        done = subprocess.run([os.path.join(BUILD, "bench", "bench_spawn"), home.socket, home.work, str(rounds), str(PAUSE_MS),
                               shutil.which("unshare") or "", bwrap or ""], stdout=subprocess.PIPE, text=True, check=True)
        times = {}
        for line in done.stdout.splitlines():
            name, us = line.split("\t")
            times.setdefault(SPAWN_NAMES[name], []).append(float(us) / 1e6)
        times["bailiff, start_process alone, from Python"] = times_of_start(rpc, rounds, home.work)
        name = "bailiff, workspace, without a pause"
        times[name] = []
        for _ in range(rounds // 2):
            begin = time.perf_counter()
            bailiff("workspace")
            times[name].append(time.perf_counter() - begin)
        session = rpc.call("create_session")["sessionId"]
        begin = time.perf_counter()
        count = 1000
        waits = [rpc.send("start_process", command=["/bin/true"], sessionId=session, profile="workspace", cwd=home.work) for _ in range(count)]
        ids = [rpc.reply(i)["processId"] for i in waits]
        for i in [rpc.send("wait_process", processId=p) for p in ids]:
            rpc.reply(i)
        rate = count / (time.perf_counter() - begin)
    print("\nspawn to exit of /bin/true, µs; bailiff: request, facts durable, sandbox, exit, reply:")
    for name, values in times.items():
        print(f"  {name:<42} p50 {quantile(values, 0.5) * 1e6:8.0f}   p99 {quantile(values, 0.99) * 1e6:8.0f}")
    print(f"  {'pipelined by one client, workspace':<42} {rate:12.0f} commands/s")
    if bwrap:
        ratio = quantile(times[SPAWN_NAMES["bwrap"]], 0.5) / quantile(times[SPAWN_NAMES["workspace"]], 0.5)
        print(f"  bailiff's workspace is {ratio:.2f} times as fast as bwrap")
    else:
        print("  bwrap is not installed (Debian package bubblewrap): nothing to compare with")


def times_of_start(rpc, rounds, work):
    times = []
    for _ in range(rounds // 4):
        begin = time.perf_counter()
        process = rpc.call("start_process", command=["/bin/true"], profile="workspace", cwd=work)["processId"]
        times.append(time.perf_counter() - begin)
        rpc.call("wait_process", processId=process)
        time.sleep(PAUSE_MS / 1000)
    return times


def tree_of(pid):
    pids = [pid]
    for p in pids:
        pids += harness.children_of(p)
    return pids


def cpu_of_parts(home):
    """Seconds of CPU: the daemon's processes by name; all others, living or reaped by the guard, are sandboxes and commands."""
    used, tick = {"runtime": 0, "spawner": 0, "guard": 0, "sandboxes": 0}, 1 / os.sysconf("SC_CLK_TCK")
    names = {home.guard.pid: "guard", home.part("runtime"): "runtime", home.part("spawner"): "spawner"}
    for pid in tree_of(home.guard.pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            ticks = [int(v) * tick for v in f.read().rsplit(")", 1)[1].split()[11:15]]
            used[names.get(pid, "sandboxes")] += sum(ticks[:2])
            used["sandboxes"] += sum(ticks[2:])
    return used


def bench_cost(turns=int(os.environ.get("ROUNDS", "20")), each=25, clients=8):
    """
    The ways alternate, so that noise affects all of them equally. What the daemon does between its turns (prebuilding, settling the
    journal) counts, too: its CPU time is read at the beginning and at the end.
    """
    bwrap = shutil.which("bwrap") or ""
    with Home() as home:
        def run(way, count=each, by=1, pause=0):
            done = subprocess.run([os.path.join(BUILD, "bench", "bench_spawn"), home.socket, home.work, str(count), str(pause), "", bwrap, way, str(by)],
                                  stdout=subprocess.PIPE, text=True, check=True)
            return [float(v) / 1e6 for v in done.stdout.split("\t")]

        def in_turns(name, ours="workspace", **how):
            used = {"posix_spawn": [], "bwrap": []}
            before, count = cpu_of_parts(home), 0
            for _ in range(turns):
                for way, key in (("vfork+exec", "posix_spawn"), ("bwrap", "bwrap")):
                    if key != "bwrap" or bwrap:
                        used[key].append(run(way, **dict(how, by=1))[1] / each)
                run(ours, **how)
                count += each * how.get("by", 1)
            # Until the journal is settled, and idle leaders have exited: the part of a step that each of them used counts only then.
            time.sleep(5 if ours == "session" else 0.5)
            parts = {k: (v - before[k]) / count for k, v in cpu_of_parts(home).items()}
            cost = sum(parts.values())
            plain = statistics.mean(used["posix_spawn"])
            print(f"  {name:<42} {cost * 1e6:8.0f}   ÷ posix_spawn ({plain * 1e6:.0f}) {cost / plain:5.2f}"
                  + (f"   ÷ bwrap ({statistics.mean(used['bwrap']) * 1e6:.0f}) {cost / statistics.mean(used['bwrap']):5.2f}" if bwrap else ""))
            print(f"  {'':<42} {', '.join(f'{k} {v * 1e6:.0f}' for k, v in parts.items())}")

        run("workspace")
        with home.rpc() as rpc:
            rpc.call("create_sandbox", name="bench", profile="workspace", cwd=home.work)
        print("\nCPU time per command /bin/true, profile workspace, µs; bailiff: all of its processes and the command:")
        in_turns("one client, a pause after each command", pause=PAUSE_MS)
        in_turns("one client, without a pause")
        in_turns(f"{clients} clients, without a pause", by=clients)
        in_turns("session sandbox, one client, a pause", "session", pause=PAUSE_MS)
        in_turns("session sandbox, one client, without a pause", "session")
        in_turns(f"session sandbox, {clients} clients", "session", by=clients)
        for way, name in (("workspace", f"{clients} clients"), ("session", f"{clients} clients, session sandbox")):
            rates = [clients * 100 / run(way, count=100, by=clients)[0] for _ in range(3)]
            print(f"  {name:<42} {max(rates):8.0f} commands/s (best of {', '.join(f'{r:.0f}' for r in rates)})")
        time.sleep(21) # until sandboxes that were prebuilt for more than one command are gone, and the runtime has trimmed its heaps
        pids = tree_of(home.guard.pid)
        print(f"  {'idle after that':<42} {len(pids):8} processes, {sum(status_kib(p, 'RssAnon') for p in pids) / 1024:.1f} MB of anonymous memory")


def bench_floor():
    """What the kernel alone takes for a sandbox and for commits: no daemon, no events; stages include those before them."""
    with Home(start=False) as home:
        done = subprocess.run([os.path.join(BUILD, "bench", "bench_floor"), "200", home.dir], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print("\nno lower bound of a sandbox: requires root and Linux 6.15")
        return
    rows = [(name, float(cpu), float(latency)) for name, cpu, latency in (line.split("\t") for line in done.stdout.splitlines())]
    print("\nA minimal sandbox with /bin/true, by stage; each includes those before it, except \"only\":")
    print(f"  {'':<42} {'CPU, µs':>8} {'÷ posix_spawn':>14} {'latency, µs':>12} {'÷ posix_spawn':>14}")
    for name, cpu, latency in rows:
        print(f"  {name:<42} {cpu:>8.0f} {cpu / rows[0][1]:>14.2f} {latency:>12.0f} {latency / rows[0][2]:>14.2f}")


def bench_threads(commands=int(os.environ.get("COMMANDS", "500"))):
    print("\nCPU time of the runtime's threads per command /bin/true, profile workspace, µs:")
    with Home() as home:
        def run(count, pause, way, by=1):
            subprocess.run([os.path.join(BUILD, "bench", "bench_spawn"), home.socket, home.work, str(count), str(pause), "", "", way, str(by)],
                           stdout=subprocess.DEVNULL, check=True)

        with home.rpc() as rpc:
            rpc.call("create_sandbox", name="bench", profile="workspace", cwd=home.work)
        for way, sandbox in (("workspace", "fresh sandbox"), ("session", "session sandbox")):
            run(50, 0, way)
            for name, pause, by in (("without a pause", 0, 1), ("a pause after each command", PAUSE_MS, 1), ("8 clients", 0, 8)):
                before = threads_of(home.part("runtime"))
                run(commands // by, pause, way, by)
                time.sleep(0.5) # until the journal is settled
                after = threads_of(home.part("runtime"))
                count = commands // by * by
                print(f"  {sandbox + ', ' + name:<42} " + ", ".join(f"{k} {(after[k][0] - before[k][0]) / count * 1e6:.0f} ({(after[k][1] - before[k][1]) / count:.1f} switches)"
                                                                   for k in after))


def bench_output(size=GIB, rounds=3):
    """The same producer with different consumers. bailiff's are durable when the command has ended, so a synced file is its bound."""
    plain, synced, through = [], [], []
    with Home({"defaultOutputBytes": 0}) as home, home.rpc() as rpc:
        idle = status_kib(home.part("runtime"), "VmHWM")
        target = os.path.join(home.dir, "file")
        for _ in range(rounds):
            for times, sync in ((plain, False), (synced, True)):
                begin = time.perf_counter()
                with open(target, "wb") as f:
                    subprocess.run([TALKER, "spew", "1", str(size)], stdout=f, check=True)
                    if sync:
                        os.fdatasync(f.fileno())
                times.append(time.perf_counter() - begin)
                os.unlink(target)
            begin = time.perf_counter()
            _, end = rpc.run([TALKER, "spew", "1", str(size)])
            through.append(time.perf_counter() - begin)
            assert end["exitCode"] == 0 and end["outputs"]["stdout"]["bytes"] == size, end
            rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        peak = status_kib(home.part("runtime"), "VmHWM")
        guard, spawner = status_kib(home.guard.pid, "VmHWM"), status_kib(home.part("spawner"), "VmHWM")
    a, s, b = (statistics.median(v) for v in (plain, synced, through))
    print(f"\n{size / GIB:.0f} GiB of output, median of {rounds}:")
    print(f"  cmd > file        {size / a / GIB:6.2f} GiB/s")
    print(f"  … and fdatasync   {size / s / GIB:6.2f} GiB/s    {a / s:.2f} of the speed of cmd > file")
    print(f"  bailiff           {size / b / GIB:6.2f} GiB/s    {a / b:.2f} of the speed of cmd > file, {s / b:.2f} of that with fdatasync")
    print(f"  peak memory       runtime {peak / 1024:.1f} MiB (idle {idle / 1024:.1f}), guard {guard / 1024:.1f}, spawner {spawner / 1024:.1f}")


def bench_foreground(size=300 * 1000 * 1000, rounds=5):
    """The store is pruned after each round: otherwise bailiff alone would write to fresh memory each time."""
    def through(argv, env=None):
        before, begin = os.times(), time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, cwd=home.work) as command:
            subprocess.run(["cat"], stdin=command.stdout, stdout=subprocess.DEVNULL, check=True)
        assert command.returncode == 0
        after = os.times()
        return time.perf_counter() - begin, after.children_user + after.children_system - before.children_user - before.children_system

    plain, kept, run = [], [], []
    with Home() as home, home.rpc() as rpc:
        target = os.path.join(home.dir, "file")
        for _ in range(rounds + 1):
            plain.append(through([TALKER, "spew", "1", str(size)]))
            kept.append(through(["sh", "-c", f"{TALKER} spew 1 {size} | tee {target}; sync -d {target}"]))
            os.unlink(target)
            run.append(through([harness.CLI, *harness.shows_talker(("run", "--", TALKER, "spew", "1", str(size)))],
                               harness.environment(BAILIFF_HOME=home.dir)))
            rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
    a, k, b = (statistics.median(t for t, _ in v[1:]) for v in (plain, kept, run))
    print(f"\n{size / 1e6:.0f} MB through a pipe to cat, median of {rounds}:")
    print(f"  cmd | cat              {a:6.2f} s")
    print(f"  cmd | tee file | cat   {k:6.2f} s    {k / a:.2f} times as long; with sync -d file")
    print(f"  bailiff run cmd | cat  {b:6.2f} s    {b / a:.2f} times as long, {b / k:.2f} times as long as with tee; CPU time of bailiff and cat {statistics.median(c for _, c in run[1:]):.2f} s")


def bench_shell(rounds=int(os.environ.get("ROUNDS", "100")), load=int(os.environ.get("LOAD", "8"))):
    """Alternating; each from a new shell, as a script or an agent would do it."""
    if not shutil.which("bwrap"):
        print("\nshell: bwrap is not installed (Debian package bubblewrap): nothing to compare with")
        return
    with Home() as home:
        ways = {"bailiff run -- true": f"{harness.CLI} run -- true",
                "bwrap … true": "bwrap --unshare-all --die-with-parent --new-session --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /home "
                                f"--tmpfs /root --tmpfs /run --bind {home.work} {home.work} --chdir {home.work} true"}
        env = harness.environment(BAILIFF_HOME=home.dir)
        for busy in (0, load):
            others = [subprocess.Popen([TALKER, "spin"]) for _ in range(busy)]
            times, cpu = {k: [] for k in ways}, {k: [] for k in ways}
            try:
                for _ in range(rounds):
                    for name, line in ways.items():
                        before, begin = os.times(), time.perf_counter()
                        subprocess.run(["sh", "-c", line], env=env, cwd=home.work, stdin=subprocess.DEVNULL, check=True)
                        times[name].append(time.perf_counter() - begin)
                        after = os.times()
                        cpu[name].append(after.children_user + after.children_system - before.children_user - before.children_system)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            print(f"\nfrom a shell, next to {busy} busy programs, ms:")
            for name in ways:
                print(f"  {name:<22} p50 {quantile(times[name], 0.5) * 1e3:7.2f}   p90 {quantile(times[name], 0.9) * 1e3:7.2f}"
                      f"   CPU time of the shell's children {statistics.mean(cpu[name]) * 1e3:.2f}")
            a, b = (quantile(times[name], 0.5) for name in ways)
            print(f"  bailiff ÷ bwrap        {a / b:.2f}")


NOW = {"type": "artifact.changed", "artifactId": "art_1", "payload": {"change": "modified", "summary": "t" * 300}}
SOON = {"type": "run.status", "payload": {"phase": "running", "title": "t" * 300}}


def emit_rate(home, seconds, window=256, per_request=1, event=NOW):
    """Events a second, each acknowledged after its commit, with `window` requests on their way."""
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        head = b'{"jsonrpc":"2.0","id":'
        tail = b',"method":"emit_events","params":' + json.dumps({"sessionId": session, "events": [event] * per_request}).encode() + b"}\n"
        sock, sent, acked, buffered = rpc.sock, 0, 0, b""
        first = rpc.call("initialize")["lastSequence"]
        begin = time.perf_counter()
        end = begin + seconds
        while True:
            now = time.perf_counter()
            if now < end and sent - acked < window:
                chunk = b"".join(head + str(1000000 + sent + n).encode() + tail for n in range(window - (sent - acked)))
                sent += window - (sent - acked)
                sock.sendall(chunk)
            elif sent == acked:
                break
            data = sock.recv(1 << 18)
            assert data, "the connection ended"
            assert b'"error"' not in data, data[:500]
            acked += data.count(b"\n")
        took = time.perf_counter() - begin
        written = rpc.call("initialize")["lastSequence"] - first
        assert written == acked * per_request, (written, acked * per_request)
        return written / took


def bench_events(seconds=2, rounds=5):
    """Alone and with subscribers that never read, alternating."""
    alone, loaded, grown = [], [], []
    with Home() as home:
        runtime = home.part("runtime")
        emit_rate(home, 1)
        for _ in range(rounds):
            alone.append(emit_rate(home, seconds))
            before, links = status_kib(runtime, "RssAnon"), []
            for _ in range(10):
                rpc = home.rpc()
                rpc.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                rpc.send("subscribe_events", afterSequence=0)
                links.append(rpc)
            loaded.append(emit_rate(home, seconds))
            grown.append(status_kib(runtime, "RssAnon") - before)
            for rpc in links:
                rpc.close()
        batches = emit_rate(home, seconds, window=32, per_request=50)
        soon = emit_rate(home, seconds, event=SOON)
    base, held = statistics.median(alone), statistics.median(loaded)
    print(f"\nevents acknowledged after commit, median of {rounds}:")
    print(f"  one event a request, 256 in flight         {base:10.0f} /s  (from {min(alone):.0f} to {max(alone):.0f})")
    print(f"  with 10 subscribers that never read        {held:10.0f} /s  ({held / base:.2f} of alone; the runtime grew by at most {max(grown) / 1024:.1f} MiB)")
    print(f"  50 events a request, 32 in flight          {batches:10.0f} /s")
    print(f"  events that may wait 50 ms, 256 in flight  {soon:10.0f} /s  (256 requests is what one connection may have open)")


class Typist:
    """A program on a pty of the benchmark itself, as the baseline."""

    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, dict(os.environ, TERM="xterm"))

    def __call__(self, key):
        os.write(self.fd, key)
        self.see(key)

    def see(self, text):
        seen = b""
        while text not in seen:
            seen += os.read(self.fd, 65536)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Watched:
    """cat on one of bailiff's terminals: one connection types, another subscribes to the output."""

    def __init__(self, home):
        self.types, self.watches = home.rpc(), home.rpc()
        self.process = self.types.call("start_process", command=["cat"], tty={"rows": 24, "cols": 80})["processId"]
        self.watches.call("subscribe_events", types=["process.output"], processId=self.process)
        self.owed = None

    def __call__(self, key):
        self.owed = self.types.send("write_process_stdin", processId=self.process, data=key.decode())
        while self.watches.event()["payload"]["preview"] != key.decode():
            pass

    def answered(self):
        self.types.reply(self.owed)


class Sync:
    """The time of one sync of the disk, for comparison: a commit needs two in a row."""

    def __init__(self, folder):
        self.file = open(os.path.join(folder, "sync"), "wb", buffering=0)

    def __call__(self, key):
        self.file.write(key * 4096)
        os.fdatasync(self.file.fileno())


def bench_terminal(rounds=300):
    """Interleaved; at typing speed, and as fast as the echo returns."""
    tmux, script = shutil.which("tmux"), shutil.which("script")
    name = f"bl-{os.getpid()}"
    ways = {"a bare pty": Typist(["cat"])}
    if script:
        ways["script -qfc cat /dev/null"] = Typist(["script", "-qfc", "cat", "/dev/null"])
    if tmux:
        ways["tmux new-session cat"] = Typist(["tmux", "-L", name, "-f", "/dev/null", "new-session", "cat", ";", "set", "status", "off"])
    with Home() as home:
        watched = ways["bailiff, at a subscriber"] = Watched(home)
        ways["(one fdatasync of 4 KiB)"] = Sync(home.dir)
        time.sleep(1)
        times = {(k, pause): [] for k in ways for pause in (0.06, 0)}
        for n in range(rounds):
            for (way, pause), values in times.items():
                if pause and n % 5:
                    continue
                time.sleep(pause)
                key = b"~" if n % 2 else b"^"
                begin = time.perf_counter()
                ways[way](key)
                values.append(time.perf_counter() - begin)
                if ways[way] is watched:
                    watched.answered()
        for way in ways.values():
            if isinstance(way, Typist):
                way.end()
    if tmux:
        subprocess.run([tmux, "-L", name, "kill-server"], check=False, capture_output=True)
    print("\na key written until its echo is seen, µs; bailiff: request, process.input and process.output durable, event:")
    for pause, pace in ((0.06, "after a pause"), (0, "one after the other")):
        for way in ways:
            values = times[way, pause]
            print(f"  {way + ', ' + pace:<48} p50 {quantile(values, 0.5) * 1e6:8.0f}   p99 {quantile(values, 0.99) * 1e6:8.0f}")


def fill(rpc, events, session=None, per_turn=400):
    """Turns of one thread as an agent leaves them: requests to a model in many pieces, tool calls, files, costs; some of it as emit_events takes it."""
    made = session or rpc.call("create_session", title="long")
    ids = {"threadId": made["threadId"]}
    written, turns = 0, 0
    while written < events:
        turn = rpc.call("submit_turn", threadId=made["threadId"], input=[{"type": "text", "text": "go on"}])["turnId"]
        ids["turnId"] = turn
        request = dict(ids, modelRequestId=f"mr_{turn}")
        batch = [dict(request, type="model.requested", payload={"provider": "acme", "model": "large"})]
        batch += [dict(request, type="model.delta", payload={"index": i, "text": "a few words of it "}) for i in range(per_turn - 12)]
        batch += [dict(request, type="model.completed", payload={"stopReason": "end", "usage": {"inputTokens": 900, "outputTokens": 400}})]
        batch += [dict(ids, type="artifact.changed", artifactId=f"art_{turns}_{i}", payload={"change": "modified", "path": f"/tree/{turns}/{i}"})
                  for i in range(3)]
        rpc.call("emit_events", sessionId=made["sessionId"], events=batch)
        for i in range(2):
            rpc.call("report_tool_call", turnId=turn, toolCallId=f"call_{turn}_{i}", toolName="look", status="started")
            rpc.call("report_tool_call", turnId=turn, toolCallId=f"call_{turn}_{i}", status="completed", result="seen")
        if turns % 10 == 0:
            rpc.call("create_task", objective="a part of it", sessionId=made["sessionId"], threadId=made["threadId"], turnId=turn)
        rpc.call("complete_turn", turnId=turn)
        written, turns = written + per_turn, turns + 1
    return made


def times_of(rpc, method, rounds=300, **params):
    values = []
    for _ in range(rounds):
        begin = time.perf_counter()
        rpc.send(method, params)
        reply = rpc.line()  # as it is: this program's reading of JSON does not count
        values.append(time.perf_counter() - begin)
        assert b'"result"' in reply[:100], reply[:300]
    return values


def started_in(home):
    """Seconds from the start of the daemon until it answers."""
    begin = time.perf_counter()
    home.start()
    return time.perf_counter() - begin


def bench_session(one=100000, many=int(os.environ.get("EVENTS", "1000000"))):
    with Home(start=False) as home:
        empty = [started_in(home)]
        for _ in range(2):
            home.stop()
            empty.append(started_in(home))
        with home.rpc() as rpc:
            made = fill(rpc, min(one, many))
            last = rpc.events(after=None, sessionId=made["sessionId"], types=["turn.completed"])[-1]["sequence"]
            print(f"\none session, one thread, {last:,} events; request to reply, µs:")
            small = rpc.call("create_session")
            for name, method, params in (("get_health (the floor)", "get_health", {}),
                                         ("get_thread_read of an empty thread", "get_thread_read", {"threadId": small["threadId"]}),
                                         ("get_thread_read", "get_thread_read", {"threadId": made["threadId"]}),
                                         ("get_session", "get_session", {"sessionId": made["sessionId"]}),
                                         ("list_events, the last 100", "list_events", {"afterSequence": last - 100, "sessionId": made["sessionId"]})):
                values = times_of(rpc, method, **params)
                size = len(json.dumps(rpc.call(method, params)))
                print(f"  {name:<48} p50 {quantile(values, 0.5) * 1e6:8.0f}   p99 {quantile(values, 0.99) * 1e6:8.0f}   {size:,} bytes")
            sys.stdout.flush()
            for _ in range(max(0, many - one) // one):
                fill(rpc, one)
            rpc.call("create_session")
            total = rpc.call("get_store_stats")
        times = []
        for _ in range(5):
            home.stop()
            times.append(started_in(home))
        killed = []
        for _ in range(3):
            begin = time.perf_counter()
            home.kill_part("runtime")
            harness.until("the daemon answers", home.answers)
            killed.append(time.perf_counter() - begin)
        print(f"start-up until the first answer, ms: empty store {min(empty) * 1e3:.0f}; store {json.dumps(total)[:400]}: "
              f"median {statistics.median(times) * 1e3:.0f} (of {', '.join(f'{t * 1e3:.0f}' for t in times)}); "
              f"after SIGKILL of the runtime {statistics.median(killed) * 1e3:.0f}")


class LeanProvider(Provider):
    """Keeps only the last request, and simulates no cache: both would cost more with every turn."""

    def keep(self, request):
        self.requests.clear()
        super().keep(request)

    def usage(self, request, step):
        return {"input": 1000, "cached": 0, "written": 0, "reasoning": 0, "output": 10}


class Agent:
    """A daemon with a registered model, which answers with `step`."""

    def __init__(self, stack, step):
        self.step = step
        self.provider = stack.enter_context(LeanProvider("anthropic", lambda _: self.step))
        self.home = stack.enter_context(Home())
        self.rpc = stack.enter_context(self.home.rpc())
        self.ends = stack.enter_context(self.home.rpc())
        key = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="bl-key-"))
        key.write("bench\n")
        key.flush()
        self.rpc.call("add_model", name="bench", baseUrl=self.provider.url, dialect="anthropic", model="fake-1", keyFile=key.name, contextTokens=10000000)
        self.ends.call("subscribe_events", types=["turn.completed", "turn.failed"])

    def turn(self, text="go on", **where):
        made = self.rpc.call("submit_turn", driver="loop", input=[{"type": "text", "text": text}], **where)
        end = self.ends.event()
        assert end["type"] == "turn.completed" and end["turnId"] == made["turnId"], end

    def read_barely(self):
        """The last request again, by a program of its own that only reads: its CPU time."""
        last = self.provider.requests[-1]
        headers = [f"{name}: {last.headers[name]}" for name in ("content-type", "anthropic-version", "x-api-key")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([os.path.join(BUILD, "bench", "bench_curl"), self.provider.origin + last.path, *headers], input=last.raw, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench_agent(rounds=int(os.environ.get("ROUNDS", "20"))):
    """The cost of a token is the difference between long and short answers. Each turn has a session of its own: none has a history."""
    def measure(agent, tokens, pace):
        agent.step = {"text": "token " * tokens, "piece": 6, "pace": pace}
        used, plain = {}, []
        for _ in range(rounds):
            before = cpu_of_parts(agent.home)
            agent.turn()
            time.sleep(0.3) # until the journal is settled
            for part, seconds in cpu_of_parts(agent.home).items():
                used[part] = used.get(part, 0) + (seconds - before[part]) / rounds
            plain.append(agent.read_barely())
        return dict(used, all=sum(used.values()), libcurl=statistics.mean(plain))

    def show(name, used, unit):
        parts = ", ".join(f"{k} {used[k] * 1e6:.{unit}f}" for k in ("runtime", "spawner", "guard", "sandboxes"))
        print(f"  {name:<42} {used['all'] * 1e6:8.{unit}f}   libcurl {used['libcurl'] * 1e6:.{unit}f}   ({parts})")

    with contextlib.ExitStack() as stack:
        agent = Agent(stack, {"text": "warm up"})
        agent.turn()
        print("\nCPU time of the loop, µs; bailiff: all of its processes and bailiff-model; libcurl: a program that only reads the same stream:")
        short = measure(agent, 1, 0)
        show("turn, answer of one token", short, 0)
        for name, tokens, pace in (("token, 2,000 as fast as possible", 2000, 0), ("token, 300 at 100 per second", 300, 0.01)):
            long = measure(agent, tokens, pace)
            show(name, {k: (v - short[k]) / (tokens - 1) for k, v in long.items()}, 1)


def measure_turns(name, one_thread, turns=int(os.environ.get("TURNS", "2000")), samples=10):
    def memory(pid):
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return {line.split(":")[0]: int(line.split()[1]) for line in f if line.startswith(("Rss:", "Pss:", "Pss_Anon:"))}

    with contextlib.ExitStack() as stack:
        agent = Agent(stack, {"text": "An answer of some length. " * 8, "piece": 40})
        where = {"threadId": agent.rpc.call("create_session")["threadId"]} if one_thread else {}
        runtime, each, rows = agent.home.part("runtime"), turns // samples, []
        print(f"\nthe runtime during {turns} turns of the loop, {name}; memory in KiB, CPU time and wall time per turn in ms:")
        for _ in range(samples):
            cpu, begin = cpu_of_parts(agent.home)["runtime"], time.perf_counter()
            for _ in range(each):
                agent.turn(**where)
            wall = time.perf_counter() - begin
            rows.append(memory(runtime))
            print(f"  {len(rows) * each:6} turns   RSS {rows[-1]['Rss']:7}   PSS {rows[-1]['Pss']:7}   anonymous {rows[-1]['Pss_Anon']:7}   "
                  f"CPU {(cpu_of_parts(agent.home)['runtime'] - cpu) * 1e3 / each:6.1f}   wall {wall * 1e3 / each:6.1f}   "
                  f"request {len(agent.provider.requests[-1].raw):,} bytes", flush=True)
        grown = {k: (rows[-1][k] - rows[0][k]) * 1024 / (turns - each) for k in rows[0]}
        print(f"  growth per turn after the first {each}, bytes: RSS {grown['Rss']:.0f}, PSS {grown['Pss']:.0f}, anonymous {grown['Pss_Anon']:.0f}")


def bench_turns():
    measure_turns("each in a session of its own", False)


def bench_conversation():
    measure_turns("all in one thread", True)


def bench_store():
    for program in sorted(glob.glob(os.path.join(BUILD, "bench", "bench_*"))):
        if os.access(program, os.X_OK) and not program.endswith(("bench_growth", "bench_curl")): # they need a store, a server
            print(f"\n{os.path.basename(program)}:", flush=True)
            with tempfile.TemporaryDirectory(prefix="bl-") as folder:
                subprocess.run([program], cwd=folder, check=False)


def bench_growth(commands=int(os.environ.get("COMMANDS", "500"))):
    """The journal has a fixed size and is not counted; each count waits until it is settled. File size and pages in use differ by free pages."""
    program = os.path.join(BUILD, "bench", "bench_growth")

    def sizes(home):
        time.sleep(0.5) # settling begins 0.2 s after the last event
        rows = {}
        for line in subprocess.run([program, os.path.join(home.dir, "store")], check=True, capture_output=True, text=True).stdout.splitlines():
            what, name, *numbers = line.split()
            rows[what, name] = [int(n) for n in numbers]
        return rows, os.stat(os.path.join(home.dir, "store", "data.mdb")).st_size

    def run(home, count):
        with home.rpc() as rpc:
            for _ in range(count):
                process = rpc.call("start_process", command=["/bin/true"], cwd=home.work)["processId"]
                rpc.call("wait_process", processId=process)

    with Home() as home:
        run(home, 50) # the first commands create the session, the tables and the free pages
        before, file_before = sizes(home)
        run(home, commands)
        after, file_after = sizes(home)
    print(f"\nper command, of {commands}: {(file_after - file_before) / commands:.0f} bytes of data.mdb")
    print(f"{'':32} {'entries':>8} {'keys':>8} {'values':>8} {'pages':>8} {'filled':>7}")
    for row in sorted(after, key=lambda row: (["table", "event", "model"].index(row[0]), -sum(after[row][1:3]))):
        more = [(a - b) / commands for a, b in zip(after[row], before.get(row, [0] * 4))]
        if max(more) < 0.01:
            continue
        filled = f"{(more[1] + more[2]) / (more[3] * 4096):7.0%}" if len(more) > 3 and more[3] else ""
        print(f"{row[0] + ' ' + row[1]:32} {more[0]:8.2f} {more[1]:8.0f} {more[2]:8.0f} {more[3] * 4096 if len(more) > 3 else 0:8.0f} {filled}")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with open("/proc/cpuinfo") as f:
        model = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    print(f"{platform.machine()}, {os.cpu_count()} cpus{', ' + model[0] if model else ''}, Linux {platform.release()}, "
          f"{'root' if os.geteuid() == 0 else 'plain user'}, {os.path.basename(BUILD)}")
    for name in sys.argv[2:] or ("spawn", "cost", "floor", "threads", "shell", "output", "foreground", "events", "terminal", "session", "agent", "turns", "conversation", "store"):
        globals()["bench_" + name]()
        sys.stdout.flush()


main()
