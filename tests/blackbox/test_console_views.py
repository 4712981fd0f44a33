"""The console's views of work in a real browser: conversations, tasks, jobs, changes, policy, history and events."""

import contextlib
import os
import signal
import time

import harness
from browser import Console
from harness import Home, until
from test_agent import call, completed, ended, events, model, submit
from test_policy import Policed, policy

HOSTILE = "<img src=x onerror=window.owned=1>"


def shows(tab, text):
    tab.until(script="return document.querySelector('main').innerText.includes(arg)", arg=text)


def settled(tab):
    tab.until(script="return document.querySelector('main h1') && !document.body.innerText.includes('Loading…')")


def is_clean(tab):
    """Accessible, without errors of the page, and without calls that failed. Takes most of a test's time: once where a view shows most."""
    settled(tab)
    found = [*tab.axe(), *tab.problems(), *tab.evaluate(script="return [...document.querySelectorAll('.error')].map((e) => e.innerText)")]
    assert not found, "\n".join(found)


def query(tab):
    return tab.evaluate(script="return Object.fromEntries(new URLSearchParams(location.hash.split('?')[1] ?? ''))")


@contextlib.contextmanager
def page(home, hash, **more):
    with Console(home) as console:
        tab = console.open(hash, **more)
        yield tab
        tab.clean()


def asked(rpc):
    return until("it asks", lambda: rpc.call("list_actions", status="pending")["actions"])[0]


def test_a_conversation_is_shown_and_answered_in_place():
    """Text, folded reasoning, output, a diff and a question, which is answered in the page; a second window sees the result."""
    script = [{"text": f"I look {HOSTILE} https://example.com/x", "reasoning": "first think", "calls": [call("shell", command="echo the output; exit 4")]},
              {"calls": [call("edit_file", path="a.txt", oldText="one", newText="two")]},
              {"text": "Now I ask.", "calls": [call("shell", command="touch asked")]}, {"text": "All done."}]
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc, model(home, rpc, script):
        with open(os.path.join(home.work, "a.txt"), "w") as f:
            f.write("one\n")
        turn = submit(rpc, "do something", options={"cwd": home.work})
        asked(rpc)
        with page(home, f"#/threads/{turn['threadId']}") as tab:
            for text in ("do something", f"I look {HOSTILE}", "the output", "exit 4", "-one", "+two", "Run this command?", "touch asked", "Why it asks"):
                shows(tab, text)
            assert tab.evaluate(script="return document.querySelector('details.reasoning').open") is False
            tab.click(selector="details.reasoning summary")
            shows(tab, "first think")
            links = tab.evaluate(script="return [...document.links].filter((a) => a.host !== location.host).map((a) => [a.href, a.innerText, a.rel])")
            assert links == [["https://example.com/x", "https://example.com/x", "noopener noreferrer"]], links
            assert tab.evaluate(script="return document.querySelectorAll('#app img').length + Number(Boolean(window.owned))") == 0
            is_clean(tab)
            tab.fill(selector=".ask input[type=text]", text="go on")
            tab.click(selector=".ask >> text='Allow once'")
            shows(tab, "All done.")
            shows(tab, "“go on”")
            tab.wait(selector=".turn-head >> text=completed")
            tab.wait(selector=".turn-end >> text=answered")
        assert os.path.exists(os.path.join(home.work, "asked")) and completed(rpc, turn)


def test_a_turn_is_steered_interrupted_and_continued(home):
    script = [{"calls": [call("shell", command="sleep 1000")]}, {"text": "never"}]
    with home.rpc() as rpc, model(home, rpc, script):
        turn = submit(rpc, "wait", options={"cwd": home.work})
        until("the tool runs", lambda: events(rpc, turn, "tool.started"))
        with page(home, f"#/turns/{turn['turnId']}") as tab:
            shows(tab, "sleep 1000")
            tab.fill(selector=".composer textarea", text="hurry")
            tab.press(key="Control+Enter", selector=".composer textarea")
            tab.wait(selector=".item.user >> text=Steered")
            assert events(rpc, turn, "turn.steered")[0]["payload"]["preview"] == "hurry"
            tab.click(selector="text='Interrupt'")
            tab.wait(selector="dialog")
            tab.press(key="Enter")
            tab.wait(selector=".turn-end")
            assert ended(rpc, turn)["type"] == "turn.failed"
            # The thread continues with another prompt.
            tab.fill(selector=".composer textarea", text="again")
            tab.click(selector=".composer button")
            shows(tab, "never")
            tab.wait(selector=".turn-end >> text=answered")


