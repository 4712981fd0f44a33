"""One fixed scenario in a private daemon under build/nth, and what must be true whatever happened to its system calls.

The client has its own model of what was acknowledged. Every command appends its name to a file of its own, so that an effect that happened twice shows. The
scenario has a command with output, one with stdin and one on a terminal (both stay open throughout), a copy-on-write run that is applied, an approval, a
session sandbox with two commands, a task, a job, a turn of the loop with a scripted model, a call by MCP's gateway, and a command that is killed. Then
SIGTERM, a start without the fault, and the checks.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "blackbox"), os.path.join(TESTS, "fakes")]
import harness                                          # noqa: E402
from harness import Gone, Home, Rpc, RpcError, until    # noqa: E402
from mcp import Mcp, McpError                           # noqa: E402
from provider import Provider                           # noqa: E402

NTH = os.path.join(harness.BUILD, "nth")
PATIENCE = 30       # the bound of every wait
RETRIES = 6         # of a request whose error says that it can be repeated
KEY = "sk-" + "test-" + "e5f6" * 6
POLICY = {"permissions": {"ask": ["Bash(touch:*)"]}}
TURN_ENDS = ("turn.completed", "turn.failed")
JOB_ENDS = ("job.completed", "job.failed", "job.cancelled")
TASK_ENDS = ("cancelled", "timed_out", "failed", "lost", "completed", "archived", "blocked")   # blocked: until a person decides
STEPS = ("out", "stdin", "tty", "cow", "approval", "session1", "session2", "task", "item0", "item1", "turn", "gateway", "killed")


class DaemonGone(Exception):
    """The guard has ended: allowed if the fault was the reason; then everything acknowledged exists after the next start."""


def effect(name, then=":"):
    return f"echo {name} >> effects/{name}; {then}"


class Client:
    """Requests with a bound; a lost connection repeats them with the same idempotency key."""

    def __init__(self, home):
        self.home, self.link, self.keys = home, None, 0
        self.started, self.ended, self.printed = {}, {}, {}     # acknowledged: process ids, results of waits, output
        self.done, self.errors, self.facts = set(), {}, {}      # steps; ids of tasks, jobs and turns

    def close(self):
        if self.link:
            self.link.close()
        self.link = None

    def once(self, method, params, end):
        while True:
            try:
                if self.link is None:
                    self.link = Rpc(self.home.socket, patience=PATIENCE)
                return self.link.call(method, params)
            except (Gone, OSError) as e:
                self.close()
                if self.home.guard.poll() is not None:
                    raise DaemonGone(f"status {self.home.guard.returncode}") from None
                assert time.monotonic() < end, f"{method}: the daemon has not answered for {PATIENCE} s: {e!r}"
                time.sleep(0.005)

    def call(self, method, mutates=True, **params):
        end = time.monotonic() + PATIENCE
        for attempt in range(RETRIES):
            if mutates:
                self.keys += 1
                params["idempotencyKey"] = f"key-{self.keys}"
            try:
                return self.once(method, params, end)
            except RpcError as e:
                assert {"category", "retryable", "advice"} <= set(e.data), f"{method}: {e}"
                if not e.data["retryable"] or attempt == RETRIES - 1:
                    raise
                time.sleep(0.02 * 2 ** attempt)

    def read(self, method, **params):
        return self.call(method, mutates=False, **params)

    def start(self, name, command, **more):
        started = self.call("start_process", commandLine=command, cwd=self.home.work, **more)
        self.started[name] = started["processId"]
        return started

    def wait(self, name):
        ended = self.read("wait_process", processId=self.started[name], timeoutMs=PATIENCE * 1000)
        assert not ended.get("timedOut"), f"{name}: the command has not ended for {PATIENCE} s"
        self.ended[name] = {k: ended.get(k) for k in ("status", "exitCode", "signal")}
        return ended

    def output(self, ref):
        part = self.read("read_output", outputRef=ref, offset=0, length=1 << 16)
        return part["data"]

    def poll(self, what, condition):
        return until(what, condition, PATIENCE)


# ---- the steps ----

def expect(name, ended, code=0):
    if ended["status"] != "completed" or ended.get("exitCode") != code:
        raise RpcError({"code": 0, "message": f"{name} ended as {ended}", "data": {}})


def finish(c, name, stream, text):
    """Waits, and compares the output: a command that succeeded has printed everything."""
    ended = c.wait(name)
    expect(name, ended)
    c.printed[name] = ended["outputs"][stream]["outputRef"], text
    assert c.output(ended["outputs"][stream]["outputRef"]) == text, f"{name}: it succeeded, and its output is not complete"


def step_open(c):
    c.start("stdin", effect("stdin", "cat"), stdin="pipe")
    c.start("tty", effect("tty", "stty -echo; echo ready; read x; echo got $x"), tty={"rows": 24, "cols": 80})


def step_out(c):
    c.start("out", effect("out", "echo hello; echo problem >&2"))
    finish(c, "out", "stdout", "hello\n")


def step_cow(c):
    c.start("cow", effect("cow"), cow=True)
    expect("cow", c.wait("cow"))
    applied = c.call("apply_changes", processId=c.started["cow"])
    if applied["conflicts"]:
        raise RpcError({"code": 0, "message": f"not applied: {applied['conflicts']}", "data": {}})
    c.facts["applied"] = True


def step_approval(c):
    started = c.start("approval", "touch asked; " + effect("approval"))
    assert started["status"] == "waiting_permission", started
    c.call("respond_action", actionId=started["actionId"], decision="allow")
    expect("approval", c.wait("approval"))


def step_session(c):
    session = c.call("create_session")["sessionId"]
    for name in ("session1", "session2"):
        c.start(name, effect(name, "echo x >> /tmp/shared"), sandboxId="session", sessionId=session)
        expect(name, c.wait(name))
    c.call("update_session", sessionId=session, archived=True)


def step_task(c):
    task = c.call("create_task", objective="append", commandLine=effect("task"), cwd=c.home.work, autoComplete=True)["taskId"]
    c.facts["task"] = task
    c.call("start_task", taskId=task)
    ended = c.poll("the task ends", lambda: (lambda t: t if t["status"] in TASK_ENDS else None)(c.read("get_task", taskId=task)))
    c.facts["taskStatus"] = ended["status"]
    expect("task", dict(ended, exitCode=0))


def step_job(c):
    job = c.call("create_job", items=[{"itemId": "item0"}, {"itemId": "item1"}], commandLine=effect("{itemId}"), cwd=c.home.work, maxParallel=1)["jobId"]
    c.facts["job"] = job
    ended = c.poll("the job ends", lambda: (lambda j: j if j["status"] in ("completed", "failed", "cancelled") else None)(c.read("get_job", jobId=job)))
    c.facts["jobStatus"] = ended["status"]
    expect("job", dict(ended, exitCode=0))


def step_turn(c):
    c.call("add_model", name="fake", baseUrl=c.place.provider.url, dialect="anthropic", model="fake-1", keyFile=c.place.key_file, replace=True)
    turn = c.call("submit_turn", driver="loop", model="fake", input=[{"type": "text", "text": "go"}], options={"cwd": c.home.work})["turnId"]
    c.facts["turn"] = turn
    end, = c.poll("the turn ends", lambda: c.read("list_events", turnId=turn, types=list(TURN_ENDS))["events"])
    c.facts["turnEnd"] = end["type"]
    expect("turn", {"status": "completed" if end["type"] == "turn.completed" else str(end["payload"]), "exitCode": 0})


class Gateway(Mcp):
    def __init__(self, home, verb, *options):
        self.verb = verb
        super().__init__(home, *options, program=NTH)

    def answer_to(self, home):
        """Of the last request. A gateway waits for a daemon to come back, and longer than we do."""
        end = time.monotonic() + PATIENCE
        while self.next_id not in self.replies:
            if not self.pump(0.2) and home.guard.poll() is not None:
                self.process.kill()
                raise DaemonGone(f"status {home.guard.returncode}")
            assert time.monotonic() < end, f"no reply of the gateway for {PATIENCE} s"
        return self.reply(self.next_id)


def step_gateway(c):
    with Gateway(c.home, *c.plans.gateway(c.place.cli)) as mcp:
        try:
            for request in (("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "nth", "version": "1"}}),
                            ("tools/call", {"name": "exec", "arguments": {"command": effect("gateway", "echo by gateway")}})):
                with contextlib.suppress(BrokenPipeError):      # its reply, or its end, shows what happened
                    mcp.send(*request)
                result = mcp.answer_to(c.home)
        except (McpError, Gone) as e:
            raise RpcError({"code": 0, "message": f"gateway: {e}", "data": {}}) from None
        text = "".join(p.get("text", "") for p in result["content"])
        if result.get("isError") or "by gateway" not in text:
            raise RpcError({"code": 0, "message": f"gateway: {text}", "data": {}})


def step_killed(c):
    c.start("killed", effect("killed", "sleep 1000"))
    c.call("terminate_process", processId=c.started["killed"], graceMs=0)
    ended = c.wait("killed")
    if ended["status"] != "terminated":
        raise RpcError({"code": 0, "message": f"killed ended as {ended}", "data": {}})


def step_close(c):
    if "stdin" in c.started:
        c.call("write_process_stdin", processId=c.started["stdin"], data="some input\n")
        c.call("close_process_stdin", processId=c.started["stdin"])
        finish(c, "stdin", "stdout", "some input\n")


def terminal_is_ready(record, c):
    """Or its command has ended, which the next request reports."""
    return record["status"] != "running" or "ready" in c.output(record["outputs"]["pty"]["outputRef"])


def step_terminal(c):
    if "tty" in c.started:
        c.poll("the terminal is ready", lambda: terminal_is_ready(c.read("get_process", processId=c.started["tty"]), c))
        c.call("write_process_stdin", processId=c.started["tty"], data="abc\n")
        finish(c, "tty", "pty", "ready\r\ngot abc\r\n")


def step_serves(c, may_refuse):
    """A fault that occurs once has no lasting effect: the daemon serves, at the latest with the second command, as the first may be the one that is hit
    (and so on, if there are several). An error that says that the kernel lacks a feature may be believed until the next start: commands are then refused."""
    problems = []
    for _ in range(1 + max(1, len(c.plans.plans))):
        try:
            ended = c.read("wait_process", processId=c.call("start_process", command=["true"])["processId"], timeoutMs=PATIENCE * 1000)
            if ended["status"] == "completed":
                return
            problems.append(ended)
        except RpcError as e:
            problems.append(e)
            if may_refuse and e.data.get("category") == "sandbox_failed":
                return
    raise AssertionError(f"the daemon no longer serves: {problems}")


ORDER = (step_open, step_out, step_cow, step_approval, step_session, step_task, step_job, step_turn, step_gateway, step_killed, step_close, step_terminal)


def answer(request):
    """The model: one command, then the end."""
    if request.results:
        return {"text": "Done."}
    return {"calls": [{"name": "shell", "arguments": {"command": effect("turn")}}]}


# ---- a run ----

class Plans:
    """The plans of one run, and what nth reported."""

    def __init__(self, folder, plans):
        self.plans = list(plans)
        self.outputs = [os.path.join(folder, n) for n in ("nth-daemon", "nth-gateway")]

    def daemon(self):
        return NTH, self.outputs[0], *self.plans, "--"

    def gateway(self, cli):
        return self.outputs[1], *self.plans, "--", cli, "mcp"

    def lines(self):
        for path in self.outputs:
            with contextlib.suppress(OSError), open(path) as f:
                yield from f.read().splitlines()

    def fired(self):
        found = list(self.lines())
        wrong = [line for line in found if line.startswith("error ")]
        assert not wrong, f"nth: {wrong}"
        return [line[6:] for line in found if line.startswith("fired ")]

    def counts(self):
        until("nth has ended", lambda: sum(line == "end" for line in self.lines()) == 2, PATIENCE)
        return {(role, call): int(n) for _, role, call, n in (line.split() for line in self.lines() if line.startswith("count "))}


class Place:
    """What the runs of one worker share: the model's provider and its key."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.provider = self.stack.enter_context(Provider("anthropic", answer, keys=(KEY,)))
        key = self.stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="bl-key-"))
        key.write(KEY + "\n")
        key.flush()
        self.key_file = key.name
        # A gateway starts a daemon where none answers. Here it must not find the program next to its own: the guard's death is to be seen.
        os.makedirs(os.path.join(harness.BUILD, "prove"), exist_ok=True)
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.join(harness.BUILD, "prove")))
        for name in ("bailiff", "bailiff-gateway"):
            os.link(os.path.join(harness.BUILD, name), os.path.join(folder, name))
        self.cli = os.path.join(folder, "bailiff")
        return self

    def __exit__(self, *_):
        self.stack.close()


