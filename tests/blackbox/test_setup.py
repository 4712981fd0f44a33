"""bailiff setup: other programs' configuration files with bailiff in them, and nothing else changed."""

import contextlib
import importlib
import json
import os
import stat
import subprocess
import tempfile

import harness
from harness import CLI

CLIENTS = {"claude-code": (".mcp.json", "mcpServers"), "cursor": (".cursor/mcp.json", "mcpServers"), "vscode": (".vscode/mcp.json", "servers"),
           "gemini": (".gemini/settings.json", "mcpServers")}


def toml_reader():
    with contextlib.suppress(ImportError):
        return importlib.import_module("tomllib")


class Place:
    """A user's home with a project."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="bl-setup-")
        self.home, self.project = os.path.join(self.dir.name, "home"), os.path.join(self.dir.name, "project")
        os.mkdir(self.home)
        os.mkdir(self.project)
        return self

    def __exit__(self, *_):
        self.dir.cleanup()

    def run(self, *args, status=0, **env):
        p = subprocess.run([CLI, "setup", *args], cwd=self.project, env=dict(harness.environment(), HOME=self.home, **env), capture_output=True, text=True)
        assert p.returncode == status, (args, p)
        return p

    def file(self, *parts):
        return os.path.join(self.dir.name, *parts)

    def read(self, *parts):
        with open(self.file(*parts)) as f:
            return f.read()

    def write(self, text, *parts):
        os.makedirs(os.path.dirname(self.file(*parts)), exist_ok=True)
        with open(self.file(*parts), "w") as f:
            f.write(text)

    def everything(self):
        return sorted(os.path.join(d, f) for d, _, files in os.walk(self.dir.name) for f in files)


def test_every_client_in_a_project_and_for_a_user():
    with Place() as place:
        listed = place.run().stdout
        for client, (path, member) in CLIENTS.items():
            assert client in listed, listed
            printed = place.run(client, "--print", "--project").stdout
            entry = json.loads(printed)[member]["bailiff"]
            assert os.path.isabs(entry["command"]) and os.access(entry["command"], os.X_OK) and entry["args"] == ["mcp"], entry
            assert not os.path.exists(place.file("project", path)), "--print wrote something"
            said = place.run(client, "--write", "--project").stdout
            assert place.read("project", path) == printed and place.file("project", path) in said, said
            place.run(client, "--write", "--user")
        assert json.loads(place.read("home", ".claude.json"))["mcpServers"]["bailiff"] and place.read("home", ".config/Code/User/mcp.json")
        place.run("codex", "--write")
        assert 'default = "bailiff"' in place.read("home", ".codex/environments.toml")
        place.run("codex", "--write", CODEX_HOME=place.file("elsewhere"))
        assert '"codex-exec-server"' in place.read("elsewhere", "environments.toml")


def test_configured_command_speaks_mcp(home):
    """Starts the command from the written configuration."""
    with Place() as place:
        place.run("cursor", "--write", BAILIFF_HOME=home.dir)
        entry = json.loads(place.read("home", ".cursor/mcp.json"))["mcpServers"]["bailiff"]
        assert entry["env"] == {"BAILIFF_HOME": home.dir}, entry
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        p = subprocess.run([entry["command"], *entry["args"]], input=json.dumps(hello) + "\n", env=dict(harness.environment(), **entry["env"]), capture_output=True,
                           text=True, timeout=60)
        assert json.loads(p.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "bailiff", p


def test_existing_settings_are_kept():
    with Place() as place:
        before = '// mine\n{\n    "theme": "dark", "ratio": 0.1, "list": [1,  2], // as I like it\n    "mcpServers": {\n        "other": {"url": "http://x"} // keep\n    }\n}\n'
        place.write(before, "home", ".gemini/settings.json")
        os.chmod(place.file("home", ".gemini/settings.json"), 0o600)
        said = place.run("gemini", "--write").stdout
        now = place.read("home", ".gemini/settings.json")
        entry = f'        "bailiff": {{\n            "command": "{os.path.realpath(CLI)}",\n            "args": [\n                "mcp"\n            ]\n        }}\n'
        assert now == before.replace('"http://x"}', '"http://x"},').replace("keep\n", "keep\n" + entry), now
        assert place.read("home", ".gemini/settings.json.before-bailiff") == before and "before-bailiff" in said
        assert stat.S_IMODE(os.stat(place.file("home", ".gemini/settings.json")).st_mode) == 0o600
        # Again: not a byte more, and the first original stays.
        written = place.read("home", ".gemini/settings.json")
        assert "already" in place.run("gemini", "--write").stdout
        assert place.read("home", ".gemini/settings.json") == written and place.read("home", ".gemini/settings.json.before-bailiff") == before
        # Through a link, as in a folder of dotfiles.
        place.write("{}", "dotfiles", "mcp.json")
        os.makedirs(place.file("home", ".cursor"))
        os.symlink(place.file("dotfiles", "mcp.json"), place.file("home", ".cursor", "mcp.json"))
        place.run("cursor", "--write")
        assert os.path.islink(place.file("home", ".cursor", "mcp.json")) and "bailiff" in place.read("dotfiles", "mcp.json")


def test_links_that_leave_the_project_are_not_followed():
    with Place() as place:
        place.write("{}", "home", "config.json")
        os.symlink(place.file("home", "config.json"), place.file("project", ".mcp.json"))    # a file of the user's
        os.symlink(place.file("home"), place.file("project", ".cursor"))                     # a folder of the user's
        os.mkdir(place.file("project", ".vscode"))
        os.symlink(place.file("home", "new.json"), place.file("project", ".vscode", "mcp.json"))   # one that is not there yet
        before = place.everything()
        for client in ("claude-code", "cursor", "vscode"):
            for how in ("--write", "--print"):
                p = place.run(client, how, "--project", status=1)
                assert "leads out of the project" in p.stderr and not p.stdout, p
        assert place.everything() == before and place.read("home", "config.json") == "{}"
        # Inside of it they are as good as files.
        place.write("{}", "project", "shared.json")
        os.mkdir(place.file("project", ".gemini"))
        os.symlink("../shared.json", place.file("project", ".gemini", "settings.json"))
        place.run("gemini", "--write", "--project")
        assert "bailiff" in place.read("project", "shared.json")


def test_a_malformed_file_is_left_alone():
    with Place() as place:
        for client, path, text, where in (("cursor", ".cursor/mcp.json", '{\n  "mcpServers": {},\n}\n', "line 3"), ("gemini", ".gemini/settings.json", "// mine\n{,}\n", "line 2"),
                                          ("claude-code", ".claude.json", "// not in this one\n{}\n", "line 1"),
                                          ("codex", ".codex/environments.toml", 'default = "x"\nwhat is this\n', "line 2")):
            place.write(text, "home", path)
            there = place.everything()
            for how in ("--write", "--print"):
                p = place.run(client, how, *(["--user"] if client == "claude-code" else []), status=1)
                assert where in p.stderr and place.file("home", path) in p.stderr and "bailiff" in p.stderr.split("by hand:")[1], p.stderr
            assert place.read("home", path) == text and place.everything() == there


def test_written_toml_is_valid():
    """Any existing file is either rejected and left unchanged, or the result can be parsed and merged again."""
    tomllib = toml_reader()
    refused = ("default=''\"\"\n", "default = \"a\" \"b\"\n", "default = \"a\n", "default = [\n\"a\"]\n", "default = 5\n", "\"default\" = \"x\"\n", "'default' = 'x'\n",
               "default = \"a\"\ndefault = \"b\"\n", "environments.x = 1\n", "x = [\n1,\n", "x = 1 ]\n", "x = [\n[1],\n")
    taken = ("", "default = 'a # b' # mine\n", "default = \"a\\\"b\" # mine\n", "x = \"[\"\n", "x = [\n \"a]\", # ]\n]\n", "x = [\n[1],\n]\n", "[other]\n\"quoted key\" = {a = [1, 2]}\n",
             "[[environments]]\nid = \"bailiff\"\nargs = [\n \"a]b\",\n \"c\"]\nmine = 1\n")
    with Place() as place:
        path = ("home", ".codex", "environments.toml")
        for text in refused:
            place.write(text, *path)
            place.run("codex", "--write", status=1)
            assert place.read(*path) == text, text
        for text in taken:
            place.write(text, *path)
            place.run("codex", "--write")
            once = place.read(*path)
            place.run("codex", "--write")
            assert place.read(*path) == once, text
            if tomllib:
                got = tomllib.loads(once)
                assert got["default"] == "bailiff" and [e["id"] for e in got["environments"]] == ["bailiff"], once
                assert got["environments"][0]["args"][-1] == "codex-exec-server", once
                assert text.count("mine = 1") == got["environments"][0].get("mine", 0) and text.count("x =") == ("x" in got), once


def test_a_read_only_file_is_left_alone():
    with Place() as place:
        for client, path, text in (("cursor", ".cursor/mcp.json", "{}\n"), ("codex", ".codex/environments.toml", "# mine\n")):
            place.write(text, "home", path)
            os.chmod(place.file("home", path), 0o444)
            said = place.run(client, "--write", status=1).stderr
            assert "read-only" in said and "by hand" in said and "bailiff" in said, said
            assert place.read("home", path) == text and not os.path.exists(place.file("home", path + ".before-bailiff"))
            place.run(client, "--print")
            os.chmod(place.file("home", path), 0o644)
            place.run(client, "--write")
            os.chmod(place.file("home", path), 0o444)
            assert "already" in place.run(client, "--write").stdout, "there is nothing to write"


def test_option_only_disables_the_clients_own_tools():
    """--only: the client's own shell and file tools are taken away, and nothing else of its settings changes."""
    with Place() as place:
        place.write('{\n  "model": "x", // mine\n  "tools": {\n    "exclude": ["mine"  /* keep */ , "glob"] // and this\n  }\n}\n', "home", ".gemini/settings.json")
        place.run("gemini", "--only", "--write")
        now = place.read("home", ".gemini/settings.json")
        assert '["mine"  /* keep */ , "glob", "run_shell_command", "read_file",' in now and '"model": "x", // mine' in now and "// and this" in now, now
        assert '"bailiff": {' in now
        assert place.run("gemini", "--only", "--write").stdout.count("already") == 1 and place.read("home", ".gemini/settings.json") == now
        place.write('{"permissions": {"allow": ["Read(~/x)"], "deny": []}}\n', "project", ".claude/settings.json")
        said = place.run("claude-code", "--only", "--write").stdout
        settings = json.loads(place.read("project", ".claude/settings.json"))
        assert {"Bash", "Read", "Edit", "Write", "Glob", "Grep", "NotebookEdit", "Monitor"} <= set(settings["permissions"]["deny"]), settings
        assert settings["permissions"]["allow"] == ["Read(~/x)"] and "settings.json: written" in said and ".mcp.json: written" in said, said
        place.run("claude-code", "--only", "--write", "--user")
        assert "Bash" in json.loads(place.read("home", ".claude/settings.json"))["permissions"]["deny"]
        # Errors are reported before anything is written.
        place.write('{"permissions": {"deny": "all"}}', "project", ".claude/settings.json")
        os.unlink(place.file("project", ".mcp.json"))
        there = place.everything()
        assert '"permissions.deny" is not an array' in place.run("claude-code", "--only", "--write", status=1).stderr
        for client in ("cursor", "vscode"):
            assert "no file that disables" in place.run(client, "--only", "--write", status=1).stderr
        assert place.everything() == there
        place.run("codex", "--only", "--write")


def test_claude_code_always_loads_the_tools():
    """Otherwise its model has to search for them first."""
    with Place() as place:
        place.run("claude-code", "--write")
        assert json.loads(place.read("project", ".mcp.json"))["mcpServers"]["bailiff"]["alwaysLoad"] is True
        place.write(place.read("project", ".mcp.json").replace("true", "false"), "project", ".mcp.json")
        assert "already" in place.run("claude-code", "--write").stdout, "the user's own word stays"
        place.run("cursor", "--write", "--project")
        assert "alwaysLoad" not in place.read("project", ".cursor/mcp.json")


def test_invalid_arguments_are_rejected():
    with Place() as place:
        assert "unsupported client" in place.run("emacs", status=2).stderr
        for args in (("cursor", "--print", "--write"), ("cursor", "more"), ("cursor", "--user", "--project")):
            place.run(*args, status=2)
        assert "--project" in place.run("codex", "--project", status=1).stderr
        assert not place.everything()


harness.main(globals())
