"""The tables that verbs print on a terminal."""

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
    assert process in shown(home, "ps", cols=150)[1]
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


if __name__ == "__main__":
    harness.main(globals())