def test_the_timeline_zooms_by_keyboard_and_keeps_its_range_in_the_address(home):
    script = [{"calls": [call("shell", command="true")]}, {"text": "end"}]
    with home.rpc() as rpc, model(home, rpc, script):
        turn = submit(rpc, "go", options={"cwd": home.work})
        completed(rpc, turn)
        with page(home, f"#/threads/{turn['threadId']}") as tab:
            tab.until(script="return document.querySelectorAll('.timeline [data-span]').length >= 6")
            rows = tab.evaluate(script="return ['turn', 'request', 'tool', 'process'].map((r) => document.querySelectorAll(`.timeline .span.${r}`).length)")
            assert rows[0] == 1 and rows[1] == 2 and rows[2] == 1 and rows[3] >= 3, rows
            tab.evaluate(script="document.querySelector('.timeline-box').focus()")
            for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
                tab.press(key=key)
            tab.wait(selector=".timeline .chosen >> text=shell")
            tab.press(key="+")
            tab.until(script="return location.hash.includes('range=')")
            narrow = query(tab)
            first, last = map(float, narrow["range"].split("~"))
            tab.press(key="Enter")
            tab.until(script="return !location.hash.includes(arg)", arg=narrow["range"].split("~")[0])
            closer = [float(x) for x in query(tab)["range"].split("~")]
            assert closer[1] - closer[0] < last - first, (closer, first, last)
            # The same after a reload.
            tab.reload()
            tab.wait(selector=".timeline .chosen >> text=shell")
            assert [float(x) for x in query(tab)["range"].split("~")] == closer
            tab.press(key="0", selector=".timeline-box")
            tab.until(script="return !location.hash.includes('range=')")


def test_tasks_have_attempts_and_a_graph_and_can_be_retried(home):
    with home.rpc() as rpc:
        flag = os.path.join(home.work, "flag")
        first = rpc.call("create_task", objective="build it", title="Build " + HOSTILE, command=["true"], autoComplete=True)["taskId"]
        second = rpc.call("create_task", objective="test it", blockedBy=[first], commandLine=f"echo tested; test -e {flag}", cwd=home.work, autoComplete=True,
                          retryPolicy={"maxAttempts": 2})["taskId"]
        third = rpc.call("create_task", objective="release it", blockedBy=[second], command=["true"])["taskId"]
        for task in (first, second, third):
            rpc.call("start_task", taskId=task)
        until("it has failed", lambda: rpc.call("get_task", taskId=second)["status"] == "failed")
        with page(home, "#/tasks?filter=test") as tab:
            shows(tab, "test it")
            assert tab.evaluate(script="return document.querySelector('main').innerText.includes('release it')") is False
            tab.press(key="j")
            tab.press(key="Enter")
            tab.wait(selector="h1 >> text='test it'")
            tab.wait(selector=".pane pre >> text=tested")
            assert tab.count(selector="[aria-label='Attempts'] .tbody .tr") == 2
            tab.click(selector="[role=tab] >> text=Dependencies")
            tab.until(script="return document.querySelectorAll('.graph .node').length === 3 && document.querySelectorAll('.graph .edge').length === 2")
            assert query(tab)["tab"] == "graph"
            is_clean(tab)
            with open(flag, "w"):
                pass
            tab.click(selector="text='Retry'")
            tab.wait(selector=".card >> text=completed")
            tab.wait(selector=".graph .node.current.good")
        assert rpc.call("get_task", taskId=second)["attemptCount"] == 3


