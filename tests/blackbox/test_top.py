"""`bailiff top`: figures, order, filter, tree, and ending a process."""

import harness
from harness import until
from window import Window

BUSY = ["sh", "-c", "while :; do :; done"]


def test_top_prints_shares_and_sums_in_order(home):
    with home.rpc() as rpc:
        idle = rpc.start(["sleep", "1000"])
        busy = rpc.start(BUSY)

        def shares():
            return {p["processId"]: p for p in home.cli("top", "--json").json}
        busy_share = until("a share of the CPU", lambda: shares()[busy["processId"]]["cpuPercent"] > 5 and shares())
        assert busy_share[idle["processId"]]["cpuPercent"] < 20 and busy_share[busy["processId"]]["usage"]["tasks"] >= 1
        assert [p["processId"] for p in home.cli("top", "--json", "--sort", "new").json] == [busy["processId"], idle["processId"]]
        assert [p["processId"] for p in home.cli("top", "--json", "--sort", "cpu").json] == [busy["processId"], idle["processId"]]
        table = home.cli("top", "--filter", "SLEEP").text
        assert idle["processId"] in table and busy["processId"] not in table and "%CPU" in table and "WRITE" in table, table
        tree = home.cli("top", "--tree").text.splitlines()
        assert sum(line.rstrip().endswith(" session") for line in tree) == 2 and len(tree) == 5, tree
        assert b"--sort" in home.cli("top", "--sort", "name", status=2).err
        rpc.end(idle["processId"])
        rpc.end(busy["processId"])


def test_top_ends_the_chosen_process_after_a_confirmation(home):
    with home.rpc() as rpc:
        process = rpc.start(["sleep", "1234"])["processId"]
        with Window(home, "top", "--interval", "100ms", cols=160) as w:
            w.expect(process[-6:] + ".*sleep 1234")
            w.type("k")
            w.expect("choose a process first")
            w.type("j")
            w.expect(">" + process[-6:])
            w.type("k")
            w.expect(f"end {process} with all its processes")
            w.type("n")
            w.expect("not ended")
            w.type("k")
            w.expect(f"end {process}")
            w.type("y")
            w.expect("ending|ended")
            w.expect("0 running")
            w.type("q")
            w.wait(0)
            w.restored()
        assert rpc.wait(process)["status"] == "terminated"


def test_top_ends_no_other_process_than_the_one_that_it_asked_about(home):
    with home.rpc() as rpc:
        other, process = (rpc.start(["sleep", "1234"])["processId"] for _ in range(2))
        with Window(home, "top", "--sort", "new", "--interval", "100ms", cols=160) as w:
            w.expect("2 running")
            w.type("j")
            w.expect(">" + process[-6:])
            w.type("k")
            w.expect(f"end {process} with all its processes")
            rpc.end(process)
            w.expect(f"{process} has ended by itself")
            w.type("y")
            w.type("k")
            w.expect(f"end {other} with all its processes")     # the keys before were read
            w.type("q")
            w.expect("not ended")
            w.type("q")
            w.wait(0)
        assert rpc.call("get_process", processId=other)["status"] == "running"
        rpc.end(other)


def test_top_shows_the_command_in_80_columns(home):
    with home.rpc() as rpc:
        rpc.start(["sleep", "1234567890123"])
        with Window(home, "top", "--interval", "100ms", cols=80, env={"NO_COLOR": "1"}) as w:
            w.expect("TASKS +COMMAND")
            w.expect("sleep 1234567890123")
            w.type("q")
            w.wait(0)


def test_top_prints_one_table_on_a_dumb_terminal(home):
    with home.rpc() as rpc:
        rpc.start(["sleep", "1234"])
        with Window(home, "top", cols=160, env={"TERM": "dumb"}) as w:
            w.wait(0)
            assert b"sleep 1234" in w.seen and b"\x1b" not in w.seen, w.seen


def test_top_gives_the_window_back_while_it_is_stopped(home):
    with Window(home, "--norc", "--noprofile", "-i", program="bash", env={"PS1": "ready> "}) as w:
        w.expect("ready> ")
        w.type(f"{harness.CLI} top --interval 100ms\r")
        w.expect("0 running")
        for _ in range(2):
            w.type("\x1a")
            w.expect(rb"\x1b\[\?25h\x1b\[\?1049l.*Stopped.*ready> ", escapes=True)
            w.type("fg\r")
            w.expect(rb"\x1b\[\?1049h.*0 running", escapes=True)
        w.type("q")
        w.expect(rb"\x1b\[\?1049l.*ready> ", escapes=True)
        w.type("exit\r")
        w.wait()


def test_top_filters_and_groups_by_keys(home):
    with home.rpc() as rpc:
        one, two = rpc.start(["sleep", "1111"])["processId"], rpc.start(["sleep", "2222"])["processId"]
        with Window(home, "top", "--interval", "100ms", cols=160) as w:
            w.expect("2 running")
            w.type("/1111\n")
            w.expect('1 running, filter "1111"')
            w.type("v")
            w.expect("tree")
            w.type("m")
            w.expect("by memory")
            w.type("/\x1b")
            w.expect("2 running")
            w.type("?")
            w.expect("q quits")
            w.type("\x03")
            w.wait(0)
            w.restored()
        rpc.end(one)
        rpc.end(two)


if __name__ == "__main__":
    harness.main(globals())
