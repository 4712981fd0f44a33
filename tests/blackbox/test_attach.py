#!/usr/bin/python3
"""Terminals at the command line: run -it, attach, input, resize, screen, export cast, replay; each in a window of its own."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import termios

import harness
from harness import Skip, until
from window import Window

DETACH = b"\x1d"
SHELL = ("bash", "--norc", "--noprofile", "-i")
PROMPT = ("--env", "PS1=ready> ")


def newest(home):
    with home.rpc() as rpc:
        return rpc.call("list_processes", limit=1)["processes"][0]["processId"]


def status_of(home, process):
    with home.rpc() as rpc:
        return rpc.call("get_process", processId=process)["status"]


def until_foreground(home, process, name):
    with home.rpc() as rpc:
        rpc.until_foreground(process, name)


def screen(home, process, *more):
    return home.cli("screen", process, *more).text


@contextlib.contextmanager
def background(home, *command, rows=24, cols=80, **more):
    """A process on a terminal without an attached client."""
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=list(command), tty={"rows": rows, "cols": cols}, cwd=home.work, **more)["processId"]
    try:
        yield process
    finally:
        with home.rpc() as rpc:
            rpc.end(process)


def shell_in_background(home, **more):
    return background(home, *SHELL, env={"PS1": "ready> "}, **more)


# ---- run -t and run -it ----

def test_interactive_shell(home):
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
        w.expect(r"ready>\s*$")
        w.until("the window is in raw mode", w.is_raw)
        w.type("tty; echo $TERM; stty size\r")
        w.expect(r"/dev/pts/\d+\r\nxterm-256color\r\n24 80\r\n.*ready>\s*$")
        w.type("sleep 1000\r")
        until_foreground(home, newest(home), "sleep")
        w.type(b"\x1a")
        w.expect(r"Stopped .*ready>\s*$")
        w.type("fg\r")
        w.expect(r"sleep 1000\r\n")
        until_foreground(home, newest(home), "sleep")
        w.type(b"\x03")
        w.expect(r"\^C.*ready>\s*$")
        w.type("echo status $?\r")
        w.expect(r"status 130\r\n.*ready>\s*$")
        w.type("exit 7\r")
        w.wait(status=7)
        w.restored()


def test_exit_status(home):
    for command, status in (("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 128 + 15)):
        with Window(home, "run", "-it", "--", "sh", "-c", command) as w:
            w.wait(status=status)
            w.restored()
    with Window(home, "run", "-it", "--", "no-such-command-here") as w:
        w.wait(status=127)
        w.restored()
    with Window(home, "run", "-it", "--timeout", "200ms", "--", "sleep", "1000") as w:
        w.wait(status=124)
        w.restored()


def test_window_size_reaches_the_command(home):
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL, rows=30, cols=100) as w:
        w.expect(r"ready>\s*$")
        w.type("trap 'echo now $(stty size)' WINCH; stty size\r")
        w.expect(r"[\r\n]30 100\r\n.*ready>\s*$")
        w.size(50, 132)
        w.expect(r"now 50 132\r\n")
        w.type("echo $((40+2))\r")     # a shell forgets a signal that comes before the trap of the same has ended
        w.expect(r"42\r\n.*ready>\s*$")
        w.size(10, 40)
        w.expect(r"now 10 40\r\n")
        w.type("\rexit\r")
        w.wait(status=0)


def test_editor_saves_and_the_window_is_restored(home):
    if not shutil.which("vim", path=harness.PATH):
        raise Skip("vim is not installed")
    path = os.path.join(home.work, "letter.txt")
    with Window(home, "run", "-it", "--", "vim", "-u", "NONE", "-N", "letter.txt") as w:
        w.until("vim has drawn its screen", lambda: b"letter.txt" in w.plain())
        w.type("iDear reader,\rone two three\x1b")
        w.until("the text is on the screen", lambda: b"one two three" in w.plain())
        w.type("kdd:wq\r")
        w.wait(status=0)
        w.restored()
        with open(path) as f:
            assert f.read() == "one two three\n"
        # whatever vim switched on in the window is off again
        for on, off in ((rb"\x1b\[\?1049h", rb"\x1b\[\?1049l"), (rb"\x1b\[\?25l", rb"\x1b\[\?25h")):
            on, off = [m.start() for m in re.finditer(on, w.seen)], [m.start() for m in re.finditer(off, w.seen)]
            assert not on or off[-1] > on[-1], w.seen[-300:]


def test_run_t_gives_a_terminal_without_a_window(home):
    done = home.cli("run", "-t", "--", "sh", "-c", "test -t 1 && echo yes; stty size; exit 3", status=3)
    assert done.out == b"yes\r\n24 80\r\n", done.out
    # piped input is typed, followed by the terminal's end-of-file character
    done = home.cli("run", "-t", "--", "sh", "-c", "stty -echo; echo go; cat | tr a-z A-Z", stdin=b"one\ntwo\n")
    assert b"ONE\r\nTWO\r\n" in done.out, done.out
    done = home.cli("run", "-t", "--json", "--", "sh", "-c", "test -t 1 && echo yes")
    events = [json.loads(line) for line in done.text.splitlines()]
    assert [e["payload"]["stream"] for e in events if e["type"] == "process.output"][:1] == ["pty"], events
    assert events[-1]["type"] == "process.completed"


def test_tty_without_input(home):
    """-t alone: the window keeps its settings, keys do not reach the command, Ctrl-C is an interrupt."""
    with Window(home, "run", "-t", "--", "sh", "-c", "trap 'echo got it; exit 9' INT; echo begun; while :; do sleep 0.05; done") as w:
        w.expect(r"begun")
        assert w.settings()[3] & termios.ISIG
        w.type("\x03")
        w.expect(r"got it")
        w.wait(status=9)
        w.restored()


def test_detach_and_come_back(home):
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
        w.expect(r"ready>\s*$")
        w.type("echo first $((40+2))\r")
        w.expect(r"first 42\r\n.*ready>\s*$")
        process = newest(home)
        w.type(DETACH)
        w.expect(r"detached from proc_")
        w.wait(status=0)
        w.restored()
    assert status_of(home, process) == "running"
    with Window(home, "attach", process[5:]) as w:
        w.expect(r"first 42.*ready>\s*$")
        w.type("echo second $((50+2))\r")
        w.expect(r"second 52\r\n.*ready>\s*$")
        shown = screen(home, process)
        assert "first 42" in shown and "second 52" in shown and shown.rstrip().endswith("ready>"), shown
        w.type("exit 5\r")
        w.wait(status=5)
        w.restored()
    done = home.cli("attach", process, status=125)
    assert b"has ended" in done.err and b"replay" in done.err, done.err


def test_attach_replays_terminal_modes_and_detach_resets_them(home):
    """A client that attaches later gets the keyboard and mouse modes, and its window is restored at the end."""
    modes = (b"\x1b[?1h", b"\x1b[?2004h", b"\x1b[?1000h", b"\x1b[?1006h", b"\x1b=", b"\x1b[?1049h", b"\x1b[?25l", b"\x1b[>1u")
    script = "printf '" + "".join(m.decode().replace("\x1b", "\\033") for m in modes) + "\\033[5;10Hhere'; stty raw -echo; head -c 1 >/dev/null"
    with background(home, "sh", "-c", script) as process:
        home.cli("screen", process, "--wait", "here")
        with Window(home, "attach", process) as w:
            w.expect(r"here")
            w.until("all modes", lambda: all(m in w.seen for m in modes))
            at = len(w.seen)
            w.type(DETACH)
            w.wait(status=0)
            for m in modes:
                off = b"\x1b>" if m == b"\x1b=" else b"\x1b[<1u" if m.endswith(b"u") else m[:-1] + (b"h" if m.endswith(b"l") else b"l")
                assert off in w.seen[at:], (off, w.seen[at:])
        with Window(home, "attach", process) as w:
            w.expect(r"here")
            w.type("q")
            w.wait(status=0)
            w.restored()


def test_detach_keys_are_configurable(home):
    with shell_in_background(home) as process:
        with Window(home, "attach", "--detach-keys", "ctrl-p,ctrl-q", process) as w:
            w.expect(r"ready>\s*$")
            w.type(b"cat -v\r")
            until_foreground(home, process, "cat")
            w.type(DETACH + b"\x10x\r")
            w.expect(r"\^\]\^Px\r\n")
            w.type(b"\x10\x11")
            w.wait(status=0)
            w.restored()
    done = home.cli("attach", "--detach-keys", "ctrl-nothing", process, status=125)
    assert b"--detach-keys" in done.err, done.err


# ---- the terminal gets its settings back ----

def test_detach_keys_work_in_the_keyboard_protocol_of_a_program(home):
    """A program may have the terminal send control sequences for keys: Ctrl-] still detaches, and Ctrl-C leaves a view."""
    protocol, detach, ctrl_c = b"\x1b[>1u", b"\x1b[93;5u", b"\x1b[99;5u"
    with background(home, "sh", "-c", "printf '\\033[>1uhere'; stty raw -echo; head -c 7 | od -c; sleep 1000") as process:
        home.cli("screen", process, "--wait", "here")
        for keys, options in ((detach, ()), (b"\x1b[27;5;93~", ()), (detach, ("-r",)), (ctrl_c, ("-r",))):
            with Window(home, "attach", *options, process) as w:
                w.expect(re.escape(protocol), escapes=True)
                w.type(keys)
                w.wait(status=0)
                w.restored()
        with Window(home, "attach", process) as w:
            w.expect(r"here")
            w.type(ctrl_c)          # the program's
            w.expect(r"033   \[   9   9   ;   5   u")
            w.type(detach)
            w.wait(status=0)


def test_pasted_text_does_not_detach(home):
    paste = b"\x1b[200~a\x1db\x1b[201~"
    with background(home, "sh", "-c", f"printf '\\033[?2004hhere'; stty raw -echo; head -c {len(paste)} | od -c; sleep 1000") as process:
        home.cli("screen", process, "--wait", "here")
        with Window(home, "attach", process) as w:
            w.expect(r"here")
            w.type(paste)
            w.expect(r"2   0   0   ~   a 035   b 033")
            w.type(DETACH)
            w.wait(status=0)
            w.restored()


def typed_ahead(w):
    """How many bytes the next program of the window would read."""
    settings = w.settings()
    settings[3] &= ~termios.ICANON
    termios.tcsetattr(w.slave, termios.TCSANOW, settings)
    count = struct.unpack("i", fcntl.ioctl(w.slave, termios.FIONREAD, bytes(4)))[0]
    termios.tcsetattr(w.slave, termios.TCSANOW, w.before)
    return count


def test_late_answers_of_the_terminal_do_not_reach_the_shell(home):
    """What it answers to the command's queries after the client has detached, and reports of the mouse."""
    with background(home, "sh", "-c", "stty raw -echo; while head -c 1 >/dev/null; do i=$((i+1)); printf '\\033[c\\033]11;?\\007asked'$i; done") as process:
        with Window(home, "attach", process) as w:
            w.type("?")
            w.expect(r"asked1")
            w.type(DETACH)
            w.expect(rb"\x1b\[5n", escapes=True)
            w.type(b"\x1b[?62c\x1b]11;rgb:0/0/0\x07\x1b[0n")
            w.wait(status=0)
            w.restored()
            assert typed_ahead(w) == 0
        with Window(home, "attach", process) as w:
            w.type("?")
            w.expect(r"asked2")
            w.type(DETACH)      # this terminal never answers
            w.wait(status=0)
            w.restored()
    with background(home, "sh", "-c", "printf '\\033[?1003hhere'; sleep 1000") as process:
        home.cli("screen", process, "--wait", "here")
        with Window(home, "attach", process) as w:
            w.expect(r"here")
            w.type(DETACH)
            w.expect(rb"\x1b\[\?1003l.*\x1b\[5n", escapes=True)
            w.type(b"\x1b[M abc\x1b[0n")
            w.wait(status=0)
            assert typed_ahead(w) == 0