def test_a_task_of_a_fleet_is_retried_by_its_fleet(home):
    claim = {"taskId": "nightly", "token": 7, "submitter": "alice", "node": "n1", "attempt": 1, "leaseMs": 600000}
    with home.rpc() as rpc:
        task = rpc.call("create_task", objective="of a fleet", command=["false"], autoComplete=True, fleet=claim,
                        leaseUntil=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000 + 300000)["taskId"]
        rpc.call("start_task", taskId=task)
        until("it has failed", lambda: rpc.call("get_task", taskId=task)["status"] == "failed")
        with page(home, f"#/tasks/{task}") as tab:
            tab.wait(selector="text='Archive'")
            assert tab.count(selector="text='Retry'") == 0
            shows(tab, "bailiff fleet retry nightly")
            is_clean(tab)


def test_items_of_a_job_are_shown_and_retried(home):
    with home.rpc() as rpc:
        flag = os.path.join(home.work, "flag")
        items = [{"itemId": f"item-{i}", "commandLine": f"echo out {i}; test {i} != 3 -o -e {flag}"} for i in range(8)]
        job = rpc.call("create_job", items=items, cwd=home.work)["jobId"]
        until("it has ended", lambda: rpc.call("get_job", jobId=job)["status"] == "failed")
        with page(home, "#/jobs") as tab:
            shows(tab, "1 failed")
            tab.hash(hash=f"#/jobs/{job}?status=failed")
            tab.until(script="return document.querySelectorAll('[aria-label=Items] .tbody .tr').length === 1")
            tab.click(selector="text='item-3'")
            tab.wait(selector="pre.output >> text='out 3'")
            is_clean(tab)
            with open(flag, "w"):
                pass
            tab.click(selector="text='Retry'")
            tab.wait(selector=".card >> text='8 of 8'")
            until("the item has succeeded", lambda: rpc.call("get_job", jobId=job)["items"][3]["status"] == "completed")
            tab.wait(selector=".card h2 >> text=completed")


def test_changes_are_reviewed_applied_discarded_and_undone(home):
    with home.rpc() as rpc:
        with open(os.path.join(home.work, "a.txt"), "w") as f:
            f.write("one\n")
        script = f"echo two >>a.txt; echo new >b.txt; echo x >'{HOSTILE.replace('/', '')}'"
        process = rpc.run(["sh", "-ec", script], cwd=home.work, cow=True)[0]["processId"]
        until("its changes are known", lambda: rpc.call("list_changes", processId=process)["total"] == 3)
        with page(home, "#/changes") as tab:
            shows(tab, "2 added, 1 modified")
            tab.hash(hash=f"#/changes/{process}")
            tab.click(selector="text='a.txt'")
            tab.wait(selector=".diff .add >> text='+two'")
            assert query(tab)["file"] == os.path.join(home.work, "a.txt")
            is_clean(tab)
            tab.click(selector=f"input[aria-label='Select {home.work}/a.txt']")
            tab.click(selector="text='Apply 1'")
            tab.click(selector="dialog button.primary")
            tab.wait(selector=".outcome >> text=1 applied")
            with open(os.path.join(home.work, "a.txt")) as f:
                assert f.read() == "one\ntwo\n"
            tab.click(selector="text='Discard all'")
            tab.click(selector="dialog button.danger")
            shows(tab, "No changes are left to decide.")
            tab.click(selector="text='Undo the last apply'")
            tab.click(selector="dialog .dialog-actions button:last-child")
            tab.wait(selector=".outcome >> text=1 restored")
            tab.wait(selector="text='Undo the last apply'", gone=True)
        with open(os.path.join(home.work, "a.txt")) as f:
            assert f.read() == "one\n"
        assert not os.path.exists(os.path.join(home.work, "b.txt"))


def test_a_file_that_changed_on_the_host_is_a_conflict(home):
    with home.rpc() as rpc:
        for name in ("a.txt", "b.txt"):
            with open(os.path.join(home.work, name), "w") as f:
                f.write("one\n")
        process = rpc.run(["sh", "-ec", "echo two >>a.txt; echo two >>b.txt"], cwd=home.work, cow=True)[0]["processId"]
        until("its changes are known", lambda: rpc.call("list_changes", processId=process)["total"] == 2)
        with open(os.path.join(home.work, "a.txt"), "w") as f:
            f.write("mine\n")
        with page(home, f"#/changes/{process}") as tab:
            tab.click(selector="text='Apply all'")
            tab.click(selector="dialog button.primary")
            tab.wait(selector=".outcome.bad >> text=1 applied. 1 conflicts, left unchanged on the host:")
            shows(tab, "a.txt")
            with open(os.path.join(home.work, "a.txt")) as f:
                assert f.read() == "mine\n"
            # It stays on the list until it is decided.
            tab.hash(hash="#/changes")
            tab.wait(selector=".tbody .tr >> text='to review'")
            rpc.call("discard_changes", processId=process)
            shows(tab, "Nothing to review.")
            tab.click(selector="text='Also decided ones'")
            tab.wait(selector=".tbody .tr >> text='decided'")


