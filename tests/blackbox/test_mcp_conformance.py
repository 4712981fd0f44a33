#!/usr/bin/python3
"""The server scenarios of @modelcontextprotocol/conformance against `conformance-gateway serve`: bailiff-gateway with the suite's tools.

Every scenario that the suite requires for a revision must pass; scenarios that it runs without scoring are printed. The suite comes from
npm and needs Node 22; the tests skip where it is unavailable.
"""

import json
import os
import re
import subprocess

import harness
import npm
from http_client import Serve

SUITE_S = 900


def required(folder, revision):
    """The list `server:` of the suite's own requirements."""
    names, inside = [], False
    with open(os.path.join(folder, "requirements", revision + ".yaml")) as f:
        for line in f:
            if re.match(r"\w+:", line):
                inside = line.startswith("server:")
            elif inside and line.strip().startswith("- "):
                names.append(line.strip()[2:].strip())
    return names


def failures(results):
    """What went wrong, from the suite's own records."""
    found = []
    for folder in sorted(os.listdir(results)):
        with open(os.path.join(results, folder, "checks.json")) as f:
            found += [f"{folder}: {c['id']}: {c.get('errorMessage')}"[:400] for c in json.load(f) if c["status"] == "FAILURE"]
    return found


def run_suite(revision, count):
    node = npm.node(npm.CONFORMANCE_NODE)
    folder = os.path.join(npm.packages("mcp-conformance"), "node_modules", "@modelcontextprotocol", "conformance")
    wanted = required(folder, revision)
    assert len(wanted) == count, f"the suite requires {len(wanted)} scenarios for {revision}, not {count}"
    here = os.path.dirname(os.path.abspath(__file__))
    with harness.Home() as home, Serve(home, program=harness.CONFORMANCE_GATEWAY) as serve:
        env = harness.environment(BAILIFF_TOKEN=serve.token, NODE_OPTIONS=f"--require={here}/mcp_token.cjs", HOME=home.work)
        done = subprocess.run([node, os.path.join(folder, "dist", "index.js"), "server", "--url", f"http://127.0.0.1:{serve.port}/mcp",
                               "--requirements", revision, "-o", os.path.join(home.work, "results")],
                              cwd=home.work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SUITE_S)
        report = done.stdout.decode("utf-8", "replace")
        assert "=== SUMMARY ===" in report, report[-2000:]
        found = {m[2]: m[1] == "✓" for m in re.finditer(r"^([✓✗]) ([\w-]+): \d+ passed, \d+ failed", report, re.M)}
        failed = [n for n in wanted if not found.get(n)]
        others = sorted(set(found) - set(wanted))
        print(f"# {revision}: {len(wanted) - len(failed)} of {len(wanted)} required scenarios pass; not scored: "
              f"{sum(found[n] for n in others)} of {len(others)} pass"
              + "".join(f"\n#   not scored, fails: {n}" for n in others if not found[n]))
        wrong = failures(os.path.join(home.work, "results"))
        assert not failed, f"{len(failed)} required scenarios fail: {', '.join(failed)}\n" + "\n".join(wrong)


def test_required_scenarios_of_2025_11_25_pass():
    run_suite("2025-11-25", 30)


def test_required_scenarios_of_2026_07_28_pass():
    run_suite("2026-07-28", 37)


if __name__ == "__main__":
    harness.main(globals())