def test_window_is_restored_after_signals(home):
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
            w.expect(r"ready>\s*$")
            w.until("the window is in raw mode", w.is_raw)
            process = newest(home)
            w.kill(sig)
            assert w.wait() != 0
            w.restored()
        until("the command was ended", lambda: status_of(home, process) != "running")
    with shell_in_background(home) as process:
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
            with Window(home, "attach", process) as w:
                w.expect(r"ready>\s*$")
                w.until("the window is in raw mode", w.is_raw)
                w.kill(sig)
                assert w.wait() != 0
                w.restored()
        assert status_of(home, process) == "running"


def test_window_is_restored_while_stopped(home):
    with shell_in_background(home) as process:
        with Window(home, "attach", process) as w:
            w.expect(r"ready>\s*$")
            w.until("the window is in raw mode", w.is_raw)
            w.kill(signal.SIGTSTP)
            until("it is stopped", lambda: harness.stat_of(w.process.pid)[1] == "T")
            w.restored()
            w.kill(signal.SIGCONT)
            w.until("the window is in raw mode again", w.is_raw)
            w.type("echo $((6*7))\r")
            w.expect(r"42\r\n")
            w.type(DETACH)
            w.wait(status=0)
            w.restored()


def test_attached_client_survives_a_killed_runtime(home):
    """The session continues, and output from the meantime is neither lost nor shown twice."""
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
        w.expect(r"ready>\s*$")
        start = len(w.seen)
        w.type("for i in $(seq 1 400); do echo line $i; sleep 0.002; done\r")
        w.expect(r"line 50\r\n")
        home.kill_part("runtime")
        w.expect(r"line 400\r\n.*ready>\s*$")
        numbers = [int(n) for n in re.findall(rb"line (\d+)\r\n", w.plain(start))]
        assert numbers == list(range(1, 401)), numbers
        w.type("exit 3\r")
        w.wait(status=3)
        w.restored()


