"""The tables that verbs print on a terminal."""

import json
import re
import unicodedata

import harness
from harness import until
from window import Window


def shown(home, *args, cols):
    with Window(home, *args, cols=cols) as window:
        until("it has ended", lambda: (window.pump(0.1), window.process.poll() == 0)[1])
        while window.pump(0):
            pass
        return window.plain().decode().splitlines()


def test_a_narrow_terminal_shows_the_command(home):
    """Ids are the widest column; of them only the ends are shown, which every verb accepts."""
    wanted = "sleep 1000 1001 1002"
    process = home.cli("run", "-d", *wanted.split()).text.strip()
    for verb in ("ps", "history"):
        row = shown(home, verb, cols=80)[1]
        assert wanted in row and process not in row and row.split()[0] == process[-6:], row
        assert len(row) <= 80, row
    assert wanted in "".join(shown(home, "ps", cols=30)), "too narrow for a column: the lines wrap"
    home.cli("run", "-d", "sh", "-c", "sleep 1000; : " + "x" * 3000)
    assert len("".join(shown(home, "ps", cols=30))) < 5 * 30 * 2, "no more of a long command than the lines need"
    assert process in "".join(shown(home, "ps", cols=150))
    assert "terminated" in home.cli("kill", "--json", process[-6:]).text


def columns(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def test_wide_characters_take_two_columns(home):
    items = ("plain", "日本語", "😀😀", "e\u0301a")
    job = home.cli("job", "create", "--wait", *(part for item in items for part in ("--item", item)), "--", "true").text.strip()
    rows = home.cli("job", "show", job).text.splitlines()
    at = rows[0].index("STATUS")
    for item, row in zip(items, rows[1:]):
        before, status, _ = row.partition("completed")
        assert item in before and status and columns(before) == at, row
    home.cli("run", "-d", "sh", "-c", "sleep 1000; : " + "文" * 100)
    row = shown(home, "ps", cols=80)[1]
    assert row.endswith("…") and 79 <= columns(row) <= 80, row
    assert "terminated" in home.cli("kill", "--json", "@last").text


def test_ids_alone_are_arguments_for_other_verbs(home):
    started = [home.cli("run", "-d", "sleep", "1000").text.strip() for _ in range(3)]
    assert home.cli("ps", "-q").text.splitlines() == started[::-1]
    home.cli("ps", "-q", "--json", status=2)
    home.cli("kill", *home.cli("ps", "-q").text.split())
    assert home.cli("ps", "--quiet").text == "" and len(home.cli("ps", "-aq").text.split()) == 3


def test_conditions_select_the_processes_to_list_and_to_kill(home):
    box = home.cli("sandbox", "create", "--name", "dev", cwd=home.work).text.strip()
    inside = [home.cli("run", "-d", "--in", "dev", "sleep", "1000").text.strip() for _ in range(3)]
    session = home.cli("session", "create").text.strip()
    of_session = [home.cli("run", "-d", "--session", session, "sleep", "2000").text.strip() for _ in range(2)]
    other = home.cli("run", "-d", "sleep", "3000").text.strip()
    assert home.cli("ps", "-q", "--sandbox", "dev").text.split() == inside[::-1]
    assert home.cli("ps", "-q", "--session", session[-8:]).text.split() == of_session[::-1]
    assert home.cli("ps", "-q", "--session", session, "--sandbox", box).text == "", "all conditions must hold"
    done = home.cli("kill", "--session", session, "--sandbox", box, status=1)
    assert done.text == "" and b"no such process runs" in done.err and b"bailiff ps" in done.err, done.err
    assert home.cli("kill", "--sandbox", "dev").text.splitlines() == [f"terminated {p}  sleep 1000" for p in inside[::-1]]
    home.cli("kill", "--sandbox", "dev", status=1)
    assert home.cli("kill", "-s", "CONT", "--session", session).text.splitlines() == [f"signalled {p}  sleep 2000" for p in of_session[::-1]]
    ended = [json.loads(line) for line in home.cli("kill", "--session", session, "--json").text.splitlines()]
    assert [(e["processId"], e["status"]) for e in ended] == [(p, "terminated") for p in of_session[::-1]], ended
    assert home.cli("ps", "-q").text.split() == [other]
    for wrong in ((), ("--all", other), ("--session", session, other), ("--all", "--sandbox", "dev")):
        home.cli("kill", *wrong, status=2)
    home.cli("kill", "--session", "sess_none", status=1)
    assert home.cli("kill", "--all").text == f"terminated {other}  sleep 3000\n"
    home.cli("kill", "--all", status=1)
    home.cli("sandbox", "close", "dev")


def test_only_the_newest_events_are_listed(home):
    def listed(*args):
        return [json.loads(line)["sequence"] for line in home.cli("events", "--json", *args).text.splitlines()]
    for n in range(4):
        home.cli("run", "--", "echo", str(n))
    every = listed()
    assert listed("-n", "3") == every[-3:] and listed("-n", str(len(every) + 5)) == every and len(every) > 20
    ends = listed("--type", "process.completed")
    assert listed("--type", "process.completed", "--limit", "2") == ends[-2:] and len(ends) == 4
    assert listed("-n", "2", "--since", str(every[-2])) == every[-1:], "both conditions hold"
    assert listed("-n", "2", "--type", "process.failed") == []
    for wrong in ("0", "-1", "x"):
        home.cli("events", "-n", wrong, status=2)
    with home.cli_start("events", "-f", "-n", "1", "--type", "process.completed", "--json") as follower:
        assert json.loads(follower.stdout.readline())["sequence"] == ends[-1]
        home.cli("run", "--", "true")
        assert json.loads(follower.stdout.readline())["sequence"] > ends[-1]
        follower.kill()


def test_help_fits_into_80_columns(home):
    overview = home.cli("help").text
    verbs = re.findall(r"^  (\S+) +\S", overview, re.M)
    assert len(verbs) > 40, overview
    for text in (overview, *(home.cli("help", verb).text for verb in verbs)):
        assert all(len(line) <= 80 for line in text.splitlines()), text
    assert re.search(r"^drain +rejects.*\n {9}status 124", home.cli("help", "daemon").text, re.M), "rows keep their second column"
    error = home.cli("session", "nope", status=2).err.decode().splitlines()
    assert error[1].startswith("  usage: bailiff session list ") and all(len(line) <= 80 for line in error), error


if __name__ == "__main__":
    harness.main(globals())
