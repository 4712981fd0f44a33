"""Nodes of a fleet whose parts die or are suspended: a task runs once, and a lost one is reported."""

import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile

import harness
from fleet import Server
from fleet_bus import Bus
from harness import Home, until

LEASE = 3
USER = {"fleet.user": "root"} if os.getuid() == 0 else {}


class Node(Home):
    """A daemon that is a node. Its workspaces are outside of its home, which sandboxes do not show."""

    def __init__(self, server, name, submitters=None, keys=None, options=(), **more):
        self.name, self.spaces = name, tempfile.mkdtemp(prefix="fw-")
        config = {"fleet.submitters": [{"key": server.key, "name": "tester"}] if submitters is None else submitters, "fleet.workDir": self.spaces,
                  "fleet.maxTasks": 4, **USER, **(keys or {})}
        super().__init__(config, options=("--audit", "off", "--fleet", server.env["BAILIFF_FLEET"], "--fleet-node", name, "--label", f"node={name}", "--label", "pool=ci", *options), **more)

    def __exit__(self, *args):
        try:
            super().__exit__(*args)
        finally:
            shutil.rmtree(self.spaces, ignore_errors=True)

    def local(self, task):
        """The daemon's tasks that belong to a task of the fleet, oldest first."""
        with self.rpc() as rpc:
            return [t for t in reversed(rpc.call("list_tasks")["tasks"]) if t.get("fleet", {}).get("taskId") == task]


def state(server, task, *states):
    return until(f"{task} is {' or '.join(states)}", lambda: next((t for t in [server.show(task)] if t["state"] in states), None))


def running(node, task):
    return until(f"{task} runs", lambda: next((t for t in node.local(task) if t["status"] == "running"), None))


def test_a_task_runs_once_with_its_claim_in_the_log():
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--label", "pool=ci", "--", "sh", "-c", "echo $BAILIFF_FLEET_TOKEN")
        done = state(s, "t1", "completed")
        assert (done["node"], done["attempt"], done["exitCode"]) == ("n1", 1, 0), done
        [task] = n.local("t1")
        assert {"taskId": "t1", "token": done["token"], "submitter": "tester", "submitterKey": s.key, "node": "n1", "attempt": 1, "leaseMs": 30000} == task["fleet"], task
        with n.rpc() as rpc:
            events = [e for e in rpc.events(after=None) if e.get("taskId") == task["taskId"]]
        types = [e["type"] for e in events]
        assert types.index("task.created") < types.index("process.started") and types.count("process.started") == 1, types
        assert events[types.index("task.created")]["payload"]["fleet"]["token"] == done["token"]
        assert s.fleet("logs", "t1").text == f"{done['token']}\n"
        with Bus(s.env["BAILIFF_FLEET"]) as bus:
            until("its message is acknowledged", lambda: bus.queued() == 0)
            copies = json.loads(bus.request("$JS.API.STREAM.INFO.bailiff_events", b'{"subjects_filter":">"}'))["state"]["subjects"]
            assert list(copies) == [f"evt.n1.{task['sessionId']}"], copies
        assert s.fleet("submit", "--id", "t1", "--label", "pool=ci", "--", "sh", "-c", "echo $BAILIFF_FLEET_TOKEN").text == "t1\n"
        assert len(n.local("t1")) == 1


def test_task_survives_the_death_of_parts_of_its_node():
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--", "sh", "-c", "echo begun; while ! [ -e go ]; do sleep 0.05; done; echo done")
        state(s, "t1", "running")
        task = until("it runs", lambda: next((t for t in n.local("t1") if t["status"] == "running"), None))
        go = os.path.join(task["command"]["cwd"], "go")
        for part in ("fleet", "runtime", "fleet"):
            pid = n.kill_part(part)
            until(f"another {part} runs", lambda: n.part(part) not in (None, pid))
            until("the daemon answers", n.answers)
        open(go, "w").close()
        done = state(s, "t1", "completed", "failed", "lost")
        assert (done["state"], done["attempt"], done["exitCode"]) == ("completed", 1, 0), (done, n.log()[-20:])
        assert s.fleet("logs", "t1").text == "begun\ndone\n"
        assert [t["taskId"] for t in n.local("t1")] == [task["taskId"]]