def test_editor_survives_a_killed_runtime(home):
    if not shutil.which("vim", path=harness.PATH):
        raise Skip("vim is not installed")
    with Window(home, "run", "-it", "--", "vim", "-u", "NONE", "-N", "letter.txt") as w:
        w.until("vim has drawn its screen", lambda: b"letter.txt" in w.plain())
        w.type("ibefore")
        # The mode may be drawn after the text.
        w.until("the text is on the screen", lambda: all(word in screen(home, newest(home)) for word in ("before", "INSERT")))
        shown = screen(home, newest(home))
        home.kill_part("runtime")
        until("the daemon answers", home.answers)
        assert screen(home, newest(home)) == shown
        w.type(" and after\x1b")
        w.until("editing continues", lambda: "before and after" in screen(home, newest(home)))
        w.type(":wq\r")
        w.wait(status=0)
        w.restored()
    with open(os.path.join(home.work, "letter.txt")) as f:
        assert f.read() == "before and after\n"


def test_attach_in_the_background_waits_for_the_foreground(home):
    """`bailiff attach P &` waits for its turn and leaves the shell's terminal alone."""
    with shell_in_background(home) as process:
        home.cli("input", process, "echo $((6*7))", "-k", "Enter", "--wait", "ready> ")
        with Window(home, "--norc", "--noprofile", "-i", program="bash", env={"PS1": "outer> "}) as w:
            w.expect(r"outer> $")
            w.type(f"{harness.CLI} attach {process} &\r")
            w.expect(r"Stopped|outer> $")
            w.type("\rjobs\r")
            until("it is stopped", lambda: (w.type("jobs\r"), w.pump(0.3), b"Stopped" in w.plain())[2])
            assert not w.is_raw()
            w.type("fg\r")
            w.expect(r"42\s+ready>\s*$")
            w.type(DETACH)
            w.expect(r"detached.*outer> $")
            w.type("exit\r")
            w.wait(status=0)