def test_a_sandbox_is_returned_to_a_checkpoint_and_closed(home):
    with home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cow=True, cwd=home.work, name="review")["sandboxId"]
        rpc.run(["sh", "-ec", "echo one >one"], sandboxId=sandbox)
        with page(home, f"#/changes/{sandbox}") as tab:
            shows(tab, "No checkpoint.")
            tab.fill(selector="input[placeholder='name (optional)']", text="first")
            tab.click(selector="text='Create checkpoint'")
            tab.wait(selector=".rows >> text=first")
            rpc.run(["sh", "-ec", "echo two >two"], sandboxId=sandbox)
            shows(tab, "two")
            is_clean(tab)   # nothing is being loaded: what the next command changes shows by its end alone
            rpc.run(["sh", "-ec", "echo three >three"], sandboxId=sandbox)
            shows(tab, "three")
            tab.click(selector="text='Restore'")
            tab.click(selector="dialog button.danger")
            tab.until(script="return document.querySelectorAll('[aria-label=\"Changed files\"] .tbody .tr').length === 1")
            tab.click(selector="text='Close sandbox'")
            tab.click(selector="dialog .dialog-actions button:last-child")
            tab.click(selector="text='Apply all'")
            tab.click(selector="dialog button.primary")
            tab.wait(selector=".outcome >> text=1 applied")
        assert os.path.exists(os.path.join(home.work, "one")) and not os.path.exists(os.path.join(home.work, "two"))


def test_rules_are_shown_with_their_place_and_commands_are_tried():
    rules = {"permissions": {"deny": ["Bash(curl:*)"], "ask": ["Bash(git push:*)"]}}
    with Policed(rules) as home, home.rpc() as rpc:
        rpc.fails("start_process", command=["curl", "http://x.invalid/"], cwd=home.work)
        with page(home, "#/policy") as tab:
            shows(tab, "Bash(curl:*)")
            rule = [r for r in rpc.call("get_policy")["rules"] if r["effect"] == "deny"][0]
            shows(tab, f"{rule['file']}:{rule['line']}")
            tab.hash(hash="#/policy?tab=try")
            tab.fill(selector=".try input[type=search]", text="git push origin main")
            tab.press(key="Enter", selector=".try input[type=search]")
            shows(tab, "asks first")
            shows(tab, "Bash(git push:*)")
            assert query(tab)["cmd"] == "git push origin main"
            is_clean(tab)
            tab.hash(hash="#/policy?tab=suggestions")
            shows(tab, "curl http://x.invalid/")
            shows(tab, "no rule that allows is stronger")


def test_the_history_is_searched(home):
    with home.rpc() as rpc:
        rpc.run(["sh", "-c", "echo needle; exit 3"], cwd=home.work)
        rpc.run(["sh", "-c", "echo hay"], cwd=home.work)
        rpc.run(["sh", "-c", "echo x >/usr/denied; curl -sS http://host.invalid/"])
        with page(home, "#/history") as tab:
            shows(tab, "echo hay")
            tab.fill(selector="main input[type=search]", text="NEEDLE")
            tab.press(key="Enter", selector="main input[type=search]")
            tab.until(script="return document.querySelectorAll('.tbody .tr').length === 1")
            assert query(tab)["grep"] == "NEEDLE" and "--grep NEEDLE" in tab.text(selector=".cli code")
            for found, hash in ((1, "output=needle"), (1, "exit=3"), (2, "exit=nonzero"), (1, "host=host.invalid"), (1, "path=/usr/denied"), (1, "denied=1"), (0, "exit=9"), (2, f"since=1h&cwd={home.work}"), (0, "until=1h")):
                tab.hash(hash=f"#/history?{hash}")
                tab.until(script="return location.hash.includes(arg[0]) && !document.body.innerText.includes('Loading…') && document.querySelectorAll('.tbody .tr').length === arg[1]", arg=[hash, found])
            tab.hash(hash="#/history?since=tomorrow")
            tab.wait(selector="[role=alert] >> text=Since")
            tab.hash(hash="#/history")
            shows(tab, "echo hay")


