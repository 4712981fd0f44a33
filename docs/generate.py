#!/usr/bin/python3
"""Writes the parts of the documents that come out of the tables, or checks that they are up to date.

    generate.py --build DIR (--write | --check)
    generate.py --coverage DIR

Whole files come from the event table by way of DIR/gen/event_doc; tables inside hand-written pages stand between
`<!-- begin NAME -->` and `<!-- end NAME -->` and come from the .def files, which are read as the rows that they are.
--coverage writes docs/event-coverage.md from what black-box tests noted in DIR (make event-coverage).
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRING = r'"(?:\\.|[^"\\])*"'


def rows(path, names):
    """(name, arguments) of each row; adjacent strings are joined and PARAMS_ groups expanded, as the compiler does."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    group = r"^#define (PARAMS_\w+) \\\n((?:.*\\\n)*.*\n)"
    for name, body in re.findall(group, text, re.M):
        text = re.sub(rf"^\s*{name}$", lambda m: body.replace(" \\\n", "\n"), text, flags=re.M)
    text = re.sub(group, "", text, flags=re.M)
    for m in re.finditer(rf"^\s*({'|'.join(names)})\(((?:{STRING}|[^()\"])*)\)", text, re.M):
        parts = re.findall(rf"(?:{STRING}\s*)+|[^,\"\s][^,\"]*", m.group(2))
        yield m.group(1), ["".join(s[1:-1] for s in re.findall(STRING, p)).replace('\\"', '"') if p.startswith('"') else p.strip() for p in parts]


def cell(text):
    return text.replace("|", "\\|")


def methods():
    members, out, open_rows, name = {}, [], None, None
    for kind, args in rows("supervisor/control/methods.def", ("MEMBERS", "METHOD", "PARAM", "OBJECT", "END")):
        if kind == "MEMBERS":
            name, open_rows = None, members.setdefault(args[0], [])
        elif kind == "METHOD":
            name, open_rows = args, []
        elif kind == "PARAM":
            words = args[3] if args[3] != "NULL" else ""
            open_rows.append((args[0], "`" + "`, `".join(words.split("|")) + "`" if args[1] == "ENUM" else args[1].lower(),
                              "REQUIRED" in args[2], args[4]))
        elif kind == "OBJECT":
            open_rows.append((args[0], "object", "REQUIRED" in args[2], args[3]))
            open_rows += [(f"{args[0]}.{n}", t, r, s) for n, t, r, s in members[args[1]]]
        elif name:
            out += [f"### `{name[0]}`", "", f"{name[4]} Role: {name[1].lower()}." + (" Takes `idempotencyKey` and `traceparent`." if name[2] != "READING" else ""), ""]
            if open_rows:
                out += ["| parameter | type | |", "|---|---|---|"]
                out += [f"| `{n}` | {cell(t)}{', required' if r else ''} | {cell(s)} |" for n, t, r, s in open_rows] + [""]
            name = None
    return "\n".join(out).rstrip()


def config():
    out = ["| key | default | |", "|---|---|---|"]
    for kind, a in rows("supervisor/host/config_keys.def", ("CONFIG_STRING", "CONFIG_UINT")):
        if kind == "CONFIG_STRING":
            out.append(f"| `{a[1]}` | `\"{a[2]}\"` | {cell(a[3])} |")
        else:
            bounds = f"; {a[3]} or more" if a[4] == "UINT64_MAX" else f"; {a[3]} to {a[4]}"
            out.append(f"| `{a[1]}` | {a[2]} | {cell(a[5])}{bounds} |")
    return "\n".join(out)


WHERE = {"STEP_PREBUILT": "init, prebuilt", "STEP_IN_INIT": "init", "STEP_IN_COMMAND": "command"}


def steps():
    out = ["| step | where | |", "|---|---|---|"]
    for _, a in rows("sandbox/steps.def", ("STEP",)):
        out.append(f"| `{a[1]}` | {WHERE[a[2]]} | {cell(a[4])} |")
    return "\n".join(out)


