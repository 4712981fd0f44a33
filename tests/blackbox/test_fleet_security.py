"""A fleet over a server that authenticates: TLS, nkeys and JWTs. Keys and certificates are made with openssl."""

import base64
import binascii
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from fleet import Server
from fleet_bus import Bus, Denied
from harness import Skip, until
from test_fleet import Node, state

OPERATOR, ACCOUNT, USER_KEY, SEED = 14 << 3, 0, 20 << 3, 18 << 3


def openssl(*args, stdin=None):
    if not shutil.which("openssl", path=harness.PATH):
        raise Skip("openssl is not installed")
    return subprocess.run(["openssl", *args], input=stdin, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=harness.environment()).stdout


class Key:
    """An nkey."""

    def __init__(self, folder, kind):
        self.kind, self.file = kind, os.path.join(folder, f"{time.monotonic_ns()}.pem")
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.file)
        self.raw = openssl("pkey", "-in", self.file, "-outform", "DER")[-32:]
        self.public = self.text(bytes([kind]) + openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-32:])

    @staticmethod
    def text(data):
        crc = binascii.crc_hqx(data, 0)
        return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")

    def seed(self):
        return self.text(bytes([SEED | self.kind >> 5, (self.kind & 31) << 3]) + self.raw)

    def jwt(self, subject, name, nats):
        """A token about the subject, signed by this key."""
        def encode(data):
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        claims = {"iat": int(time.time()), "iss": self.public, "name": name, "sub": subject, "nats": dict(nats, version=2)}
        claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
        text = encode(b'{"typ":"JWT","alg":"ed25519-nkey"}') + "." + encode(json.dumps(claims).encode())
        return text + "." + encode(self.sign(text.encode()))

    def sign(self, data):
        with tempfile.NamedTemporaryFile() as f:    # openssl maps its input
            f.write(data)
            f.flush()
            return openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.file, "-in", f.name)


class Secure(Server):
    """A nats-server with a configuration. `make` returns it, given this object, whose folder exists."""

    def __init__(self, make):
        self.make = make
        super().__init__()

    def arguments(self):
        path = os.path.join(self.dir, "nats.conf")
        with open(path, "w") as f:
            f.write(self.make(self))
        return ["-c", path]

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(text)
        return path


def certificate(folder, name, host, ca=None, days="2"):
    """name.pem and name.key for the host, signed by the authority or by itself."""
    pem, key = (os.path.join(folder, f"{name}.{end}") for end in ("pem", "key"))
    signer = ("-CA", ca + ".pem", "-CAkey", ca + ".key") if ca else ("-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", days, "-subj", f"/CN={name}", "-out", pem, "-keyout", key,
            "-addext", f"subjectAltName=DNS:{host}", *signer)
    return os.path.join(folder, name)


def tls(s, host="localhost", **more):
    s.ca = certificate(s.dir, "ca", "ca.example")
    server = certificate(s.dir, "server", host, ca=s.ca)
    rows = dict(cert_file=f'"{server}.pem"', key_file=f'"{server}.key"', ca_file=f'"{s.ca}.pem"', **more)
    return "tls {\n" + "\n".join(f"  {name}: {value}" for name, value in rows.items()) + "\n}\n"


def use_tls(s):
    s.env["BAILIFF_FLEET"] = "tls://localhost:" + s.env["BAILIFF_FLEET"].rsplit(":", 1)[1]


def refused(s, *args, env):
    return s.fleet(*args, env=env, status=1).err.decode()


def connected(n):
    until("the node is connected", lambda: any(f"node '{n.name}' of the fleet at" in line for line in n.log()))


def runs(s, task="t1"):
    s.fleet("submit", "--id", task, "--", "echo", "hello")
    assert state(s, task, "completed", "failed", "lost")["state"] == "completed"
    assert s.fleet("logs", task).text == "hello\n"