def test_events_are_followed_filtered_and_opened(home):
    with home.rpc() as rpc:
        rpc.run(["echo", "early"])
        with page(home, "#/events?type=process.*") as tab:
            shows(tab, "early")
            types = "return [...new Set([...document.querySelectorAll('.tbody .tr')].map((r) => r.children[2].innerText.split('.')[0]))].join()"
            assert tab.evaluate(script=types) == "process"
            done = rpc.run(["echo", HOSTILE])[0]["processId"]
            shows(tab, HOSTILE)
            numbers = tab.evaluate(script="return [...document.querySelectorAll('.tbody .tr')].map((r) => Number(r.children[0].innerText))")
            assert numbers == sorted(set(numbers), reverse=True), numbers
            sequence = [e for e in rpc.events(processId=done) if e["type"] == "process.started"][0]["sequence"]
            tab.click(selector=f"text='{sequence}'")
            tab.wait(selector=f".pane h2 >> text='#{sequence}'")
            tab.wait(selector=".pane pre >> text=planHash")
            assert query(tab) == {"type": "process.*", "seq": str(sequence)}
            is_clean(tab)
            tab.hash(hash=f"#/events?process={done}&until={sequence}")
            tab.until(script="return document.querySelector('.tbody .tr')?.children[0].innerText === arg", arg=str(sequence))


MANY_SESSIONS = """
window.calls = (window.calls ?? 0) + 1;
const total = 100000, from = params.cursor ? total + 1 - Number(params.cursor.slice(5)) : 0, to = Math.min(total, from + (params.limit ?? 100));
const sessions = [];
for (let i = from; i < to; i++)
  sessions.push({ sessionId: 'sess_' + String(total - i).padStart(26, '0'), kind: 'user', title: (window.word ?? 'row') + ' ' + i, turns: i, uid: 0, createdAt: new Date(1e12 - i).toISOString(), updatedAt: new Date(1e12 - i).toISOString() });
return { sessions, ...(to < total && { nextCursor: sessions.at(-1).sessionId }) };
"""


def test_long_lists_are_read_page_by_page_and_kept_up_to_date(home):
    """However long a list is, the rows in view and new ones are read again when something changes."""
    with home.rpc() as rpc, Console(home) as console:
        tab = console.open()
        tab.serve(method="list_sessions", script=MANY_SESSIONS)
        tab.hash(hash="#/sessions")
        tab.until(script="return document.querySelector('.table')?.getAttribute('aria-rowcount') === '501'")
        tab.until(script="const t = document.querySelector('.table'); t.scrollTop = t.scrollHeight; return Number(t.getAttribute('aria-rowcount')) > 6000")
        assert tab.count(selector=".tbody .tr") < 100
        tab.evaluate(script="document.querySelector('.table').scrollTop = 28 * 5600")
        tab.wait_text(text="row 5600")
        tab.evaluate(script="window.calls = 0; window.word = 'changed'")
        rpc.call("create_session", title="an event")
        tab.wait_text(text="changed 5600")
        assert tab.evaluate(script="return window.calls") <= 3, "the page in view and the newest, not all of them"
        tab.evaluate(script="document.querySelector('.table').scrollTop = 28 * 3000")
        tab.wait_text(text="changed 3000")
        tab.clean()


