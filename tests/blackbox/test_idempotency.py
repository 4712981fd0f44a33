"""The same key and body give the stored result; the same key with another body is a conflict; across restarts."""

import harness
from harness import until


def test_same_key_and_body_give_the_same_result(home):
    with home.rpc() as rpc:
        first = rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")
        again = rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")
        assert first["processId"] == again["processId"] and first["sessionId"] == again["sessionId"], (first, again)
        rpc.wait(first["processId"])
        assert rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")["processId"] == first["processId"]
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def test_order_of_json_members_does_not_matter(home):
    with home.rpc() as rpc:
        rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"create_session","params":{"title":"a","workspaceId":"w","idempotencyKey":"o"}}\n')
        rpc.raw(b'{"jsonrpc":"2.0","id":9002,"method":"create_session","params":{"idempotencyKey":"o","workspaceId":"w","title":"a"}}\n')
        one, two = rpc.odd_reply(), rpc.odd_reply()
        assert one["result"]["sessionId"] == two["result"]["sessionId"], (one, two)


def test_same_key_with_another_body_is_a_conflict(home):
    with home.rpc() as rpc:
        rpc.call("start_process", commandLine="true", idempotencyKey="k2")
        rpc.fails("start_process", {"commandLine": "false", "idempotencyKey": "k2"}, code=-32009)
        rpc.fails("create_session", {"idempotencyKey": "k2"}, code=-32009)
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def test_parallel_requests_with_one_key_run_once(home):
    with home.rpc() as a, home.rpc() as b:
        ids = [(r, r.send("start_process", commandLine="echo x", idempotencyKey="race")) for r in (a, b) * 10]
        results = set()
        for rpc, i in ids:
            try:
                results.add(rpc.reply(i)["processId"])
            except harness.RpcError as e:
                assert e.code == -32009 and e.data["retryable"], e
        assert len(results) == 1, results
        assert len([e for e in a.events() if e["type"] == "process.started"]) == 1


def test_stored_results_survive_restarts(home):
    with home.rpc() as rpc:
        first = rpc.call("start_process", commandLine="echo once", idempotencyKey="k3")
        session = rpc.call("create_session", title="x", idempotencyKey="k4")
        rpc.wait(first["processId"])
    home.kill_part("runtime")
    until("it answers", home.answers)
    with home.rpc() as rpc:
        assert rpc.call("start_process", commandLine="echo once", idempotencyKey="k3")["processId"] == first["processId"]
    home.restart()
    with home.rpc() as rpc:
        assert rpc.call("create_session", title="x", idempotencyKey="k4") == session
        rpc.fails("create_session", {"title": "y", "idempotencyKey": "k4"}, code=-32009)
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def test_id_given_by_the_caller_cannot_be_used_twice(home):
    with home.rpc() as rpc:
        rpc.call("create_session", sessionId="sess_mine")
        rpc.fails("create_session", {"sessionId": "sess_mine"}, code=-32009)


def test_every_result_has_a_sequence_number(home):
    with home.rpc() as rpc:
        started = rpc.call("start_process", command=["cat"], stdin="pipe")
        process = started["processId"]
        results = [started, rpc.call("create_session"), rpc.call("write_process_stdin", processId=process, data="x"),
                   rpc.call("close_process_stdin", processId=process)]
        last = rpc.call("initialize")["lastSequence"]
        assert all(0 < r["sequence"] <= last for r in results), results
        rpc.wait(process)


if __name__ == "__main__":
    harness.main(globals())
