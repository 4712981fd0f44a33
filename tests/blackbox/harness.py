"""The base of the black-box tests: a private daemon, a client of the control socket, and the command line.

Everything here knows bailiff only from outside: the programs, the socket, /proc. A test is a function test_… of a file
test_*.py that ends in `harness.main(globals())`; it prints TAP. Tests wait for conditions, never for a time to pass.
"""

import atexit
import base64
import collections
import contextlib
import inspect
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from procfs import (alive, all_pids, children_of, command_of, daemon_cgroups, descendants_of, has_terminal,  # noqa: F401 (also for those who import this)
                    in_own_namespace, marked, stat_of)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
DAEMON, CLI, TALKER, CONFORMANCE_GATEWAY = (os.path.join(BUILD, n) for n in ("bailiffd", "bailiff", "talker", "conformance-gateway"))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Generous on purpose: a condition that is met is detected immediately, and a busy machine is not a failure.
PATIENCE = float(os.environ.get("PATIENCE", "60"))
# Where the tree lies below a home or /tmp, sandboxes do not show the tests' own program automatically.
SHOWS_TALKER = {"readRoots": [TALKER]}
INVALID_STATE = -32015
TERMINAL = ("process.completed", "process.failed", "process.terminated")


class Skip(Exception):
    pass


class Coverage:
    """Which event types the tests of this program caused: a file in the folder BAILIFF_EVENT_COVERAGE, if given (make event-coverage)."""

    folder = os.environ.get("BAILIFF_EVENT_COVERAGE")
    seen = set()        # (type, "client" where emit_events brought it, else "bailiff")

    @classmethod
    def note(cls, events):
        if cls.folder:
            cls.seen |= {(e["type"], "client" if "emittedBy" in (e.get("correlation") or {}) else "bailiff") for e in events}

    @classmethod
    def write(cls):
        if cls.folder:
            name = os.path.basename(sys.argv[0])
            with open(os.path.join(cls.folder, f"{name}-{os.getpid()}"), "w") as f:
                f.writelines(f"{kind} {by} {name}\n" for kind, by in sorted(cls.seen))


def until(what, condition, patience=PATIENCE):
    """Polls condition() until it returns a true value, and returns that."""
    end, pause = time.monotonic() + patience, 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:.0f} s without success: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


# ---- the control socket ----

class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.get('code')} {error.get('message')} {json.dumps(error.get('data'))}")
        self.code, self.message, self.data = error.get("code"), error.get("message", ""), error.get("data") or {}


class Gone(Exception):
    """The connection ended."""