def test_a_fleet_over_tls():
    with Secure(tls) as s:
        use_tls(s)
        s.env["BAILIFF_FLEET_CA"] = s.ca + ".pem"
        with Node(s, "n1", options=("--fleet-tls-ca", s.ca + ".pem")):
            runs(s)
        other = certificate(s.dir, "stranger", "localhost")
        failed = refused(s, "list", env={"BAILIFF_FLEET_CA": other + ".pem"})
        assert "certificate" in failed or "SSL" in failed, failed
        plain = dict(s.env, BAILIFF_FLEET=s.env["BAILIFF_FLEET"].replace("tls://", "nats://"))
        del plain["BAILIFF_FLEET_CA"]
        s.env.pop("BAILIFF_FLEET_CA")
        assert "certificate" in refused(s, "list", env=plain), "the server's authority is not the system's"


def test_server_certificate_must_have_the_servers_name():
    with Secure(lambda s: tls(s, host="other.example")) as s:
        use_tls(s)
        failed = refused(s, "list", env={"BAILIFF_FLEET_CA": s.ca + ".pem"})
        assert "hostname" in failed, failed


def test_nodes_and_clients_need_client_certificates():
    with Secure(lambda s: tls(s, verify="true")) as s:
        use_tls(s)
        own = certificate(s.dir, "node", "node.example", ca=s.ca)
        files = {"BAILIFF_FLEET_CERT": own + ".pem", "BAILIFF_FLEET_CERT_KEY": own + ".key"}
        keys = {"fleet.tlsCa": s.ca + ".pem", "fleet.tlsCert": own + ".pem", "fleet.tlsKey": own + ".key"}
        s.env["BAILIFF_FLEET_CA"] = s.ca + ".pem"
        failed = refused(s, "list", env={})
        assert "fleet" in failed, failed
        with Node(s, "n1", keys=keys) as n:
            connected(n)
            url = s.env.pop("BAILIFF_FLEET")
            s.fleet("run", "--fleet", url, "--cert", own + ".pem", "--cert-key", own + ".key", "--", "true")
            s.fleet("list", env=dict(files, BAILIFF_FLEET=url))
            for name, value in files.items():
                failed = refused(s, "list", env={name: value, "BAILIFF_FLEET": url})
                assert "--cert and --cert-key" in failed, failed
            os.makedirs(os.path.join(s.dir, ".config", "bailiff"), exist_ok=True)
            s.write(".config/bailiff/fleet.json", json.dumps({"url": url, "ca": s.ca + ".pem", "cert": own + ".pem", "certKey": own + ".key"}))
            s.fleet("list")


def test_a_fleet_with_nkeys():
    def config(s):
        s.node_key, s.client_key = Key(s.dir, USER_KEY), Key(s.dir, USER_KEY)
        return "authorization {\n  users: [\n" + "".join(f"    {{ nkey: {k.public} }}\n" for k in (s.node_key, s.client_key)) + "  ]\n}\n"
    with Secure(config) as s:
        s.env["BAILIFF_FLEET_KEY"] = s.write("client.key", s.client_key.seed() + "\n")
        s.key = s.client_key.public
        with Node(s, "n1", options=("--fleet-creds", s.write("node.key", s.node_key.seed() + "\n"))):
            runs(s)
        failed = refused(s, "list", env={"BAILIFF_FLEET_KEY": s.write("other.key", Key(s.dir, USER_KEY).seed())})
        assert "uthorization" in failed, failed
        os.chmod(os.path.join(s.dir, "other.key"), 0o644)
        assert "chmod 600" in refused(s, "list", env={"BAILIFF_FLEET_KEY": os.path.join(s.dir, "other.key")})


LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1,
          "streams": -1, "consumer": -1}