def make_home(plans):
    home = Home({"stopGraceMs": 1000}, start=False)
    os.mkdir(os.path.join(home.work, "effects"))
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump(POLICY, f)
    plans = Plans(home.dir, plans)
    home.through = plans.daemon()
    return home, plans


def drive(c, may_refuse):
    """The scenario. Each step has a result or an error."""
    until("the daemon answers or ends", lambda: c.home.guard.poll() is not None or c.home.answers(), PATIENCE)
    for step in ORDER:
        try:
            c.before.get(step, lambda _: None)(c)
            step(c)
            c.done.add(step)
        except RpcError as e:
            c.errors[step.__name__[5:]] = str(e)
        if step in (step_session, step_killed):     # the rest is noted by stop()
            c.home.note_tree()
    step_serves(c, may_refuse)


def stop(home, expect):
    """SIGTERM ends it in time."""
    home.note_tree()
    with contextlib.suppress(ProcessLookupError):
        home.guard.send_signal(signal.SIGTERM)
    try:
        status = home.guard.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"SIGTERM did not end the daemon within {PATIENCE} s") from None
    home.guard = None
    if expect:
        assert status == 0, f"the daemon left with {status} after SIGTERM"


def lines_of(home, name):
    try:
        with open(os.path.join(home.work, "effects", name)) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def check_effects(c):
    for name in STEPS:
        lines = lines_of(c.home, name)
        assert lines in ([], [name]), f"{name}: its effect occurred {len(lines)} times: {lines}"
        ended = c.ended.get(name)
        if ended and ended["status"] == "completed" and ended["exitCode"] == 0 and name != "cow":
            assert lines, f"{name}: it succeeded, and its effect is missing"
    if c.facts.get("applied"):
        assert lines_of(c.home, "cow"), "the change was applied, but is missing"
    for fact, value, names in (("taskStatus", "completed", ("task",)), ("jobStatus", "completed", ("item0", "item1"))):
        if c.facts.get(fact) == value:
            assert all(lines_of(c.home, n) for n in names), f"{names}: they succeeded, and an effect is missing"