def test_window_is_restored_when_the_daemon_is_killed(home):
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
        w.expect(r"ready>\s*$")
        w.until("the window is in raw mode", w.is_raw)
        home.note_tree()
        home.guard.kill()
        home.guard.wait()
        home.start()
        w.wait(status=125)
        w.restored()


def test_detach_keys_work_without_a_daemon(home):
    with Window(home, "run", "-it", *PROMPT, "--", *SHELL) as w:
        w.expect(r"ready>\s*$")
        home.note_tree()
        home.guard.kill()
        home.guard.wait()
        w.type("typed into nothing")
        w.type(DETACH)
        w.wait(status=0)
        w.restored()
    home.start()


# ---- several at once ----

def test_five_clients_share_a_terminal(home):
    with shell_in_background(home) as process, contextlib.ExitStack() as stack:
        windows = [stack.enter_context(Window(home, "attach", process)) for _ in range(5)]
        for w in windows:
            w.expect(r"ready>\s*$")
        for i, w in enumerate(windows):
            w.type(f"echo from-$(({i}+100))\r")
            for other in windows:
                other.expect(rf"from-10{i}\r\n.*ready>\s*$")
        windows[0].type(DETACH)
        windows[0].wait(status=0)
        windows[1].type("exit 4\r")
        for w in windows[1:]:
            w.wait(status=4)
            w.restored()


