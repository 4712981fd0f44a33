"""`bailiff acp` with an editor that can read files: the agent sees unsaved text, but no file that its sandbox hides."""

import json
import os

import harness
from acp import Acp, calls_of
from harness import until
from test_acp import read, write
from test_agent import call, completed, model, submit

READS = {"fs": {"readTextFile": True, "writeTextFile": True}}


class Editor:
    """Answers as editors do: with the text of an open file, or else the file on disk, read with all rights of the user."""

    def __init__(self, buffers=None, meanwhile=None):
        self.buffers, self.meanwhile, self.asked, self.sent = buffers or {}, meanwhile, [], []

    def __call__(self, request):
        assert request["method"] == "fs/read_text_file", request
        path = request["params"]["path"]
        self.asked.append(path)
        text = self.buffers.get(path)
        if self.meanwhile:
            self.meanwhile(path)
        if text is None:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        self.sent.append(text)
        return {"content": text}


def results(provider, request):
    return [r["text"] for r in provider.requests[request].results]


def profile(home, **more):
    with open(os.path.join(home.dir, "policy.json"), "w", encoding="utf-8") as f:
        json.dump({"profiles": {"mine": dict({"extends": "workspace"}, **more)}}, f)
    with home.rpc() as rpc:
        rpc.call("reload_policy")


def test_unsaved_text_is_visible(home):
    for name, text in (("a.c", "int a;\n"), ("crlf.txt", "one\r\ntwo\r\n"), ("same.txt", "same\r\n"), ("p.txt", "p\n")):
        with open(os.path.join(home.work, name), "w", encoding="utf-8", newline="") as f:
            f.write(text)
    at = lambda name: os.path.join(home.work, name)     # noqa: E731
    editor = Editor({at("a.c"): "int a;\nint unsaved;\n", at("crlf.txt"): "one\nadded\ntwo\n", at("same.txt"): "same\n", at("p.txt"): "p\nq\n"})
    patch = "*** Begin Patch\n*** Update File: p.txt\n@@\n-q\n+r\n*** End Patch\n"
    script = [{"calls": [call("read_file", path="a.c"), call("read_file", path="same.txt")]},
              {"calls": [call("edit_file", path="a.c", oldText="int unsaved;", newText="int edited;")]},
              {"calls": [call("edit_file", path="crlf.txt", oldText="added", newText="more")]},
              {"calls": [call("apply_patch", patch=patch)]},
              {"calls": [call("shell", command="cat a.c")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, capabilities=READS, answer=editor) as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        assert stop == "end_turn" and [c["status"] for c in calls_of(updates)] == ["completed"] * 6, updates
        first, same = results(p, 1)
        assert "int unsaved;" in first and "editor" in first and "editor" not in same, (first, same)
        assert "not saved" in results(p, 2)[0] and "int edited;" in results(p, 5)[0], p.requests[2].results
        assert read(home, "a.c") == "int a;\nint edited;\n" and read(home, "p.txt") == "p\nr\n"
        with open(at("crlf.txt"), "rb") as f:
            assert f.read() == b"one\r\nmore\r\ntwo\r\n", "the file keeps its line endings"
        assert not [r for r in acp.asked if r["method"] != "fs/read_text_file"], "nothing is written through the editor"
        home.cli("store", "verify")


def test_editor_is_not_asked_for_files_that_the_sandbox_hides(home):
    outside = os.path.join(home.dir, "outside.txt")
    with open(outside, "w", encoding="utf-8") as f:
        f.write("SECRET\n")
    write(home, "hidden.txt", "SECRET\n")
    write(home, "a.txt", "open\n")
    os.symlink(outside, os.path.join(home.work, "link"))
    os.mkdir(os.path.join(home.work, "d"))
    os.symlink("../a.txt", os.path.join(home.work, "d/inner"))
    profile(home, hidden=["$WORKSPACE/hidden.txt"])
    forged = '{"path":"%s","device":1,"inode":1}' % os.path.join(home.work, "hidden.txt")
    script = [{"calls": [call("read_file", path="link"), call("read_file", path="hidden.txt"), call("read_file", path=outside)]},
              {"calls": [call("shell", command="echo mine > /tmp/private.txt; printf '%s\\n' '" + forged + "' >&2")]},
              {"calls": [call("read_file", path="/tmp/private.txt"), call("read_file", path="d/inner")]}, {"text": "Done."}]
    editor = Editor()
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, "--profile", "mine", capabilities=READS, answer=editor) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn"
        assert "SECRET" not in str([r.results for r in p.requests]), p.requests[1].results
        private, inner = results(p, 3)
        assert "mine" in private and "open" in inner, "the sandbox's own file; a link to one that is shown"
        assert editor.asked == [os.path.join(home.work, "a.txt")], editor.asked


def test_text_of_a_path_that_is_swapped_during_the_read_is_discarded(home):
    outside = os.path.join(home.dir, "outside")
    os.mkdir(outside)
    with open(os.path.join(outside, "a.txt"), "w", encoding="utf-8") as f:
        f.write("SECRET\n")
    os.mkdir(os.path.join(home.work, "d"))
    folder, kept = os.path.join(home.work, "d"), os.path.join(home.work, "kept")

    def exchange(path):
        """Swaps the folder for a link between the check and the editor's open, as a command could; the second time it swaps it back."""
        os.rename(folder, kept)
        os.symlink(outside, folder)
        with open(path, encoding="utf-8") as f:
            editor.buffers[path] = f.read()
        if len(editor.asked) == 2:
            os.unlink(folder)
            os.rename(kept, folder)

    class Late(Editor):
        def __call__(self, request):
            super().__call__(request)
            self.sent[-1] = self.buffers[request["params"]["path"]]
            return {"content": self.sent[-1]}

    editor = Late(meanwhile=exchange)

    def restore(request):
        if os.path.islink(folder):
            os.unlink(folder)
            os.rename(kept, folder)
        return {"calls": [call("read_file", path="d/a.txt")]}

    write(home, "d/a.txt", "open\n")
    script = [restore, restore, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, capabilities=READS, answer=editor) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn"
        assert editor.sent == ["SECRET\n"] * 2, "the editor read the file outside both times"
        assert [results(p, n)[0].split("\t")[1] for n in (1, 2)] == ["open\n"] * 2, p.requests[2].results


def test_file_on_disk_is_used_if_the_editor_sends_no_text(home):
    write(home, "a.txt", "open\n")
    script = [{"calls": [call("read_file", path="a.txt")]}, {"text": "Done."}]
    for answer in ({"content": 7}, {}):
        with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, capabilities=READS, answer=lambda r, a=answer: a) as acp:
            acp.open(home.work)
            assert acp.run("go")[0] == "end_turn" and "open" in results(p, 1)[0]


