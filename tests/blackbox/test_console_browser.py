"""The console's page in a real browser against a real daemon: every view opens cleanly, actions work, hostile text is inert, and the page
survives the daemon."""

import base64
import os
import signal

import harness
from browser import Console
from console_client import code_of
from harness import until
from test_policy import Policed

VIEWS = ["overview", "approvals", "processes?show=all", "sessions", "tasks", "jobs", "changes", "policy", "history", "events"]
ASK = {"permissions": {"ask": ["Bash(touch:*)"]}}
TTY = {"rows": 24, "cols": 80}
# Collects the sequence numbers of all events from now on.
FOLLOW = "const { stream } = await import('/ui/api.js'); window.seen = [stream.last]; stream.on((e) => window.seen.push(e.sequence)); return stream.last"


def view(tab, hash, selector="main h1"):
    tab.hash(hash=hash)
    tab.wait(selector=selector)


def fill(home, rpc):
    """Creates at least one of everything that the views show."""
    session = rpc.call("create_session", title="A session")["sessionId"]
    done = rpc.start(["sh", "-c", "echo out; echo err >&2; echo x > /usr/x; exit 3"], cwd=home.work, sessionId=session)["processId"]
    rpc.wait(done)
    rpc.run(["curl", "-sS", "http://host.invalid/"], cwd=home.work, sessionId=session)
    terminal = rpc.start(["cat"], tty=TTY, sessionId=session)["processId"]
    rpc.start(["sh", "-c", "echo started; exec sleep 1000"], sessionId=session)
    rpc.call("create_task", objective="An objective", sessionId=session)
    rpc.call("create_job", items=[{"itemId": "one", "command": ["true"]}, {"itemId": "two", "command": ["false"]}], sessionId=session)
    rpc.send("start_process", {"command": ["touch", "x"], "cwd": home.work, "sessionId": session})
    until("it asks", lambda: rpc.call("list_actions", status="pending")["actions"])
    return session, done, terminal


def end_all(rpc):
    for action in rpc.call("list_actions", status="pending")["actions"]:
        rpc.call("respond_action", actionId=action["actionId"], decision="deny")
    for process in rpc.call("list_processes", liveOnly=True)["processes"]:
        rpc.call("terminate_process", processId=process["processId"], graceMs=0)


def test_every_view_opens_without_errors_and_is_accessible(home):
    """No error, no violation of the content security policy, and none of the accessibility rules in light and dark."""
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        session, process, terminal = fill(home, rpc)
        thread = rpc.call("get_process", processId=process)["threadId"]
        tab, found = console.open(), []
        one = [f"processes/{process}{tab_of}" for tab_of in ("", "?tab=events", "?tab=sandbox", "?tab=denials", "?tab=details")]
        for name in [*VIEWS, *one, f"processes/{terminal}", f"sessions/{session}", f"threads/{thread}"]:
            view(tab, f"#/{name}")
            tab.until(script="return !document.body.innerText.includes('Loading…')")
            found += [f"{name}: {problem}" for problem in [*tab.axe(), *tab.problems()]]
            # No call of the fixtures fails.
            found += [f"{name}: {text}" for text in tab.evaluate(script="return [...document.querySelectorAll('.error')].map((e) => e.innerText)")]
        assert not found, "\n".join(found)
        end_all(rpc)


SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().filter((e) => !e.hadRecentInput).map((e) => [location.hash, e.value])))
  .observe({ type: 'layout-shift', buffered: true });
"""


def test_nothing_moves_while_views_load_and_update(home):
    """Cumulative layout shift, by the browser's own measure: good is up to 0.1."""
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        session, process, _ = fill(home, rpc)
        tab = console.open()
        tab.evaluate(script=SHIFTS)
        for name in [*VIEWS, f"processes/{process}", f"sessions/{session}"]:
            view(tab, f"#/{name}")
            tab.until(script="return !document.body.innerText.includes('Loading…')")
            rpc.run(["echo", "update"], sessionId=session)
            tab.evaluate(script="await new Promise((done) => setTimeout(done, 400))")      # the update is drawn
        total = {}
        for name, value in tab.evaluate(script="return window.shifts"):
            total[name] = total.get(name, 0) + value
        assert all(value <= 0.1 for value in total.values()), total
        end_all(rpc)