def test_a_fleet_with_jwts():
    def config(s):
        operator, system = Key(s.dir, OPERATOR), Key(s.dir, ACCOUNT)
        s.account = Key(s.dir, ACCOUNT)
        accounts = ((system, "SYS", {k: v for k, v in LIMITS.items() if "storage" not in k and k not in ("streams", "consumer")}), (s.account, "CI", LIMITS))
        preload = "".join(f'  {k.public}: "{operator.jwt(k.public, name, {"type": "account", "limits": limits, "default_permissions": {"pub": {}, "sub": {}}})}"\n'
                          for k, name, limits in accounts)
        return (f'operator: "{operator.jwt(operator.public, "O", {"type": "operator", "system_account": system.public})}"\nsystem_account: {system.public}\n'
                f"resolver: MEMORY\nresolver_preload {{\n{preload}}}\n")

    def creds(s, name, account, *subjects):
        user = Key(s.dir, USER_KEY)
        jwt = account.jwt(user.public, name, {"type": "user", "pub": {}, "sub": {"allow": [f"_INBOX.{user.public}.>", *subjects]}, "subs": -1, "data": -1, "payload": -1})
        return s.write(name, f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{user.seed()}\n"
                       "------END USER NKEY SEED------\n")
    with Secure(config) as s:
        s.env["BAILIFF_FLEET_CREDS"] = creds(s, "client.creds", s.account)
        with Node(s, "n1", options=("--fleet-creds", creds(s, "node.creds", s.account, "bailiff.node.n1.*", "bailiff.wake"))):
            runs(s)
        failed = refused(s, "list", env={"BAILIFF_FLEET_CREDS": creds(s, "other.creds", Key(s.dir, ACCOUNT))})
        assert "uthorization" in failed, failed


# ---- permissions ----

PEOPLE = ("n1", "alice", "bob", "prune")
STREAMS = ("bailiff_queue", "bailiff_events", "bailiff_blobs", "KV_bailiff_tasks", "KV_bailiff_classes", "KV_bailiff_nodes", "KV_bailiff_starts")


def documented(s):
    """The permissions of docs/fleet.md, with keys."""
    with open(os.path.join(harness.ROOT, "docs", "fleet.md"), encoding="utf-8") as f:
        text = f.read().split("<!-- tests/blackbox/test_fleet_security.py", 1)[1].split("```\n", 2)[1]
    s.keys = {name: Key(s.dir, USER_KEY) for name in PEOPLE}
    for name, key in s.keys.items():
        text = text.replace("KEY_OF_" + name.upper(), key.public)
    assert "KEY_OF" not in text, text
    s.log = os.path.join(s.dir, "nats.log")
    return f'log_file: "{s.log}"\n{text}'


class Permitted(Secure):
    """A server with the documented permissions; commands run as alice."""

    def __init__(self, config=documented):
        super().__init__(config)
        for name, key in self.keys.items():
            self.write(name + ".key", key.seed() + "\n")
        self.key = self.keys["alice"].public
        self.env.update(self.identity("alice"))

    def identity(self, name):
        return {"BAILIFF_FLEET_KEY": os.path.join(self.dir, name + ".key")}

    def node(self, operator=None, **more):
        submitters = [{"key": self.keys[name].public, "name": name, "operator": name == operator} for name in ("alice", "bob")]
        return Node(self, "n1", submitters=submitters, options=("--fleet-creds", os.path.join(self.dir, "n1.key")), **more)

    def bus(self, name):
        return Bus(self.env["BAILIFF_FLEET"], self.keys[name])

    def violations(self):
        with open(self.log) as f:
            return [line for line in f if "Violation" in line]


def listed(s, n):
    """A client that connects before the node waits until the server rejects its request."""
    connected(n)
    until("the node is listed", lambda: [x.get("node") for x in s.fleet("nodes", "--json").json] == [n.name])


def test_the_documented_permissions_suffice():
    with Permitted() as s:
        failed = refused(s, "list", env={})
        assert "start a node first" in failed and "bailiff_queue" in failed, failed
        seen = len(s.violations())
        with s.node() as n:
            listed(s, n)
            s.write("work/file", "one\n")
            assert s.fleet("run", "--", "echo", "hello").text == "hello\n"
            task = s.fleet("submit", "--dir", ".", "--cow", "--", "sh", "-c", "cat file; echo two >>file").text.strip()
            assert s.fleet("logs", "-f", task).text == "one\n"
            s.fleet("wait", task)
            assert "+two" in s.fleet("diff", task).text
            s.fleet("evidence", "-o", os.path.join(s.dir, "pack"), task)
            job = s.fleet("submit", "--items", "-", "--", "echo", "{item}", stdin=b"one\ntwo\n").text.strip()
            s.fleet("wait", job)
            long = s.fleet("submit", "--priority", "7", "--", "sleep", "600").text.strip()
            state(s, long, "running")
            s.fleet("cancel", long)
            state(s, long, "cancelled")
            s.fleet("retry", long)
            assert state(s, long, "running")["attempt"] == 2
            s.fleet("cancel", long)
            state(s, long, "cancelled")
            tasks = [t["taskId"] for t in s.fleet("list", "-a", "--json").json]
            assert len(tasks) == 5 and long in tasks, tasks
            assert s.fleet("prune", "--older-than", "0s", "--json", env=s.identity("prune")).json == {"removed": 0, "left": 5}
            with s.bus("prune") as bus:
                assert json.loads(bus.request("$JS.API.STREAM.PURGE.KV_bailiff_tasks", json.dumps({"filter": f"$KV.bailiff_tasks.{long}"}).encode()))["purged"] == 1
            n.kill_part("fleet")
            assert s.fleet("run", "--", "echo", "again").text == "again\n"
        assert s.violations()[seen:] == [], ("more is used than the documentation allows", s.violations()[seen:])


