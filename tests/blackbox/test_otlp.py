"""Spans and metrics at an OpenTelemetry collector: what arrives, and that no command waits for the export."""

import http.server
import json
import signal
import socket
import threading
import time

import harness
from harness import Home, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes what is posted to it; `answers` are the statuses of the next posts of spans (or (status, headers, body)), after those 200."""

    def __init__(self, bound=None):
        self.posts, self.answers, self.headers, self.paths, outer = [], [], [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = outer.answers.pop(0) if outer.answers and "resourceSpans" in body else 200
                status, headers, text = answer if isinstance(answer, tuple) else (answer, {}, {})
                text = json.dumps(text).encode()
                outer.headers.append(dict(self.headers))
                outer.paths.append((time.monotonic(), self.path, dict(self.headers), status))
                if status == 200:
                    outer.posts.append((self.path, body))
                self.send_response(status)
                for name, value in dict(headers, **{"content-length": str(len(text))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = bound or unused_port()
        self.server.server_activate()
        self.url = url_of(self.server.socket)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        return [dict(span, attributes=values(span["attributes"])) for _, body in list(self.posts)
                for r in body.get("resourceSpans", []) for s in r["scopeSpans"] for span in s["spans"]]

    def of(self, process):
        """The spans about this process itself."""
        return [s for s in self.spans() if s["attributes"].get("bailiff.process.id") == process and s["kind"] == 3]

    def wait_for(self, process):
        return until(f"the span of {process} arrives", lambda: self.of(process))[0]

    def exec_of(self, process):
        """The call above it, which is written together with it."""
        call, = [s for s in self.spans() if s["attributes"].get("bailiff.process.id") == process and s["name"] == "execute_tool exec"]
        return call

    def metrics(self):
        return {m["name"]: int((m.get("sum") or m["gauge"])["dataPoints"][0]["asInt"]) for m in self.all_metrics()}

    def all_metrics(self):
        return [m for _, body in list(self.posts) for r in body.get("resourceMetrics", []) for s in r["scopeMetrics"] for m in s["metrics"]]


def unused_port():
    """A port that refuses connections until a collector takes it over, reserved meanwhile."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def url_of(sock):
    return f"http://127.0.0.1:{sock.getsockname()[1]}"


def values(attributes):
    return {a["key"]: next(iter(a["value"].values())) for a in attributes}