def check_acknowledged(c, rpc):
    """All that was acknowledged is in the store."""
    for name, process in c.started.items():
        record = rpc.call("get_process", processId=process)
        if name in c.ended:
            assert {k: record.get(k) for k in c.ended[name]} == c.ended[name], f"{name}: {c.ended[name]} became {record}"
    for name, (ref, text) in c.printed.items():
        assert rpc.call("read_output", outputRef=ref)["data"] == text, f"{name}: its output changed"
    if "task" in c.facts:
        status = rpc.call("get_task", taskId=c.facts["task"])["status"]
        assert c.facts.get("taskStatus") in (None, status), f"the task was {c.facts['taskStatus']} and is {status}"
    if "job" in c.facts:
        status = rpc.call("get_job", jobId=c.facts["job"])["status"]
        assert c.facts.get("jobStatus") in (None, status), f"the job was {c.facts['jobStatus']} and is {status}"
    if "turn" in c.facts:
        ends = [e["type"] for e in rpc.events(turnId=c.facts["turn"]) if e["type"] in TURN_ENDS]
        assert len(ends) == 1 and c.facts.get("turnEnd") in (None, ends[0]), f"the turn ended with {c.facts.get('turnEnd')} and has the ends {ends}"


def is_open(log):
    """Whether something has begun and not ended."""
    found = []
    for kind, begin, ends in (("turnId", ("turn.started",), TURN_ENDS), ("jobId", ("job.started",), JOB_ENDS),
                              ("processId", ("process.started",), harness.TERMINAL), ("toolCallId", ("tool.started",), ("tool.result", "tool.failed"))):
        holders = {e.get(kind) for e in log if e["type"] == "process.started" and (e["payload"].get("owner") or {}).get("kind") == "sandbox"}
        found += sorted({e[kind] for e in log if e["type"] in begin} - {e[kind] for e in log if e["type"] in ends} - holders)
    return found