def test_node_without_permission_to_change_streams_reports_it():
    """The permissions of an earlier version, and a stream that it made."""
    update = '"$JS.API.STREAM.UPDATE.*", '
    with Permitted(lambda s: documented(s).replace(update, "")) as s:
        with s.bus("n1") as bus:
            made = json.loads(bus.request("$JS.API.STREAM.CREATE.bailiff_queue", json.dumps({"name": "bailiff_queue", "subjects": ["bailiff.queue.>"], "retention": "workqueue"}).encode()))
            assert "error" not in made, made
        with s.node() as n:
            listed(s, n)
            entry, = s.fleet("nodes", "--json").json
            assert "bailiff_queue: clients can remove messages" in entry["differs"] and "$JS.API.STREAM.UPDATE" in entry["differs"], entry
            assert s.fleet("run", "--", "echo", "hello").text == "hello\n"


def test_client_cannot_read_or_forge_data_of_others():
    with Permitted() as s, s.node() as n:
        listed(s, n)
        task = s.fleet("submit", "--", "sh", "-c", "echo secret; exec sleep 600").text.strip()
        state(s, task, "running")
        until("it has written", lambda: s.fleet("logs", task).text == "secret\n")
        for verb in ("logs", "diff", "evidence"):
            assert "secret" not in s.fleet(verb, task, env=s.identity("bob"), status=1).text, verb
        failed = refused(s, "cancel", task, env=s.identity("bob"))
        assert "was not cancelled" in failed and "belongs to another submitter" in failed and "operator" in failed, failed
        assert "cancelRequested" not in s.show(task), "a request without effect is not left"
        alice, node = s.keys["alice"].public, s.keys["n1"].public

        def denied(what, *args, **more):
            with s.bus("bob") as bus:
                try:
                    got = getattr(bus, what)(*args, **more)
                except Denied as e:
                    assert "Permissions Violation" in str(e), e
                    return
            assert False, (what, args, got)
        for subject in (">", "_INBOX.>", f"_INBOX.{alice}.>", f"_INBOX.{node}.>", "_INBOX.*.>", "bailiff.>", "bailiff.node.>", "bailiff.node.n1.*", "bailiff.node.n1.output",
                        "bailiff.wake", "evt.>", "$KV.>", "$KV.bailiff_tasks.>", "$JS.>", "$JS.EVENT.>", "$SYS.>"):
            denied("subscribe", subject)
        for subject in (f"_INBOX.{alice}.x", f"_INBOX.{node}.x", "$KV.bailiff_nodes.n1", "$KV.bailiff_nodes.n2", "$KV.bailiff_starts.x", f"evt.n1.{task}", "$JS.ACK.bailiff_queue.c.1.1.1.1.0"):
            denied("request", subject, b"{}")
        for stream in STREAMS:
            for verb in ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "SNAPSHOT", "RESTORE"):
                denied("request", f"$JS.API.STREAM.{verb}.{stream}", json.dumps({"name": stream}).encode())
            for verb in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.MSG.NEXT", "CONSUMER.DELETE"):
                denied("request", f"$JS.API.{verb}.{stream}.x", b"{}")
            denied("request", f"$JS.API.CONSUMER.CREATE.{stream}", b"{}")
            denied("request", f"$JS.API.DIRECT.GET.{stream}", b"{}")
            denied("request", f"$JS.API.DIRECT.GET.{stream}.$KV.bailiff_tasks.{task}", b"{}")
        for stream in ("bailiff_events", "bailiff_blobs", "bailiff_queue", "KV_bailiff_starts"):
            denied("request", "$JS.API.STREAM.MSG.GET." + stream, b'{"last_by_subj":">"}')
        with s.bus("bob") as bus:
            for key in ('a"b', "\\", "x" * 200):
                bus.request("$KV.bailiff_tasks." + key, b"{}")
        assert [t["taskId"] for t in s.fleet("list", "--json").json] == [task], "what is not a task's key or document does not count"
        assert s.fleet("logs", task).text == "secret\n" and s.show(task)["state"] == "running"
        s.fleet("cancel", task)
        ended = state(s, task, "cancelled")
        failed = refused(s, "retry", task, env=s.identity("bob"))
        assert "was not queued again" in failed and "belongs to another submitter" in failed and "operator" in failed, failed
        assert s.show(task)["state"] == "cancelled" and s.show(task).get("reason") == ended.get("reason"), "nothing was written"


