"""A terminal window that runs the command line, as a person sees and uses it."""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness

ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[0-~]")


class Window:
    """`bailiff ARGS` as the leader of a session whose controlling terminal is the window."""

    def __init__(self, home, *args, rows=24, cols=80, env=None, stdout=None, stdin=None, program=None, cwd=None):
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.size(rows, cols)
        self.before = self.settings()
        self.seen, self.at = b"", 0

        def own():
            signal.signal(signal.SIGINT, signal.SIG_DFL)     # ignored if the tests run in the background
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([program or harness.CLI, *args], stdin=self.slave if stdin is None else stdin, stderr=self.slave,
                                        stdout=self.slave if stdout is None else stdout, preexec_fn=own, cwd=cwd or home.work,
                                        env=harness.environment(**{"BAILIFF_HOME": home.dir, "TERM": "xterm-256color", **(env or {})}))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if kind:
            self.pump(0)
            print(f"# window: {self.seen[-2000:]!r}")
        os.close(self.master)
        os.close(self.slave)

    def size(self, rows, cols):
        """The window changes its size; the kernel tells those in the foreground."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def settings(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.settings()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def pump(self, patience):
        """Reads the output; the window never blocks the program."""
        if not select.select([self.master], [], [], patience)[0]:
            return False
        with contextlib.suppress(OSError):
            self.seen += os.read(self.master, 1 << 16)
        return True

    def plain(self, since=0):
        return ESCAPES.sub(b"", self.seen[since:])

    def place(self, length):
        """Where in all that was seen the first bytes of plain(self.at) end, that many."""
        at = self.at
        for escape in ESCAPES.finditer(self.seen[self.at:]):
            start, end = self.at + escape.start(), self.at + escape.end()
            if length <= start - at:
                break
            length, at = length - (start - at), end
        return at + length

    def expect(self, pattern, patience=harness.PATIENCE, escapes=False):
        """Waits for the pattern in what was printed after the last match, escape sequences left out."""
        end, pattern = time.monotonic() + patience, re.compile(pattern if isinstance(pattern, bytes) else pattern.encode(), re.S)
        while True:
            found = pattern.search(self.seen[self.at:] if escapes else self.plain(self.at))
            if found:
                self.at = self.at + found.end() if escapes else self.place(found.end())
                return found
            if self.process.poll() is not None and not self.pump(0.1):
                raise AssertionError(f"{self.process.args[1:]} left with {self.process.returncode}; no {pattern.pattern!r} in {self.seen[self.at:]!r}")
            assert time.monotonic() < end, f"no {pattern.pattern!r} in {self.seen[self.at:]!r}"
            self.pump(0.2)

    def until(self, what, condition):
        def pumped():
            while self.pump(0):
                pass
            return condition()
        return harness.until(what, pumped)

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self.master, data):]
            if data:
                self.pump(0.1)

    def kill(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)

    def wait(self, status=None):
        end = time.monotonic() + harness.PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"{self.process.args[1:]} does not end; last {self.seen[-500:]!r}"
            self.pump(0.05)
        while self.pump(0):
            pass
        if status is not None:
            assert self.process.returncode == status, f"{self.process.args[1:]} left with {self.process.returncode}, not {status}: {self.seen[-800:]!r}"
        return self.process.returncode

    def restored(self):
        assert self.settings() == self.before, f"the terminal's settings are {self.settings()}, they were {self.before}"