def settled(rpc):
    """The log, in which all that has begun has ended."""
    end = time.monotonic() + PATIENCE
    while found := is_open(log := rpc.events()):
        if time.monotonic() > end:
            events = [f"{e['sequence']} {e['type']} {str(e['payload'])[:300]}" for e in log if set(found) & set(map(str, e.values()))]
            raise AssertionError(f"not ended after the restart: {found}\n" + "\n".join(events))
        time.sleep(0.02)
    return log


def check_after(c):
    """Started again without the fault: everything comes to its end, and all checks hold."""
    home = c.home
    home.through = ()
    home.start()
    with home.rpc(patience=PATIENCE) as rpc:
        for action in rpc.call("list_actions", status="pending")["actions"]:    # an approval survives
            rpc.call("respond_action", actionId=action["actionId"], decision="allow")
        settled(rpc)
        ended = rpc.run(["true"])[1]
        assert ended["status"] == "completed", f"the next daemon does not serve: {ended}"
        check_acknowledged(c, rpc)
        report = rpc.call("verify_store")
        assert report["ok"] is True, f"verify: {report}"
        harness.check_log(settled(rpc))     # what this daemon begins by itself may still run
    check_effects(c)
    stop(home, expect=True)
    home.nothing_left()
    check_nothing_left(home)