def test_processes_are_terminated_by_keyboard(home):
    with home.rpc() as rpc, Console(home) as console:
        first, second = (rpc.start(["sleep", str(n)]) for n in (1001, 1002))
        tab = console.open("#/processes?view=flat")
        tab.wait_text(text="sleep 1002")
        tab.press(key="j")
        tab.until(script="return document.activeElement.matches('.table')")
        tab.press(key="x")
        tab.press(key="j")
        tab.press(key="x")
        tab.click(selector="text='Terminate 2'")
        tab.wait(selector="dialog")
        tab.press(key="Enter")
        tab.wait(selector="text='Nothing is running.'")
        tab.wait(selector="text='2 processes terminated'")
        for process in (first, second):
            assert rpc.call("get_process", processId=process["processId"])["status"] == "terminated"
        tab.clean()


def test_a_terminal_is_watched_taken_over_and_resized(home):
    with home.rpc() as rpc, Console(home) as console:
        process = rpc.start(["sh", "-c", "echo ready; stty -echo; while read -r line; do echo \"got:$line:$(stty size)\"; done"], tty=TTY)["processId"]
        tab = console.open(f"#/processes/{process}")
        tab.until(script="return document.querySelector('.xterm-rows')?.innerText.includes('ready')")
        # Only watched: keys do not reach the program.
        tab.click(selector=".xterm-screen")
        tab.type(text="unseen\r")
        tab.click(selector="text='Take over'")
        tab.until(script="return document.querySelector('.xterm-helper-textarea') === document.activeElement")
        until("it has the size of the window", lambda: rpc.call("get_process", processId=process)["tty"]["cols"] != 80)
        tab.type(text="hello\r")
        tab.until(script="return document.querySelector('.xterm-rows').innerText.includes('got:hello:')")
        size = rpc.call("get_process", processId=process)["tty"]
        screen = rpc.call("get_screen", processId=process)["text"]
        assert f"got:hello:{size['rows']} {size['cols']}" in screen and "unseen" not in screen, screen
        tab.press(key="Control+Alt+Escape")
        tab.until(script="return document.activeElement.id === 'main'")
        tab.clean()
        rpc.end(process)


def test_output_is_followed_searched_and_downloaded(home):
    with home.rpc() as rpc, Console(home) as console:
        process = rpc.start(["sh", "-c", "seq 1 5000; read -r line; echo \"then $line\"; sleep 1000"], stdin="pipe")["processId"]
        tab = console.open(f"#/processes/{process}")
        tab.until(script="return document.querySelector('.xterm-rows')?.innerText.includes('5000')")
        rpc.call("write_process_stdin", processId=process, data="more\n")
        tab.until(script="return document.querySelector('.xterm-rows').innerText.includes('then more')")
        tab.fill(selector="main input[type=search]", text="4321")
        tab.until(script="return document.querySelector('.matches').innerText === '1 of 1'")
        tab.until(script="return document.querySelector('.xterm-rows').innerText.includes('4321')")
        got = base64.b64decode(tab.download(selector="text='Download'")).decode()
        assert got == "".join(f"{n}\n" for n in range(1, 5001)) + "then more\n", got[-100:]
        tab.clean()
        rpc.end(process)


def ask(home, rpc, name):
    rpc.send("start_process", {"command": ["touch", name], "cwd": home.work})
    return until("it asks", lambda: [a for a in rpc.call("list_actions", status="pending")["actions"] if name in a["prompt"]])[0]


