#!/usr/bin/python3
"""The direction of includes. Folders are layers; an include that points upward, or a folder that is not a layer, is an error."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BASE = ["runtime/base"]
LOOP = ["runtime/loop"]
# The modules of the engine, from the bottom to the top.
ENGINE = ["runtime/engine/" + m for m in ("core", "policy", "session", "tool", "process", "sandbox", "action", "hook", "permission", "start", "call", "turn", "work", "model", "loop", "channel")] + ["runtime/engine"]
# Layer: the folders it may include from, in addition to itself. A path that ends in .h allows just that header (plain data).
ALLOWED = {
    "runtime/base": [],
    "runtime/loop": BASE,
    "sandbox": BASE,
    "sandbox/steps": BASE + ["sandbox"],
    "pty": BASE,
    "policy/shell": BASE,
    "policy": BASE + ["policy/shell", "sandbox/plan.h", "sandbox/profile.h", "sandbox/host_rule.h"],
    "runtime/event": BASE,
    "runtime/dialect": BASE,   # wire formats of model providers: pure functions
    "runtime/event/gen": BASE + ["runtime/event"],
    "runtime/store": BASE + ["runtime/event"],
    "runtime/view": BASE + ["runtime/event", "runtime/store"],
    "runtime/evidence": BASE + ["runtime/event", "runtime/store", "runtime/view"],
    "supervisor/guard": BASE + ["sandbox"],
    "supervisor/common": BASE,   # what several processes of the daemon use
    "supervisor/spawner": BASE + ["sandbox", "sandbox/steps", "supervisor/common", "supervisor/guard"],
    "supervisor/proxy": BASE + LOOP + ["supervisor/common", "sandbox/host_rule.h", "sandbox/net_address.h", "sandbox/plan.h", "supervisor/guard/guard_msg.h", "supervisor/spawner/dialer.h"],
    "supervisor/control": BASE + LOOP + ["runtime/event", "runtime/store", "runtime/view", "runtime/evidence", *ENGINE, "policy", "pty", "sandbox", "supervisor/host"],
    "supervisor/tool": BASE,
    "supervisor/otlp": BASE + ["sandbox/plan.h", "supervisor/guard/guard_msg.h", "supervisor/common"],
    "supervisor/webhook": BASE + ["supervisor/common", "sandbox/plan.h", "runtime/engine/hook/hook_http.h"],
    "supervisor/model": BASE + ["supervisor/common", "sandbox/plan.h"],
    "supervisor/fleet": BASE + ["sandbox/plan.h", "supervisor/guard/guard_msg.h", "supervisor/common"],
    "supervisor/client": BASE + LOOP,
    "supervisor/gateway/common": BASE + LOOP + ["supervisor/client", "supervisor/common/role_sandbox.h"],
    "supervisor/gateway/mcp": BASE + LOOP + ["runtime/engine/tool/tools.def", "pty/sanitize.h", "pty/excerpt.h", "sandbox/violation_text.h", "supervisor/client", "supervisor/gateway/common"],
    "supervisor/gateway/http": BASE + LOOP + ["supervisor/client", "supervisor/gateway/common", "supervisor/gateway/mcp", "supervisor/proxy/http_head.h", "supervisor/control/methods.def"],
    "supervisor/gateway/codex": BASE + LOOP + ["sandbox/placeholder.h", "supervisor/client", "supervisor/gateway/common"],
    "supervisor/gateway/acp": BASE + LOOP + ["policy/command_text.h", "policy/modes.def", "supervisor/client", "supervisor/gateway/common", "supervisor/tool/patch.h"],
    "supervisor/gateway/program": BASE + ["supervisor/gateway/common"],
    "supervisor/cli": BASE + ["pty", "sandbox/violation_text.h", "sandbox/plan_limits.def", "sandbox/plan.h", "sandbox/autorun.h", "sandbox/autorun_report.h", "supervisor/client", "runtime/evidence/pack_check.h"],   # replay --verify projects a pack without a daemon
    "supervisor/fleet/client": BASE + ["supervisor/cli", "supervisor/client", "supervisor/fleet"],
    "supervisor/host": BASE + LOOP + ["runtime/event", "runtime/store", "runtime/view", *ENGINE, "policy", "pty", "sandbox",
                               "supervisor/guard/guard_msg.h", "supervisor/spawner", "supervisor/proxy/proxy_msg.h", "supervisor/common"],
    "supervisor/runtime": BASE + LOOP + ["runtime/event", "runtime/store", "runtime/view", *ENGINE, "policy", "pty", "sandbox",
                                  "supervisor/guard/guard_msg.h", "supervisor/host", "supervisor/control", "supervisor/common"],
    "supervisor/daemon": BASE + LOOP + ["runtime/store", "sandbox", "supervisor/guard", "supervisor/spawner", "supervisor/proxy", "supervisor/runtime",
                                 "supervisor/common"],
}
for at, module in enumerate(ENGINE):
    ALLOWED[module] = ENGINE[:at] + BASE + ["runtime/dialect", "runtime/event", "runtime/store", "runtime/view", "policy", "sandbox/plan.h", "sandbox/profile.h", "sandbox/host_rule.h", "sandbox/net_address.h",
                                       "sandbox/status.h", "sandbox/userns.h", "sandbox/workspace.h", "sandbox/violation.h", "sandbox/violation_text.h", "pty/excerpt.h", "sandbox/output_hint.h",
                                       "sandbox/change_list.h", "sandbox/autorun.h", "sandbox/autorun_report.h"]
# The privileged and the unparsing parts stay small: none of these may reach them even through system headers.
FORBIDDEN_SYSTEM = {
    "supervisor/common": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/guard": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/spawner": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/proxy": ["jansson.h", "lmdb.h"],
    "supervisor/otlp": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/webhook": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/model": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/fleet": ["lmdb.h", "event2/"],
    "supervisor/fleet/client": ["lmdb.h", "event2/"],
    "sandbox": ["jansson.h", "lmdb.h", "event2/"],
    "sandbox/steps": ["jansson.h", "lmdb.h", "event2/"],
    "runtime/base": ["lmdb.h", "event2/"],
    "runtime/event": ["lmdb.h", "event2/"],
    "runtime/dialect": ["lmdb.h", "event2/"],
    "runtime/view": ["lmdb.h", "event2/"],
    "runtime/evidence": ["lmdb.h", "event2/"],
    **{module: ["lmdb.h", "event2/"] for module in ENGINE},
    "policy": ["lmdb.h", "event2/"],
    "pty": ["lmdb.h", "event2/"],
    "policy/shell": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/tool": ["jansson.h", "lmdb.h", "event2/"],
    "supervisor/cli": ["lmdb.h", "event2/"],
    "supervisor/client": ["lmdb.h"],
    "supervisor/gateway/common": ["lmdb.h"],
    "supervisor/gateway/program": ["lmdb.h", "jansson.h", "event2/"],
    "supervisor/gateway/mcp": ["lmdb.h"],
    "supervisor/gateway/http": ["lmdb.h"],
    "supervisor/gateway/codex": ["lmdb.h"],
    "supervisor/gateway/acp": ["lmdb.h"],
}
UNCHECKED = re.compile(r"\b(event_add|evtimer_add|evsignal_add|bufferevent_enable|event_base_dispatch)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.def"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return [f for f in out.split() if os.path.exists(os.path.join(ROOT, f))]


def may_include(layer, target):
    folder = os.path.dirname(target)
    if folder == layer:
        return True
    return any(target == a if a.endswith((".h", ".def")) else folder == a for a in ALLOWED[layer])


def check(path, text):
    layer, problems = os.path.dirname(path), []
    if layer == "docs" or layer.startswith("tests"):     # docs: tables that only make docs reads
        return problems
    if layer not in ALLOWED:
        return [f"{path}: {layer or 'the top folder'} is not a layer"]
    for line in text.splitlines():
        m = INCLUDE.match(line)
        if not m:
            continue
        kind, target = m.groups()
        if kind == '"':
            if "/" not in target:
                problems.append(f"{path}: include \"{target}\" is not from the root of the tree")
            elif not os.path.exists(os.path.join(ROOT, target)):
                problems.append(f"{path}: includes {target}, which does not exist")
            elif not may_include(layer, target):
                problems.append(f"{path}: {layer} may not include {target}")
        elif any(target.startswith(f) for f in FORBIDDEN_SYSTEM.get(layer, [])):
            problems.append(f"{path}: {layer} may not include <{target}>")
    # Their failures would go unnoticed: runtime/loop/loop.h.
    if layer != "runtime/loop":
        problems += [f"{path}: use runtime/loop/loop.h instead of {name}" for name in UNCHECKED.findall(text)]
    return problems


def main():
    problems, count = [], 0
    for path in files():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            problems += check(path, f.read())
        count += 1
    # The lint must detect a violation.
    for path, line in (("runtime/base/mem.c", '#include "runtime/store/store.h"'), ("supervisor/guard/guard.c", "#include <jansson.h>"), ("supervisor/host/process_io.c", "event_add(ev, NULL);"),
                       ("runtime/view/view.c", '#include "runtime/engine/core/engine.h"')):
        if not check(path, line):
            problems.append(f"layers.py does not detect {line} in {path}")
    print("\n".join(problems) if problems else f"{count} files follow the layers")
    return 1 if problems else 0


sys.exit(main())