def test_operator_can_cancel_tasks_of_others_and_sees_missing_answers():
    with Permitted() as s, s.node(operator="bob") as n:
        listed(s, n)
        bob = s.identity("bob")
        task = s.fleet("submit", "--", "sleep", "600").text.strip()
        state(s, task, "running")
        until("it runs", lambda: n.local(task))
        assert s.fleet("cancel", "--json", task, env=bob).json == [{"taskId": task, "result": "cancelling"}]
        state(s, task, "cancelled")
        assert s.fleet("retry", "--json", task, env=bob).json == [{"taskId": task, "result": "queued"}]
        state(s, task, "running")
        s.fleet("cancel", task)
        state(s, task, "cancelled")
        task = s.fleet("submit", "--", "sleep", "600").text.strip()
        state(s, task, "running")
        until("it runs", lambda: n.local(task))
        fleet = n.kill_part("fleet", signal.SIGSTOP)
        assert s.fleet("cancel", "--json", task, env=bob, status=1).json == [{"taskId": task, "result": "unconfirmed"}]
        os.kill(fleet, signal.SIGCONT)
        state(s, task, "cancelled")


def test_files_and_outputs_are_private_to_their_submitter():
    """The hash of the files is in the task's document, which every client can read."""
    with Permitted() as s, s.node() as n:
        listed(s, n)
        s.write("work/file", "secret\n")
        assert s.fleet("run", "--id", "mine", "--dir", ".", "--", "cat", "file").text == "secret\n"
        with s.bus("bob") as bus:
            def signed(spec):
                return {"spec": spec, "submitter": s.keys["bob"].public, "signature": base64.b64encode(s.keys["bob"].sign(spec.encode())).decode()}
            document = bus.document("mine")
            bus.overwrite("stolen", {"v": 1, **signed(document["spec"].replace('"id":"mine"', '"id":"stolen"')), "state": "queued", "attempt": 0})
            bus.enqueue("stolen")
            failed = state(s, "stolen", "failed", "completed")
            assert failed["state"] == "failed" and "no longer stored" in failed["reason"], failed
            bus.overwrite("mine", dict(document, **signed(document["spec"])))
            got = s.fleet("logs", "mine", env=s.identity("bob"), status=1)
            assert "another submitter" in got.err.decode() and not got.out, got.err
        assert s.fleet("run", "--dir", ".", "--", "cat", "file", env=s.identity("bob")).text == "secret\n", "its own copy"


