"""The released clients drive `bailiff serve` over HTTP: what they do over stdio (test_mcp_sdk.py), and what only HTTP has."""

import harness
import test_mcp_sdk as over_stdio
from harness import alive, marked, until
from http_client import Serve
from mcp_clients import Sdk


class HttpSdk(Sdk):
    """A client with a `bailiff serve` of its own."""

    def __init__(self, home, which, args=(), plain=False, **more):
        self.serve = Serve(home, *([] if plain else ["--structured"]), *args)
        try:
            super().__init__(home, which, serve=self.serve, plain=plain, **more)
        except BaseException:
            self.serve.__exit__(True)
            raise

    def close(self):
        try:
            super().close()
        finally:
            self.serve.__exit__(None)


over_stdio.Sdk = HttpSdk
# All but the test that is about the end of a pipe.
globals().update({n: f for n, f in vars(over_stdio).items() if n.startswith("test_") and n != "test_processes_end_when_the_client_is_killed"})


def test_several_clients_share_one_listener(home):
    with Serve(home, "--structured") as serve:
        clients = [Sdk(home, which, mode=mode, serve=serve) for which, mode in over_stdio.CLIENTS * 2]
        try:
            calls = [c.begin("exec", command=f"echo number {i}") for i, c in enumerate(clients)]
            for i, (c, call) in enumerate(zip(clients, calls)):
                assert c.finish(call)["structuredContent"]["stdout"] == f"number {i}\n"
        finally:
            for c in clients:
                c.close()


def test_command_of_a_killed_client_ends(home):
    """Modern: what it ran in the foreground is cancelled. Legacy: it continues until the session has had no connection for the grace period."""
    for i, (which, mode) in enumerate(over_stdio.CLIENTS):
        with Serve(home, "--structured", "--session-idle", "5s") as serve:
            mark = f"mark-{harness.os.getpid()}-{i}"
            mcp = Sdk(home, which, mode=mode, serve=serve)
            mcp.begin("exec", command="sleep 1000", env={"MARK": mark})
            until("it runs", lambda: marked(mark))
            mcp.vanish()
            until("it has ended", lambda: not marked(mark))
            assert alive(serve.process.pid)


if __name__ == "__main__":
    harness.main(globals())