def exporting(url, **env):
    return Home(env=dict({"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "200"}, **env))


def test_collector_gets_spans_with_the_callers_trace():
    with Collector() as collector, exporting(collector.url, OTEL_SERVICE_NAME="shop", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test",
                                             OTEL_EXPORTER_OTLP_HEADERS="api-key=a%20b,x-more=1") as home:
        with home.rpc() as rpc:
            started = rpc.call("start_process", command=["/bin/sh", "-c", "exit 3"], traceparent=f"00-{TRACE}-{PARENT}-01")
            end = rpc.wait(started["processId"])
            span = collector.wait_for(started["processId"])
            a = span["attributes"]
            assert span["traceId"] == TRACE and span["name"] == "sh" and span["status"]["code"] == 2, span
            assert a["process.exit.code"] == "3" and a["process.executable.name"] == "sh" and a["process.working_directory"], a
            assert a["process.interactive"] is False and a["gen_ai.conversation.id"] == started["sessionId"] and a["bailiff.trace"] == "caller", a
            assert "exit 3" not in json.dumps(span), "words of commands may be secrets"
            took = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
            assert 0 < took < 60e9 and abs(took / 1e6 - end["durationMs"]) < 5000, (took, end)
            turn = until("the turn's span", lambda: [s for s in collector.spans() if s["name"] == "interaction" and s["attributes"]["bailiff.turn.id"] == started["turnId"]])[0]
            call = collector.exec_of(started["processId"])
            assert span["parentSpanId"] == call["spanId"] and call["parentSpanId"] == turn["spanId"] and turn["parentSpanId"] == PARENT, (span, call, turn)
            # The same spans as in a pack of evidence, made later.
            pack = rpc.call("export_evidence", scope={"turnId": started["turnId"]}, include=["trace"])
            assert all(s["spanId"] in read_trace(rpc, pack) for s in (span, turn)), pack
            metrics = until("metrics", lambda: (m := collector.metrics()) and m.get("bailiff.processes.ended") and m)
            assert metrics["bailiff.processes.started"] >= 1 and metrics["bailiff.store.commits"] > 0, metrics
        resource = values(next(b for p, b in collector.posts if p == "/v1/traces")["resourceSpans"][0]["resource"]["attributes"])
        assert resource["service.name"] == "shop" and resource["deployment.environment"] == "test" and resource["service.instance.id"].startswith("rt_"), resource
        assert any(h.get("api-key") == "a b" and h.get("x-more") == "1" and h["Content-Type"] == "application/json" for h in collector.headers), collector.headers


def read_trace(rpc, pack):
    out, offset = "", 0
    while True:
        part = rpc.call("read_output", outputRef=pack["traceRef"], offset=offset, length=1 << 20)
        out, offset = out + part["data"], part["nextOffset"]
        if part["eof"]:
            return out


def test_exported_data_is_valid_otlp():
    """Ids in hex, 64-bit numbers as strings, enums as numbers, each key once; sums are cumulative and always begin at the same moment."""
    with Collector() as collector, exporting(collector.url, OTEL_RESOURCE_ATTRIBUTES="service.name=shop,service.instance.id=i%2C1") as home, home.rpc() as rpc:
        collector.wait_for(rpc.run(["false"])[0]["processId"])
        until("metrics, several times", lambda: sum(m["name"] == "bailiff.requests" for m in collector.all_metrics()) >= 3)
        for _, body in list(collector.posts):
            for r in body.get("resourceSpans", []) + body.get("resourceMetrics", []):
                keys = [a["key"] for a in r["resource"]["attributes"]]
                assert len(keys) == len(set(keys)), keys
                resource = values(r["resource"]["attributes"])
                assert resource["service.name"] == "shop" and resource["service.instance.id"] == "i,1", resource
        for _, body in list(collector.posts):
            for span in [s for r in body.get("resourceSpans", []) for scope in r["scopeSpans"] for s in scope["spans"]]:
                keys = [a["key"] for a in span["attributes"]]
                assert len(keys) == len(set(keys)), keys
                for name, digits in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
                    assert name not in span or (len(span[name]) == digits and int(span[name], 16)), span
                for name in ("startTimeUnixNano", "endTimeUnixNano"):
                    assert isinstance(span[name], str) and span[name].isdigit(), span
                assert span["kind"] in (1, 3) and span["status"]["code"] in (1, 2) and span["name"], span
                assert all(isinstance(a["value"]["intValue"], str) for a in span["attributes"] if "intValue" in a["value"]), span
        sums = [m["sum"] for m in collector.all_metrics() if "sum" in m]
        assert all(m["aggregationTemporality"] == 2 and m["isMonotonic"] is True for m in sums), sums
        starts = {p["startTimeUnixNano"] for m in sums for p in m["dataPoints"]}
        assert len(starts) == 1, f"a collector would treat each as a reset: {starts}"
        home.kill_part("otlp")      # another exporter of the same runtime continues the counters
        seen = len(collector.posts)
        until("metrics from the next one", lambda: any("resourceMetrics" in b for _, b in list(collector.posts)[seen:]))
        assert {p["startTimeUnixNano"] for m in collector.all_metrics() if "sum" in m for p in m["sum"]["dataPoints"]} == starts


def test_each_signal_has_its_own_settings():
    with Collector() as collector, Home(env={
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/all/", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": collector.url + "/mine", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-one=all,x-two=all", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-one=mine", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "5000",
            "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "200"}) as home, home.rpc() as rpc:
        rpc.run(["true"])
        seen = until("both", lambda: (h := {path: headers for _, path, headers, _ in list(collector.paths)}) and len(h) == 2 and h)
        assert seen["/all/v1/traces"]["x-one"] == "all" and seen["/all/v1/traces"]["x-two"] == "all", seen
        assert seen["/mine"]["x-one"] == "mine" and "x-two" not in seen["/mine"], seen
    with Collector() as collector, exporting(collector.url, OTEL_TRACES_EXPORTER="none") as home, home.rpc() as rpc:
        rpc.run(["true"])
        until("metrics", lambda: collector.metrics().get("bailiff.processes.ended"))
        assert not collector.spans()


def test_collector_responses_are_logged_and_respected():
    with Collector() as collector, exporting(collector.url, OTEL_METRICS_EXPORTER="none") as home, home.rpc() as rpc:
        collector.answers = [(200, {}, {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}})]
        collector.wait_for(rpc.run(["true"])[0]["processId"])
        until("it is told", lambda: any("rejected some of" in line and "1 rejected: too old" in line for line in home.log()))
        # Nothing rejected: the message is a warning, and no span is reported as lost.
        collector.answers = [(200, {}, {"partialSuccess": {"rejectedSpans": "0", "errorMessage": "deprecated"}})]
        collector.wait_for(rpc.run(["true"])[0]["processId"])
        until("the warning is logged", lambda: any("with a warning: deprecated" in line for line in home.log()))
        assert not any("0 rejected" in line for line in home.log()), home.log()
        # It requests a longer delay than the exporter's own.
        collector.answers = [(429, {"retry-after": "2"}, {})]
        process = rpc.run(["true"])[0]["processId"]
        collector.wait_for(process)
        posts = until("it was asked, and tried again", lambda: [(t, status) for t, _, _, status in collector.paths] if not collector.answers else None)
        asked = [status for _, status in posts].index(429)
        assert posts[asked + 1][0] - posts[asked][0] > 1.9, posts
        assert len(collector.of(process)) == 1


def test_call_id_of_the_client_does_not_become_a_parent_span():
    with Collector() as collector, exporting(collector.url) as home, home.rpc() as rpc:
        started = rpc.call("start_process", command=["true"], toolCallId="call_of_theirs", traceparent=f"00-{TRACE}-{PARENT}-01")
        span = collector.wait_for(started["processId"])
        turn = until("the turn's span", lambda: [s for s in collector.spans() if s["name"] == "interaction" and s["attributes"]["bailiff.turn.id"] == started["turnId"]])[0]
        call = collector.exec_of(started["processId"])
        assert call["parentSpanId"] == turn["spanId"] and turn["parentSpanId"] == PARENT and span["traceId"] == call["traceId"] == TRACE, (span, call, turn)
        assert span["parentSpanId"] == call["spanId"] and call["attributes"]["gen_ai.tool.call.id"] == "call_of_theirs", (span, call)
        pack = rpc.call("export_evidence", scope={"turnId": started["turnId"]}, include=["trace"])
        packed = {s["spanId"]: s for r in json.loads(read_trace(rpc, pack))["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]}
        assert packed[span["spanId"]]["parentSpanId"] == turn["spanId"], packed


def test_tool_span_is_the_parent_of_its_process():
    with Collector() as collector, exporting(collector.url) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": "shell", "arguments": {"command": "true"}}])
        tool = until("the tool's span", lambda: [s for s in collector.spans() if s["name"] == "execute_tool shell"])[0]
        assert tool["attributes"]["gen_ai.tool.name"] == "shell" and tool["attributes"]["bailiff.turn.id"] == turn["turnId"], tool
        process = until("its process's span", lambda: [s for s in collector.spans() if s["kind"] == 3])[0]
        assert process["parentSpanId"] == tool["spanId"] and process["traceId"] == tool["traceId"], (process, tool)
        assert not [s for s in collector.spans() if s["name"] == "execute_tool exec"], "the tool's own span is the call"


def test_context_artifacts_and_exports_are_spans():
    with Collector() as collector, exporting(collector.url) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": "write_file", "arguments": {"path": "new", "content": "x"}}], options={"cwd": home.work})
        until("the turn's span", lambda: [s for s in collector.spans() if s["name"] == "interaction"])
        rpc.call("export_evidence", scope={"sessionId": turn["sessionId"]})
        spans = until("all of them", lambda: (n := {s["name"]: s for s in collector.spans()}) and {"context", "artifact_write", "export"} <= set(n) and n)
        assert spans["context"]["parentSpanId"] == spans["interaction"]["spanId"], spans
        assert spans["artifact_write"]["attributes"]["bailiff.turn.id"] == turn["turnId"] and spans["artifact_write"]["parentSpanId"], spans
        assert spans["artifact_write"]["attributes"]["bailiff.artifact.change"], spans


def test_names_follow_the_conventions():
    with Collector() as collector, exporting(collector.url) as home, home.rpc() as rpc:
        for command, limits, error in (("true", {}, None), ("exit 3", {}, "3"), ("kill -9 $$", {}, "SIGKILL"), ("sleep 1000", {"wallMs": 100}, "timeout")):
            started = rpc.call("start_process", command=["/bin/sh", "-c", command], **({"limits": limits} if limits else {}))
            span = collector.wait_for(started["processId"])
            call = collector.exec_of(started["processId"])
            for one in (span, call):
                assert one["attributes"].get("error.type") == error and (one["status"]["code"] == 2) == bool(error), (command, one)
            assert call["kind"] == 1 and call["attributes"]["gen_ai.operation.name"] == "execute_tool" and call["attributes"]["gen_ai.tool.name"] == "exec", call
            assert call["attributes"]["gen_ai.tool.call.id"] == started["processId"] and call["attributes"]["bailiff.turn.id"] == started["turnId"], call
        for span in collector.spans():
            assert all(key == key.lower() for key in span["attributes"]), f"words are separated by dots and underscores: {span['attributes']}"
        until("metrics", collector.all_metrics)
        for path, body in list(collector.posts):
            for whole in body.get("resourceSpans", []) + body.get("resourceMetrics", []):
                for part in [whole] + whole.get("scopeSpans", []) + whole.get("scopeMetrics", []):
                    assert part["schemaUrl"].startswith("https://opentelemetry.io/schemas/1."), (path, part)


def test_spans_are_kept_while_the_collector_is_unavailable():
    away = unused_port()
    with exporting(url_of(away)) as home:
        with home.rpc() as rpc:
            ids = [rpc.run(["true"])[0]["processId"] for _ in range(5)]
            until("the delay is logged", lambda: any("spans are delayed" in line for line in home.log()))
            ids += [rpc.run(["true"])[0]["processId"] for _ in range(5)] # nothing waits for it
        with Collector(away) as collector:
            collector.answers = [503, 429]
            for process in ids:
                collector.wait_for(process)
            assert sorted(s["attributes"]["bailiff.process.id"] for s in collector.spans() if s["kind"] == 3) == sorted(ids)
            until("so do their turns", lambda: sum(s["name"] == "interaction" for s in collector.spans()) == len(ids))
            # Rejected data is dropped and reported, and does not block the rest.
            collector.answers = [400]
            with home.rpc() as rpc:
                refused = rpc.run(["true"])[0]["processId"]
                until("it is told", lambda: any("are dropped" in line for line in home.log()))
                collector.wait_for(rpc.run(["true"])[0]["processId"])
            assert not collector.of(refused)


def test_restarts_lose_no_spans():
    with Collector() as collector, exporting(collector.url) as home:
        with home.rpc() as rpc:
            sleeper = rpc.start(["sleep", "1000"])["processId"]
            before = rpc.run(["true"])[0]["processId"]
            began = rpc.call("get_process", processId=sleeper)["startedAt"]
        collector.wait_for(before)
        home.kill_part("otlp")
        until("the exporter is back", lambda: home.part("otlp"))
        home.kill_part("runtime")
        until("answers again", home.answers)
        old = until("it has followed", lambda: home.part("otlp"))
        home.guard.send_signal(signal.SIGUSR2)
        until("an upgraded guard has one too", lambda: home.part("otlp") not in (None, old))
        until("answers again", home.answers)
        with home.rpc() as rpc:
            between = rpc.run(["true"])[0]["processId"]
            rpc.call("signal_process", processId=sleeper, signal="TERM")
            rpc.wait(sleeper)
        collector.wait_for(between)
        span = collector.wait_for(sleeper)
        assert span["attributes"].get("bailiff.start") is None and began[:19] in rfc3339(span["startTimeUnixNano"]), (span, began)
        home.stop()
        # Events from a time without an exporter are exported by the next one.
        home.env = {}
        home.start()
        with home.rpc() as rpc:
            unseen = rpc.run(["true"])[0]["processId"]
        home.stop()
        home.env = exporting_env(collector.url)
        home.start()
        collector.wait_for(unseen)


def rfc3339(nano):
    import datetime
    return datetime.datetime.fromtimestamp(int(nano) / 1e9, datetime.timezone.utc).isoformat()


def exporting_env(url):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50"}


def test_invalid_setting_is_logged_and_stops_nothing():
    for env, word in (({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_HEADERS": "nonsense"}, "OTEL_EXPORTER_OTLP_HEADERS"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "-1"}, "OTEL_BSP_SCHEDULE_DELAY"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRIC_EXPORT_INTERVAL": "0"}, "OTEL_METRIC_EXPORT_INTERVAL"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x"}, "OTEL_EXPORTER_OTLP_METRICS_HEADERS"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_RESOURCE_ATTRIBUTES": "a"}, "OTEL_RESOURCE_ATTRIBUTES"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:9", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/x"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRICS_EXPORTER": "console"}, "OTEL_METRICS_EXPORTER"),
                      ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318/v1/traces"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
                      ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://:4318"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")):
        with Home(env=env) as home, home.rpc() as rpc:
            until("it is told", lambda: any(word in line and "nothing is exported" in line for line in home.log()))
            assert rpc.run(["true"])[1]["exitCode"] == 0


def test_without_an_endpoint_there_is_no_exporter(home):
    assert home.part("otlp") is None
    with Home(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}) as other:
        assert other.part("otlp") is None


def test_exporter_ends_with_the_daemon():
    with Collector() as collector, exporting(collector.url) as home:
        until("it runs", lambda: home.part("otlp"))
        home.note_tree()
        home.stop(signal.SIGKILL, expect=False)
        home.nothing_left()
        home.start()


harness.main(globals())