def test_a_folder_of_a_task_does_not_leave_its_workspace():
    """The spec may name a folder of the workspace, and the files of the workspace, which are the submitter's, may contain links."""
    with Permitted() as s, s.node() as n, tempfile.TemporaryDirectory(prefix="fx-") as outside, s.bus("bob") as bus:
        listed(s, n)
        os.makedirs(os.path.join(s.work, "sub"))
        s.write("work/sub/file", "inside\n")
        os.mkdir(os.path.join(outside, "deep"))
        for name, target in (("absolute", outside), ("relative", "../" * 12 + outside)):
            os.symlink(target, os.path.join(s.work, name))
        s.fleet("run", "--id", "first", "--dir", ".", "--", "sh", "-c", "cat file 2>/dev/null; echo >made", env=s.identity("bob"))
        document = bus.document("first")
        for folder, end in (("sub", "completed"), ("absolute", "failed"), ("relative/deep", "failed")):
            spec = json.dumps(dict(json.loads(document["spec"]), id=(task := folder.split("/")[0]), cwd=folder))
            signature = base64.b64encode(s.keys["bob"].sign(spec.encode())).decode()
            bus.overwrite(task, {"v": 1, "spec": spec, "submitter": s.keys["bob"].public, "signature": signature, "state": "queued", "attempt": 0})
            bus.enqueue(task)
            ended = state(s, task, "completed", "failed", "lost")
            assert ended["state"] == end and os.listdir(outside) == ["deep"] and not os.listdir(os.path.join(outside, "deep")), (folder, ended)


def test_acknowledgements_cannot_remove_what_is_stored():
    """The server executes a request that is built from its own acknowledgement without checking permissions."""
    with Permitted() as s, s.node() as n:
        listed(s, n)
        s.fleet("run", "--", "true")
        s.write("work/file", "one\n")
        s.fleet("submit", "--dir", ".", "--label", "node=missing", "--", "true")
        with s.bus("n1") as trusted, s.bus("bob") as bus:
            def counts(stream):
                return json.loads(trusted.request("$JS.API.STREAM.INFO." + stream))["state"]
            until("events are copied", lambda: counts("bailiff_events")["messages"])
            streams = [x for x in STREAMS if x != "KV_bailiff_tasks"]
            before = {x: counts(x) for x in streams}
            assert all(x["messages"] for x in before.values()), before
            # The request removes messages up to the number in the acknowledgement.
            while json.loads(bus.request("$KV.bailiff_tasks.junk", b"{}"))["seq"] <= max(x["last_seq"] for x in before.values()) + 100:
                pass
            for stream in streams:
                for verb in ("PURGE", "MSG.DELETE", "DELETE", "UPDATE"):
                    assert bus.request("$KV.bailiff_tasks.junk", b"{}", reply=f"$JS.API.STREAM.{verb}.{stream}") is None
            assert bus.request("$KV.bailiff_tasks.junk", b"{}", reply="$JS.API.STREAM.PURGE.KV_bailiff_tasks") is None
            until("the only ones that may be removed are, after all the others", lambda: counts("KV_bailiff_tasks")["messages"] == 1)
            after = {x: counts(x) for x in streams}
            assert all(after[x]["messages"] >= before[x]["messages"] for x in streams), (before, after)


def test_replies_are_sent_to_inboxes_only():
    """The server sends its own replies to any subject, which no permission prevents; nodes reply to inboxes only."""
    with Permitted() as s, s.node() as n:
        listed(s, n)
        with s.bus("bob") as bus, s.bus("n1") as other:
            until("the node answers", lambda: b'"ok":false' in bus.request("bailiff.node.n1.output", b"{}"))
            assert bus.request("bailiff.node.n1.output", b"{}", reply="$KV.bailiff_nodes.n2") is None
            assert b'"ok":false' in bus.request("bailiff.node.n1.output", b"{}"), "later than the one before"
            assert json.loads(other.request("$JS.API.STREAM.MSG.GET.KV_bailiff_nodes", b'{"last_by_subj":"$KV.bailiff_nodes.n2"}'))["error"]["code"] == 404
            for name in ("n1", "n2"):
                assert bus.request("$JS.API.STREAM.INFO.KV_bailiff_tasks", reply=f"$KV.bailiff_nodes.{name}") is None
        assert s.fleet("run", "--", "echo", "hello").text == "hello\n"
        until("the node has written its entry again", lambda: "n1" in [x.get("node") for x in s.fleet("nodes", "--json").json])
        assert not any("another daemon" in line for line in n.log()), n.log()[-5:]


if __name__ == "__main__":
    harness.main(globals())