def test_a_process_that_began_long_ago_ends_in_the_list(home):
    with home.rpc() as rpc:
        process = rpc.start(["sleep", "1000"])["processId"]
        for n in range(101):
            rpc.send("start_process", {"command": ["true"]})
        until("they have ended", lambda: len(rpc.call("list_processes", limit=1000)["processes"]) == 102 and len(rpc.call("list_processes", liveOnly=True)["processes"]) == 1)
        with page(home, "#/processes?show=all&view=flat&filter=sleep") as tab:
            tab.wait(selector=".tbody .tr >> text=running")
            rpc.call("terminate_process", processId=process, graceMs=0)
            tab.wait(selector=".tbody .tr >> text=terminated")


PRICED = {"limits": {"budgets": [{"name": "purse", "usd": 1, "window": "day", "lowMark": 0.5}]}, "permissions": {"ask": ["Bash(touch:*)"]}}


def test_the_overview_has_budgets_and_numbers(home):
    """Each plot gets data: commands, CPU, memory, output, cost and approvals."""
    with Policed(PRICED) as home, home.rpc() as rpc:
        with page(home, "#/overview") as tab:
            shows(tab, "Budget purse")
            shows(tab, "$0.00 of $1.00 a day")
            turn = rpc.call("submit_turn", input=[{"type": "text", "text": "go"}])
            rpc.call("record_cost", turnId=turn["turnId"], provider="else", model="where", costUsd=0.75)
            shows(tab, "$0.7500 of $1.00 a day")
            shows(tab, "low")
            rpc.send("start_process", {"command": ["touch", "x"], "cwd": home.work})
            action = asked(rpc)["actionId"]
            busy = rpc.start(["sh", "-c", "while :; do echo busy; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done"])["processId"]
            tab.wait(selector=".plot")
            value = "return [...document.querySelectorAll('.plot')].map((p) => p.querySelector('b').innerText)"
            tab.until(script=f"const v = await (async () => {{ {value} }})(); return v.length === 8 && v.every((t) => parseFloat(t.replace('$', '')) > 0 || t === v[7])")
            is_clean(tab)
            rpc.call("respond_action", actionId=action, decision="deny")
            rpc.end(busy)


def test_views_continue_when_the_daemon_returns():
    """Each view is open while the daemon is killed, and shows what happens after its restart."""
    with Policed({"permissions": {"deny": ["Bash(curl:*)"]}}) as home, Console(home) as console:
        with home.rpc() as rpc:
            session = rpc.call("create_session", title="before")
        views = {"sessions": "after session", f"threads/{session['threadId']}": "after turn", "tasks": "after task", "jobs": "2 of 2", "changes": "1 added", "policy": "Bash(wget:*)",
                 "history": "echo after-run", "events": "process.completed"}
        tabs = {}
        for name in views:
            tabs[name] = console.open(f"#/{name}", like=next(iter(tabs.values()), None))
        home.stop(sig=signal.SIGKILL, expect=False)
        for tab in tabs.values():
            tab.wait(selector=".banner")
        policy(home, {"permissions": {"deny": ["Bash(wget:*)"]}})
        home.start()
        with home.rpc() as rpc:
            rpc.call("create_session", title="after session")
            rpc.call("submit_turn", threadId=session["threadId"], input=[{"type": "text", "text": "after turn"}])
            rpc.call("create_task", objective="after task")
            rpc.call("create_job", items=[{"itemId": "one", "command": ["true"]}, {"itemId": "two", "command": ["true"]}])
            rpc.run(["sh", "-c", "echo x >new"], cwd=home.work, cow=True)
            rpc.run(["echo", "after-run"])
        for name, tab in tabs.items():
            tab.wait(selector=".banner", gone=True)
            shows(tab, views[name])
            assert not tab.evaluate(script="return [...document.querySelectorAll('.error')].map((e) => e.innerText)"), name


def test_an_observer_is_offered_no_action():
    with Home() as home, home.rpc() as rpc:
        task = rpc.call("create_task", objective="look", command=["true"])["taskId"]
        process = rpc.run(["sh", "-c", "echo x >new"], cwd=home.work, cow=True)[0]["processId"]
        with page(home, f"#/tasks/{task}", role="observer") as tab:
            shows(tab, "look")
            assert tab.count(selector=".page-head .actions button") == 0
            tab.hash(hash=f"#/changes/{process}")
            shows(tab, "new")
            assert tab.count(selector="text='Apply all'") == 0


if __name__ == "__main__":
    harness.main(globals())