def test_approvals_are_answered_by_keyboard(home):
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        tab = console.open("#/approvals")
        tab.wait(selector="text='Nothing waits for an answer.'")
        ask(home, rpc, "allowed")
        tab.wait(selector=".question .what >> text=allowed")
        assert tab.text(selector="nav .badge") == "1"
        tab.evaluate(script="await new Promise((done) => setTimeout(done, 500))")   # keys are ignored just after a question comes up
        tab.press(key="y")
        tab.wait(selector=".notice >> text='Allowed'")
        until("it ran", lambda: os.path.exists(os.path.join(home.work, "allowed")))
        ask(home, rpc, "held")
        tab.wait(selector=".question .what >> text=held")
        tab.evaluate(script="await new Promise((done) => setTimeout(done, 500))")
        tab.evaluate(script="document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'y', repeat: true, bubbles: true }))")   # held down since the question before
        tab.press(key="n")
        tab.wait(selector=".notice >> text='Denied'")
        assert not os.path.exists(os.path.join(home.work, "held"))
        ask(home, rpc, "waiting")
        tab.wait(selector=".question .what >> text=waiting")
        tab.press(key="g")
        tab.evaluate(script="await new Promise((done) => setTimeout(done, 2000))")     # a slow reader, or a slow page
        tab.press(key="y")
        tab.until(script="return location.hash === '#/policy'")
        tab.hash(hash="#/approvals")
        tab.wait(selector=".question .what >> text=waiting")
        tab.click(selector=".question >> text='Deny'")
        tab.wait(selector="text='Nothing waits for an answer.'")
        denied = ask(home, rpc, "denied")
        tab.wait(selector=".question .what >> text=denied")
        tab.fill(selector=".question input[type=text]", text="not today")
        tab.press(key="n", selector=".question input[type=text]")
        assert rpc.call("list_actions", status="pending")["actions"], "a letter in a field is not an answer"
        tab.click(selector=".question >> text='Deny'")
        tab.wait(selector="text='Nothing waits for an answer.'")
        answer = [a for a in rpc.call("list_actions")["actions"] if a["actionId"] == denied["actionId"]][0]
        assert answer["decision"] == "deny" and answer["note"] == "not todayn", answer
        tab.clean()


NOTIFIED = """
window.notes = [];
window.Notification = class { static permission = 'granted'; constructor(title, options) { window.notes.push([title, options.body]); } };
Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
"""


def test_a_hidden_page_notifies_of_a_question(home):
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        tab = console.open("#/overview")
        tab.evaluate(script=NOTIFIED)
        ask(home, rpc, "noticed")
        notes = tab.until(script="return window.notes.length && window.notes")
        assert notes[0][0] == "bailiff: approval needed" and "touch noticed" in notes[0][1], notes
        end_all(rpc)


def test_only_one_of_two_tabs_answers(home):
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        first = console.open("#/approvals")
        second = console.open("#/approvals")
        for n in range(3):
            action = ask(home, rpc, f"file{n}")["actionId"]
            for tab in (first, second):
                tab.wait(selector=f".question .what >> text=file{n}")
            console.browser.do("race", tabs=[first.number, second.number], selector=".question >> text='For this session'")
            for tab in (first, second):
                tab.wait(selector="text='Nothing waits for an answer.'")
            resolved = [e for e in rpc.events() if e["type"] == "action.resolved" and e["actionId"] == action]
            assert len(resolved) == 1, resolved
        notes = [tab.evaluate(script="return document.querySelector('.notices').innerText") for tab in (first, second)]
        assert "Allowed" in "".join(notes), notes
        # The losing tab's request is rejected, which the browser does not report as an error of the page.
        first.clean()
        second.clean()


