#!/usr/bin/python3
"""Power cuts of the whole daemon.

    power_cut.py [--scenario NAME] [--control syncs|names] [--record FOLDER] [arguments of proof.py]

A daemon runs a scenario while a preloaded recorder (recorder.c) notes every change of its files and every sync, and the client notes in the same
order what was acknowledged. power_states.c then produces the states that a power cut could have left, at every point of the record, and opens and
checks each. Some are also given to a real daemon, which must start, verify and stop.

A record is not repeatable (ids and times differ), so it is kept with a failing case: --record FOLDER --case POINT:VARIANT checks that state again,
without the undo, which needs the directories of the recorded home.
"""

import concurrent.futures
import contextlib
import ctypes
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

from proof import BUILD, ROOT, Proof

sys.path.insert(0, os.path.join(ROOT, "tests", "blackbox"))
import harness  # noqa: E402
from harness import Gone, Home, RpcError, until  # noqa: E402

LIBRARY, STATES = os.path.join(BUILD, "recorder.so"), os.path.join(BUILD, "power_states")
RECORD_BYTES = 256 << 20
FOREVER = 1 << 62


def sha(data):
    return hashlib.sha256(data).hexdigest()


def content(path):
    with open(path, "rb") as f:
        return f.read()


class Recorded(Home):
    """A daemon whose writes are recorded, and the facts that its client received."""

    def __init__(self, folder, files=None, **more):
        self.folder, self.facts, self.owners, self.lock = folder, [], {}, threading.Lock()
        self.record = os.path.join(folder, "record")
        super().__init__(start=False, env={"LD_PRELOAD": LIBRARY, "BAILIFF_TEST_RECORD": self.record}, **more)
        self.log_path = os.path.join(folder, "log")
        for name, text in (files or {}).items():
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        self.root = os.stat(self.dir)
        with open(self.record, "wb") as f:
            f.truncate(RECORD_BYTES)
            f.write(struct.pack("=iIQQQQ3Q", 0, 0, RECORD_BYTES, self.root.st_dev, 0, 0, 0, 0, 0))
        os.chmod(self.record, 0o666)    # the runtime of a root daemon has another uid
        self.library = ctypes.CDLL(LIBRARY)
        self.library.recorder_mark.restype = ctypes.c_uint64
        self.library.recorder_map(self.record.encode())
        self.add_files("")
        self.start()
        self.subscriber = self.thread = None
        self.listen()

    def add_files(self, name):
        """Files that were not written by the daemon become part of the record."""
        self.library.recorder_import(os.path.join(self.dir, name).encode())

    def mark(self):
        return self.library.recorder_mark()

    def fact(self, kind, *words, since=None, until=FOREVER):
        with self.lock:
            self.facts.append([self.mark() if since is None else since, until, kind, *map(str, words)])

    def end_facts(self, kind, *words):
        """These facts no longer apply from now on."""
        with self.lock:
            for f in self.facts:
                if f[1] == FOREVER and f[2] == kind and f[3:3 + len(words)] == list(words):
                    f[1] = self.mark()

    # Every event that a subscriber receives is acknowledged.

    def listen(self):
        self.subscriber = self.rpc()
        self.subscriber.call("subscribe_events", afterSequence=0)
        self.thread = threading.Thread(target=self.receive, args=(self.subscriber,), daemon=True)
        self.thread.start()

    def receive(self, rpc):
        with contextlib.suppress(Gone, OSError):
            while True:
                event = rpc.event()
                if event:
                    self.fact("event", event["sequence"], event["eventId"])

    def restart(self):
        self.stop()
        self.thread.join()
        self.start()
        self.listen()
        return self

    def note_owners(self):
        """Owners and modes of the files that are there now: the model has none."""
        self.owners.update({os.path.relpath(p, self.dir): [st.st_uid, st.st_gid, st.st_mode & 0o777] for d, _, names in os.walk(self.dir)
                            for p in [d] + [os.path.join(d, n) for n in names] for st in [os.lstat(p)]})

    def finish(self):
        """Stops the daemon and writes the facts; the record must lead to exactly the files that are there."""
        self.stop()
        self.thread.join()
        with open(os.path.join(self.folder, "facts"), "w") as f:
            f.writelines(" ".join(map(str, fact)) + "\n" for fact in self.facts)
        with open(os.path.join(self.folder, "root"), "w") as f:
            f.write(str(self.root.st_ino))
        done = subprocess.run([STATES, self.record, str(self.root.st_ino), "-", "-", f"final={self.dir}"], stdout=subprocess.PIPE, text=True)
        recorded = {line[4:] for line in done.stdout.splitlines() if line.startswith("has ")}
        differ = [line for line in done.stdout.splitlines() if line.startswith("differs")]
        self.note_owners()
        with open(os.path.join(self.folder, "owners"), "w") as f:
            json.dump(self.owners, f)
        have = {os.path.relpath(os.path.join(d, n), self.dir) for d, _, names in os.walk(self.dir) for n in names
                if os.path.isfile(os.path.join(d, n))}
        missing = have - recorded - {"log"}
        assert not differ and not missing, f"the recorder missed something: {differ[:5]} {sorted(missing)[:5]}"
        with open(self.record, "r+b") as f:     # what is not used of it is not kept
            f.seek(24)
            f.truncate(64 + struct.unpack("=Q", f.read(8))[0])

    # Actions of scenarios.

    def outputs_known(self, rpc, process):
        """What the end of a process has acknowledged: its outputs."""
        refs = {k: o["outputRef"] for k, o in rpc.call("get_process", processId=process)["outputs"].items()}
        for ref in refs.values():
            data = rpc.output(ref)
            if data:
                self.fact("output", ref, len(data), sha(data))

    def run_one(self, rpc, command, key=None, **more):
        if key:
            more["idempotencyKey"] = key
        started = rpc.start(command, **more)
        if key:
            self.fact("key", os.geteuid(), key, started["processId"])
        rpc.wait(started["processId"])
        self.outputs_known(rpc, started["processId"])
        return started["processId"]


