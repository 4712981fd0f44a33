"""A fleet over a server that authenticates: TLS, nkeys and JWTs. Keys and certificates are made with openssl."""

import base64
import binascii
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time

import harness
from fleet import Server
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
        with tempfile.NamedTemporaryFile() as f:    # openssl maps its input
            f.write(text.encode())
            f.flush()
            return text + "." + encode(openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.file, "-in", f.name))


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


def test_the_certificate_has_the_name_of_the_server():
    with Secure(lambda s: tls(s, host="other.example")) as s:
        use_tls(s)
        failed = refused(s, "list", env={"BAILIFF_FLEET_CA": s.ca + ".pem"})
        assert "hostname" in failed, failed


def test_nodes_and_clients_have_certificates_of_their_own():
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

    def creds(s, name, account):
        user = Key(s.dir, USER_KEY)
        jwt = account.jwt(user.public, name, {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1})
        return s.write(name, f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{user.seed()}\n"
                       "------END USER NKEY SEED------\n")
    with Secure(config) as s:
        s.env["BAILIFF_FLEET_CREDS"] = creds(s, "client.creds", s.account)
        with Node(s, "n1", options=("--fleet-creds", creds(s, "node.creds", s.account))):
            runs(s)
        failed = refused(s, "list", env={"BAILIFF_FLEET_CREDS": creds(s, "other.creds", Key(s.dir, ACCOUNT))})
        assert "uthorization" in failed, failed


if __name__ == "__main__":
    harness.main(globals())
