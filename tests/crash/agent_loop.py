#!/usr/bin/python3
"""SIGKILL of the runtime, the spawner, a model program or the guard, at random moments, while the loop drives turns.

    agent_loop.py [--kills N] [--seed S] [--homes H]            (CRASHES=N is the default of --kills)

One thread for each dialect submits turn after turn to a fake provider, some of them in the same session. The model is a function of the request: it
finds the tag of the last turn and how many of its steps the conversation has, and answers with the calls of the next step: commands, reads in parallel,
commands that need approval, questions, subagents, which are asked the same way, and commands in the background, which append what is written to their
standard input. What a command appends to the file of its thread is therefore a
function of the history: a line that is there twice means that a call ran twice, that a call of an incomplete answer ran, or that an answer was forgotten.
Another thread answers what is asked, and some turns are steered. A client with leases drives turns of its own meanwhile (lease_client.py).

Whatever was killed: no line occurs twice, a call that succeeded has left its line, every turn and subagent ends, nothing stays open, text that was accepted
by steer_turn is in the conversation once, every request satisfies the rules of its dialect (the fake checks them), and the store verifies.
"""

import collections
import contextlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kill_loop  # noqa: E402
import harness  # noqa: E402
from harness import Home, RpcError, until  # noqa: E402
from lease_client import LeaseClient  # noqa: E402

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "fakes"))
from provider import Provider   # noqa: E402

DIALECTS = ("anthropic", "openai-responses", "openai-chat", "gemini")
KEY = "sk-" + "test-" + "c3d4" * 6
SESSION_TURNS = 4
ENDS = ("turn.completed", "turn.failed")


class Model:
    """The answers of the model. The lines of a turn with the tag T7 are T7.1.1, T7.1.2, T7.2.1 …: step, then call."""

    def __init__(self, rng, effects):
        self.rng, self.effects = rng, effects
        self.lock = threading.Lock()
        self.results = collections.Counter()    # how calls were reported

    def __call__(self, request):
        with self.lock:
            for r in request.results:
                if r["name"] in ("shell", "write_stdin"):
                    self.results["as running" if "still runs" in r["text"] else "as done" if "did " in r["text"] else "as failed"] += 1
            rng = random.Random(self.rng.random())
        tag, steps = re.findall(r"tag (\w+), (\d+) steps", "\n".join(request.texts))[-1]
        step = 1 + max((int(n) for n in re.findall(rf"\b{tag}\.(\d+)\.\d", request.raw.decode())), default=0)
        time.sleep(rng.choice((0, 0, 0.01, 0.1)))
        how = rng.choice(({}, {"gated": True}, {"gate_after": 3}))
        if step > int(steps):
            return dict(text=f"Turn {tag} has ended.", reasoning="nothing is left", **how)
        calls = [self.command(tag, step, n, rng) for n in range(1, int(tag[-1], 36) % 4 + 2)]
        at = rng.randrange(len(calls) + 1)
        calls[at:at] = [{"name": "read_file", "arguments": {"path": os.path.basename(self.effects)}}] * rng.randrange(1, 4)
        left = re.findall(r"as process (proc_\w+)", request.raw.decode())
        if left and rng.random() < 0.5:
            calls += self.typing(left[-1], f"{tag}.{step}.{len(calls) + 1}", rng)
        elif rng.random() < 0.3:
            calls.append({"name": "shell", "arguments": {"command": f"while read line; do echo $line >> {self.effects}; echo did $line; done", "interactive": True,
                                                         "yieldMs": rng.choice((0, 50, 200))}})
        if rng.random() < 0.15:
            calls.append({"name": "ask_user", "arguments": {"question": f"Is {tag}.{step} right?"}})
        if "subagent" in request.tools and rng.random() < 0.3:
            calls.insert(0, {"name": "subagent", "arguments": {"prompt": f"tag {tag}s{step}{rng.choice('AB')}, 1 steps"}})
        return dict(text="Working on it.", reasoning="one step more", calls=calls, **how)

    def typing(self, process, line, rng):
        calls = [{"name": "write_stdin", "arguments": {"processId": process, "text": line + "\n", "yieldMs": rng.choice((0, 50, 300))}},
                 {"name": "wait", "arguments": {"processId": process, "timeoutMs": rng.choice((0, 50, 300))}}]
        return calls + [{"name": "kill", "arguments": {"processId": process}}] * (rng.random() < 0.3)

    def command(self, tag, step, n, rng):
        line = f"{tag}.{step}.{n}"
        nap = rng.choice(("", "", "sleep 0.02; ", "sleep 0.2; "))
        asks = "touch asked; " if rng.random() < 0.1 else ""
        return {"name": "shell", "arguments": {"command": f"{asks}echo {line} >> {self.effects}; {nap}echo did {line}"}}