# ---- scenarios: each gets a folder for its record and a random generator ----

def commands(folder, rng):
    """Small and large output, idempotency keys, a stop and a start in between."""
    home = Recorded(folder)
    for part in range(2):
        with home.rpc() as rpc:
            for n in range(rng.randrange(2, 5)):
                home.run_one(rpc, ["echo", f"number {n} " + "x" * rng.randrange(300)], key=f"k-{part}-{n}")
            home.run_one(rpc, ["sh", "-c", f"seq 1 {rng.randrange(8000, 30000)}; echo bad >&2; exit 3"], key=f"large-{part}")
            together = [rpc.start(["sh", "-c", f"echo {n}; echo {n} >&2"])["processId"] for n in range(3)]
            for process in together:
                rpc.wait(process)
                home.outputs_known(rpc, process)
        if part == 0:
            home.restart()
    return home


def approvals(folder, rng):
    """Questions that are answered, once with a rule that is written to the policy file."""
    text = json.dumps({"permissions": {"defaultMode": "untrusted"}}, indent=4) + "\n"
    home = Recorded(folder, {"policy.json": text})
    versions = ["-", sha(text.encode())]
    home.fact("file", "policy.json", versions[1])
    with home.rpc() as rpc:
        for n, (decision, scope) in enumerate((("allow", "once"), ("allow", "always"), ("deny", "once"), ("allow", "always"))):
            started = rpc.call("start_process", command=["rm", "-f", f"file-{n}"], cwd=home.work, idempotencyKey=f"a-{n}")
            assert started["status"] == "waiting_permission", started
            home.fact("key", os.geteuid(), f"a-{n}", started["processId"])
            begin = home.mark()
            home.end_facts("file", "policy.json")
            rpc.call("respond_action", actionId=started["actionId"], decision=decision, **({"scope": scope} if scope != "once" else {}))
            end = home.mark()
            new = sha(content(os.path.join(home.dir, "policy.json")))
            home.fact("file", "policy.json", f"{versions[-1]},{new}", since=begin, until=end)
            home.fact("file", "policy.json", new, since=end)
            versions.append(new)
            if decision == "allow":
                rpc.wait(started["processId"])
                home.outputs_known(rpc, started["processId"])
    return home


