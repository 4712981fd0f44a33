"""Spans and metrics at an OpenTelemetry collector: what arrives, and that nothing waits for it."""

import http.server
import json
import signal
import threading

import harness
from harness import Home, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes what is posted to it; `answers` are the statuses of the next posts of spans, after those 200."""

    def __init__(self, port=0):
        self.posts, self.answers, self.headers, outer = [], [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = outer.answers.pop(0) if outer.answers and self.path == "/v1/traces" else 200
                outer.headers.append(dict(self.headers))
                if status == 200:
                    outer.posts.append((self.path, body))
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        return [dict(span, attributes=values(span["attributes"])) for path, body in list(self.posts) if path == "/v1/traces"
                for r in body["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]

    def of(self, process):
        """The spans about this process itself."""
        return [s for s in self.spans() if s["attributes"].get("bailiff.processId") == process and s["kind"] == 3]

    def wait_for(self, process):
        return until(f"the span of {process} arrives", lambda: self.of(process))[0]

    def metrics(self):
        return {m["name"]: int((m.get("sum") or m["gauge"])["dataPoints"][0]["asInt"]) for path, body in list(self.posts) if path == "/v1/metrics"
                for r in body["resourceMetrics"] for s in r["scopeMetrics"] for m in s["metrics"]}


def values(attributes):
    return {a["key"]: next(iter(a["value"].values())) for a in attributes}


def exporting(url, **env):
    return Home(env=dict({"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "200"}, **env))


def test_what_a_collector_gets():
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
            turn = until("the turn's span", lambda: [s for s in collector.spans() if s["name"] == "interaction" and s["attributes"]["bailiff.turnId"] == started["turnId"]])[0]
            assert span["parentSpanId"] == turn["spanId"] and turn["parentSpanId"] == PARENT, (span, turn)
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


def test_a_tool_and_its_process():
    with Collector() as collector, exporting(collector.url) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": "shell", "arguments": {"command": "true"}}])
        tool = until("the tool's span", lambda: [s for s in collector.spans() if s["name"] == "execute_tool shell"])[0]
        assert tool["attributes"]["gen_ai.tool.name"] == "shell" and tool["attributes"]["bailiff.turnId"] == turn["turnId"], tool
        process = until("its process's span", lambda: [s for s in collector.spans() if s["kind"] == 3])[0]
        assert process["parentSpanId"] == tool["spanId"] and process["traceId"] == tool["traceId"], (process, tool)


def test_a_collector_that_is_away_or_busy():
    with Collector() as collector:
        port = collector.port
    with exporting(f"http://127.0.0.1:{port}") as home:
        with home.rpc() as rpc:
            ids = [rpc.run(["true"])[0]["processId"] for _ in range(5)]
            until("it says why nothing goes", lambda: any("spans wait" in line for line in home.log()))
            ids += [rpc.run(["true"])[0]["processId"] for _ in range(5)] # nothing waits for it
        with Collector(port) as collector:
            collector.answers = [503, 429]
            for process in ids:
                collector.wait_for(process)
            assert sorted(s["attributes"]["bailiff.processId"] for s in collector.spans() if s["kind"] == 3) == sorted(ids)
            # What it will never take is left out, told, and does not hold up the rest.
            collector.answers = [400]
            with home.rpc() as rpc:
                refused = rpc.run(["true"])[0]["processId"]
                until("it is told", lambda: any("are left out" in line for line in home.log()))
                collector.wait_for(rpc.run(["true"])[0]["processId"])
            assert not collector.of(refused)


def test_restarts_leave_nothing_out():
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
        # What happens while nobody exports is exported by the next one.
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


def test_a_wrong_setting_is_told_and_stops_nothing():
    for env, word in (({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_HEADERS": "nonsense"}, "OTEL_EXPORTER_OTLP_HEADERS"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "-1"}, "OTEL_BSP_SCHEDULE_DELAY"),
                      ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRIC_EXPORT_INTERVAL": "0"}, "OTEL_METRIC_EXPORT_INTERVAL"),
                      ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318/v1/traces"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
                      ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://:4318"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")):
        with Home(env=env) as home, home.rpc() as rpc:
            until("it is told", lambda: any(word in line and "nothing is exported" in line for line in home.log()))
            assert rpc.run(["true"])[1]["exitCode"] == 0


def test_without_an_endpoint_there_is_no_exporter(home):
    assert home.part("otlp") is None
    with Home(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}) as other:
        assert other.part("otlp") is None


def test_it_goes_with_the_daemon():
    with Collector() as collector, exporting(collector.url) as home:
        until("it runs", lambda: home.part("otlp"))
        home.note_tree()
        home.stop(signal.SIGKILL, expect=False)
        home.nothing_left()
        home.start()


harness.main(globals())
