#!/usr/bin/python3
"""The screens of terminals: output of real programs, waiting for it, and screens after a restart."""

import os
import shutil
import signal
import tempfile
import time

import harness
from harness import Skip, until

SHELL = ["bash", "--norc", "--noprofile", "-i"]
PROMPT = {"PS1": "ready> "}


def need(program):
    path = shutil.which(program, path=harness.PATH)
    if not path:
        raise Skip(f"{program} is not installed")
    return path


class Terminal:
    """A process on a terminal, seen only through its screen and keyboard."""

    def __init__(self, home, command, rows=24, cols=80, **more):
        self.rpc = home.rpc(patience=120)
        more.setdefault("env", {})["TERM"] = more.get("term", "xterm-256color")
        more.pop("term", None)
        self.started = self.rpc.call("start_process", command=command, tty={"rows": rows, "cols": cols}, **more)
        self.id = self.started["processId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.rpc.end(self.id)
        finally:
            self.rpc.close()

    def again(self, home):
        """After a restart of the runtime."""
        self.rpc.close()
        self.rpc = home.rpc(patience=120)

    def look(self, **more):
        return self.rpc.call("get_screen", processId=self.id, **more)

    def text(self, **more):
        return self.look(**more)["text"]

    def type(self, data):
        """Types, and remembers where in the output that was."""
        self.at = self.rpc.call("write_process_stdin", processId=self.id, data=data)["offset"]

    def sees(self, after=None, timeoutMs=60000, **until_):
        more = {} if after is None else {"after": after}
        answer = self.rpc.call("wait_screen", processId=self.id, until=until_, timeoutMs=timeoutMs, **more)
        assert answer["matched"], f"no {until_} on the screen:\n{answer['text']}"
        return answer

    def does(self, data, **until_):
        """Types, and waits for the output that follows."""
        self.type(data)
        return self.sees(after=self.at, **until_)


# ---- the methods themselves ----

def test_text_lines_cells_and_ansi():
    with harness.Home() as home:
        script = r"printf 'one\n\033[1;31mred\033[0m \033[38;2;1;2;3mtrue\033[0m\n\033]2;a title\007\033[5;7Hhere'; sleep 1000"
        with Terminal(home, ["sh", "-c", script], rows=10, cols=40) as t:
            t.sees(text="here")
            s = t.look()
            assert s["text"] == "one\nred true\n\n\n      here\n", s
            assert s["lines"] == ["one", "red true", "", "", "      here"] + [""] * 5, s
            assert (s["rows"], s["cols"], s["title"], s["alternate"], s["ended"]) == (10, 40, "a title", False, False), s
            assert (s["cursor"]["row"], s["cursor"]["col"], s["cursor"]["visible"]) == (4, 10, True), s
            until("the facts know of all of it", lambda: t.rpc.call("get_process", processId=t.id)["outputs"]["pty"]["bytes"] == s["offset"])
            cells = t.look(format="cells")["cells"]
            assert cells[1] == [{"text": "red", "fg": 1, "bold": True}, {"text": " "}, {"text": "true", "fg": "#010203"}], cells[1]
            assert "\x1b[0;1;31mred" in t.look(format="ansi")["ansi"]


def test_invalid_screen_requests_name_the_field():
    with harness.Home() as home, home.rpc() as rpc:
        plain = rpc.start(["sleep", "1000"])["processId"]
        e = rpc.fails("get_screen", processId=plain)
        assert "has no terminal" in e.message, e
        e = rpc.fails("get_screen", processId="proc_none")
        assert "proc_none" in e.message, e
        with Terminal(home, ["sleep", "1000"]) as t:
            for params, word in (({"until": {}}, "until"), ({"until": {"regex": "("}}, "until.regex"), ({"until": {"regex": "(a)\\1"}}, "until.regex"),
                                 ({"until": {"regex": "a{9999}"}}, "until.regex"), ({"until": {"text": ""}}, "until.text"),
                                 ({"until": {"idleMs": 0}}, "until.idleMs"), ({"until": {"exit": True}, "timeoutMs": 1 << 40}, "timeoutMs"),
                                 ({"until": {"nothing": 1}}, "until.nothing"), ({}, "until")):
                e = t.rpc.fails("wait_screen", processId=t.id, **params)
                assert word in str(e), (params, str(e))
            e = t.rpc.fails("get_screen", processId=t.id, scrollback="many")
            assert "scrollback" in str(e), e
            e = t.rpc.fails("get_screen", processId=t.id, format="html")
            assert "format" in str(e), e
        rpc.call("terminate_process", processId=plain, graceMs=0)


def test_wait_screen_conditions():
    with harness.Home() as home, Terminal(home, SHELL, env=dict(PROMPT)) as t:
        t.sees(text="ready> ")
        # an old prompt is not the next one
        t.type("sleep 0.3; echo do''ne\n")
        s = t.sees(after=t.at, regex="^ready> $")
        assert "\ndone\n" in s["text"] and s["condition"] == "regex", s
        # the first of several
        s = t.does("echo fi''rst\n", text="first", regex="never", exit=True)
        assert s["condition"] == "text", s
        # nothing more comes
        t.sees(after=t.at, regex="^ready> $")
        s = t.sees(idleMs=200)
        assert s["condition"] == "idleMs", s
        # text that was shown only briefly is still matched
        s = t.does("echo it was he''re; seq 1 500\n", text="it was here")
        t.sees(after=t.at, regex="^ready> $")
        assert "it was here" not in t.text() and "it was here" in t.text(scrollback=True)
        # not in time
        s = t.rpc.call("wait_screen", processId=t.id, until={"text": "never"}, timeoutMs=50)
        assert s["matched"] is False and s["timedOut"] is True and s["text"].endswith("\nready>\n"), s
        # the end, and that is also the end of all other waiting
        s = t.does("exit\n", exit=True)
        assert s["condition"] == "exit" and s["ended"], s
        s = t.rpc.call("wait_screen", processId=t.id, until={"text": "never"}, timeoutMs=60000)
        assert s["condition"] == "exit" and s["matched"] is True, s


def test_stopped_runtime_draws_output_before_it_applies_conditions():
    """Output from while it was stopped is drawn first: it was not idle."""
    script = "for i in $(seq 1 50); do echo $i; sleep 0.1; done; echo end; sleep 1000"
    with harness.Home() as home, home.rpc(patience=120) as other, Terminal(home, ["sh", "-c", script]) as t:
        request = other.send("wait_screen", processId=t.id, until={"idleMs": 2500}, timeoutMs=60000)
        other.call("get_health")    # so the request was accepted
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        time.sleep(3.5)
        os.kill(runtime, signal.SIGCONT)
        answer = other.reply(request)
        assert answer["condition"] == "idleMs" and answer["text"].endswith("50\nend\n"), answer


def test_waiting_client_is_unaffected_by_the_disconnect_of_another():
    with harness.Home() as home, Terminal(home, SHELL, env=dict(PROMPT)) as t:
        t.sees(text="ready> ")
        other, gone = home.rpc(), home.rpc()
        request = other.send("wait_screen", processId=t.id, until={"text": "both"}, timeoutMs=60000)
        gone.send("wait_screen", processId=t.id, until={"text": "both"}, timeoutMs=60000)
        gone.close()
        t.does("echo bo''th\n", text="both")
        assert other.reply(request)["condition"] == "text"
        other.close()


def test_last_screen_stays_readable():
    with harness.Home() as home, Terminal(home, ["sh", "-c", "seq 1 100; printf 'la\\033[1mst'"], rows=5, cols=20) as t:
        t.rpc.call("wait_process", processId=t.id)
        s = t.look()
        assert s["text"] == "97\n98\n99\n100\nlast\n" and s["ended"], s
        home.kill_part("runtime")
        t.again(home)
        assert t.text() == s["text"] and t.look(format="cells") == t.look(format="cells")
        assert t.text(scrollback=2) == "95\n96\n" + s["text"]
        home.restart()
        t.again(home)
        assert t.text(scrollback=True) == "".join(f"{i}\n" for i in range(1, 101)) + "last\n"


def test_terminal_without_output_has_an_empty_screen():
    with harness.Home() as home, Terminal(home, ["true"]) as t:
        t.rpc.call("wait_process", processId=t.id)
        s = t.look()
        assert s["text"] == "" and s["offset"] == 0 and s["ended"], s


def test_omitted_output_is_reported():
    with harness.Home() as home, Terminal(home, ["sh", "-c", "seq 1 200000; echo end"], limits={"outputBytes": 65536}) as t:
        t.rpc.call("wait_process", processId=t.id)
        home.kill_part("runtime")  # what is drawn anew cannot have seen everything
        t.again(home)
        s = t.look()
        assert s["omittedBytes"] > 1000000 and s["text"].endswith("200000\nend\n"), s


def test_daemon_answers_after_a_flood_of_output():
    with harness.Home() as home, home.rpc() as rpc, Terminal(home, ["sh", "-c", "yes | head -c 20000000; echo; echo the end; sleep 1000"]) as t:
        t.sees(text="the end", timeoutMs=120000)
        assert rpc.call("get_health")["status"] in ("ok", "degraded")
        assert t.text().endswith("y\ny\n\nthe end\n"), t.text()


def test_end_of_a_flood_is_drawn():
    script = r"""i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); printf '\033[1Gline %d\033[0K\033[1G\n' $i; done"""
    with harness.Home() as home, Terminal(home, ["bash", "-c", script], rows=5) as t:
        t.rpc.call("wait_process", processId=t.id)
        assert t.text() == "line 29997\nline 29998\nline 29999\nline 30000\n", t.text()


def test_resizes_are_replayed_after_a_restart():
    with harness.Home() as home, Terminal(home, SHELL, rows=24, cols=80, env=dict(PROMPT)) as t:
        t.sees(text="ready> ")
        t.does("printf '%060d\\n' 7\n", regex="^ready> $")
        t.rpc.call("resize_process", processId=t.id, rows=10, cols=30)
        t.does("printf '%060d\\n' 8; stty size\n", regex="^10 30$")
        t.sees(after=t.at, regex="^ready> $")
        before = t.look(format="cells", scrollback=True)
        assert (before["rows"], before["cols"]) == (10, 30), before
        home.kill_part("runtime")
        t.again(home)
        after = t.look(format="cells", scrollback=True)
        assert after == before, (before, after)
        resized = [p for p in inputs(t) if p["kind"] == "resize"]
        assert len(resized) == 1 and 0 < resized[0]["offset"] < after["offset"], resized


def inputs(t):
    return [e["payload"] for e in t.rpc.events(processId=t.id) if e["type"] == "process.input"]


def test_terminal_queries_are_answered_without_a_client():
    script = r"stty -echo raw; printf '\033[3;5H\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c; stty sane; sleep 1000"
    with harness.Home() as home:
        with Terminal(home, ["sh", "-c", script]) as t:
            t.sees(regex=r"033 +\[ +3 +; +5 +R")
            until("the answer is a fact", lambda: len(inputs(t)) == 1)
            # and not again when the screen is rebuilt
            home.kill_part("runtime")
            t.again(home)
            t.sees(regex=r"033 +\[ +3 +; +5 +R")
            t.sees(idleMs=300)
            assert len(inputs(t)) == 1, inputs(t)
        with home.rpc() as rpc:
            started = rpc.call("start_process", command=["sh", "-c", "read x; " + script], tty={"rows": 24, "cols": 80})
            rpc.call("resize_process", processId=started["processId"], rows=24, cols=80, policy="newest")
            rpc.call("write_process_stdin", processId=started["processId"], data="go\n")
            answer = rpc.call("wait_screen", processId=started["processId"], until={"idleMs": 400}, timeoutMs=60000)
            assert "033" not in answer["text"], answer
            rpc.call("terminate_process", processId=started["processId"], graceMs=0)


def test_hostile_output_is_contained():
    script = r"""printf 'a\033P$qi\033\\b\033[1%s' "$(printf ':%.0s' $(seq 1 3000))"; printf 'mc\302\233d\033]52;c;aGk=\007e\033[99999999Cf\n'; sleep 1000"""
    with harness.Home() as home, Terminal(home, ["bash", "-c", script]) as t:
        t.sees(text="f")
        text = t.text()
        assert text.startswith("abcde") and all(c >= " " or c == "\n" for c in text), text
        t.rpc.call("resize_process", processId=t.id, rows=2, cols=2)
        assert t.look()["rows"] == 2


# ---- real programs ----

def edit(home, t, path):
    """vi's keys, whatever vi it is."""
    t.sees(regex="^~$")
    t.does("i", regex="INSERT")
    t.does("hello wörld 漢字\rsecond line", text="second line")
    return path


def vim():
    return [need("vim.tiny"), "-u", "NONE", "-N", "--cmd", "set showmode shortmess+=I ruler laststatus=2"]


def test_vim_edits_and_saves():
    with harness.Home() as home, tempfile.TemporaryDirectory() as folder:
        harness_open(folder)
        path = os.path.join(folder, "text")
        with Terminal(home, vim() + [path], cwd=folder, sandbox={"writeRoots": [folder]}) as t:
            edit(home, t, path)
            # The cursor comes back from the last line, where the place in the text is told.
            s = until("the cursor is in the text", lambda: (s := t.look())["cursor"]["row"] == 1 and s)
            assert s["alternate"] and s["lines"][0] == "hello wörld 漢字" and s["lines"][1] == "second line", s
            t.does("\x1b:wq\r", exit=True)
        with open(path, encoding="utf-8") as f:
            assert f.read() == "hello wörld 漢字\nsecond line\n"


def test_vim_survives_a_killed_runtime():
    with harness.Home() as home, tempfile.TemporaryDirectory() as folder:
        harness_open(folder)
        path = os.path.join(folder, "text")
        with Terminal(home, vim() + [path], cwd=folder, sandbox={"writeRoots": [folder]}) as t:
            edit(home, t, path)
            t.sees(idleMs=200)
            before = {f: t.look(format=f) for f in ("text", "cells", "ansi")}
            home.kill_part("runtime")
            t.again(home)
            after = {f: t.look(format=f) for f in ("text", "cells", "ansi")}
            assert before == after, (before["text"], after["text"])
            t.does(", and more", text=", and more")
            t.does("\x1b:wq\r", exit=True)
        with open(path, encoding="utf-8") as f:
            assert f.read() == "hello wörld 漢字\nsecond line, and more\n"


def test_nano_edits_and_saves():
    with harness.Home() as home, tempfile.TemporaryDirectory() as folder:
        harness_open(folder)
        path = os.path.join(folder, "text")
        with Terminal(home, [need("nano"), "--ignorercfiles", path], cwd=folder, sandbox={"writeRoots": [folder]}) as t:
            t.sees(text="GNU nano")
            t.does("nano was here", text="nano was here")
            t.does("\x0f", text="Write")
            t.does("\r", regex="Wrote 1 line")
            t.does("\x18", exit=True)
        with open(path, encoding="utf-8") as f:
            assert f.read() == "nano was here\n"


def test_less_pages_on_a_screen():
    with harness.Home() as home, Terminal(home, ["sh", "-c", "seq 1 1000 | " + need("less")], rows=10, cols=40) as t:
        s = t.sees(regex="^:$")
        assert s["lines"][0] == "1" and s["lines"][8] == "9" and s["alternate"], s
        s = t.does("G", text="(END)")
        assert s["lines"][8] == "1000", s
        t.does("500g", regex="^500$")
        t.does("q", exit=True)


def test_top_draws_on_a_screen():
    with harness.Home() as home, Terminal(home, [need("top"), "-d", "0.2"], rows=20, cols=100) as t:
        s = t.sees(regex="PID +USER")
        assert any(line.lstrip().startswith("top - ") for line in s["lines"]), s["text"]
        t.sees(after=s["offset"], regex="top - ")
        t.does("q", exit=True)


def test_python_prompt_on_a_screen():
    with harness.Home() as home, Terminal(home, [need("python3"), "-q"], env={"PYTHON_BASIC_REPL": "1"}) as t:
        t.sees(regex="^>>> $")
        s = t.does("6 * 7\n", regex="^>>> $")
        assert "\n42\n" in s["text"], s["text"]
        s = t.does("for i in range(2): print('x' * (i + 2))\n\n", regex="^xxx\n>>> $")
        t.does("exit()\n", exit=True)


def test_gdb_on_a_screen():
    with harness.Home() as home, Terminal(home, [need("gdb"), "-q", "-nx", "-nh"], env={"HOME": "/tmp", "DEBUGINFOD_URLS": ""}) as t:
        t.sees(regex=r"^\(gdb\) $")
        s = t.does("print 6 * 7\n", text="$1 = 42")
        t.sees(after=t.at, regex=r"^\(gdb\) $")
        t.does("quit\n", exit=True)


def test_tmux_on_a_screen():
    with harness.Home() as home:
        env = {"TMUX_TMPDIR": "/tmp", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "PS1": "inner> "}
        # Keys that come at once are not treated as pasted text.
        command = [need("tmux"), "-f", "/dev/null", "new-session", "bash --norc --noprofile -i", ";", "set-option", "-g", "assume-paste-time", "0"]
        with Terminal(home, command, env=env, rows=20, cols=60) as t:
            t.sees(text="inner> ")
            s = t.sees(text="[0]")      # below it, and perhaps drawn after it
            assert s["alternate"] and "[0]" in s["lines"][19], s["text"]
            t.does("echo fr''om tmux\n", text="from tmux")
            t.does("\x02%", regex="│")
            t.does("\x02d", exit=True)
            assert "detached" in t.text()


def test_wide_characters_on_a_screen():
    script = r"printf '漢字かな|\n'; printf 'e\314\201|\n'; printf '🎉|\n'; sleep 1000"
    with harness.Home() as home, Terminal(home, ["bash", "-c", script], rows=4, cols=20) as t:
        t.sees(text="🎉|")
        cells = t.look(format="cells")["cells"]
        assert cells[0] == [{"text": "漢字かな", "width": 2}, {"text": "|"}], cells
        assert cells[1] == [{"text": "e\u0301", "combined": True}, {"text": "|"}], cells
        assert cells[2] == [{"text": "🎉", "width": 2}, {"text": "|"}], cells


def harness_open(folder):
    """Sandboxes of other ids may use it."""
    os.chmod(folder, 0o777)


if __name__ == "__main__":
    harness.main(globals())
