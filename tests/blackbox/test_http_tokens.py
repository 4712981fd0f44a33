"""The tokens of `bailiff serve`'s clients: a private file, and the identity that each token stands for."""

import json
import os
import stat

from harness import PATIENCE, Home, main, marked, until
from http_client import PING, Serve, text_of

LONG = 20_000_000 + os.getpid()     # seconds to sleep, and a mark of our own in /proc


def test_token_file_is_private_and_stable():
    with Home() as home:
        path = os.path.join(home.dir, "http-token")
        token = home.cli("serve", "--print-token").text.strip()
        assert len(token) == 64 and open(path).read().strip() == token
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert home.cli("serve", "--print-token").text.strip() == token
        os.chmod(path, 0o644)
        done = home.cli("serve", "--listen", "0", status=2)
        assert b"readable by others" in done.err, done.err
        other = os.path.join(home.dir, "deep", "er", "token")
        assert home.cli("serve", "--print-token", "--token-file", other).text.strip() != token
        with open(other, "w") as f:
            f.write("short\n")
        assert b"16 to 1024" in home.cli("serve", "--listen", "0", "--token-file", other, status=2).err


def test_a_token_elsewhere_must_be_hidden_from_commands():
    with Home(start=False) as home:
        other = os.path.join(os.path.realpath(home.work), "deep", "token")
        os.mkdir(os.path.dirname(other), 0o755)
        home.start()
        token = home.cli("serve", "--print-token", "--token-file", other).text.strip()
        done = home.cli("serve", "--listen", "0", "--token-file", other, status=2)
        assert other.encode() in done.err and b"secretPaths" in done.err, done.err
        above = os.path.join(home.dir, "free")      # the folder above is one of the daemon's, but this one is not
        home.cli("serve", "--print-token", "--token-file", above)
        assert b"secretPaths" in home.cli("serve", "--listen", "0", "--token-file", above, status=2).err
        with Serve(home, "--token-file", os.path.join(home.dir, "http-token")):
            pass
        home.stop()
        home.configure({"secretPaths": [other]})
        home.start()
        with Serve(home, "--token-file", other) as serve, home.rpc() as rpc:
            session = serve.initialize()
            for command in (f"cat {other}", f"cat /proc/self/root{other}", f"cd {os.path.dirname(other)}; cat token", f"mv {os.path.dirname(other)} x; cat x/token"):
                for cwd in (home.work, os.path.dirname(other)):
                    said = text_of(serve.tool(session, "exec", command=command, cwd=cwd)[2])
                    assert token not in said, (command, cwd, said)
            for name in ("read_file", "write_file"):
                said = json.dumps(serve.tool(session, name, path=other, **({"content": "x"} if name == "write_file" else {}))[2])
                assert token not in said, said
            assert open(other).read().strip() == token
            rpc.call("initialize", role="agent", clientName="x")
            rpc.fails("start_process", {"command": ["cat", other], "cwd": home.work, "sandbox": {"readRoots": [other]}}, code=-32602)
        home.stop()
        for bad in ("/x", ["x"], ["/"], [1], ["/x"] * 9):
            home.configure({"secretPaths": bad})
            home.spawn()
            assert home.guard.wait(PATIENCE) != 0 and any("secretPaths" in line for line in home.log()[-5:]), (bad, home.log()[-5:])
            home.guard = None


def test_clients_with_their_own_tokens_are_isolated():
    """The modern era has no sessions: only the token identifies the owner of a request."""
    with Home() as home, Serve(home, "--structured") as serve:
        path, shared = os.path.join(home.dir, "http-token"), serve.token
        def token(name):
            return home.cli("serve", "--print-token", "--client", name).text.strip()
        alice, bob = token("alice"), token("bob")
        assert len({alice, bob, shared}) == 3 and token("alice") == alice and stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert home.cli("serve", "--print-token").text.strip() == shared, "the shared token is unchanged"
        def runs(who, command, **more):
            serve.token = who
            return serve.modern("tools/call", {"name": "exec", "arguments": {"command": command, **more}})[2]["result"]["structuredContent"]
        def sees(who):
            serve.token = who
            found = serve.modern("tools/call", {"name": "ps", "arguments": {"all": True}})[2]["result"]["structuredContent"]["processes"]
            return {p["processId"] for p in found}
        # The server was not restarted: it reloaded the file automatically.
        ran = {who: {runs(who, "true")["processId"] for _ in range(2)} for who in (alice, bob, shared)}
        for who, own in ran.items():
            assert sees(who) == own, (who, own, sees(who))
        # A legacy session belongs to the token that it began with.
        serve.token = alice
        session = serve.initialize()
        assert serve.post(PING, session)[0] == 200
        serve.token = bob
        assert serve.post(PING, session)[0] == 404 and serve.get(session).status == 404
        assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": session})[0] == 404
        # A token that is removed from the file becomes invalid, and its sessions end; others are unaffected.
        serve.token = alice
        long = runs(alice, f"sleep {LONG}", background=True)
        assert long["status"] == "running", long
        until("it runs", lambda: marked(f"sleep\x00{LONG}"))
        kept = [line for line in open(path) if not line.startswith("alice ")]
        with open(path + ".new", "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.writelines(kept)
        os.rename(path + ".new", path)
        assert serve.modern("tools/list")[0] == 401 and serve.post(PING, session)[0] == 401
        until("what ran for it has ended", lambda: not marked(f"sleep\x00{LONG}"))
        assert sees(bob) == ran[bob] and sees(shared) == ran[shared]
        # A malformed file changes nothing.
        with open(path, "a") as f:
            f.write("one two three\n")
        assert sees(bob) == ran[bob]
        assert b"line 3: expected TOKEN, or NAME TOKEN" in home.cli("serve", "--print-token", status=2).err
        serve.token = shared
    with Home() as home:
        for options, word in ((("--client", "x"), b"--print-token"), (("--print-token", "--client", "a b"), b"letters")):
            assert word in home.cli("serve", *options, status=2).err, options
        home.cli("serve", "--print-token", "--client", "only")
        assert b"--client NAME" in home.cli("serve", "--print-token", status=2).err, "no shared token was requested"


if __name__ == "__main__":
    main(globals())
