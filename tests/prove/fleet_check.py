"""What tests/prove/fleet.py requires of the tasks of a round: the documents on the bus, the records of all nodes, and what the commands have printed."""

import collections

from harness import RpcError

LEASE_S = 3
WAKE_S = 3      # after SIGCONT of a whole node its daemon ends commands whose lease is over; until then they print with an old token
DRAIN_S = 2     # between a node's drain and its commands' start: what it had claimed before

# marks: when its command printed, in microseconds of the machine's clock (which nodes may see wrong)
Attempt = collections.namedtuple("Attempt", "node token attempt status marks ended")
# What was asked for. after: the id that it waits for. cancelled: when a cancel was acknowledged, in microseconds, or 0.
Task = collections.namedtuple("Task", "id kind after", defaults=(None,))


class Windows:
    """What happened to nodes when, in microseconds: {node: [(begin, end)]}."""

    def __init__(self):
        self.woken, self.drained = collections.defaultdict(list), collections.defaultdict(list)

    @staticmethod
    def has(windows, moment):
        return any(begin <= moment <= end for begin, end in windows)


def first(attempt):
    return attempt.marks[0]


def read_output(rpc, process):
    """A task names its process before that is started. If the node dies in between there is no such process."""
    try:
        return b"".join(rpc.outputs(process).values()).decode(errors="replace")
    except RpcError as e:
        if e.data.get("category") != "not_found":
            raise
        return ""


def read_marks(rpc, record):
    """Lines `TOKEN MICROSECONDS [end]` of a command, or `agent MICROSECONDS [end]` of an agent's commands; in the order of time."""
    worker = record.get("worker") or {}
    processes = [worker["processId"]] if worker.get("processId") else []
    if worker.get("turnId"):
        processes = [e["processId"] for e in rpc.events(turnId=worker["turnId"]) if e["type"] == "process.started"]
    lines = [line.split() for p in processes for line in read_output(rpc, p).splitlines()]
    marks = [m for m in lines if len(m) >= 2 and (m[0] == "agent" or m[0].isdigit()) and m[1].isdigit()]
    wrong = [m for m in marks if m[0].isdigit() and int(m[0]) != record["fleet"]["token"]]
    assert not wrong, f"{record['fleet']['taskId']}: the command has token {wrong[0][0]}, its record {record['fleet']['token']}"
    return sorted(int(m[1]) for m in marks), any(m[-1] == "end" for m in marks)


def read_attempts(home, known):
    """The attempts that the daemon of a node has recorded: {fleet task: [Attempt]}. `known` are local tasks that were read in an earlier round."""
    found, cursor = collections.defaultdict(list), {}
    with home.rpc() as rpc:
        while True:
            page = rpc.call("list_tasks", limit=100, **cursor)
            for t in page["tasks"]:
                if not t.get("fleet") or t["taskId"] in known:
                    continue
                known.add(t["taskId"])
                marks, ended = read_marks(rpc, t)
                f = t["fleet"]
                found[f["taskId"]].append(Attempt(home.name, f["token"], f["attempt"], t["status"], marks, ended))
            cursor = {"cursor": page["nextCursor"]} if page.get("nextCursor") else None
            if not cursor:
                return found


def check_document(document, ran):
    """It has ended, and reports the outcome of each attempt that ran."""
    task, entries = document["taskId"], document.get("attempts") or []
    if document["state"] not in ("completed", "failed", "lost", "cancelled"):
        yield f"{task} is {document['state']}"
    completed = [e for e in entries if e["state"] == "completed"]
    if len(completed) > 1 or bool(completed) != (document["state"] == "completed"):
        yield f"{task} is {document['state']} and has {len(completed)} completed attempts"
    for e in completed:
        if not [a for a in ran if a.attempt == e["attempt"] and a.ended]:
            yield f"{task}: attempt {e['attempt']} is reported as completed; its command did not"
        if [a for a in ran if a.attempt > e["attempt"]]:
            yield f"{task}: attempt {e['attempt']} completed, and a later one ran"
    for a in ran:
        if len([e for e in entries if e["attempt"] == a.attempt]) != 1:
            yield f"{task}: attempt {a.attempt} (token {a.token}) ran on {a.node} and is reported {[e for e in entries if e['attempt'] == a.attempt]}"


