"""A real browser for tests of the console: Debian's chromium, driven through tests/console/driver.mjs (playwright-core and axe-core from npm)."""

import atexit
import json
import os
import shutil
import subprocess
import tempfile

import npm
from console_client import code_of
from harness import Skip, environment
from http_client import Serve

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Browser:
    """One chromium for all tests of a program."""

    one = None

    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            raise Skip("there is no chromium on this machine (make deps-browser)")
        packages, node = npm.packages("console"), npm.node(20)
        self.home = tempfile.mkdtemp(prefix="bl-browser-")
        atexit.register(shutil.rmtree, self.home, ignore_errors=True)
        self.process = subprocess.Popen([node, os.path.join(ROOT, "tests", "console", "driver.mjs"), packages, program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment(HOME=self.home, TMPDIR=self.home), text=True)
        atexit.register(self.close)
        self.sent = 0

    @classmethod
    def get(cls):
        if not cls.one:
            cls.one = cls()
        return cls.one

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def do(self, what, **more):
        self.sent += 1
        self.process.stdin.write(json.dumps({"id": self.sent, "do": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the browser's driver has ended"
        reply = json.loads(line)
        assert "error" not in reply, f"{reply['error']}; the page reported {reply.get('problems')}"
        return reply.get("result")


class Tab:
    """A tab; its methods are the steps of driver.mjs."""

    def __init__(self, browser, number):
        self.browser, self.number = browser, number

    def __getattr__(self, what):
        return lambda **more: self.browser.do(what, page=self.number, **more)

    def wait_text(self, text):
        self.until(script="return document.body.innerText.includes(arg)", arg=text)

    def clean(self):
        found = self.problems()
        assert not found, found


class Console:
    """`bailiff serve` with a page that is logged in."""

    def __init__(self, home, *options):
        self.browser = Browser.get()
        self.serve = Serve(home, *options)
        self.tabs = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for tab in self.tabs:
            if kind:
                text = tab.evaluate(script="return document.body.innerText")
                print(f"# page: {tab.problems()}\n" + "".join(f"#   {line}\n" for line in text.splitlines()))
            tab.close()
        self.serve.__exit__(kind)

    def url(self, hash=""):
        return f"http://{self.serve.host}:{self.serve.port}/ui/{hash}"

    def open(self, hash="#/overview", like=None, role=None, scheme="light", **more):
        """A tab that shows this view; with `like` of a session that another tab began. More: of driver.mjs's `open`."""
        if like:
            tab = Tab(self.browser, self.browser.do("open", url=self.url(hash), like=like.number))
        else:
            tab = Tab(self.browser, self.browser.do("open", url=self.url("#code=" + code_of(self.serve, role)), scheme=scheme, **more))
            tab.wait(selector="nav")
            tab.hash(hash=hash)
        self.tabs.append(tab)
        tab.wait(selector="main h1, main .empty")
        return tab