def test_node_suspended_beyond_its_lease_loses_the_task():
    with Server() as s, Node(s, "n1") as one, Node(s, "n2") as two:
        nodes = {"n1": one, "n2": two}
        s.fleet("submit", "--id", "t1", "--retry-lost", "1", "--lease", f"{LEASE}s", "--", "sh", "-c", "echo $BAILIFF_FLEET_TOKEN; [ -n \"$STAY\" ] || sleep 4; echo end")
        first = state(s, "t1", "running")
        n, other = nodes[first["node"]], nodes["n2" if first["node"] == "n1" else "n1"]
        task = running(n, "t1")
        fleet = n.kill_part("fleet", signal.SIGSTOP)
        try:
            # The daemon itself ends the processes, before another node can start them.
            ended = until("the daemon ends it", lambda: next((t for t in n.local("t1") if t["status"] in ("cancelled", "completed")), None))
            assert (ended["status"], ended["statusReason"]) == ("cancelled", "lease_over"), ended
            second = state(s, "t1", "completed", "failed", "lost")
        finally:
            os.kill(fleet, signal.SIGCONT)
        assert (second["state"], second["attempt"], second["node"]) == ("completed", 2, other.name), second
        assert second["token"] > task["fleet"]["token"], (second, task)
        assert [(a["state"], a["node"]) for a in second["attempts"]] == [("lost", n.name), ("completed", other.name)], second
        until("the sleeper notices", lambda: any("no longer this node's" in line or "taken away" in line for line in n.log()))
        after = s.show("t1")
        assert {k: after[k] for k in ("state", "attempt", "node", "token")} == {k: second[k] for k in ("state", "attempt", "node", "token")}, after
        begun = [e for e in events_of(other) if e["type"] == "process.started"][0]["timestamp"]
        assert ended["endedAt"] < begun, "two attempts overlap"


def events_of(node):
    with node.rpc() as rpc:
        return [e for e in rpc.events(after=None) if e.get("taskId")]


def process_of(node, task):
    with node.rpc() as rpc:
        return rpc.call("get_process", processId=running(node, task)["worker"]["processId"])


def test_a_stopped_runtime_does_not_prolong_a_lease():
    """The guard has a timer that only renewals move."""
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--lease", "2s", "--", "sleep", "600")
        process = process_of(n, "t1")
        runtime = n.kill_part("runtime", signal.SIGSTOP)
        try:
            until("the guard ends it", lambda: not harness.alive(process["pid"], process["startTime"]))
        finally:
            os.kill(runtime, signal.SIGCONT)
        lost = state(s, "t1", "lost", "failed", "completed")
        assert lost["state"] == "lost" and lost["attempt"] == 1, lost
        assert n.local("t1")[0]["statusReason"] == "lease_over", n.local("t1")


def test_restarts_of_the_runtime_do_not_prolong_a_lease():
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--lease", f"{LEASE}s", "--", "sleep", "600")
        process = process_of(n, "t1")
        fleet = n.kill_part("fleet", signal.SIGSTOP)
        try:
            while harness.alive(process["pid"], process["startTime"]):
                pid = n.kill_part("runtime")
                until("another runtime runs", lambda: n.part("runtime") not in (None, pid))
                until("the daemon answers", n.answers)
            ended = until("it has ended", lambda: next((t for t in n.local("t1") if t["status"] in ("cancelled", "lost")), None))
        finally:
            os.kill(fleet, signal.SIGCONT)
        assert ended["statusReason"] == "lease_over", ended
        assert len([e for e in events_of(n) if e["type"] == "task.lease.updated"]) == 1
        assert state(s, "t1", "lost", "failed")["state"] == "lost"


