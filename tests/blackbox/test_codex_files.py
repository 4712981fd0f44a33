"""Codex's file methods on large folders."""

import os
import urllib.parse

import harness
from codex import Codex, uri


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