def test_page_recovers_when_the_daemon_is_restarted(home):
    """The daemon is killed and restarted under an open page: the page reports it, and misses or repeats no event."""
    with home.rpc() as rpc:
        rpc.run(["echo", "before"])
    with Console(home) as console:
        tab = console.open("#/processes?show=all&view=flat")
        tab.wait_text(text="echo before")
        tab.evaluate(script=FOLLOW)
        with home.rpc() as rpc:
            for n in range(5):
                rpc.run(["echo", f"early {n}"])
        home.stop(sig=signal.SIGKILL, expect=False)
        tab.wait(selector=".banner")
        home.start()
        tab.wait(selector=".banner", gone=True)
        with home.rpc() as rpc:
            for n in range(5):
                rpc.run(["echo", f"late {n}"])
            last = rpc.call("get_health")["store"]["lastSequence"]
        tab.wait_text(text="echo 'late 4'")
        tab.until(script="return window.seen.at(-1) >= arg", arg=last)
        seen = tab.evaluate(script="return window.seen")
        assert seen == list(range(seen[0], seen[0] + len(seen))), seen
        # Reloaded, it is the same session.
        tab.reload()
        tab.wait_text(text="echo 'late 4'")
        # The browser itself logs the requests that failed meanwhile.
        assert not [p for p in tab.problems() if "503" not in p and "Failed to load resource" not in p]


HOSTILE = "<img src=x onerror=window.owned=1>"


QUERIES = "printf '\\033[6n\\033[c\\033]10;?\\007\\033[?6n\\033P$qm\\033\\134'"
OUTPUT = ("printf '\\033]52;c;b3duZWQ=\\007'; printf '\\033]8;;https://evil.invalid/\\033\\\\click\\033]8;;\\033\\\\\\n'; printf '\\033]0;owned\\007'; "
          "printf '\\033[2J\\033[Hhidden\\rshown\\n'; printf '\\342\\200\\256lanoitcerid\\n'; echo '" + HOSTILE + "'")


def test_hostile_names_and_output_are_inert(home):
    with home.rpc() as rpc, Console(home) as console:
        session = rpc.call("create_session", title=HOSTILE + "\u202eevil")["sessionId"]
        pipe = rpc.start(["sh", "-c", f"{OUTPUT}; exec sleep 1000", HOSTILE, "\u202etxt.exe\u2066", "a\nb"], sessionId=session)["processId"]
        terminal = rpc.start(["sh", "-c", f"{OUTPUT}; read -r go; {OUTPUT}; {QUERIES}; echo asked; exec sleep 1000", HOSTILE], sessionId=session, tty=TTY)["processId"]
        rpc.call("create_task", objective=HOSTILE, sessionId=session)
        tab = console.open("#/processes")
        tab.wait_text(text="<img src=x")
        tab.until(script="return [...document.querySelectorAll('.esc')].some((e) => e.textContent === '\\\\u202e')")
        for where in ("#/overview", "#/sessions", f"#/sessions/{session}", "#/tasks", "#/events", "#/history", *(f"#/processes/{pipe}?tab={t}" for t in ("events", "details", "sandbox"))):
            view(tab, where)
            tab.until(script="return !document.body.innerText.includes('Loading…')")
            assert not tab.evaluate(script="return /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"), where
        view(tab, f"#/processes/{pipe}")
        tab.until(script="return document.querySelector('.xterm-rows')?.innerText.includes('<img src=x')")
        rows = tab.text(selector=".xterm-rows").replace("\xa0", " ")
        for shown in ("\\x1b]52;c;b3duZWQ=", "\\x1b[2J", "\\u202elanoitcerid", "hidden"):
            assert shown in rows, rows
        view(tab, f"#/processes/{terminal}")
        tab.until(script="return document.querySelector('.xterm-rows')?.innerText.includes('<img src=x')")
        rpc.call("write_process_stdin", processId=terminal, data="go\n")
        tab.click(selector="text='Take over'")
        tab.until(script="return document.querySelector('.xterm-rows').innerText.includes('asked')")
        found = tab.evaluate(script="return [window.owned ?? 0, document.querySelectorAll('#app img').length, [...document.links].filter((a) => a.host !== location.host).length,"
                                    " /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText), document.title]")
        assert found == [0, 0, 0, False, "Processes · bailiff"], found
        answers = [e["payload"]["preview"] for e in rpc.events(processId=terminal) if e["type"] == "process.input" and e["payload"]["kind"] == "data"]
        assert len([a for a in answers if a.startswith("\x1b")]) == 1, f"the daemon answers queries of programs, and the page does not: {answers}"
        tab.clean()
        for process in (pipe, terminal):
            rpc.end(process)