def test_lost_task_is_not_rerun_automatically():
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--lease", "2s", "--", "sleep", "600")
        state(s, "t1", "running")
        running(n, "t1")   # one that was not started yet would only go back to the queue
        fleet = n.kill_part("fleet", signal.SIGSTOP)
        until("the daemon ends it", lambda: n.local("t1")[0]["status"] == "cancelled")
        os.kill(fleet, signal.SIGCONT)
        lost = state(s, "t1", "lost")
        assert lost["attempt"] == 1 and len(n.local("t1")) == 1, lost
        s.fleet("retry", "t1")
        again = state(s, "t1", "running")
        assert again["attempt"] == 2, again
        s.fleet("cancel", "t1")
        assert state(s, "t1", "cancelled", "failed", "lost")["state"] == "cancelled"


STREAMS = ("bailiff_queue", "bailiff_events", "bailiff_blobs", "KV_bailiff_tasks", "KV_bailiff_classes", "KV_bailiff_nodes", "KV_bailiff_starts")


def settings(s):
    """Of the server's streams: name → configuration."""
    with Bus(s.env["BAILIFF_FLEET"]) as bus:
        return {name: json.loads(bus.request("$JS.API.STREAM.INFO." + name)).get("config") for name in STREAMS}


def test_node_protects_streams_created_by_an_earlier_version():
    with Server() as s:
        with Bus(s.env["BAILIFF_FLEET"]) as bus:
            for name, subject, retention in (("bailiff_queue", "bailiff.queue.>", "workqueue"), ("KV_bailiff_tasks", "$KV.bailiff_tasks.>", "limits")):
                config = {"name": name, "subjects": [subject], "retention": retention, "storage": "file", "num_replicas": 1, "max_msgs_per_subject": -1, "max_age": 0}
                made = json.loads(bus.request("$JS.API.STREAM.CREATE." + name, json.dumps(config).encode()))
                assert "error" not in made, made
        s.fleet("submit", "--id", "t1", "--", "true")
        assert not settings(s)["bailiff_queue"].get("deny_delete"), "a client changes nothing"
        with Node(s, "n1"):
            state(s, "t1", "completed")
            assert "differs" not in s.fleet("nodes", "--json").json[0]
            now = settings(s)
            assert {name: (c["deny_delete"], c["deny_purge"]) for name, c in now.items()} == {name: (True, name != "KV_bailiff_tasks") for name in STREAMS}, now
            assert now["bailiff_queue"]["retention"] == "workqueue", now


def test_a_node_reports_streams_that_it_cannot_change():
    with Server() as s:
        s.fleet("submit", "--id", "t1", "--", "true")
        with Node(s, "n1", keys={"fleet.replicas": 3}) as n:
            state(s, "t1", "completed")
            entry, = s.fleet("nodes", "--json").json
            assert "bailiff_queue: 1 replica instead of 3" in entry["differs"] and "KV_bailiff_starts" in entry["differs"], entry
            shown = s.fleet("nodes").err.decode()
            assert "node n1" in shown and "1 replica instead of 3" in shown, shown
            assert [line for line in n.log() if "1 replica instead of 3" in line]
            assert {c["num_replicas"] for c in settings(s).values()} == {1}
            with Bus(s.env["BAILIFF_FLEET"]) as bus:
                for name, config in settings(s).items():
                    changed = json.loads(bus.request("$JS.API.STREAM.UPDATE." + name, json.dumps(dict(config, num_replicas=3)).encode()))
                    if "error" in changed:
                        return  # a server that does not store a number of replicas that it cannot have
            until("the node no longer reports them", lambda: "differs" not in s.fleet("nodes", "--json").json[0])