def tasks(folder, rng):
    """Tasks with commands and reports, a session, a turn of a client."""
    home = Recorded(folder)
    with home.rpc() as rpc:
        for n in range(rng.randrange(2, 4)):
            task = rpc.call("create_task", objective=f"objective {n}", commandLine=f"echo task {n}", autoComplete=True, idempotencyKey=f"t-{n}")["taskId"]
            home.fact("key", os.geteuid(), f"t-{n}", task)
            process = rpc.call("start_task", taskId=task)["processId"]
            rpc.wait(process)
            until("the task ends", lambda: rpc.call("get_task", taskId=task)["status"] == "completed")
            home.outputs_known(rpc, process)
        session = rpc.call("create_session", title="t", idempotencyKey="s")["sessionId"]
        home.fact("key", os.geteuid(), "s", session)
        other = rpc.call("create_task", objective="by hand", sessionId=session)["taskId"]
        rpc.call("start_task", taskId=other)
        for n in range(3):
            rpc.call("append_task_progress", taskId=other, summary=f"step {n}")
        rpc.call("complete_task", taskId=other)
    return home


SAMPLE = {"tree/edited": "one\ntwo\n", "tree/deep/other": "other\n" * 400, "tree/kept": "kept\n",
          **{f"tree/deep/old{i}": f"old {i}\n" for i in range(1, 7)}}
SCRIPT = "echo TWO >>edited; seq 1 3000 >deep/other; echo new >new; mkdir more; seq 1 500 >more/file;" \
         "for i in 1 2 3 4 5 6; do echo many $i >deep/many$i; echo two >>deep/old$i; done"


def copy_on_write(folder, rng):
    """Changes of a run are applied and undone: no file is torn, no change is lost before the undo, and what was reported is there."""
    home = Recorded(folder, SAMPLE)
    with home.rpc() as rpc:
        from test_cow import old_enough
        old_enough(home)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(home.dir, "mark"))
        started = rpc.start(["sh", "-ec", SCRIPT], cwd=home.work, cow=True)
        assert rpc.wait(started["processId"])["exitCode"] == 0
        upper = next(d for d, _, files in os.walk(os.path.join(home.dir, "cow")) if "edited" in files)
        home.add_files(os.path.relpath(upper, home.dir))
        before = home.mark()
        names = ("edited", "deep/other", "new", "more/file", *(f"deep/{n}{i}" for n in ("many", "old") for i in range(1, 7)))
        new = {n: sha(content(os.path.join(upper, n))) for n in names}
        old = {n: sha(SAMPLE[f"tree/{n}"].encode()) if f"tree/{n}" in SAMPLE else "-" for n in names}
        answer = rpc.call("apply_changes", processId=started["processId"])
        after = home.mark()
        assert not answer["conflicts"], answer
        home.run_one(rpc, ["echo", "after"], key="after")
        home.note_owners()
        undo = home.mark()
        answer = rpc.call("undo_changes", processId=started["processId"])
        undone = home.mark()
        assert not answer["conflicts"], answer
        for n in names:
            home.fact("file", f"tree/{n}", f"{old[n]},{new[n]}", since=before, until=after)
            home.fact("file", f"tree/{n}", new[n], since=after, until=undo)
            home.fact("file", f"tree/{n}", f"{old[n]},{new[n]}", since=undo, until=undone)
            home.fact("file", f"tree/{n}", old[n], since=undone)
            home.fact("sum", f"change-of-{n}", f"tree/{n}={new[n]}", since=before, until=undo)
            home.fact("sum", f"change-of-{n}", f"{os.path.relpath(upper, home.dir)}/{n}={new[n]}", since=before, until=undo)
        home.fact("file", "tree/kept", sha(SAMPLE["tree/kept"].encode()), since=before)
        with open(os.path.join(folder, "undo"), "w") as f:
            json.dump({"home": home.dir, "processId": started["processId"], "since": before, "files": {f"tree/{n}": old[n] for n in names}}, f)
    return home


