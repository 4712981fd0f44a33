"""bailiff pending: what is asked is visible, and nothing in it can imitate what the daemon says about it."""

import os

import harness
from harness import valid
from test_policy import Policed, pending
from test_tables import shown


def test_truncated_prompt_is_marked():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc:
        rpc.call("start_process", command=["touch", "x" * 300, "the-end"], cwd=home.work)
        line = shown(home, "pending", cols=120)[1]
        assert "the-end" not in line and "…" in line, line


def test_pending_shows_the_command_on_a_narrow_terminal():
    """Folder and profile cannot be imitated: they have columns of their own, and only the server fills KIND."""
    with Policed({"permissions": {"ask": ["Bash(touch:*)"], "defaultMode": "untrusted"}}) as home, home.rpc() as rpc:
        folder = os.path.join(home.work, "a  readonly  true  and a long name" + "x" * 60)
        os.mkdir(folder)
        asked = rpc.call("start_process", command=["touch", "  workspace  /srv"], cwd=folder)
        action, = pending(rpc)
        assert (action["display"], action["cwd"], action["profile"]) == ("touch '  workspace  /srv'", folder, "workspace"), action
        assert action["prompt"] == f"run in {folder} (profile workspace): touch '  workspace  /srv'", action
        heads, line = shown(home, "pending", cols=80)
        assert heads.split() == ["ACTION", "KIND", "ASKED", "LEFT", "HARM", "PROFILE", "REQUEST"] and len(line) <= 80, (heads, line)
        assert line[heads.index("REQUEST"):].rstrip() == "touch '  workspace  /srv'" and line[heads.index("PROFILE"):].startswith("workspace "), line
        assert line.startswith(asked["actionId"][-6:] + "  permission  "), line
        heads, line = shown(home, "pending", cols=400)
        assert line[heads.index("FOLDER"):].startswith(f"'{folder}'  touch") and " ago " in line, line
        assert f"'{folder}'" in home.cli("pending").text
        longer = rpc.call("start_process", command=["touch", "x" * 100], cwd=folder)
        heads, line = shown(home, "pending", cols=80)[:2]
        assert "ASKED" not in heads and line[heads.index("REQUEST"):].startswith("touch " + "x" * 20) and len(line) == 80, (heads, line)
        rpc.call("respond_action", actionId=longer["actionId"], decision="deny")
        # A client's own question cannot pass for a command, whatever type it gives itself.
        rpc.call("respond_action", actionId=asked["actionId"], decision="deny")
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "go"}])["turnId"]
        rpc.call("request_action", turnId=turn, actionType="permission", prompt="touch made")
        heads, line = shown(home, "pending", cols=80)
        assert line[heads.index("KIND"):].startswith("request  ") and line[heads.index("PROFILE"):].split() == ["-", "-", "touch", "made"], line
        valid(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