def test_cancel_by_another_key_reports_the_nodes_answer():
    with Server() as s, Bus(s.env["BAILIFF_FLEET"]) as bus, Bus(s.env["BAILIFF_FLEET"]) as node:
        other = {"HOME": s.work}
        s.fleet("key", env=other)
        for task in ("t1", "t2", "t3"):
            s.fleet("submit", "--id", task, "--", "true")
            bus.overwrite(task, dict(bus.document(task), state="running", node="n1", claim="c1", attempt=1))
        s.fleet("cancel", "t1")
        asked = bus.document("t1")["cancel"]
        kept = s.fleet("cancel", "t1", env=other, status=1).err.decode()
        assert "whether task t1 will be cancelled is not known" in kept, kept
        assert "it does not answer" in kept and "was left as it is" in kept and bus.document("t1")["cancel"] == asked, kept

        node.subscribe("bailiff.node.n1.cancel")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            def answer(header, *ends):
                node.receive()
                for task in ends:
                    bus.overwrite(task, dict(bus.document(task), state="cancelled"))
                node.answer(json.dumps(header).encode() + b"\n")
            answered = pool.submit(answer, {"ok": False, "code": "not_found", "error": "there is no such task here"})
            stored = s.fleet("cancel", "t2", env=other, status=1).err.decode()
            answered.result()
            assert "there is no such task here" in stored and "does not answer" not in stored and "the request is stored" in stored, stored
            assert bus.document("t2")["cancel"]["key"] != asked["key"]

            answered = pool.submit(answer, {"ok": True}, "t3")
            assert s.fleet("cancel", "--json", "t3", env=other).json == [{"taskId": "t3", "result": "cancelling"}]
            answered.result()
            assert "cancel" not in bus.document("t3"), "it has ended, so nothing is written"
        assert "had ended already: cancelled" in s.fleet("cancel", "t3", env=other).err.decode()

        # The node where it ran does not answer: the retry is stored, and its effect is not known.
        bus.overwrite("t1", dict(bus.document("t1"), state="lost"))
        retried = s.fleet("retry", "--json", "t1", env=other, status=1)
        assert retried.json == [{"taskId": "t1", "result": "unconfirmed"}], retried.json
        assert "whether task t1 will run again is not known" in json.loads(retried.err)["error"]["message"], retried.err
        assert bus.document("t1")["state"] == "queued"


def free_ports(count):
    """Below the range of ephemeral ports, so that the kernel does not hand them out before the servers bind them."""
    with contextlib.ExitStack() as held:
        ports = []
        while len(ports) < count:
            x = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                x.bind(("127.0.0.1", random.randrange(20000, 32000)))
                ports.append(x.getsockname()[1])
        return ports


class Cluster(Server):
    """Three servers; clients connect to the first."""

    def arguments(self):
        ports = free_ports(3)
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
        options = [["-n", f"s{i}", "-cluster", f"nats://127.0.0.1:{port}", "-cluster_name", "c", "-routes", routes] for i, port in enumerate(ports)]
        self.others = [subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", os.path.join(self.dir, f"js{i}"), *options[i]],
                                        env=harness.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in (1, 2)]
        return options[0]

    def __exit__(self, *args):
        for other in self.others:
            other.terminate()
        for other in self.others:
            other.wait(harness.PATIENCE)
        super().__exit__(*args)


def test_node_adds_replicas_to_streams_created_by_a_client():
    def entry(s, name):
        """Also while a stream has no leader, because it gets replicas."""
        nodes = s.fleet("nodes", "--json", status=None)
        return next((n for n in nodes.json if n["node"] == name), None) if nodes.status == 0 else None

    def replicas(s):
        return {c and c["num_replicas"] for c in settings(s).values()}

    with Cluster() as s:
        until("the cluster has a leader", lambda: s.fleet("list", status=None).status == 0)
        until("all streams have one replica", lambda: replicas(s) == {1})
        for name, wanted in (("n1", 3), ("n2", 1)):
            with Node(s, name, keys={"fleet.replicas": wanted}):
                until("the node is listed", lambda: entry(s, name))   # noqa: B023
                until("all streams have three", lambda: replicas(s) == {3})
                until("the node sees that", lambda: "differs" not in (entry(s, name) or {"differs": "not listed"}))   # noqa: B023


def test_two_daemons_cannot_share_a_name():
    with Server() as s, Node(s, "n1") as one, Node(s, "n1") as two:
        def refused(node):
            return any("another daemon is node 'n1'" in line for line in node.log())
        second = until("one of them is refused", lambda: next((n for n in (one, two) if refused(n)), None))
        first = two if second is one else one
        s.fleet("submit", "--id", "t1", "--", "true")
        assert state(s, "t1", "completed", "failed", "lost")["state"] == "completed"
        pid = first.kill_part("fleet")
        until("another fleet process runs", lambda: first.part("fleet") not in (None, pid))
        s.fleet("submit", "--id", "t2", "--", "true")
        assert state(s, "t2", "completed", "failed", "lost")["state"] == "completed"
        assert (len(first.local("t1")), len(first.local("t2")), second.local("t1"), second.local("t2")) == (1, 1, [], [])
        assert not refused(first), first.log()