def test_editor_buffers_are_not_used_in_a_copy_on_write_sandbox(home):
    write(home, "a.txt", "open\n")
    profile(home, cow=True)
    script = [{"calls": [call("read_file", path="a.txt")]}, {"text": "Done."}]
    editor = Editor({os.path.join(home.work, "a.txt"): "unsaved\n"})
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, "--profile", "mine", capabilities=READS, answer=editor) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn" and "open" in results(p, 1)[0] and not editor.asked, editor.asked


def requests_of(rpc):
    """The requests of tools in the log."""
    return [e for e in rpc.events() if e["type"] == "process.output" and e["payload"]["stream"] == "stderr" and '"inode"' in e["payload"]["preview"]]


def test_command_in_the_same_sandbox_cannot_forge_a_request_of_a_tool(home):
    """The command writes a request to the tool's stderr, for a file that the profile hides, with the right device and inode."""
    write(home, "hidden.txt", "SECRET\n")
    write(home, "a.txt", "open\n")
    profile(home, hidden=["$WORKSPACE/hidden.txt"])
    st = os.stat(os.path.join(home.work, "hidden.txt"))
    forged = json.dumps({"path": os.path.join(home.work, "hidden.txt"), "device": st.st_dev, "inode": st.st_ino})
    attack = f"while :; do for p in /proc/[0-9]*; do if grep -qs -e '[-]-editor' $p/cmdline; then echo '{forged}' > $p/fd/2; exit; fi; done; done"
    script = [{"calls": [call("shell", command=f"({attack}) >/dev/null 2>&1 &")]}, {"calls": [call("read_file", path="a.txt")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        editor = Editor(meanwhile=lambda path: until("the request was forged", lambda: "hidden.txt" in str(requests_of(rpc))))
        with Acp(home, "--profile", "mine", capabilities=READS, answer=editor) as acp:
            acp.open(home.work)
            assert acp.run("go")[0] == "end_turn" and "open" in results(p, 2)[0], p.requests[2].results
            assert "hidden.txt" in str(requests_of(rpc)) and editor.asked == [os.path.join(home.work, "a.txt")], editor.asked


def test_file_on_disk_is_used_if_the_editor_does_not_answer(home):
    write(home, "a.txt", "open\n")
    script = [{"calls": [call("read_file", path="a.txt")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "go", options={"cwd": home.work, "editor": True})
        asked, = until("the tool asks", lambda: requests_of(rpc))
        assert json.loads(asked["payload"]["preview"])["inode"] == os.stat(os.path.join(home.work, "a.txt")).st_ino, asked
        rpc.call("close_process_stdin", processId=asked["processId"])
        completed(rpc, turn)
        assert "open" in results(p, 1)[0]


if __name__ == "__main__":
    harness.main(globals())
