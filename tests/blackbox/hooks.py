"""The base of the tests of hooks: existing hooks, unchanged, and a daemon whose policy runs them."""

import json
import os
import shlex
import shutil

import harness
from harness import Home, Skip

NO_RM = """#!/bin/bash
# Blocks destructive commands
COMMAND=$(jq -r '.tool_input.command')

if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: "Destructive command blocked by hook"
    }
  }'
else
  exit 0  # allow the command
fi
"""

VALIDATE = '''#!/usr/bin/env python3
import json
import re
import sys

# Define validation rules as a list of (regex pattern, message) tuples
VALIDATION_RULES = [
    (
        r"\\bgrep\\b(?!.*\\|)",
        "Use 'rg' (ripgrep) instead of 'grep' for better performance and features",
    ),
    (
        r"\\bfind\\s+\\S+\\s+-name\\b",
        "Use 'rg --files | rg pattern' or 'rg --files -g pattern' instead of 'find -name' for better performance",
    ),
]


def validate_command(command: str) -> list[str]:
    issues = []
    for pattern, message in VALIDATION_RULES:
        if re.search(pattern, command):
            issues.append(message)
    return issues


try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

tool_name = input_data.get("tool_name", "")
tool_input = input_data.get("tool_input", {})
command = tool_input.get("command", "")

if tool_name != "Bash" or not command:
    sys.exit(1)

# Validate the command
issues = validate_command(command)

if issues:
    for message in issues:
        print(f"• {message}", file=sys.stderr)
    # Exit code 2 blocks tool call and shows stderr to the model
    sys.exit(2)
'''

FORMAT = """#!/bin/bash
# Formats what was written
FILE=$(jq -r '.tool_input.file_path // empty')
[ -n "$FILE" ] || exit 0
cd "$CLAUDE_PROJECT_DIR" || exit 1
tr a-z A-Z <"$FILE" >"$FILE.new" && cat "$FILE.new" >"$FILE" && rm "$FILE.new"
"""

PROMPT = '''#!/usr/bin/env python3
import json
import sys
import re

# Load input from stdin
try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

prompt = input_data.get("prompt", "")

# Check for sensitive patterns
sensitive_patterns = [
    (r"(?i)\\b(password|secret|key|token)\\s*[:=]", "Prompt contains potential secrets"),
]

for pattern, message in sensitive_patterns:
    if re.search(pattern, prompt):
        # Use JSON output to block with a specific reason
        output = {
            "decision": "block",
            "reason": f"Security policy violation: {message}. Please rephrase your request without sensitive information."
        }
        print(json.dumps(output))
        sys.exit(0)

# Add context to the conversation
print("Current project: the bailiff")
sys.exit(0)
'''

STOP = """#!/bin/bash
INPUT=$(cat)
if [ "$(echo "$INPUT" | jq -r '.stop_hook_active')" = "true" ]; then
  exit 0  # Allow to stop
fi
if [ ! -e "$CLAUDE_PROJECT_DIR/tests-passed" ]; then
  echo "the tests have not passed" >&2
  exit 2
fi
"""


def entry(command, matcher=None, **more):
    group = {"hooks": [dict({"type": "command", "command": command}, **more)]}
    if matcher is not None:
        group["matcher"] = matcher
    return group


class Hooked(Home):
    """A daemon with these hooks from its start; `scripts` are in the project, as is usual."""

    def __init__(self, hooks, scripts=None, config=None, **policy):
        super().__init__(config=config, start=False)
        folder = os.path.join(self.work, ".claude", "hooks")
        os.makedirs(folder)
        for name, text in (scripts or {}).items():
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)
        self.policy(dict(policy, hooks=hooks))
        self.start()

    def policy(self, what):
        with open(os.path.join(self.dir, "policy.json"), "w") as f:
            f.write(what if isinstance(what, str) else json.dumps(what, indent=1))

    def made(self, name):
        return os.path.join(self.work, name)

    def text(self, name):
        try:
            with open(self.made(name)) as f:
                return f.read()
        except OSError:
            return None


def script(name):
    return f'"$CLAUDE_PROJECT_DIR"/.claude/hooks/{name}'


def needs_jq():
    if not shutil.which("jq"):
        raise Skip("jq is not installed")


def hooks_of(rpc, kind, point=None):
    return [e for e in rpc.events() if e["type"] == kind and (not point or e["payload"].get("hookPoint") == point)]


def denied(rpc, home, line, **more):
    error = rpc.fails("start_process", commandLine=line, cwd=home.work, code=-32010, **more)
    decision = error.data["permissionDecision"]
    assert decision["decision"] == "deny" and decision["decisionSource"] == "hook", decision
    return error


def says(**answer):
    """A hook that prints this."""
    return "cat >/dev/null; printf '%s' " + shlex.quote(json.dumps({"hookSpecificOutput": dict({"hookEventName": "PreToolUse"}, **answer)}))


def updates(command, **more):
    return says(permissionDecision="allow", updatedInput=dict({"command": command}, **more))


def pre(*commands, matcher="Bash", **more):
    return {"PreToolUse": [{"matcher": matcher, "hooks": [dict({"type": "command", "command": c}, **more) for c in commands]}]}


def decision_of(rpc, process):
    return [e for e in rpc.events() if e["type"] == "permission.evaluated" and e.get("processId") == process][-1]["payload"]["permissionDecision"]


def run_turn(rpc, home, *parts, **options):
    turn = rpc.call("submit_turn", input=list(parts), options=dict({"cwd": home.work}, **options))
    return harness.until("the turn ends", lambda: [e for e in rpc.events() if e["type"] in ("turn.completed", "turn.failed") and
                                                   e["turnId"] == turn["turnId"]])[0]