def test_two_daemons_cannot_share_workspaces():
    with Server() as s, Node(s, "n1") as one:
        until("the folder has an owner", lambda: os.path.exists(os.path.join(one.spaces, "n1", ".owner")))
        with Node(s, "n1", keys={"fleet.workDir": one.spaces}) as two:
            line = until("the second is refused", lambda: next((line for line in two.log() if "workspaces of another daemon" in line), None))
            assert "fleet.workDir" in line and "fleet.node" in line and "takes no tasks of a fleet" in line, line
            until("its process has ended", lambda: two.part("fleet") is None)


def test_old_workspaces_are_removed():
    with Server() as s, Node(s, "n1", keys={"fleet.keepHours": 0}) as n:
        folder = os.path.join(n.spaces, "n1")
        s.fleet("submit", "--id", "t1", "--", "sh", "-c", "mkdir -p a/b; touch a/b/c; ln -s / a/root; chmod 0 a/b")
        assert state(s, "t1", "completed", "failed", "lost")["state"] == "completed"
        s.fleet("submit", "--id", "t2", "--", "sleep", "600")
        cwd = running(n, "t2")["command"]["cwd"]
        os.mkdir(os.path.join(folder, "task_" + 24 * "a"))     # as a crash leaves it
        os.symlink(n.work, os.path.join(folder, "task_" + 24 * "b"))
        os.mkdir(os.path.join(folder, "mine"))
        n.kill_part("fleet")    # the next one looks at its start
        until("the others are removed", lambda: sorted(os.listdir(folder)) == sorted([".owner", "mine", os.path.basename(cwd)]))
        assert os.path.isdir(n.work)


def test_a_task_prefers_a_node():
    with Server() as s, Node(s, "n1"), Node(s, "n2"):
        until("both are there", lambda: len(s.fleet("nodes", "--json").json) == 2)

        def node_of(task, near):
            s.fleet("submit", "--id", task, "--near", near, "--", "true")
            return state(s, task, "completed", "failed", "lost")["node"]
        found = [node_of(f"n{i}", "n2") for i in range(3)]
        found += [node_of(f"t{i}", f"n{found.index('n2')}") for i in range(3)]
        assert found.count("n2") >= 5, found    # a node that is busy for three seconds loses one
        s.fleet("submit", "--id", "t9", "--near", "gone", "--", "true")
        assert state(s, "t9", "completed", "failed", "lost")["state"] == "completed"


def test_a_forged_task_does_not_run():
    with Server() as s, Bus(s.env["BAILIFF_FLEET"]) as bus:
        for task in ("forged", "moved", "honest"):
            s.fleet("submit", "--id", task, "--", "true")
        documents = {task: bus.document(task) for task in ("forged", "moved", "honest")}
        forged = documents["forged"]
        forged["spec"] = forged["spec"].replace('"true"', '"/bin/false"')
        bus.overwrite("forged", forged)
        bus.overwrite("moved", dict(documents["honest"]))   # a valid signature, for another task
        with Node(s, "n1") as n:
            assert state(s, "honest", "completed", "failed")["state"] == "completed"
            until("what is forged was refused", lambda: bus.queued() == 0)
            assert bus.document("forged")["state"] == "failed" and "signature" in bus.document("forged")["reason"]
            assert bus.document("moved")["state"] == "failed"
            assert not n.local("forged") and len(n.local("honest")) == 1