def test_read_only_client_cannot_type_or_resize(home):
    with shell_in_background(home, rows=20, cols=70) as process:
        with Window(home, "attach", "--read-only", process, rows=40, cols=120) as watch, Window(home, "attach", "--size", "keep", process) as w:
            watch.expect(r"ready>\s*$")
            w.expect(r"ready>\s*$")
            watch.type("echo never\r")
            w.type("echo $((6*7)); stty size\r")
            watch.expect(r"42\r\n20 70\r\n.*ready>\s*$")
            assert b"never" not in watch.seen
            watch.type(DETACH)
            watch.wait(status=0)
            watch.restored()
            w.type(DETACH)
            w.wait(status=0)
        assert "never" not in screen(home, process)
        with home.rpc() as rpc:
            typed = [e["payload"] for e in rpc.events(processId=process, types=["process.input"])]
            assert not [t for t in typed if "never" in t.get("preview", "")] and not [t for t in typed if t["kind"] == "resize"], typed


def test_size_mode_decides_which_client_sets_the_size(home):
    def size():
        with home.rpc() as rpc:
            tty = rpc.call("get_process", processId=process)["tty"]
            return tty["rows"], tty["cols"]
    with shell_in_background(home) as process:
        with Window(home, "attach", process, rows=30, cols=90) as a:
            until("the first one's size", lambda: size() == (30, 90))
            with Window(home, "attach", process, rows=20, cols=120) as b:
                until("the newest one's size", lambda: size() == (20, 120))
                a.size(31, 91)
                until("the one that changed last", lambda: size() == (31, 91))
                b.type(DETACH)
                b.wait(status=0)
            with Window(home, "attach", "--size", "smallest", process, rows=20, cols=120) as b:
                until("the smallest common size", lambda: size() == (20, 91))
                b.size(50, 80)
                until("what everybody can see now", lambda: size() == (31, 80))
                b.kill(signal.SIGKILL)
                until("the one that is left", lambda: size() == (31, 91))
            with Window(home, "attach", "--size", "keep", process, rows=5, cols=10) as b:
                b.expect(r"ready> ")
                b.type(DETACH)
                b.wait(status=0)
            assert size() == (31, 91)
            # attached clients still count after a restart
            home.kill_part("runtime")
            until("the daemon answers", home.answers)
            a.size(33, 93)
            until("its window after a restart", lambda: size() == (33, 93))
            with Window(home, "attach", process, rows=20, cols=120) as b:
                until("the newest one's size", lambda: size() == (20, 120))
                b.type(DETACH)
                b.wait(status=0)
            until("the one that is left", lambda: size() == (33, 93))
            a.type(DETACH)
            a.wait(status=0)
        home.cli("resize", process, "12x34")
        assert size() == (12, 34)
    done = home.cli("resize", process, "12", status=2)
    assert b"ROWSxCOLS" in done.err, done.err


def numbered(w):
    """The numbers of n1, n2 … in a window; not those at the end of an id."""
    return [int(n) for n in re.findall(rb"(?<![0-9a-z])n(\d+)[\r\n ]", w.plain())]


def test_attach_continues_where_the_screen_ends(home):
    """A client that attaches to a stream of numbers sees them continue where the screen ends."""
    with background(home, "sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo n$i; done; read x") as process:
        for _ in range(8):
            with Window(home, "attach", process) as w:
                w.until("some numbers", lambda: len(numbered(w)) > 15)
                w.type(DETACH)
                w.wait(status=0)
                numbers = numbered(w)
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers


