"""TLS on the router's HTTP port: real clients, a certificate that is replaced, a clean end."""

import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from cluster import BIN, MODEL, POOL, wait_until
from ports import free_port
from prompts import ROOT


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(
            cls.enterClassContext(tempfile.TemporaryDirectory(prefix="baton-e2e-")))
        cls.certificate, cls.key = cls.folder / "tls.crt", cls.folder / "tls.key"
        cls.make_certificate("first")
        cls.port, control = free_port(), f"tcp://127.0.0.1:{free_port()}"
        cls.log = cls.enterClassContext(open(cls.folder / "log", "w+b"))
        settings = [f"model.path={MODEL}", *POOL, f"router.listen=127.0.0.1:{cls.port}",
                    f"router.control={control}", f"workers.routers={control}"]
        of_router = [f"router.tls_certificate_file={cls.certificate}",
                     f"router.tls_key_file={cls.key}", "router.header_timeout=1s"]
        cls.programs = {}
        cls.addClassCleanup(cls.kill)
        for program in ("baton-router", "baton-prefill", "baton-decode"):
            arguments = ["--config", "deploy/local.yaml"]
            for setting in settings + (of_router if program == "baton-router" else []):
                arguments += ["--set", setting]
            cls.programs[program] = subprocess.Popen(
                [os.path.join(BIN, program), *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=cls.log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: cls.request("GET", "/readyz")[0] == 200, "the router is ready", 60)
        except BaseException:
            print((cls.folder / "log").read_text(errors="replace"))
            raise

    @classmethod
    def kill(cls):
        for process in cls.programs.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    @classmethod
    def make_certificate(cls, name):
        """Both files anew, in place of what was there."""
        new = [f"{cls.certificate}.new", f"{cls.key}.new"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", new[0], "-keyout", new[1]],
                       check=True, capture_output=True)
        os.replace(new[0], cls.certificate)
        os.replace(new[1], cls.key)

    @classmethod
    def context(cls):
        return ssl.create_default_context(cafile=cls.certificate)

    @classmethod
    def request(cls, method, path, body=None):
        connection = http.client.HTTPSConnection("127.0.0.1", cls.port, timeout=60,
                                                 context=cls.context())
        try:
            connection.request(method, path, body=json.dumps(body) if body else None)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def test_1_a_stream_arrives(self):
        ask = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
        status, body = self.request("POST", "/v1/completions", ask)
        self.assertEqual(status, 200, body)
        text = json.loads(body)["choices"][0]["text"]
        self.assertIn("Paris", text)
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--no-buffer", "--max-time", "60", "--cacert",
             self.certificate, f"https://127.0.0.1:{self.port}/v1/completions", "-d",
             json.dumps({**ask, "stream": True})], capture_output=True, text=True, check=True)
        events = [line.removeprefix("data: ") for line in done.stdout.splitlines() if line]
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual("".join(choice["text"] for event in events[:-1]
                                 for choice in json.loads(event)["choices"]), text)

    def test_2_old_versions_and_plain_http_are_refused(self):
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-tls1_1", "-cipher",
             "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("alert protocol version", done.stderr)
        plain = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        plain.request("GET", "/v1/models")
        answer = plain.getresponse()
        self.assertEqual(answer.status, 400)
        self.assertIn("this port speaks TLS", json.loads(answer.read())["error"]["message"])
        plain.close()

    def test_3_a_handshake_that_does_not_come_is_cut(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as silent:
            self.assertEqual(silent.recv(1), b"")

    def test_4_a_new_certificate_is_taken(self):
        old = self.context()
        self.make_certificate("second")
        # Who trusts only the new one is served by it a second later.
        wait_until(lambda: self.request("GET", "/v1/models")[0] == 200, "the new certificate", 10)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection, \
                self.assertRaises(ssl.SSLCertVerificationError):
            old.wrap_socket(connection, server_hostname="127.0.0.1")

    def baton(self, *arguments, text=None):
        return subprocess.run([os.path.join(BIN, "baton"), *map(str, arguments)], cwd=ROOT, input=text,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_5_baton_asks_over_tls(self):
        server = ["--url", f"https://127.0.0.1:{self.port}"]
        trusted = [*server, "--cacert", self.certificate]
        status = self.baton("status", "--json", *trusted)
        self.assertEqual(status.returncode, 0, status.stderr)
        self.assertEqual(len(json.loads(status.stdout)["workers"]), 2)
        chat = self.baton("chat", "--max-tokens", 3, *trusted, text="Hello!\n")
        self.assertEqual(chat.returncode, 0, chat.stderr)
        self.assertTrue(chat.stdout.strip())
        bench = self.baton("bench", "serve", "--json", "--concurrency", 2, "--requests", 4, "--warmup",
                           0, "--input", 20, "--output", 4, *trusted)
        self.assertEqual(bench.returncode, 0, bench.stderr)
        self.assertEqual(json.loads(bench.stdout)["completed"], 4)
        for command in (["status"], ["chat"], ["explain", "x"], ["bench", "serve", "--rate", 1]):
            refused = self.baton(*command, *server, text="")
            self.assertNotEqual(refused.returncode, 0, command)
            self.assertIn("the server's certificate is not trusted: self-signed certificate; --cacert "
                          "FILE names who is trusted", refused.stderr)

    def test_6_up_trusts_its_own_certificate(self):
        self.make_certificate("third")
        up = self.baton("up", "deploy/local.yaml", "--port", 0, "--first-answer", "--once", "--model",
                        MODEL, *[word for pair in POOL for word in ("--set", pair)],
                        "--set", f"router.tls_certificate_file={self.certificate}",
                        "--set", f"router.tls_key_file={self.key}")
        self.assertEqual(up.returncode, 0, up.stderr)
        self.assertRegex(up.stdout, r"ready in .*: https://127\.0\.0\.1:\d+\n")
        self.assertIn("> Why is the sky blue?", up.stdout)
        self.assertIn("try: curl -N --insecure https://127.0.0.1:", up.stdout)

    def test_7_all_stop_cleanly(self):
        for process in self.programs.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.programs.items():
            self.assertEqual(process.wait(45), 0, name)


if __name__ == "__main__":
    unittest.main()
