"""Many tabs of the console in a real browser: they share one event stream and one session."""

import os
import signal
import subprocess

import harness
import npm
from browser import Console
from console_client import code_of
from harness import until
from test_console_browser import FOLLOW, view


def test_eight_tabs_share_one_stream(home):
    """Browsers open at most six connections to a server. Each tab sees every event once, also when tabs close or the daemon is killed."""
    with home.rpc() as rpc, Console(home) as console:
        process = rpc.start(["sh", "-c", "echo ready; while read -r line; do echo \"got $line\"; echo \"err $line\" >&2; done"], stdin="pipe")["processId"]
        first = console.open(f"#/processes/{process}?stream=stderr")
        tabs = [console.open(f"#/processes/{process}", like=first) for _ in range(7)]
        shown = "return document.querySelector('.xterm-rows')?.innerText.replaceAll('\\u00a0', ' ').includes(arg)"
        for tab in tabs:
            tab.until(script=shown, arg="ready")
        for tab in (first, *tabs):
            tab.evaluate(script=FOLLOW)
        rpc.call("write_process_stdin", processId=process, data="one\n")
        first.until(script=shown, arg="err one")
        for tab in tabs:
            tab.until(script=shown, arg="got one")
        first.close_tab()
        tabs.pop().close_tab()
        home.stop(sig=signal.SIGKILL, expect=False)
        tabs[0].wait(selector=".banner")
        home.start()
        with home.rpc() as again:
            for n in range(3):
                again.run(["echo", f"late {n}"])
            last = again.call("get_health")["store"]["lastSequence"]
        for tab in tabs:
            tab.until(script="return window.seen.at(-1) >= arg", arg=last)
            seen = tab.evaluate(script="return window.seen")
            assert seen == list(range(seen[0], seen[0] + len(seen))), seen
            assert tab.text(selector=".xterm-rows").replace("\xa0", " ").count("got one") == 1


BLOCKED = """
const { watchOutput } = await import('/ui/api.js');
const free = new Promise((done) => { window.free = done; });
let open = 0;
Object.assign(window, { got: 0, most: 0, gaps: 0 });
watchOutput(arg, 'stdout', 0, async ({ data, gap }) => {
  open += data.length;
  window.most = Math.max(window.most, open);
  window.gaps += gap;
  await free;
  open -= data.length;
  window.got += data.length;
});
"""


def test_a_slow_tab_delays_no_other_and_misses_nothing(home):
    size = 16 << 20
    with home.rpc() as rpc, Console(home) as console:
        process = rpc.start(["sh", "-c", f"read -r go; yes | head -c {size}; sleep 1000"], stdin="pipe")["processId"]
        slow = console.open("#/events")
        other = console.open("#/processes?view=flat", like=slow)
        slow.evaluate(script=BLOCKED, arg=process)
        rpc.call("write_process_stdin", processId=process, data="go\n")
        slow.until(script="return window.most > 1e6")
        later = rpc.start(["sleep", "1001"])["processId"]
        other.wait_text(text="sleep 1001")
        until("all of it was written", lambda: rpc.call("get_process", processId=process)["outputs"]["stdout"]["bytes"] == size)
        assert slow.evaluate(script="return window.most") < size / 2, "what a tab has not processed is bounded"
        slow.evaluate(script="window.free()")
        slow.until(script="return window.got >= arg", arg=size)
        assert slow.evaluate(script="return [window.got, window.gaps]") == [size, 0]
        # It sees new events again.
        rpc.run(["echo", "afterwards"])
        slow.wait_text(text="echo afterwards")
        for one in (process, later):
            rpc.end(one)


def test_a_stream_that_goes_silent_is_replaced_and_resumed():
    """As after a sleep of the machine, or through a tunnel that is gone. The module runs in Node: no browser is needed."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run([npm.node(20), os.path.join(folder, "tests/console/upstream.mjs"), os.path.join(folder, "supervisor/console/upstream.js")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 0, done.stdout


def test_a_browser_without_shared_workers_has_a_stream_in_the_tab(home):
    with home.rpc() as rpc, Console(home) as console:
        tab = console.open("#/processes", init="delete window.SharedWorker;")
        process = rpc.start(["sh", "-c", "echo ready; read -r line; echo \"got $line\"; sleep 1000"], stdin="pipe")["processId"]
        tab.wait_text(text="echo ready")
        view(tab, f"#/processes/{process}")
        tab.until(script="return document.querySelector('.xterm-rows')?.innerText.includes('ready')")
        rpc.call("write_process_stdin", processId=process, data="it\n")
        tab.until(script="return document.querySelector('.xterm-rows').innerText.includes('got')")
        tab.clean()
        rpc.end(process)


def test_a_tab_is_signed_in_again_by_a_new_address(home):
    with Console(home) as console:
        tab = console.open("#/processes")
        other = console.open("#/processes", like=tab)
        tab.click(selector="text='Sign out'")
        for one in (tab, other):
            one.wait(selector="text=This browser is not signed in")
        tab.hash(hash="#code=" + code_of(console.serve))
        for one in (tab, other):
            one.wait(selector="nav >> text=live")


if __name__ == "__main__":
    harness.main(globals())