def check_nothing_left(home):
    with open("/proc/self/mountinfo") as f:
        mounts = [line for line in f if home.dir in line]
    assert not mounts, f"mounts are left: {mounts}"

    def left():
        return [pid for pid in harness.all_pids() if home.dir in harness.command_of(pid) and pid != os.getpid()]
    until("no process with this home is left", lambda: not left(), PATIENCE)


CRASH = re.compile(r"killed by signal (4|6|7|8|11)\b.*|.*(?:Sanitizer|assertion).*", re.I)


def check_log_file(home, may_abort):
    for line in home.log():
        found = CRASH.search(line)
        if found and not (may_abort and found.group(1) == "6"):
            raise AssertionError(f"a process crashed: {line.strip()}")
        assert "sandbox denied system call" not in line, line


def run(place, plans, strict=(), may_abort=False, may_refuse=False, before=None, between=None):
    """One case. `strict`: steps that must succeed; `before`, by step, and `between`, the two daemons, are for controls.
    Returns the client, with what fired and the counts; raises AssertionError with what is wrong."""
    home, nth = make_home(plans)
    c = Client(home)
    c.plans, c.place, c.gone, c.before = nth, place, None, before or {}
    begin = time.monotonic()
    try:
        home.spawn()
        try:
            drive(c, may_refuse)
        except DaemonGone as e:
            c.gone = str(e)
        c.close()
        if c.gone:
            home.guard.wait()
            home.guard = None
        else:
            stop(home, expect=False)
        if between:
            between(c)
        c.fired = nth.fired()
        if not plans:
            c.counts = nth.counts()
        check_after(c)
        check_log_file(home, may_abort)
        # An effect that was under way when the runtime died is never repeated silently: the client is told that its outcome is not known.
        # A child that was killed before it had a name of its own may have been an init.
        if any(line.startswith("unnamed ") and " kill" in line for line in nth.lines()):
            strict = ()
        broken = {name: c.errors[name] for name in strict if name in c.errors and '"outcome": "unknown"' not in c.errors[name]}
        assert not broken, f"these must succeed: {broken}"
        assert not (strict and c.gone), f"the daemon ended: {c.gone}"
    except Exception as e:
        e.log, e.errors, e.nth = home.log(), dict(c.errors), [line for line in nth.lines() if line.startswith(("fired", "error"))]
        raise
    finally:
        c.close()
        c.seconds = time.monotonic() - begin
        destroy(home)
    return c


def destroy(home):
    """Ends what is left of a failed run, so that the next one is not disturbed, and removes the home."""
    if home.guard:
        home.note_tree()
        with contextlib.suppress(OSError):
            home.guard.kill()
        home.guard.wait()
        home.guard = None
    for pid, start in home.seen:
        if harness.alive(pid, start):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home.dir, ignore_errors=True)


ALL = tuple(f.__name__[5:] for f in ORDER)