MANY = """
const total = 100000, from = Number(params.cursor ?? 0), to = Math.min(total, from + (params.limit ?? 100));
if (params.liveOnly || params.status) return { processes: [] };
const processes = [];
for (let i = from; i < to; i++)
  processes.push({ processId: 'proc_' + String(total - i).padStart(26, '0'), status: 'completed', command: ['echo', 'row ' + i], cwd: '/', startedAt: new Date(1e12 - i * 1000).toISOString(), exitCode: 0, durationMs: i, sessionId: 'sess_' + (i % 50), uid: 0 });
return { processes, ...(to < total && { nextCursor: String(to) }) };
"""


SCROLL = """
const t = document.querySelector('.table'), frame = () => new Promise(requestAnimationFrame), times = [];
for (let i = 0; i < 40; i++) {
  const start = performance.now();
  t.scrollTop = (t.scrollHeight / 40) * i;
  await frame(); await frame();
  times.push(performance.now() - start);
}
return times.sort((a, b) => a - b)[20];
"""


def test_a_hundred_thousand_rows_stay_smooth(home):
    """Scrolling takes as long as in a list of a thousand, and only the rows in view are in the document."""
    with Console(home) as console:
        tab = console.open()
        tab.serve(method="list_processes", script=MANY)
        view(tab, "#/processes?show=all&view=flat")
        tab.until(script="return Number(document.querySelector('.table')?.getAttribute('aria-rowcount')) > 1000")
        few = tab.evaluate(script=SCROLL)
        tab.until(script="const t = document.querySelector('.table'); t.scrollTop = t.scrollHeight; return t.getAttribute('aria-rowcount') === '100001'")
        many = tab.evaluate(script=SCROLL)
        assert many < 3 * few + 50, (few, many)
        assert tab.count(selector=".tbody > .tr") < 100
        tab.evaluate(script="document.querySelector('.table').focus()")
        tab.press(key="End")
        tab.wait_text(text="row 99999")
        tab.fill(selector="main input[type=search]", text="4242'")
        tab.until(script="return document.querySelector('.table').getAttribute('aria-rowcount') === '11'")
        tab.clean()


def test_observer_sees_everything_and_cannot_act(home):
    with Policed(ASK) as home, home.rpc() as rpc, Console(home) as console:
        process = rpc.start(["sleep", "1000"])["processId"]
        ask(home, rpc, "x")
        tab = console.open(f"#/processes/{process}", role="observer")
        tab.wait(selector="button:disabled >> text='Terminate'")
        view(tab, "#/approvals", ".question")
        tab.wait(selector="text='Your role may watch, not answer.'")
        error = tab.evaluate(script="const { call } = await import('/ui/api.js'); return call('terminate_process', arg).then(() => '', (e) => e.code)", arg={"processId": process})
        assert error == "not_allowed", error
        tab.clean()
        end_all(rpc)


def test_login_code_works_once_in_the_browser(home):
    with Console(home) as console:
        url = console.url("#code=" + code_of(console.serve))
        tab = console.open()
        assert "code=" not in tab.evaluate(script="return location.href")
        first = console.browser.do("open", url=url)
        console.browser.do("wait", page=first, selector="nav")
        second = console.browser.do("open", url=url)
        console.browser.do("wait", page=second, selector="text=The code has been used already")
        for number in (first, second):
            console.browser.do("close", page=number)


if __name__ == "__main__":
    harness.main(globals())