class Person(kill_loop.Linked, threading.Thread):
    """Answers questions after a while."""

    def __init__(self, home, rng, over):
        super().__init__(daemon=True)
        self.home, self.rng, self.over, self.error, self.answers = home, rng, over, None, collections.Counter()

    def answer(self, action):
        how = {"decision": "allow"} if action["actionType"] != "input" else {"decision": "answer", "payload": {"answer": "yes"}}
        try:
            self.call("respond_action", actionId=action["actionId"], **how)
        except RpcError as e:
            # Answered before (the reply was lost), its turn has ended, or not possible just now.
            assert e.code in (-32009, -32015, -32004) or e.data.get("retryable"), e
            return
        self.answers[action["actionType"]] += 1

    def run(self):
        try:
            while not self.over.wait(self.rng.random() * 0.2):
                for action in self.call("list_actions", status="pending")["actions"]:
                    self.answer(action)
        except Exception:
            self.error = traceback.format_exc()


class Client(kill_loop.Retrying, threading.Thread):
    """One turn after the other with one dialect."""

    def __init__(self, home, dialect, rng, stop):
        super().__init__(daemon=True)
        self.home, self.dialect, self.rng, self.stop = home, dialect, rng, stop
        self.effects = os.path.join(home.work, dialect)
        self.model = Model(random.Random(rng.random()), self.effects)
        self.turns, self.ends, self.again, self.link, self.error = [], collections.Counter(), 0, None, None
        self.guards = 0     # deaths of the guard
        self.steered = {}   # texts that were accepted, with their turn's end
        open(self.effects, "w").close()

    def events(self, turn):
        found = []
        while True:
            page = self.call("list_events", turnId=turn, limit=1000, afterSequence=found[-1]["sequence"] if found else 0)
            found += page["events"]
            if not page["hasMore"]:
                return found

    def steer(self, turn, tag):
        """Returns the text, if it was accepted."""
        text = f"steered {tag}"
        try:
            self.call("steer_turn", turnId=turn, input=text, idempotencyKey=f"steer-{self.dialect}-{tag}")
        except RpcError as e:
            assert e.code == -32015, e  # the turn has ended
            return None
        return text

    def end_of(self, turn, tag):
        """Waits while there are new events."""
        seen, since = None, time.monotonic()
        steer = self.rng.choice((None, None, 0, 0.2))
        while True:
            if steer is not None and time.monotonic() - since >= steer:
                steer, text = None, self.steer(turn, tag)
                if text:
                    self.steered[text] = turn
            events = self.events(turn)
            ends = [e for e in events if e["type"] in ENDS]
            if ends:
                return ends[0]
            if seen != len(events) or not self.stop.is_set():
                seen, since = len(events), time.monotonic()
            assert time.monotonic() - since < harness.PATIENCE, f"{self.dialect}: turn {tag} is stuck:\n" + told(events)
            time.sleep(0.05)

    def one(self, session):
        number, guards = len(self.turns), self.guards
        tag = f"T{number}{self.rng.choice('ABCD')}"
        where = {"sessionId": session} if session else {}
        turn = self.call("submit_turn", driver="loop", model=self.dialect, idempotencyKey=f"{self.dialect}-{number}", options={"cwd": self.home.work, "endProcesses": self.rng.random() < 0.5},
                         input=[{"type": "text", "text": f"tag {tag}, {self.rng.randrange(1, 4)} steps"}], **where)
        self.turns.append(turn["turnId"])
        end = self.end_of(turn["turnId"], tag)
        how = end["status"] + (f" ({end['payload']['category']})" if end["type"] == "turn.failed" else "")
        self.ends[how] += 1
        if how != "completed":
            self.steered = {text: t for text, t in self.steered.items() if t != turn["turnId"]}
        allowed = ("completed",) + (("failed (lost)", "lost (lost)") if guards != self.guards else ())
        if how == "failed (model)":     # each of the five attempts of one request was killed
            killed = [e for e in self.events(turn["turnId"]) if e["type"] == "model.failed" and e["payload"]["category"] in ("program", "lost", "key")]
            allowed += (how,) if len(killed) >= 5 else ()
        assert how in allowed, f"{self.dialect}: turn {tag} ended as {how}:\n" + told(self.events(turn["turnId"]))
        return turn["sessionId"]

    def run(self):
        try:
            session = None
            while not self.stop.is_set():
                session = self.one(session if len(self.turns) % SESSION_TURNS else None)
        except Exception:
            self.error = traceback.format_exc()

    def story(self, line):
        """Everything that happened to the calls of this line."""
        with self.home.rpc() as rpc:
            log = rpc.events()
        calls = {e.get("toolCallId") for e in log if line in str(e["payload"])} - {None}
        return told([e for e in log if e.get("toolCallId") in calls or e["type"] == "history.reconstructed"])

    def check(self):
        """Every line once at most, and one for each call that succeeded."""
        with open(self.effects) as f:
            lines = f.read().split()
        try:
            check_lines(self.dialect, lines)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.story([line for line in lines if lines.count(line) > 1][0])}") from None
        did = {line for turn in self.turns for e in self.events(turn) if e["type"] == "tool.result" for line in re.findall(r"did (\w+\.\d+\.\d+)", str(e["payload"]))}
        missing = did - set(lines)
        assert not missing, f"{self.dialect}: calls that succeeded without an effect: {sorted(missing)}"
        return len(lines)

    def check_steering(self, requests):
        """Accepted text is in the conversation of its turn, and there once."""
        for text, turn in self.steered.items():
            seen = [len(re.findall(rf"\b{text}\b", "\n".join(r.texts))) for r in requests]
            assert max(seen, default=0) == 1, f"{self.dialect}: '{text}' was accepted and is in requests {max(seen, default=0)} times:\n" + told(self.events(turn))