def maintenance(folder, rng):
    """Prune, compact and rebuild, with work before, between and after."""
    home = Recorded(folder)
    with home.rpc() as rpc:
        for n in range(rng.randrange(4, 8)):
            home.run_one(rpc, ["sh", "-c", f"seq 1 {rng.randrange(1, 3000)}"], key=f"b-{n}")
        last = rpc.call("initialize")["lastSequence"]
        home.end_facts("output")    # outputs of processes that ended before are removed, too
        home.fact("floor", last - 5)
        rpc.call("prune_store", beforeSequence=last - 5)
        home.run_one(rpc, ["echo", "pruned"], key="pruned")
        rpc.call("compact_store")
        home.run_one(rpc, ["seq", "1", "5000"], key="compacted")
        rpc.call("rebuild_store")
        home.run_one(rpc, ["echo", "rebuilt"], key="rebuilt")
        rpc.call("compact_store")
    return home


def backup(folder, rng):
    """A backup that was reported as done is complete."""
    home = Recorded(folder)
    with home.rpc() as rpc:
        for n in range(3):
            home.run_one(rpc, ["sh", "-c", f"seq 1 {rng.randrange(1, 9000)}"], key=f"b-{n}")
        last = rpc.call("initialize")["lastSequence"]
        harness.cli("store", "backup", os.path.join(home.dir, "copy"), env={**home.env, "BAILIFF_HOME": home.dir}, cwd=home.work)
        home.fact("backup", "copy", last)
        home.run_one(rpc, ["echo", "after"], key="after")
    return home


def upgrade(folder, rng):
    """A store of an earlier version is upgraded by the next start, in several transactions."""
    home = Recorded(folder)
    with home.rpc() as rpc:
        for n in range(3):
            home.run_one(rpc, ["seq", "1", str(rng.randrange(1, 9000))], key=f"u-{n}")
        while rpc.call("initialize")["lastSequence"] < 400:
            for process in [rpc.start(["true"])["processId"] for _ in range(8)]:
                rpc.wait(process)
    home.stop()
    home.thread.join()
    subprocess.run([STATES, "age", os.path.join(home.dir, "store"), "3"], env={**os.environ, **home.env}, check=True)
    home.start()
    home.listen()
    with home.rpc() as rpc:
        home.run_one(rpc, ["echo", "upgraded"], key="upgraded")
    return home


SCENARIOS = {f.__name__: f for f in (commands, approvals, tasks, copy_on_write, maintenance, backup, upgrade)}


# ---- the states of a record ----