class Rpc:
    """One connection. Requests may be sent ahead (send) and their replies taken in any order (reply)."""

    def __init__(self, path, patience=PATIENCE):
        self.patience = patience
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(patience)
        self.sock.connect(path)
        self.buffer, self.next_id = bytearray(), 0
        self.replies, self.notes, self.odd = {}, collections.deque(), collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def raw(self, data):
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Gone(str(e)) from None

    def request(self, method, params=None, **more):
        """The request as a line; its id is next_id."""
        self.next_id += 1
        request = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        params = dict(params or {}, **more)
        if method == "start_process" and isinstance(params.get("command"), list) and TALKER in params["command"]:
            params.setdefault("sandbox", SHOWS_TALKER)
        if params:
            request["params"] = params
        return json.dumps(request).encode() + b"\n"

    def send(self, method, params=None, **more):
        self.raw(self.request(method, params, **more))
        return self.next_id

    def send_together(self, *calls):
        """(method, params)… in one write: the daemon takes them up one after the other, however long we are kept waiting in between."""
        first = self.next_id + 1
        self.raw(b"".join([self.request(method, params) for method, params in calls]))
        return range(first, self.next_id + 1)

    def line(self, patience=None):
        """The next line; None when there was none in time."""
        end = time.monotonic() + (self.patience if patience is None else patience)
        while True:
            at = self.buffer.find(b"\n")
            if at >= 0:
                line = bytes(self.buffer[:at])
                del self.buffer[:at + 1]
                return line
            self.sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.sock.recv(1 << 20)
            except socket.timeout:
                return None
            except ConnectionResetError as e:
                raise Gone(str(e)) from None
            finally:
                self.sock.settimeout(self.patience)
            if not data:
                raise Gone("end of stream")
            self.buffer += data

    def pump(self, patience=None):
        line = self.line(patience)
        if line is None:
            return False
        message = json.loads(line)
        if isinstance(message, list):
            self.odd.append(message)
        elif "method" in message:
            self.notes.append(message)
            if message["method"] == "event":
                Coverage.note([message["params"]["event"]])
        elif message.get("id") is None or message["id"] not in range(1, self.next_id + 1):
            self.odd.append(message)
        else:
            assert message["id"] not in self.replies, f"answered twice: {message}"
            self.replies[message["id"]] = message
        return True

    def reply(self, request, patience=None):
        while request not in self.replies:
            if not self.pump(patience):
                raise AssertionError(f"no reply to request {request}")
        message = self.replies.pop(request)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def call(self, method, params=None, **more):
        return self.reply(self.send(method, params, **more))

    def fails(self, method, params=None, code=None, **more):
        """The error of a call that must fail."""
        try:
            result = self.call(method, params, **more)
        except RpcError as e:
            if code is not None:
                assert e.code == code, f"{method}: expected error {code}, got {e}"
            assert {"category", "retryable", "advice"} <= set(e.data), f"{method}: error.data is {e.data}"
            return e
        raise AssertionError(f"{method} {params} {more} should fail; it answered {json.dumps(result)[:300]}")

    def odd_reply(self, patience=None):
        """A reply without a known id (a parse error's, a batch's)."""
        while not self.odd:
            assert self.pump(patience), "no reply"
        return self.odd.popleft()

    def event(self, patience=None):
        """The next notified event, or None."""
        while not self.notes:
            if not self.pump(patience):
                return None
        note = self.notes.popleft()
        assert note["method"] == "event", note
        return note["params"]["event"]

    # ---- what tests ask most ----

    def start(self, command, **more):
        return self.call("start_process", command=command, **more) if isinstance(command, list) else \
            self.call("start_process", commandLine=command, **more)

    def wait(self, process):
        return self.call("wait_process", processId=process)

    def run(self, command, **more):
        started = self.start(command, **more)
        return started, self.wait(started["processId"])

    def end(self, process):
        """Makes sure that a process is not running; it may have ended already."""
        try:
            self.call("terminate_process", processId=process, graceMs=0)
        except RpcError as e:
            if e.code != INVALID_STATE:
                raise

    def until_foreground(self, process, name):
        """A shell prints before it hands the terminal over, so output is no proof: keys typed too early go to the shell."""
        init = self.call("get_process", processId=process)["pid"]
        until(f"{name} has the terminal", lambda: has_terminal(init, name))

    def output(self, ref, length=1 << 20):
        data, offset = bytearray(), 0
        while True:
            part = self.call("read_output", outputRef=ref, offset=offset, length=length, encoding="base64")
            assert part["offset"] == offset, part["offset"]
            chunk = base64.b64decode(part["data"])
            data += chunk
            assert part["nextOffset"] >= offset + len(chunk), part
            if part["eof"] or part["nextOffset"] == offset:
                return bytes(data)
            offset = part["nextOffset"]

    def outputs(self, process):
        record = self.call("get_process", processId=process)
        return {name: self.output(o["outputRef"]) for name, o in record["outputs"].items()}

    def events(self, after=0, **more):
        """All events after that one; None: from the first that is kept."""
        found = []
        while True:
            page = self.call("list_events", limit=1000, **({} if after is None else {"afterSequence": after}), **more)
            found += page["events"]
            Coverage.note(page["events"])
            if not page["hasMore"]:
                return found
            assert page["events"], "hasMore without events"
            after = page["events"][-1]["sequence"]


# ---- a daemon of one's own ----

def fill_store(rpc, session=None):
    """Emits events until the quota is reached; returns the error of the one that was rejected."""
    session = session or rpc.call("create_session")["sessionId"]
    body = {"type": "run.status", "payload": {"phase": "x", "title": os.urandom(15000).hex()}}
    for _ in range(2000):
        try:
            rpc.call("emit_events", sessionId=session, events=[body] * 5)
        except RpcError as e:
            return e
    raise AssertionError("the store does not get full")