def test_ended_task_does_not_run_again_if_its_document_is_rewritten():
    with Server() as s, Bus(s.env["BAILIFF_FLEET"]) as bus:
        for task, *command in (("good", "true"), ("bad", "false")):
            s.fleet("submit", "--id", task, "--retry-lost", "1", "--", *command)
        documents = {task: bus.document(task) for task in ("good", "bad")}
        with Node(s, "n1") as n:
            assert state(s, "good", "completed", "lost")["state"] == "completed"
            assert state(s, "bad", "failed", "lost")["state"] == "failed"
            until("the messages are acknowledged", lambda: bus.queued() == 0)
            again(bus, n, documents)
            assert len(n.local("good")) == 1 and len(n.local("bad")) == 1
        with Node(s, "n2") as n:    # it knows nothing of either
            documents["good"]["attempt"] = documents["bad"]["attempt"] = 1  # and what another attempt would be
            again(bus, n, documents)
            assert not n.local("good") and not n.local("bad")
        assert "already completed" in bus.document("good")["reason"] and "already started" in bus.document("bad")["reason"]
        with Node(s, "n3"):
            s.fleet("retry", "bad")     # which is signed
            assert state(s, "bad", "failed")["state"] == "failed"


def again(bus, n, documents):
    for task, document in documents.items():
        bus.overwrite(task, document)
        bus.enqueue(task)
        until("the node refuses it", lambda task=task: bus.document(task)["state"] == "lost")


def test_task_of_an_unknown_submitter_does_not_run():
    with Server() as s, Node(s, "n1", submitters=[]) as n:
        s.fleet("submit", "--id", "t1", "--", "true")
        until("the node is there", lambda: s.fleet("nodes", "--json").json)
        with Bus(s.env["BAILIFF_FLEET"]) as bus:   # it was delivered, and went back
            until("the node has looked", lambda: any(c["delivered"]["consumer_seq"] > 0 for c in consumers(bus)))
        assert s.show("t1")["state"] == "queued" and not n.local("t1")


def consumers(bus):
    return json.loads(bus.request("$JS.API.CONSUMER.LIST.bailiff_queue", b"{}"))["consumers"] or []


def test_draining_node_finishes_its_tasks_and_claims_none():
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "t1", "--", "sh", "-c", "while ! [ -e go ]; do sleep 0.05; done")
        task = until("it runs", lambda: next((t for t in n.local("t1") if t["status"] == "running"), None))
        with n.rpc() as rpc:
            rpc.call("drain")
            until("the fleet knows", lambda: [x["draining"] for x in s.fleet("nodes", "--json").json] == [True])
            s.fleet("submit", "--id", "t2", "--", "true")
            open(os.path.join(task["command"]["cwd"], "go"), "w").close()
            state(s, "t1", "completed")
            assert s.show("t2")["state"] == "queued"
            rpc.call("drain", on=False)
            state(s, "t2", "completed")


def test_a_consumer_that_does_not_answer_is_recreated():
    """As nats-server 2.9 may leave one when it is killed; here it is removed."""
    with Server() as s, Node(s, "n1"):
        s.fleet("submit", "--id", "t1", "--", "true")
        state(s, "t1", "completed")
        with Bus(s.env["BAILIFF_FLEET"]) as bus:
            [consumer] = consumers(bus)
            assert json.loads(bus.request(f"$JS.API.CONSUMER.DELETE.bailiff_queue.{consumer['name']}"))["success"]
            s.fleet("submit", "--id", "t2", "--", "true")
            state(s, "t2", "completed")
            assert [c["name"] for c in consumers(bus)] == [consumer["name"]]


def test_missing_configuration_of_a_node_is_named():
    with Server() as s:
        def refused(config, **more):
            home = Home(config, start=False, options=("--audit", "off", "--fleet", s.env["BAILIFF_FLEET"], *more.get("options", ())))
            try:
                home.spawn()
                return until("it is logged", lambda: next((line for line in home.log() if "fleet" in line and ": " in line and "info" not in line), None))
            finally:
                home.guard.kill()
                home.guard.wait()
                home.guard = None
                shutil.rmtree(home.dir, ignore_errors=True)
        if os.getuid() == 0:
            assert "fleet.user" in refused({})
            assert "fleet.workDir" in refused(USER)
        base = dict(USER, **{"fleet.workDir": s.env["HOME"]})
        assert "fleet.submiters" in refused(dict(base, **{"fleet.submiters": []}))
        assert "fleet.submitters" in refused(dict(base, **{"fleet.submitters": [{"key": "UXX", "name": "x"}]}))
        assert "NAME=VALUE" in refused(base, options=("--label", "pool"))


if __name__ == "__main__":
    harness.main(globals())