class Shares:
    """power_states on every processor."""

    def __init__(self, folder, options, count, parts=0):
        """`count` processes, and together they take all states, or `count` of `parts`."""
        self.states = self.distinct = self.failed = 0
        self.failures, self.figures = [], [(0, 0, 0)] * count
        self.work = os.path.join(folder, "work")
        os.makedirs(self.work, exist_ok=True)
        self.argv = [STATES, os.path.join(folder, "record"), content(os.path.join(folder, "root")).decode(), os.path.join(folder, "facts"), self.work]
        self.children = [subprocess.Popen([*self.argv, f"share={n}/{parts or count}", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                         for n in range(count)]

    def read(self, number, on_progress):
        for line in self.children[number].stdout:
            words = line.split()
            if words and words[0] == "fail":
                self.failures.append((words[1], " ".join(words[2:])))
            elif len(words) == 5 and words[0].isdigit():
                self.figures[number] = tuple(map(int, words[:3]))
                self.states, self.distinct, self.failed = (sum(f[i] for f in self.figures) for i in range(3))
                on_progress()
            else:
                self.failures.append(("0:0", line.strip()))
        self.children[number].wait()

    def run(self, on_progress=lambda: None):
        threads = [threading.Thread(target=self.read, args=(n, on_progress)) for n in range(len(self.children))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return self


def empty(folder, keep=()):
    """`keep`: directories that are emptied and stay."""
    for entry in list(os.scandir(folder)):
        if entry.name in keep:
            empty(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def real_start(state, folder):
    """A real daemon on a copy of a state: it starts, the store verifies, a command runs, it stops. Owners are those of the files that were recorded."""
    owners = json.loads(content(os.path.join(folder, "owners")))
    undo = json.loads(content(os.path.join(folder, "undo"))) if os.path.exists(os.path.join(folder, "undo")) else None
    home = Home(start=False, at=undo and undo["home"])
    empty(home.dir, keep=["tree"])
    shutil.copytree(state, home.dir, symlinks=True, dirs_exist_ok=True)
    for d, _, files in os.walk(home.dir):
        for path in [d] + [os.path.join(d, f) for f in files]:
            like = os.path.relpath(path, home.dir)
            known = like in owners
            while like not in owners:
                like = os.path.dirname(like) or "."
            os.lchown(path, *owners[like][:2])
            if not os.path.islink(path):
                os.chmod(path, owners[like][2] if known else 0o700 if os.path.isdir(path) else 0o600)
    with home:
        home.start()
        with home.rpc() as rpc:
            assert rpc.call("verify_store")["ok"] is True
            harness.check_log(rpc.events(after=None), first=rpc.call("list_events", limit=1)["firstSequence"])
            assert rpc.run(["true"])[1]["exitCode"] == 0
            # Before the apply there is nothing to undo, and at first not even every file.
            if undo and int(os.path.basename(state).split("-")[1]) >= undo["since"]:
                undo_all(home, rpc, undo["processId"], undo["files"])


def undo_all(home, rpc, process, files):
    """Whether nothing was applied yet, or some, or all, or some of it was undone: after an undo everything is as it was at first."""
    try:
        answer = rpc.call("undo_changes", processId=process)
        assert not answer["conflicts"], f"undo: {answer}"
    except RpcError as e:       # there is nothing to undo yet, or it is undone
        assert e.data["category"] in ("not_found", "invalid_state"), e
    for name, old in files.items():
        path = os.path.join(home.dir, name)
        have = sha(content(path)) if os.path.exists(path) else "-"
        assert have == old, f"{name} was not restored by an undo ({have[:12]})"


def keep_record(folder, to):
    os.makedirs(to, exist_ok=True)
    for name in ("record", "facts", "root", "owners", "log"):
        shutil.copy(os.path.join(folder, name), to)
    return to


class PowerCuts:
    def __init__(self, proof):
        self.lock = threading.Lock()
        self.proof, self.real, self.points, self.per, self.caught, self.tried = proof, 0, 0, {}, 0, 0
        self.parallel = 3 * len(os.sched_getaffinity(0))    # a store's threads wait for each other most of the time

    def failures(self, folder, name, shares, round_seed):
        kept = None
        for case, what in shares.failures:
            record = os.path.join(self.proof.out, f"record-{name}-{round_seed}")
            kept = kept or keep_record(folder, record)
            self.proof.fail(f"{name}-{round_seed}-{case}", f"{name}, cut {case}: {what}",
                            ["python3", "tests/prove/power_cut.py", "--seed", str(round_seed), "--record", os.path.relpath(record, ROOT), "--case", case])

    def one_record(self, name, seed, budget, states):
        """Records a scenario and checks its states."""
        with tempfile.TemporaryDirectory(prefix="bl-power-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            os.chmod(folder, 0o755)
            with SCENARIOS[name](folder, random.Random(seed)) as home:
                home.finish()
                done = self.proof.done
                # As a test a sample of the states, but of all points.
                options = [f"seed={seed}", f"seconds={int(max(3, budget))}", *([f"states={states}"] if states else []),
                           *(["variants=4"] if self.proof.as_test else ["variants=40", "dump=40" if name == "copy_on_write" else "dump=400"])]
                shares = Shares(folder, options, self.parallel, 12 * self.parallel if self.proof.as_test else 0)
                shares.run(lambda: self.proof.add(done + shares.distinct - self.proof.done, f"{name}: {shares.states} checks"))
                self.proof.add(done + shares.distinct - self.proof.done)
                self.per[name] = self.per.get(name, 0) + shares.distinct
                self.points += struct.unpack("=Q", content(home.record)[32:40])[0]
                self.failures(folder, name, shares, seed)
                # A run's changes belong to the directories of its time, so an undo needs the home that was recorded.
                at_once = 1 if os.path.exists(os.path.join(folder, "undo")) else self.parallel
                with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                    dumped = [os.path.join(shares.work, d) for d in os.listdir(shares.work) if d.startswith("dump-")]
                    list(pool.map(lambda state: self.start_real(state, name, seed, folder), sorted(dumped)))
                # A sample of the states that a disk would leave whose syncs do nothing, after the first acknowledgement.
                control = Shares(folder, [f"seed={seed}", "variants=4", "seconds=20", "control=syncs"], 1, 37 if self.proof.as_test else 23).run()
                self.caught, self.tried = self.caught + control.failed, self.tried + control.states
                home.guard = None

    def start_real(self, state, name, seed, folder):
        try:
            real_start(state, folder)
            with self.lock:
                self.real += 1
        except (AssertionError, RpcError, Gone, OSError) as e:
            case = os.path.basename(state)[5:].replace("-", ":")
            record = keep_record(folder, os.path.join(self.proof.out, f"record-{name}-{seed}"))
            self.proof.fail(f"{name}-{seed}-{case}-daemon", f"{name}, cut {case}: a real daemon: {e}",
                            ["python3", "tests/prove/power_cut.py", "--seed", str(seed), "--record", os.path.relpath(record, ROOT), "--case", case])

    def run(self, only):
        proof, number = self.proof, 0
        names = [only] if only else ["commands", "copy_on_write"] if proof.as_test else list(SCENARIOS)
        while proof.has_time() or (proof.as_test and number < len(names)):
            name = names[number % len(names)]
            left = proof.left_s()
            budget = 120 if left is None else min(120, max(2.0, left / max(1, len(names) - number)))
            self.one_record(name, proof.seed + number, budget, proof.cases - proof.done if proof.cases else 0)
            number += 1
            if proof.failed > 200 or (proof.as_test and number == len(names)):
                break
        figures = {"records": number, "writes and syncs": self.points, "real starts": self.real,
                   "states by scenario": ", ".join(f"{k} {v}" for k, v in self.per.items())}
        return proof.finish("everything acknowledged survives a power cut", figures, (self.caught, self.tried))


def repeat(proof, folder):
    """One state again, by power_states and by a real daemon."""
    with tempfile.TemporaryDirectory(prefix="bl-power-") as work:
        options = [f"seed={proof.seed}", f"only={proof.case}", "dump=1", f"keep={os.path.join(proof.out, 'state')}"]
        status = subprocess.run([STATES, os.path.join(folder, "record"), content(os.path.join(folder, "root")).decode(), os.path.join(folder, "facts"), work,
                                 *options]).returncode
        print(f"# as it was after the check: {os.path.join(proof.out, 'state')}", flush=True)
        real_start(os.path.join(work, "dump-" + proof.case.replace(":", "-")), folder)
    return status


def main():
    def more(parser):
        parser.add_argument("--scenario", choices=SCENARIOS)
        parser.add_argument("--record")
    proof = Proof("power_cut", more=more)
    if proof.options.record and proof.case:
        return repeat(proof, proof.options.record)
    return PowerCuts(proof).run(proof.options.scenario)


if __name__ == "__main__":
    sys.exit(main())
