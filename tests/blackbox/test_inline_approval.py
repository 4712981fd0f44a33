"""Approvals that are answered on the terminal of run and attach."""

import os

import harness
from harness import Home, until
from window import Window

ASK = harness.host_policy(ask=["Bash(touch:*)"])
QUESTION = r"\[y\]es once  \[s\]ession  \[a\]lways  \[n\]o  \[e\]xplain: "


def asking():
    return Home(options=("--audit", "off", *ASK))


def made(home, name):
    return os.path.exists(os.path.join(home.work, name))


def test_run_asks_on_the_terminal_and_explains():
    with asking() as home:
        with Window(home, "run", "--", "touch", "one", cols=120) as w:
            w.expect("touch one")
            w.expect(QUESTION)
            w.type("what\n")
            w.expect(QUESTION)
            w.type("e\n")
            w.expect(r"rule|reason|decision")
            w.expect(QUESTION)
            assert not made(home, "one")
            w.type("y\n")
            w.wait(0)
            w.restored()
        assert made(home, "one")
        with Window(home, "run", "--", "touch", "two") as w:
            w.expect(QUESTION)
            w.type("n\n")
            w.wait(126)
        assert not made(home, "two")


def test_an_answer_for_the_session_is_not_asked_again():
    with asking() as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        with Window(home, "run", "--session", session, "--", "touch", "one") as w:
            w.expect(QUESTION)
            w.type("s\n")
            w.wait(0)
        home.cli("run", "--session", session, "--", "touch", "one", cwd=home.work)


def test_an_answer_that_is_rejected_can_be_corrected():
    """No rule that allows is stronger than one that asks, so "always" is not possible here."""
    with asking() as home:
        with Window(home, "run", "--", "touch", "one", cols=120) as w:
            w.expect(QUESTION)
            w.type("a\n")
            w.expect("answer once, or for the session")
            w.expect(QUESTION)
            w.type("y\n")
            w.wait(0)
            w.restored()
        assert made(home, "one")


def test_ctrl_c_cancels_the_pending_command():
    with asking() as home, home.rpc() as rpc:
        with Window(home, "run", "--", "touch", "one") as w:
            w.expect(QUESTION)
            w.type("\x03")
            w.wait(130)
            w.restored()
        assert not made(home, "one") and rpc.call("list_actions", status="pending")["actions"] == []


def test_another_clients_answer_ends_the_question():
    with asking() as home, home.rpc() as rpc:
        with Window(home, "run", "--", "touch", "one") as w:
            w.expect(QUESTION)
            action = rpc.call("list_actions", status="pending")["actions"][0]["actionId"]
            rpc.call("respond_action", actionId=action, decision="allow")
            w.wait(0)
            w.restored()
        assert made(home, "one")


def test_keys_of_an_interactive_command_follow_the_answer():
    with asking() as home:
        with Window(home, "run", "-it", "--", "sh", "-c", "touch one; read x; echo got $x") as w:
            w.expect(QUESTION)
            w.type("y\n")
            until("the command runs", lambda: made(home, "one"))
            w.type("hello\n")
            w.expect("got hello")
            w.wait(0)
            w.restored()


def test_attach_asks_for_a_pending_approval():
    with asking() as home, home.rpc() as rpc:
        process = rpc.start(["sh", "-c", "touch one; sleep 0.1"], cwd=home.work)["processId"]
        with Window(home, "attach", process) as w:
            w.expect(QUESTION)
            w.type("\x03")
            w.wait(130)
            w.restored()
        assert rpc.call("get_process", processId=process)["status"] == "waiting_permission"
        with Window(home, "attach", process) as w:
            w.expect(QUESTION)
            w.type("yes\n")
            w.wait(0)
        assert made(home, "one")


def test_no_question_without_a_terminal_or_with_json():
    with asking() as home, home.rpc() as rpc:
        run = home.cli_start("run", "--", "touch", "one")
        action = until("the question", lambda: rpc.call("list_actions", status="pending")["actions"])[0]["actionId"]
        home.cli("approve", action)
        assert run.wait() == 0 and made(home, "one")
        with Window(home, "run", "--json", "--", "touch", "two") as w:
            w.expect("bailiff approve")


if __name__ == "__main__":
    harness.main(globals())