def test_attach_continues_a_character_and_a_sequence_that_were_begun(home):
    """The client gets their first bytes as well: the rest alone would be shown as text."""
    for first, rest, whole in ((r"\303", r"\251", "é".encode()), (r"\033]0;a ti", r"tle\007", b"\x1b]0;a title\x07"), (r"\033[38;5;", r"9m", b"\x1b[38;5;9m")):
        with background(home, "sh", "-c", f"stty raw -echo; printf 'here{first}'; head -c 1 >/dev/null; printf '{rest}end'; read x") as process:
            home.cli("screen", process, "--wait", "here")
            with Window(home, "attach", process) as w:
                w.expect("here", escapes=True)
                w.type("x")
                w.expect("end", escapes=True)
                assert whole + b"end" in w.seen, w.seen


def test_attach_works_without_a_terminal(home):
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=["sh", "-c", "echo early; read x; echo got $x; read y; echo end >&2; exit 6"],
                           stdin="pipe")["processId"]
        until("it printed", lambda: rpc.outputs(process)["stdout"])
        with Window(home, "attach", process) as w:
            w.until("Ctrl-] hands over a line", lambda: w.settings()[6][termios.VEOL] == DETACH)
            w.type("hello\r")
            w.expect(r"got hello")
            w.type(DETACH)
            w.wait(status=0)
            w.restored()
            assert b"early" not in w.seen
        with Window(home, "attach", process) as w:
            w.until("Ctrl-] hands over a line", lambda: w.settings()[6][termios.VEOL] == DETACH)
            w.type("\r")
            w.expect(r"end")
            w.wait(status=6)
            w.restored()


# ---- input, screen, logs ----

def test_input_and_screen(home):
    with shell_in_background(home) as process:
        home.cli("screen", process, "--wait", "ready>")
        home.cli("input", process, "echo", "$((6*7))", "--key", "Enter")
        assert re.search(r"^42$", home.cli("screen", process, "--regex", r"^42\s*$").text, re.M)
        home.cli("input", process, "sleep 1000", "-k", "Enter")
        until_foreground(home, process, "sleep")
        home.cli("input", process, "--key", "C-c")
        home.cli("screen", process, "--regex", r"\^C\s+ready>")
        assert "ready>" in home.cli("screen", process, "--idle", "100ms").text
        # the earlier prompt does not count
        shown = home.cli("input", process, "sleep 0.3; echo $((20+3))", "-k", "Enter", "--wait", "ready> ").text
        assert re.search(r"^23\nready>", shown, re.M), shown
        done = home.cli("input", process, "-k", "C-u", "--wait", "it never comes", "--timeout", "100ms", status=124)
        assert b"timed out" in done.err, done.err
        with shell_in_background(home) as other:
            assert b"\n23\n" in home.cli("input", other, "echo $((20+3)); exit", "-k", "Enter", "--yield", "50s").out
        done = home.cli("screen", process, "--wait", "it never comes", "--timeout", "100ms", status=124)
        assert b"timed out" in done.err and b"ready>" in done.out, done.err
        answer = json.loads(home.cli("screen", process, "--json").text)
        assert answer["rows"] == 24 and answer["cols"] == 80 and "cursor" in answer, answer
        assert json.loads(home.cli("screen", process, "--format", "cells").text)["cells"]
        assert b"ready>" in home.cli("screen", process, "--format", "ansi").out
        done = home.cli("input", process, "--key", "Entr", status=2)
        assert b"Entr" in done.err and b"Enter" in done.err, done.err
        home.cli("input", process, stdin=b"echo piped $((1+1))\n")
        home.cli("screen", process, "--regex", r"piped 2\s+ready>")   # in between a terminal has other ends of input
        home.cli("input", process, "--eof", "--key", "C-u")
        home.cli("screen", process, "--exit")
        home.cli("wait", process)


def test_logs_strip_control_sequences(home):
    process = home.cli("run", "-dt", "--", "printf", "\\033[31mred\\033[0m\\033]0;title\\007\\r\\nplain\\n").text.strip()
    home.cli("wait", process)
    for more in ((), ("-f",), ("--tail", "5")):
        shown = home.cli("logs", *more, process).out
        assert b"\x1b" not in shown and b"\x07" not in shown and b"\r" not in shown, shown
        assert b"red" in shown and b"plain\n" in shown, shown
    raw = home.cli("logs", "--raw", process).out
    assert raw == b"\x1b[31mred\x1b[0m\x1b]0;title\x07\r\r\nplain\r\n", raw