def told(events):
    return "\n".join(f"    {e['sequence']} {e['type']} {e.get('status', '')} {str(e['payload'])[:300]}" for e in events)


def check_lines(name, lines):
    twice = [line for line, n in collections.Counter(lines).items() if n > 1]
    assert not twice, f"{name}: calls had their effect twice: {twice}"


def control_bad():
    """The check must be able to see a call that ran twice."""
    try:
        check_lines("control", ["T1A.1.1", "T1A.1.2", "T1A.1.1"])
    except AssertionError:
        return
    raise SystemExit("the checker does not see a call that ran twice")


def models_of(home):
    return [pid for pid, _ in harness.descendants_of(home.guard.pid) if os.path.basename(harness.command_of(pid).split(" ")[0]) == "bailiff-model"]


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        until("it is dead", lambda pid=pid: not harness.alive(pid))


def kill_one(home, clients, rng):
    """Kills a part, and waits until the daemon answers. Returns what was killed."""
    time.sleep(rng.random() ** 2 * 0.8)
    target = rng.choice(("runtime",) * 4 + ("spawner",) * 2 + ("both",) * 2 + ("model",) * 3 + ("guard",))
    if target == "guard":
        for c in clients:
            c.guards += 1
        home.note_tree()
        home.guard.kill()
        home.guard.wait()
        home.start()
        return target
    if target == "model":
        kill([rng.choice(until("a model is asked", lambda: models_of(home) or failed(clients)))])
    else:
        kill([p for p in map(home.part, ("runtime", "spawner") if target == "both" else (target,)) if p])
    if rng.random() < 0.8:      # otherwise the next kill may meet a part that is starting
        until("the daemon answers", home.answers)
    return target