def features():
    lines = ["| since | feature | | without it |", "|---|---|---|---|"]
    listed = [a for _, a in rows("sandbox/kernel_features.def", ("FEATURE",))]
    for _, name, kind, major, minor, lost in sorted(listed, key=lambda a: (a[2] != "REQUIRED", int(a[3]), int(a[4]))):
        lines.append(f"| {major}.{minor} | `{name}` | {kind.lower()} | {cell(lost)} |")
    return "\n".join(lines)


def autorun():
    out = ["| program | file | |", "|---|---|---|"]
    for kind, a in rows("sandbox/autorun.def", ("AUTORUN_GIT", "AUTORUN")):
        name = a[1] + ("/" if a[0] == "TREE" else "")
        out.append(f"| {a[2]} | `{name}`{' in a git directory' if kind == 'AUTORUN_GIT' else ''} | {cell(a[3])} |")
    return "\n".join(out)


ACTIONS = {"ALLOW": "allowed", "DENY": "refused, logged", "ABSENT": "as if absent"}


def syscalls():
    out = ["| set | answer | | calls |", "|---|---|---|---|"]
    for _, a in rows("sandbox/syscall_sets.def", ("SYSCALL_SET",)):
        out.append(f"| {a[0].lower().replace('_', '-')} | {ACTIONS[a[1]]} | {cell(a[2])} | {', '.join(f'`{n}`' for n in a[3].split())} |")
    return "\n".join(out)


def syscall_checks():
    out = ["| call | refused with | when it is about |", "|---|---|---|"]
    with open(os.path.join(ROOT, "sandbox/syscall_sets.def"), encoding="utf-8") as f:
        for m in re.finditer(r'^SYSCALL_CHECK\("(\w+)", (\w+), (\w+), "([^"]*)"', f.read(), re.M):
            out.append(f"| `{m.group(1)}` | `{m.group(3)}`{'' if m.group(2) == 'DENY' else ', not logged'} | {cell(m.group(4))} |")
    return "\n".join(out)