# ---- recordings ----

def test_export_cast_and_replay(home):
    script = r"printf 'caf\303'; sleep 0.2; printf '\251 \033[1mbold\033[0m\n'; printf 'bad \377 byte\n'; sleep 0.1; echo end"
    process = home.cli("run", "-dt", "--", "sh", "-c", script).text.strip()
    home.cli("resize", process, "40x100", status=None)
    home.cli("wait", process)
    path = os.path.join(home.work, "a.cast")
    home.cli("export", "cast", process, "-o", path)
    with open(path, "rb") as f:
        lines = f.read().decode("utf-8").splitlines()
    assert home.cli("export", "cast", process).text.splitlines() == lines
    header, events = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    assert header["version"] == 2 and header["width"] == 80 and header["height"] == 24 and header["timestamp"] > 1700000000, header
    assert "printf" in header["command"] and header["env"]["TERM"], header
    times = [e[0] for e in events]
    assert times == sorted(times) and times[0] >= 0 and times[-1] >= 0.25, times
    assert {e[1] for e in events} <= {"o", "r"}, events
    text = "".join(e[2] for e in events if e[1] == "o")
    assert text == "café \x1b[1mbold\x1b[0m\r\nbad \ufffd byte\r\nend\r\n", text
    if shutil.which("asciinema", path=harness.PATH):
        with Window(home, "cat", path, program="asciinema", env={"HOME": home.work}) as w:
            w.wait(status=0)
            assert w.seen.replace(b"\r\r\n", b"\r\n") == text.encode(), w.seen
    played = home.cli("replay", "--speed", "50", path).out
    assert played == text.encode(), played
    played = home.cli("replay", "--max-idle", "10ms", process).out
    assert played == text.encode().replace("\ufffd".encode(), b"\xff"), played
    for bad, word in (("", b"empty"), ("{}\n", b"version"), (lines[0] + "\nnonsense\n", b"line 2")):
        with open(path, "w") as f:
            f.write(bad)
        done = home.cli("replay", path, status=1)
        assert word in done.err, done.err
    plain = home.cli("run", "-d", "--", "true").text.strip()
    for verb in (("export", "cast"), ("replay",)):
        done = home.cli(*verb, plain, status=1)
        assert b"no terminal" in done.err, done.err


def test_answers_to_queries_of_a_recording_are_dropped(home):
    cast = os.path.join(home.work, "queries.cast")
    with open(cast, "w") as f:
        f.write('{"version": 2, "width": 80, "height": 24}\n[0.0, "o", "\\u001b[chere"]\n[0.1, "o", "there"]\n')
    with Window(home, "replay", cast) as w:
        w.expect(r"here")
        w.type(b"\x1b[?62c")
        w.expect(rb"there.*\x1b\[5n", escapes=True)
        w.type(b"\x1b[0n")
        w.wait(status=0)
        assert b"62c" not in w.seen, "not echoed either"
        w.restored()
        assert typed_ahead(w) == 0


def test_replay_is_interruptible(home):
    path = os.path.join(home.work, "long.cast")
    with open(path, "w") as f:
        f.write('{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "\\u001b[?1049h\\u001b[?25lbegun"]\n[5000, "o", "never"]\n')
    with Window(home, "replay", path) as w:
        w.expect(r"begun")
        w.type("\x03")
        w.wait(status=130)
        w.restored()
        assert w.seen.endswith(b"\x1b[?25h\x1b[?1049l") or b"\x1b[?1049l" in w.seen, w.seen


def test_replay_of_a_stalled_pipe_is_interruptible():
    """The signals are blocked during the playback; a recording that does not continue must not keep them blocked forever."""
    with subprocess.Popen([harness.CLI, "replay", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as replay:
        replay.stdin.write(b'{"version": 2, "width": 80, "height": 24}\n[0, "o", "begun"]\n')
        replay.stdin.flush()
        assert replay.stdout.read(5) == b"begun"
        replay.send_signal(signal.SIGINT)
        assert replay.wait(timeout=20) == 130


harness.main(globals())
