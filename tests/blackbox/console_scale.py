#!/usr/bin/python3
"""The console with many processes in the store: times and memory of the list, in a real browser against a real daemon.

    BUILD=… console_scale.py [PROCESSES]          default 100000; one in 50 runs, the others are denied by policy, which is faster
"""

import sys
import time

from browser import Console
from test_policy import Policed

BATCH = 40
SESSIONS = 50

TO_THE_END = """
const table = document.querySelector('.table');
while (document.querySelector('h1 .count').innerText.includes('+')) {
  table.scrollTop = table.scrollHeight;
  await new Promise((done) => setTimeout(done, 20));
}
return Number(table.getAttribute('aria-rowcount')) - 1;
"""


def fill(home, rpc, count):
    sessions = [rpc.call("create_session", title=f"session {n}")["sessionId"] for n in range(SESSIONS)]
    for start in range(0, count, BATCH):
        sent = [rpc.send("start_process", {"command": ["deploy" if n % SESSIONS else "true", f"row-{n}"], "cwd": home.work, "sessionId": sessions[n % SESSIONS]})
                for n in range(start, min(count, start + BATCH))]
        for request in sent:
            while request not in rpc.replies:
                rpc.pump()
            rpc.replies.pop(request)


def timed(what, do):
    began = time.monotonic()
    result = do()
    print(f"{what:32} {time.monotonic() - began:7.2f} s{f'   {result}' if result else ''}", flush=True)


def heap(what, tab):
    print(f"{what:32} {tab.heap() / 1e6:7.1f} MB", flush=True)


def measure(rpc, tab):
    def opened(hash):
        tab.hash(hash=hash)
        tab.until(script="return document.querySelectorAll('.tbody .tr').length > 5")
    timed("first rows", lambda: opened("#/processes?show=all&view=flat"))
    heap("JavaScript heap", tab)
    timed("scrolled to the end", lambda: f"{tab.evaluate(script=TO_THE_END)} rows, {tab.count(selector='.tbody > .tr')} in the document")
    heap("JavaScript heap", tab)
    tab.evaluate(script="document.querySelector('.table').scrollTop = 0")
    rpc.run(["echo", "live"])
    timed("a new process is shown", lambda: tab.wait_text(text="echo live"))

    def filtered():
        tab.fill(selector="main input[type=search]", text="row-4242")
        tab.until(script="return Number(document.querySelector('.table').getAttribute('aria-rowcount')) < 100")
    timed("filtered", filtered)

    def as_tree():
        tab.hash(hash="#/processes?show=all")
        tab.wait(selector=".tr.group")
    timed("tree by session", as_tree)
    for name in ("history", "events", "sessions"):
        timed(name, lambda: opened(f"#/{name}"))


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
    with Policed({"permissions": {"deny": ["Bash(deploy:*)"]}}) as home, home.rpc() as rpc:
        timed(f"{total} processes made", lambda: fill(home, rpc, total))
        with Console(home) as console:
            measure(rpc, console.open("#/overview"))