def environment(**more):
    env = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/"), "TMPDIR": tempfile.gettempdir()}
    env.update({k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")})
    env.update(more)
    return env


def host_policy(**permissions):
    """Options of a daemon with this host policy. The file is gone with the program."""
    folder = tempfile.mkdtemp(prefix="bl-host-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(os.path.join(folder, "policy.json"), "w") as f:
        json.dump({"permissions": permissions}, f)
    return "--host-policy", f.name


def no_sandbox():
    """Options of a daemon that runs commands without a sandbox for any client."""
    return "--allow-host", *host_policy(allowBypass=True, defaultMode="bypass")


@contextlib.contextmanager
def audit_turn(patience=10 * PATIENCE):
    """Audit belongs to one daemon per machine: the tests that use it take turns, so that none loses it halfway."""
    with socket.socket(socket.AF_UNIX) as turn:
        def taken():
            with contextlib.suppress(OSError):
                turn.bind("\0bailiff-tests-audit-turn")
                return True
        until("other tests are done with audit", taken, patience)
        yield


class Home:
    """A private BAILIFF_HOME and its daemon; close() checks that nothing is left behind. `at` is a folder of the caller's, which stays."""

    def __init__(self, config=None, start=True, options=("--audit", "off"), env=None, through=(), at=None):
        self.dir, self.stays = at or tempfile.mkdtemp(prefix="bl-"), at is not None
        self.socket = os.path.join(self.dir, "control.sock")
        self.log_path = os.path.join(self.dir, "log")
        self.work = os.path.join(self.dir, "tree")
        os.makedirs(self.work, exist_ok=self.stays)
        # Audit belongs to one daemon of the whole machine: only the tests of violations take it.
        self.guard, self.seen, self.cgroups, self.options, self.env = None, set(), set(), options, env or {}
        self.through = through  # a program that executes the daemon
        if config is not None:
            self.configure(config)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            sys.stdout.write("".join(f"# daemon: {line}" for line in self.log()[-40:]))
        try:
            if self.guard and Coverage.folder and self.answers():
                with self.rpc() as rpc, contextlib.suppress(RpcError): # some tests break the store
                    rpc.events(after=None)
            if self.guard:
                self.stop(expect=kind is None)
        finally:
            if self.guard:
                with contextlib.suppress(OSError):
                    self.guard.kill()
                self.guard.wait()
                self.guard = None
            if kind is None:
                self.nothing_left()
                denied = [line for line in self.log() if "sandbox denied system call" in line]
                assert not denied, f"a process of the daemon needs a call that role_calls.def does not list: {denied}"
            if not self.stays:
                shutil.rmtree(self.dir, ignore_errors=True)

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.readlines()
        except OSError:
            return []

    def configure(self, config):
        with open(os.path.join(self.dir, "config.json"), "w") as f:
            f.write(config if isinstance(config, str) else json.dumps(config))

    def spawn(self):
        """Starts the daemon without waiting for it."""
        log = open(self.log_path, "ab")
        try:
            self.guard = subprocess.Popen([*self.through, DAEMON, "--foreground", "--home", self.dir, *self.options], env=environment(**self.env), cwd="/",
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        finally:
            log.close()
        return self.guard

    def answers(self):
        try:
            with Rpc(self.socket, patience=5) as rpc:
                request = rpc.send("get_health")
                return rpc.pump() and bool(rpc.reply(request))  # no reply in time: the daemon is up, but busy
        except (OSError, Gone):
            return False

    def start(self):
        self.spawn()

        def ready():
            assert self.guard.poll() is None, f"bailiffd left with {self.guard.returncode}:\n" + "".join(self.log()[-20:])
            return self.answers()
        until("the daemon answers", ready)
        return self

    def part(self, name):
        """The pid of runtime, spawner or proxy; None while it is not there."""
        for pid in children_of(self.guard.pid):
            if command_of(pid).startswith(f"bailiffd: {name}") and not in_own_namespace(pid):
                return pid
        return None

    def kill_part(self, name, sig=signal.SIGKILL):
        """Signals a part; if it exits before the signal arrives, its successor is signalled."""
        def signalled():
            pid = self.part(name)
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, sig)
                    return pid
            return None
        return until(f"{name} runs", signalled)

    def note_tree(self):
        """Remembers every process below the guard, for nothing_left."""
        if self.guard and self.guard.poll() is None:
            below = set(descendants_of(self.guard.pid))
            self.seen |= below
            # Pids are reused: the process with this pid may now belong to another daemon.
            self.cgroups |= {name for pid, start in below for name in daemon_cgroups(pid) if alive(pid, start)}

    def stop(self, sig=signal.SIGTERM, expect=True):
        self.note_tree()
        with contextlib.suppress(ProcessLookupError):
            self.guard.send_signal(sig)
        status = self.guard.wait(PATIENCE)
        self.guard = None
        if sig != signal.SIGTERM:
            self.cgroups = set()    # the next start removes them
        if sig == signal.SIGTERM and expect:
            assert status == 0, f"bailiffd left with {status}:\n" + "".join(self.log()[-20:])
        return status

    def restart(self):
        self.stop()
        return self.start()

    def nothing_left(self):
        until("no process of the daemon is left", lambda: not [p for p, s in self.seen if alive(p, s)])
        until(f"no cgroup of the daemon is left: {self.cgroups}", lambda: not any(map(os.path.exists, self.cgroups)))

    def rpc(self, **more):
        return Rpc(self.socket, **more)

    def cli(self, *args, stdin=None, status=0, env=None, cwd=None, patience=PATIENCE):
        return cli(*args, stdin=stdin, status=status, env=dict(env or {}, BAILIFF_HOME=self.dir), cwd=cwd or self.work,
                   patience=patience)

    def cli_start(self, *args, program=CLI, **more):
        """bailiff in the background. Unbuffered: communicate() would not see what readline() had read ahead."""
        return subprocess.Popen([program, *shows_talker(args)], cwd=self.work, bufsize=0, **dict(dict(
            env=environment(BAILIFF_HOME=self.dir), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), **more))


def real_time_is_permitted():
    """Whether our children can have real-time priority: a cgroup may have no time for it."""
    return subprocess.run(["chrt", "-f", "1", "true"], stderr=subprocess.DEVNULL).returncode == 0


def kernel_without(*calls, error="ENOSYS"):
    """The beginning of a command that is executed on a kernel which seems to lack these system calls; also for Home(through=…)."""
    return sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_without.py"), error, ",".join(calls)


class Done:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


def shows_talker(args):
    return (args[0], "--ro", TALKER, *args[1:]) if args and args[0] == "run" and TALKER in args else args


def cli(*args, stdin=None, status=0, env=None, cwd="/", patience=PATIENCE):
    """Runs bailiff and checks its exit status (None: any)."""
    feed = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run([CLI, *shows_talker(args)], env=environment(**(env or {})), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=patience, **feed)
    if status is not None and done.returncode != status:
        raise AssertionError(f"bailiff {' '.join(args)}: status {done.returncode}, expected {status}\n"
                             f"stdout: {done.stdout[-600:]!r}\nstderr: {done.stderr[-1200:]!r}")
    return Done(done)


# ---- checks that several files share ----

def check_log(events, first=1):
    """Gapless from `first`, and exactly one terminal event for every process that started, but for sandboxes that are open. Returns the processes."""
    for i, event in enumerate(events):
        assert event["sequence"] == first + i, f"sequence {event['sequence']} where {first + i} belongs"
    started, ended, holders = collections.Counter(), collections.Counter(), set()
    for event in events:
        if event["type"] == "process.started":
            started[event["processId"]] += 1
            if event.get("payload", {}).get("owner", {}).get("kind") == "sandbox":
                holders.add(event["processId"])
        elif event["type"] in TERMINAL:
            ended[event["processId"]] += 1
    for process, count in started.items():
        assert count == 1, f"{process} started {count} times"
        open_sandbox = process in holders and not ended[process]
        assert ended[process] == 1 or open_sandbox, f"{process} has {ended[process]} terminal events"
    ids = collections.Counter(e["eventId"] for e in events)
    assert all(n == 1 for n in ids.values()), "an event id occurs twice"
    return started


def talker_hash(seed, i):
    h = (seed ^ (i * 2654435761)) & 0xffffffff
    h ^= h >> 15
    h = (h * 2246822519) & 0xffffffff
    return h ^ (h >> 13)


def talker_output(seed, count):
    """(stdout, stderr) of `talker talk SEED COUNT …`"""
    streams = ([], [])
    for i in range(count):
        streams[i % 2].append("%08x %06u %08x\n" % (seed, i, talker_hash(seed, i)))
    return "".join(streams[0]).encode(), "".join(streams[1]).encode()


def talker_terminal(seed, count):
    """What it prints on a terminal: both streams, in the order of the records."""
    return "".join("%08x %06u %08x\r\n" % (seed, i, talker_hash(seed, i)) for i in range(count)).encode()


def schema_validators():
    """Validators by file name, of docs/schemas and of the folder SCHEMAS (the specification's own), if given."""
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is not installed") from None
    store, documents = {}, {}
    for folder in (os.path.join(ROOT, "docs", "schemas"), os.environ.get("SCHEMAS", "")):
        for name in sorted(os.listdir(folder)) if folder else ():
            if name.endswith(".json"):
                with open(os.path.join(folder, name)) as f:
                    documents[name] = json.load(f)
    for name, schema in documents.items():
        store[schema.get("$id", name)] = schema
        # A "./x.schema.json" resolves against the $id of the referring schema: each one is registered next to all of them.
        for other in documents.values():
            if "/" in other.get("$id", ""):
                store[other["$id"].rsplit("/", 1)[0] + "/" + name] = schema
    return {name: jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver(schema.get("$id", name), schema, store=store))
            for name, schema in documents.items()}


def event_validators():
    found = {n: v for n, v in schema_validators().items() if "event" in n}
    assert len(found) >= 3, f"expected the envelope's, the profile's and the extended schema, found {sorted(found)}"
    return found


def snapshot_validators():
    found = {n: v for n, v in schema_validators().items() if "snapshot" in n}
    assert found, "there is no schema of snapshots"
    return found


def own_types(validators):
    """Event types that only the extended schema has."""
    types = [v.schema["properties"]["type"]["enum"] for n, v in sorted(validators.items()) if n in ("event-extended.schema.json", "event.schema.json")]
    return set(types[0]) - set(types[1]) if len(types) == 2 else set()


def check_facts(home, rpc):
    """Every readable document is valid under its schema, and the store is consistent."""
    validate(event_validators(), rpc.events(after=None))
    validators, snapshots = snapshot_validators(), []
    for session in rpc.call("list_sessions")["sessions"]:
        snapshot = rpc.call("get_session", sessionId=session["sessionId"])
        threads = [rpc.call("get_thread_read", threadId=t["threadId"]) for t in snapshot["threads"]]
        snapshots += [snapshot, dict(snapshot, threads=threads)]
    validate(validators, snapshots)
    home.cli("store", "verify")


def concerns(rule, kind):
    """False for an `if type … then …` of a schema's allOf that cannot hold for this event type."""
    types = rule.get("if", {}).get("properties", {}).get("type", {}) if isinstance(rule, dict) else {}
    return kind in types["enum"] if "enum" in types else types["const"] == kind if "const" in types else True


def validate(validators, documents):
    """Every document against every schema; rules about other event types are left out once for each type (they take most of the time)."""
    narrowed, own = {}, own_types(validators)
    for document in documents:
        kind = document.get("type")
        for name, validator in validators.items():
            if kind in own and name != "event-extended.schema.json":
                continue
            if (name, kind) not in narrowed:
                schema = dict(validator.schema)
                schema["allOf"] = [r for r in schema.get("allOf", []) if concerns(r, kind)] or [True]
                narrowed[name, kind] = validator.evolve(schema=schema)
            errors = sorted(narrowed[name, kind].iter_errors(document), key=str)
            assert not errors, f"{kind or 'document'} breaks {name}: {errors[0].message}\n{json.dumps(document)[:1500]}"


def valid(home, rpc):
    """Every event and every session's snapshot satisfies the schemas, and the store's models equal its log."""
    validate(event_validators(), rpc.events())
    validate(snapshot_validators(), [rpc.call("get_session", sessionId=s["sessionId"]) for s in rpc.call("list_sessions")["sessions"]])
    home.cli("store", "verify")


# ---- running ----

def main(scope):
    """Runs the test_… functions of a file, or those named on the command line; prints TAP."""
    for program in (DAEMON, CLI, TALKER):
        if not os.access(program, os.X_OK):
            print(f"{program} is not built")
            sys.exit(1)
    wanted, failed, number = [name.removeprefix("test_") for name in sys.argv[1:]], 0, 0
    tests = {n: f for n, f in scope.items() if n.startswith("test_") and callable(f)}
    unknown = [name for name in wanted if f"test_{name}" not in tests]
    if unknown:
        print(f"there is no test_{unknown[0]}")
        sys.exit(1)
    tests = {n: f for n, f in tests.items() if not wanted or n.removeprefix("test_") in wanted}
    print(f"1..{len(tests)}", flush=True)
    for name, function in tests.items():
        number += 1
        start = time.monotonic()
        try:
            if "home" in inspect.signature(function).parameters:
                with Home() as home:
                    function(home)
            else:
                function()
            print(f"ok {number} - {name} ({time.monotonic() - start:.2f} s)", flush=True)
        except Skip as e:
            print(f"ok {number} - {name} # SKIP {e}", flush=True)
        except Exception:
            failed += 1
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} - {name} ({time.monotonic() - start:.2f} s)", flush=True)
    Coverage.write()
    sys.exit(1 if failed else 0)