def profiles():
    out = ["| profile | network | processes | private /tmp | |", "|---|---|---|---|---|"]
    with open(os.path.join(ROOT, "sandbox/profiles.def"), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for m in re.finditer(r'^PROFILE\("(\w+)", \w+, [^,]*, (\w+), ([^,]+), (\d+),\s*"([^"]*)"', text, re.M):
        name, network, tmp, pids, summary = m.groups()
        size = f"{int(tmp.split('ull')[0])} GiB" if "<< 30" in tmp else "default"
        out.append(f"| `{name}` | {network.lower()} | {pids if pids != '0' else 'any'} | {size if network != 'HOST' else 'no'} | {cell(summary)} |")
    return "\n".join(out)


def nested_rows(path, name):
    """The arguments of each row, as MCP clients get it, also where they have brackets of their own; a schema comes as what its JSON says."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(r"^\s*#.*?[^\\]$|/\*.*?\*/", "", f.read(), flags=re.S | re.M)
    inside = rf"\(((?:{STRING}|[^\")])*)\)"
    text = re.sub(r"(?:MCP_SCHEMA|TOOL_SCHEMA|MCP_TEXT|MCP_ONLY)" + inside, r"\1", re.sub("LOOP_(?:TEXT|ONLY)" + inside, "", text))
    for m in re.finditer(rf"^(?:{name})\(", text, re.M):
        depth, parts, at = 1, [""], m.end()
        while depth:
            token = re.compile(STRING + "|.", re.S).match(text, at).group()
            at += len(token)
            depth += (token in "([{") - (token in ")]}")
            if depth == 1 and token == ",":
                parts.append("")
            elif depth:
                parts[-1] += token
        yield [json.loads(p) if p.strip()[:1] in ("[", "{") else
               "".join(s[1:-1] for s in re.findall(STRING, p)).replace('\\"', '"') if '"' in p else p.strip() for p in parts]


def tools():
    out = []
    for row in nested_rows("runtime/engine/tool/tools.def", "MCP_TOOL|SHARED_TOOL"):
        name, _, description, hints, task, schema, *_ = row if len(row) == 8 else (row[6], row[7], row[4], row[3], row[8], row[5])
        words = ["only reads"] if "TOOL_READS" in hints else []
        words += ["can be a task"] if task == "MCP_TASK_MAY" else []
        out += [f"### `{name}`", "", description + (f" ({', '.join(words)})" if words else ""), "", "| argument | type | |", "|---|---|---|"]
        for key, value in schema["properties"].items():
            kind = " ".join(f"`{w}`" for w in value["enum"]) if "enum" in value else value["type"]
            out.append(f"| `{key}` | {kind}{', required' if key in schema.get('required', []) else ''} | {cell(value.get('description', ''))} |")
        out.append("")
    return "\n".join(out).rstrip()


def resources():
    out = ["| URI | |", "|---|---|"]
    for kind in ("MCP_RESOURCE", "MCP_TEMPLATE"):
        out += [f"| `{a[0]}` | {cell(a[3])} |" for a in nested_rows("supervisor/gateway/mcp/mcp_resources.def", kind)]
    return "\n".join(out)


def prompts():
    out = ["| prompt | arguments | |", "|---|---|---|"]
    for a in nested_rows("supervisor/gateway/mcp/mcp_prompts.def", "MCP_PROMPT"):
        out.append(f"| `{a[0]}` | {', '.join('`' + p['name'] + '`' for p in a[3])} | {cell(a[2])} |")
    return "\n".join(out)


def reasons():
    out = ["| reason | |", "|---|---|"]
    return "\n".join(out + [f"| `{a[1]}` | {cell(a[2])} |" for _, a in rows("runtime/base/err_reasons.def", ("REASON",))])


TABLES = {"docs/sandbox.md": {"profiles": profiles, "autorun": autorun}, "docs/mcp.md": {"tools": tools, "resources": resources, "prompts": prompts}, "docs/control.md": {"methods": methods, "reasons": reasons}, "docs/operations.md": {"config": config}, "docs/platforms.md": {"features": features}, "docs/architecture.md": {"steps": steps},
          "docs/syscalls.md": {"sets": syscalls, "checks": syscall_checks}}
WHOLE = {"docs/events.md": "markdown", "docs/schemas/event.schema.json": "schema-public",
         "docs/schemas/event-profile.schema.json": "schema-profile", "docs/schemas/event-extended.schema.json": "schema-extended"}
COMMAND_LINE = {"packaging/completions/bailiff.bash": "bash", "packaging/completions/_bailiff": "zsh",
                "packaging/completions/bailiff.fish": "fish", "docs/man/bailiff.1": "man"}


BY = {"RUNTIME": "bailiff", "OWNER": "bailiff, or the owner's report", "CLIENT": "bailiff or `emit_events`"}
COVERAGE = """# Which event types are caused by which tests

Written by `make event-coverage` from a run of the black-box tests as root: the types of all events that were in the logs of their
daemons or came to their subscribers. The lint `tests/lint/event_coverage.py` rejects a type that bailiff writes and no test causes.
At most three test programs are named for each. What the types mean is in [events.md](events.md).

| type | written by | caused in | brought by `emit_events` in |
|---|---|---|---|
"""


def coverage(folder):
    seen = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for kind, by, program in map(str.split, f):
                seen.setdefault((kind, by), set()).add(program)
    text = COVERAGE
    with open(os.path.join(ROOT, "runtime/event/event_types.def"), encoding="utf-8") as f:
        types = re.findall(r'^EVENT_TYPE\(\w+, \w+, "([a-z_.]+)", \w+, (\w+)', f.read(), re.M)
    for kind, origin in types:
        cells = [", ".join(f"`{p}`" for p in sorted(seen.get((kind, by), ()))[:3]) or "-" for by in ("bailiff", "client")]
        text += f"| `{kind}` | {'derived' if kind.startswith('item.') else BY[origin]} | {cells[0]} | {cells[1]} |\n"
    with open(os.path.join(ROOT, "docs", "event-coverage.md"), "w", encoding="utf-8") as f:
        f.write(text)
    return 0


STATES = {"DONE": "done", "PARTIAL": "partial", "NOT_DONE": "not done", "NOT_APPLICABLE": "not applicable"}
CONFORMANCE = """# Conformance with the Agent Runtime specification

Written by `make docs` from [conformance.def](conformance.def): each requirement of the specification in our words, its state, and the tests or documents
that show it. `tests/lint/conformance.py` checks that no requirement is missing and that all evidence exists. Tests without a folder are in `tests/blackbox` or `tests/escape`.

"""


def conformance():
    out, counts, names = [], dict.fromkeys(STATES, 0), {}
    for kind, a in rows("docs/conformance.def", ("PAGE", "REQUIREMENT")):
        if kind == "PAGE":
            out += ["", f"## {a[0]}", "", "| | requirement | state | evidence |", "|---|---|---|---|"]
            continue
        number, state, text, evidence, reason = a
        counts[state] += 1
        names.clear()
        for e in evidence.split():
            file, _, test = e.partition(":")
            names.setdefault(file, []).append(f"`{test}`" if test else f"[{file[5:]}]({file[5:]})")
        shown = "; ".join(", ".join(t) if f.startswith("docs/") else f"`{f}`: {', '.join(t)}" for f, t in names.items())
        out.append(f"| {number} | {cell(text)} | {STATES[state]}{': ' + cell(reason) if reason else ''} | {shown} |")
    total = ", ".join(f"{n} {STATES[s]}" for s, n in counts.items())
    return CONFORMANCE + f"**{sum(counts.values())} requirements: {total}.**\n" + "\n".join(out) + "\n"


def wanted(build):
    yield "docs/conformance.md", conformance()
    for path, tables in TABLES.items():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        for name, make in tables.items():
            pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
            if not pattern.search(text):
                sys.exit(f"{path}: no place for the table {name}")
            text = pattern.sub(lambda m, t=make: m.group(1) + t() + "\n" + m.group(2), text)
        yield path, text
    program = os.path.join(ROOT, build, "gen", "event_doc")
    if os.path.exists(program):
        for path, what in WHOLE.items():
            yield path, subprocess.run([program, what], capture_output=True, text=True, check=True).stdout
    program = os.path.join(ROOT, build, "bailiff")
    if os.path.exists(program):
        for path, what in COMMAND_LINE.items():
            text = subprocess.run([program, "completion", what], capture_output=True, text=True, check=True).stdout
            yield path, between_verbs(path, text) if what == "man" else text


def between_verbs(path, verbs):
    """The man page with its list of verbs replaced."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return re.sub(r'(\n\.\\" begin verbs[^\n]*\n).*?(\.\\" end verbs)', lambda m: m.group(1) + verbs + m.group(2), f.read(), flags=re.S)


def main(argv):
    if "--coverage" in argv:
        return coverage(argv[argv.index("--coverage") + 1])
    build = argv[argv.index("--build") + 1] if "--build" in argv else "build"
    stale = []
    for path, text in wanted(build):
        full = os.path.join(ROOT, path)
        try:
            with open(full, encoding="utf-8") as f:
                same = f.read() == text
        except OSError:
            same = False
        if same:
            continue
        stale.append(path)
        if "--write" in argv:
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
    if "--write" in argv:
        print("written: " + (" ".join(stale) or "nothing had changed"))
        return 0
    if stale:
        print("not up to date (make docs): " + " ".join(stale))
    return 1 if stale else 0


sys.exit(main(sys.argv[1:]))
