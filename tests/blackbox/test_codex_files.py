"""Large data of Codex: lists of files, input."""

import base64
import os
import urllib.parse

import harness
from codex import Codex, uri
from harness import until


def test_a_long_write_arrives_whole_and_in_order(home):
    with Codex(home) as c:
        c.hello()
        c.shell("p", "exec tee copy | wc -c", pipeStdin=True)
        data = [os.urandom(13 << 20), b"second", os.urandom(5 << 20), b"last"]
        sent = [c.send("process/write", {"processId": "p", "chunk": base64.b64encode(d).decode(), "writeId": str(i)}) for i, d in enumerate(data)]
        assert [c.reply(s)["status"] for s in sent] == ["accepted"] * len(data)
        assert c.write("p", data[0], "0") == "accepted", "a repetition is not written"
        path = os.path.join(home.work, "copy")
        until("all has arrived", lambda: os.path.getsize(path) >= sum(map(len, data)))
        with open(path, "rb") as f:
            assert f.read() == b"".join(data)
        assert c.call("process/terminate", {"processId": "p"}) == {"running": True}
        assert c.write("p", b"more", "5") == "stdinClosed"


def test_large_folders_are_listed_completely(home):
    # A control character takes six bytes in JSON: the list is longer than the daemon's answer at the end of a process, 1 MiB.
    names = {f"{i:03d}" + "\1" * 250 for i in range(800)}
    for name in names:
        os.close(os.open(os.path.join(home.work, name), os.O_CREAT | os.O_WRONLY, 0o600))
    with Codex(home) as c:
        c.hello()
        listed = c.fs("readDirectory", path=uri(home.work))["entries"]
        assert len(listed) == len(names) and {e["fileName"] for e in listed} == names, len(listed)
        limits = {"maxDepth": 2, "maxDirectories": 9, "maxEntries": 999, "followDirectorySymlinks": False}
        walked = c.fs("walk", path=uri(home.work), options=limits)
        assert {urllib.parse.unquote(os.path.basename(e["path"])) for e in walked["entries"]} == names and not walked["truncated"], len(walked["entries"])


if __name__ == "__main__":
    harness.main(globals())
