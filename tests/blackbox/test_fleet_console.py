"""A node's view of its fleet: get_fleet, and the console's page."""

import json
import os
import pathlib
import tempfile

import harness
from browser import Console
from fleet import Server
from fleet_bus import Bus
from harness import Home, until
from test_console_views import is_clean, shows
from test_fleet import Node, running, state

NOT_ALLOWED, UNAVAILABLE = "not_allowed", "unavailable"
SECRET = "swordfish"


def reported(rpc):
    try:
        return rpc.call("get_fleet")
    except harness.RpcError as e:
        assert e.data["category"] == UNAVAILABLE, e
        return None


def listed(rpc, condition=lambda fleet: True):
    return until("the fleet is listed", lambda: next((f for f in [reported(rpc)] if f and "nodes" in f and condition(f)), None))


def category(rpc, method, **params):
    return rpc.fails(method, **params).data["category"]


def test_daemon_without_a_fleet_reports_that(home):
    with home.rpc() as rpc:
        assert category(rpc, "get_fleet") == UNAVAILABLE


def test_node_lists_nodes_and_tasks_without_secrets():
    with Server() as s, Node(s, "n1") as n, Node(s, "n2") as other, n.rpc() as rpc:
        s.fleet("submit", "--id", "t1", "--title", SECRET, "--env", f"X={SECRET}", "--label", "node=n1", "--", "echo", SECRET)
        s.fleet("submit", "--id", "t2", "--label", "node=n2", "--", "sh", "-c", f"exit 3 # {SECRET}")
        s.fleet("submit", "--id", "t3", "--label", "node=none", "--agent", SECRET)
        state(s, "t1", "completed")
        state(s, "t2", "failed")
        fleet = listed(rpc, lambda f: [t["state"] for t in f["tasks"]] == ["queued", "failed", "completed"] and len(f["nodes"]) == 2)
        assert fleet["node"] == "n1" and fleet["connected"] and fleet["ageMs"] < 60000 and fleet["taskCount"] == 3, fleet
        assert {m["node"]: m["labels"]["node"] for m in fleet["nodes"]} == {"n1": "n1", "n2": "n2"}, fleet["nodes"]
        t3, t2, t1 = fleet["tasks"]
        assert (t1["taskId"], t1["node"], t1["submitter"], t1["submitterKey"], t1["attempt"], t1["exitCode"]) == ("t1", "n1", "tester", s.key, 1, 0), t1
        assert (t2["node"], t2["exitCode"], t2["attempts"][0]["state"], t2["attempts"][0]["node"]) == ("n2", 3, "failed", "n2"), t2
        assert t1["localTaskId"] == n.local("t1")[0]["taskId"] and "localTaskId" not in t2, (t1, t2)
        assert t3["kind"] == "agent" and "node" not in t3, t3
        assert SECRET not in json.dumps(fleet), fleet
        assert other.local("t2") and not n.local("t2")


def test_malformed_entries_of_other_nodes_are_reduced_to_valid_fields():
    with Server() as s, Node(s, "n1") as n, n.rpc() as rpc, Bus(s.env["BAILIFF_FLEET"]) as bus:
        listed(rpc)
        odd = {"node": "odd", "running": {"toString": 1}, "arch": ["x"], "draining": "no", "free": 3, "labels": {"a": "b", "c": {}, "d e": "f"}, "cpus": 2, "more": SECRET}
        bus.request("$KV.bailiff_nodes.odd", json.dumps(odd).encode())
        fleet = listed(rpc, lambda f: len(f["nodes"]) == 2)
        assert [m for m in fleet["nodes"] if m["node"] == "odd"] == [{"node": "odd", "cpus": 2, "labels": {"a": "b"}, "free": {}}], fleet["nodes"]


def test_only_bailiff_fleet_can_call_report_fleet():
    with Server() as s, Node(s, "n1") as n, n.rpc() as rpc:
        listed(rpc)
        assert category(rpc, "report_fleet", node="n9", connected=True, nodes=[], tasks=[]) == NOT_ALLOWED
        assert rpc.call("get_fleet")["node"] == "n1"
        assert rpc.fails("report_fleet", node="n9", connected=True, nodes=[]).data["field"] == "tasks"


def test_adopted_child_of_the_guard_cannot_call_report_fleet():
    """As pid 1 of a container the guard adopts orphans; here the shell that becomes the guard leaves it a child."""
    with tempfile.TemporaryDirectory() as d:
        orphan = f"""(until [ -e {d}/home ]; do sleep 0.05; done; export BAILIFF_HOME=$(cat {d}/home)
            exec {harness.CLI} call --json report_fleet '{{"node":"n9","connected":true,"nodes":[],"tasks":[]}}') > {d}/out 2>&1 & exec "$@\""""
        with Home(through=("sh", "-c", orphan, "sh")) as home, home.rpc() as rpc:
            with open(f"{d}/new", "w") as f:
                f.write(home.dir)
            os.rename(f"{d}/new", f"{d}/home")
            assert NOT_ALLOWED in until("it was answered", lambda: pathlib.Path(d, "out").read_text().strip())
            assert category(rpc, "get_fleet") == UNAVAILABLE


def test_lists_recover_after_a_restart_and_report_a_lost_server():
    with Server() as s, Node(s, "n1") as n, n.rpc() as rpc:
        listed(rpc)
        n.kill_part("fleet")
        until("another one reports", lambda: reported(rpc))
        s.process.kill()
        s.process.wait()
        lost = until("the loss is reported", lambda: next((f for f in [reported(rpc)] if f and not f["connected"]), None))
        assert lost["problem"], lost


def test_console_page_shows_the_fleet():
    with Server() as s, Node(s, "n1") as n, Console(n) as console:
        s.fleet("submit", "--id", "done", "--", "echo", SECRET)
        state(s, "done", "completed")
        s.fleet("submit", "--id", "long", "--", "sleep", "600")
        running(n, "long")
        tab = console.open("#/fleet")
        for text in ("n1", "ready", "1 of 4", "node=n1 pool=ci", "long", "running", "done", "completed", "tester"):
            shows(tab, text)
        assert SECRET not in tab.evaluate(script="return document.body.innerText")
        tab.click(selector="main >> text=long")
        for text in ("Task of the fleet long", "tester", s.key, "On this node", "bailiff fleet logs -f long", "bailiff fleet cancel long"):
            shows(tab, text)
        is_clean(tab)
        tab.click(selector="main >> text='Cancel'")
        tab.click(selector="dialog >> text='Cancel it'")
        state(s, "long", "cancelled")
        shows(tab, "bailiff fleet retry long")
        with n.rpc() as rpc:
            rpc.call("drain")
            tab.click(selector="nav >> text=Fleet")
            shows(tab, "draining")
        tab.clean()


if __name__ == "__main__":
    harness.main(globals())
