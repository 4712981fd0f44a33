#!/usr/bin/python3
"""The pictures in docs/console.md: the console in a real browser, with a daemon that has work to show.

    BUILD=… console_pictures.py DIRECTORY          writes console-*.png there
"""

import os
import sys
import time

from agent_run import FILES, PROMPT, SCRIPT
from browser import Console
from test_agent import call, model, submit
from test_console_views import asked, settled
from test_policy import Policed

POLICY = {
    "permissions": {"ask": ["Bash(git push:*)"]},
    "models": [{"provider": "fake", "model": "fake-1", "contextTokens": 20000, "price": {"inputPerMTok": 3, "outputPerMTok": 15, "cachedPerMTok": 0.3}}],
    "limits": {"budgets": [{"name": "daily", "window": "day", "usd": 0.05}]},
}
# What a view shows when it is complete.
DRAWN = {"overview": ".plot canvas", "processes": ".tbody .tr", "terminal": ".xterm-rows >> text=type here", "approval": ".question .facts", "conversation": ".context .meter",
         "changes": ".diff .add"}
SAMPLES_S = 35     # the plots need a few samples of the gateway


def fill(home, rpc):
    """A terminal, a server in the background, denials and a question."""
    for name, text in FILES.items():
        with open(os.path.join(home.work, name), "w") as f:
            f.write(text)
    session = rpc.call("create_session", title="fix the parser")["sessionId"]
    for command in ("echo x > /etc/mine", "curl -sS https://example.com/", "sh test.sh", "ls -l"):
        rpc.wait(rpc.start(["sh", "-c", command], cwd=home.work, sessionId=session)["processId"])
    rpc.start(["sh", "-c", "i=0; while :; do i=$((i + 1)); done"], cwd=home.work, sessionId=session)
    rpc.start(["sleep", "1000"], cwd=home.work)
    # A shell in a terminal would ask, because it could run git push.
    shown = "ls -l --color; sh test.sh; echo 'type here:'; exec cat"
    terminal = rpc.start(["sh", "-c", shown], cwd=home.work, tty={"rows": 24, "cols": 80}, sessionId=session)["processId"]
    changes = "sed -i 's/-/+/' add.sh; echo 'sh add.sh 1 1' >>test.sh; echo 'Adds numbers.' >README"
    return terminal, rpc.run(["sh", "-c", changes], cwd=home.work, cow=True, sessionId=session)[0]["processId"]


def pictures(home, rpc, console, folder):
    terminal, changed = fill(home, rpc)
    turn = submit(rpc, PROMPT, options={"cwd": home.work})
    asked(rpc)
    tab = console.open("#/overview")
    ends = time.monotonic() + SAMPLES_S
    while time.monotonic() < ends:
        rpc.run(["true"], cwd=home.work)
        time.sleep(0.5)
    for name, hash in (("overview", "overview"), ("processes", "processes"), ("terminal", f"processes/{terminal}"), ("approval", "approvals"),
                       ("conversation", f"threads/{turn['threadId']}"), ("changes", f"changes/{changed}")):
        tab.hash(hash=f"#/{hash}")
        settled(tab)
        tab.wait(selector=DRAWN[name])
        time.sleep(3)       # live figures of the processes
        tab.shot(path=os.path.join(folder, f"console-{name}.png"))
    dark = console.open("#/processes", scheme="dark")
    settled(dark)
    dark.wait(selector=DRAWN["processes"])
    time.sleep(3)
    dark.shot(path=os.path.join(folder, "console-dark.png"))


if __name__ == "__main__":
    script = [*SCRIPT[:-1], {"text": "I publish the change.", "calls": [call("shell", command="git push origin main")]}, SCRIPT[-1]]
    with Policed(POLICY) as home, home.rpc() as rpc, model(home, rpc, script, contextTokens=20000), Console(home) as console:
        pictures(home, rpc, console, sys.argv[1])