def check_open(rpc, log):
    """Nothing is left open: turns, subagents, calls and actions."""
    for kind, begin, ends in (("turnId", "turn.started", ENDS), ("subagentId", "subagent.spawned", ("subagent.closed",)),
                              ("toolCallId", "tool.started", ("tool.result", "tool.failed"))):
        left = {e[kind] for e in log if e["type"] == begin} - {e[kind] for e in log if e["type"] in ends}
        assert not left, f"{begin} without an end: {sorted(left)}"
    pending = rpc.call("list_actions", status="pending")["actions"]
    assert not pending, pending


def failed(clients):
    found = [c for c in clients if c.error]
    assert not found, found[0].error


def release_gates(providers, stop):
    """Gated streams continue by an event every few milliseconds."""
    while not stop.wait(0.004):
        for p in providers:
            if p.tokens <= 0:
                p.release()
    for p in providers:
        p.release(1 << 30)


def drive(home, kills, rng, providers, clients, others, stop):
    """`others`: the client with leases and the person, who stays until the turns have ended."""
    figures, everyone = collections.Counter(), clients + others
    for c in everyone:
        c.start()
    for _ in range(kills):
        figures["kill " + kill_one(home, clients, rng)] += 1
        failed(everyone)
    stop.set()
    until("the daemon answers", home.answers)
    leases, person = others
    for c in clients + [leases]:
        while c.is_alive():     # it fails when there are no new events
            failed(everyone)
            c.join(1)
    person.over.set()
    person.join()
    failed(everyone)
    for c, p in zip(clients, providers):
        assert p.violations == [] and p.unscripted == [], (c.dialect, p.violations, p.unscripted)
        figures["effects"] += c.check()
        c.check_steering(p.requests)
        figures["steered"] += len(c.steered)
        figures["requests"] += len(p.requests)
        figures["repeated calls of methods"] += c.again
        figures.update({f"turns {how}": n for how, n in c.ends.items()})
        figures.update({f"results told {how}": n for how, n in c.model.results.items()})
    check_lines("leases", leases.check())
    figures.update(leases.figures)
    figures.update({f"answers to {kind}": n for kind, n in person.answers.items()})
    with home.rpc() as rpc:
        left = [x["processId"] for x in rpc.call("list_processes", liveOnly=True, limit=1000)["processes"] if x.get("toolCallId")]
        for process in left:
            rpc.call("terminate_process", processId=process)
        figures["left in the background"] = len(left)
        log = rpc.events()
        harness.check_log(log)
        check_open(rpc, log)
        figures["subagents"] = sum(e["type"] == "subagent.spawned" for e in log)
        figures.update(f"{e['type']} ({e['payload']['category']})" for e in log if e["type"] in ("model.failed", "tool.failed"))
        report = rpc.call("verify_store")
        assert report["ok"] is True, report
    return figures


def work(kills, seed):
    """One home. Returns figures."""
    rng, stop, over = random.Random(seed), threading.Event(), threading.Event()
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(Home())
        clients = [Client(home, d, random.Random(rng.random()), stop) for d in DIALECTS]
        others = [LeaseClient(home, random.Random(rng.random()), stop), Person(home, random.Random(rng.random()), threading.Event())]
        providers = [stack.enter_context(Provider(c.dialect, c.model, keys=(KEY,))) for c in clients]
        key = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="bl-key-"))
        key.write(KEY + "\n")
        key.flush()
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            json.dump({"permissions": {"ask": ["Bash(touch *)"]}}, f)
        with home.rpc() as rpc:
            rpc.call("reload_policy")
            for p, d in zip(providers, DIALECTS):
                rpc.call("add_model", name=d, baseUrl=p.url, dialect=d, model="fake-1", keyFile=key.name)
        stack.callback(over.set)
        threading.Thread(target=release_gates, args=(providers, over), daemon=True).start()
        return drive(home, kills, rng, providers, clients, others, stop)


def main():
    o, shares = kill_loop.options(int(os.environ.get("CRASHES") or 20), homes=1)
    control_bad()
    begin = time.monotonic()
    ok, figures = kill_loop.in_parallel(work, shares)
    print(f"# {time.monotonic() - begin:.0f} s: " + ", ".join(f"{v} {k}" for k, v in sorted(figures.items())))
    print(f"{'ok' if ok else 'not ok'} 1 - {o.kills} kills while the loop drives turns")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