def check_order(task, ran, windows, figures):
    """No two tokens at once. What a node that was frozen as a whole prints after it woke up has an old token, and ends soon."""
    for i, a in enumerate(ran):
        for b in ran[i + 1:]:
            late = [m for m in a.marks if m >= first(b)]
            if late and all(windows.has(windows.woken[a.node], m) for m in late):
                figures["marks with an old token after a node woke up"] += len(late)
            elif late:
                yield f"{task}: token {b.token} on {b.node} began {(late[-1] - first(b)) / 1000:.0f} ms before token {a.token} on {a.node} had ended"
            if b.token <= a.token or b.attempt <= a.attempt:
                yield f"{task}: token {b.token} (attempt {b.attempt}) ran after token {a.token} (attempt {a.attempt})"


def check_task(document, attempts, windows, figures, cancelled=0, before=None):
    """Problems of one task. cancelled: when a cancel was acknowledged, or 0; before: the document and attempts of the task that it waits for."""
    task = document["taskId"]
    ran = sorted((a for a in attempts if a.marks), key=first)
    yield from check_document(document, ran)
    yield from check_order(task, ran, windows, figures)
    for a in ran:
        if cancelled and first(a) > cancelled + (LEASE_S + 1) * 1000000:
            yield f"{task}: attempt {a.attempt} began {(first(a) - cancelled) / 1e6:.1f} s after the cancel was acknowledged"
        if windows.has(windows.drained[a.node], first(a)):
            yield f"{task}: attempt {a.attempt} began on {a.node} while that was drained"
    if before and ran:
        ended = [m for a in before[1] if a.ended for m in a.marks]
        if before[0]["state"] != "completed" or not ended:
            yield f"{task} ran, although {before[0]['taskId']} is {before[0]['state']}"
        elif first(ran[0]) < max(ended):
            yield f"{task} began before {before[0]['taskId']} had ended"


def control():
    """What the checker must catch: (caught, tried)."""
    entry = {"attempt": 1, "state": "completed"}
    good = {"taskId": "t", "state": "completed", "attempts": [entry]}
    two_entries = dict(good, attempts=[dict(entry, state="lost"), dict(entry, attempt=2)])
    one, two = Attempt("n0", 5, 1, "completed", [10, 20], True), Attempt("n1", 9, 2, "completed", [15, 25], True)
    later, windows, woken, drained = two._replace(marks=[21]), Windows(), Windows(), Windows()
    woken.woken["n0"], drained.drained["n0"] = [(14, 30)], [(5, 15)]

    def problems(document, attempts, w=windows, **more):
        return list(check_task(document, attempts, w, collections.Counter(), **more))
    for fine in (problems(good, [one]), problems(two_entries, [one, later]), problems(two_entries, [one, two], woken), problems(good, [one], before=(good, [one._replace(marks=[1])]))):
        assert not fine, fine
    bad = [problems(dict(good, state="running", attempts=[]), [one]), problems(good, [one, two]), problems(good, []), problems(good, [one._replace(ended=False)]),
           problems(dict(good, attempts=[entry, dict(entry, attempt=2)]), [one, later]), problems(two_entries, [one, two]), problems(two_entries, [one, later._replace(token=4)]),
           problems(good, [one], drained), problems(good, [one._replace(marks=[9000000])], cancelled=1), problems(dict(two_entries, attempts=[entry, dict(entry, attempt=2, state="lost")]), [one, later]),
           problems(good, [one], before=(dict(good, state="failed"), [])), problems(good, [one], before=(good, [one._replace(marks=[11])]))]
    return sum(map(bool, bad)), len(bad)
