#!/usr/bin/python3
"""The recording in docs/agent.md: a whole run of `bailiff agent` against the fake provider, in a repository with a failing test.

    BUILD=… agent_run.py [--write]          prints it, or puts it into the document
"""

import os
import re
import subprocess
import sys

import harness
from test_agent import call, model

DOCUMENT = os.path.join(harness.ROOT, "docs", "agent.md")
PLACE = re.compile(r"(?<=<!-- tests/blackbox/agent_run.py --write -->\n```\n)(?:[^`\n].*\n)*(?=```\n)")     # the lines of the block
PROMPT = "make the failing test pass"
FILES = {"add.sh": "echo $(($1 - $2))\n", "test.sh": '[ "$(sh add.sh 2 3)" = 5 ] && echo passed || { echo "add 2 3: wrong"; exit 1; }\n'}
SCRIPT = [
    {"text": "I run the test first.", "calls": [call("shell", command="sh test.sh")]},
    {"calls": [call("read_file", path="add.sh")]},
    {"text": "It subtracts.", "calls": [call("edit_file", path="add.sh", oldText="$1 - $2", newText="$1 + $2")]},
    {"calls": [call("shell", command="sh test.sh")]},
    {"text": "add.sh subtracted its arguments; it adds them now. test.sh passes."},
]


def record():
    with harness.Home() as home, home.rpc() as rpc, model(home, rpc, list(SCRIPT)) as p:
        for name, text in FILES.items():
            with open(os.path.join(home.work, name), "w") as f:
                f.write(text)
        run = home.cli_start("agent", "-p", PROMPT, stderr=subprocess.STDOUT)
        shown = run.communicate(timeout=harness.PATIENCE)[0].decode()
        assert run.returncode == 0, shown
        results = [r.results[0] for r in p.requests[1:]]
        assert "wrong" in results[0]["text"] and "passed" in results[3]["text"], results
    return f'$ bailiff agent -p "{PROMPT}"\n{shown}'


if __name__ == "__main__":
    text = record()
    if sys.argv[1:] == ["--write"]:
        with open(DOCUMENT) as f:
            old = f.read()
        with open(DOCUMENT, "w") as f:
            f.write(PLACE.sub(lambda _: text, old, count=1))
    else:
        print(text, end="")
