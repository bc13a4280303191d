"""`priority`: who may set it, and that it decides who is served first, handed over or not."""

import http.client
import json
import pathlib
import socket
import tempfile
import time
import unittest

from client import Background
from cluster import Cluster, wait_until

PROMPT = "The lighthouse keeper climbed the stairs and counted the ships: "


class Priority(unittest.TestCase):
    def ask(self, cluster, key, max_tokens, **fields):
        """(time of the end, the header that names what was ignored)"""
        body = {"prompt": PROMPT * 8, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **fields}
        status, headers, answer = cluster.client().request(
            "POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})
        self.assertEqual(status, 200, answer)
        self.assertEqual(json.loads(answer)["usage"]["completion_tokens"], max_tokens)
        return time.monotonic(), headers.get("x-baton-ignored", "")

    def order(self, place):
        """Ends of requests that wait while another one runs, in order; what each ignored."""
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("usual\nurgent priority\n", encoding="utf-8")
            sets = [f"router.api_keys_file={keys}", f"router.local_prefill={place}",
                    "decode.*.max_batch_sequences=1"]
            with Cluster(sets=sets) as cluster:
                asked, blocker = {}, self.blocker(cluster)
                for name, key, fields in (("first", "usual", {}), ("ignored", "usual", {"priority": -9}),
                                          ("late", "urgent", {"priority": 5}), ("last", "usual", {}),
                                          ("urgent", "urgent", {"priority": -1})):
                    asked[name] = Background(
                        lambda key=key, fields=fields: self.ask(cluster, key, 4, **fields))
                    self.wait_for(cluster, "waiting", len(asked))
                blocker.sock.shutdown(socket.SHUT_RDWR)
                ends = {name: answer.result() for name, answer in asked.items()}
                blocker.close()
                cluster.wait_blocks_free()
        return sorted(ends, key=lambda name: ends[name][0]), {n: e[1] for n, e in ends.items()}

    def blocker(self, cluster):
        """A stream that has the decode worker to itself until its connection is closed."""
        client = cluster.client()
        connection = http.client.HTTPConnection(client.host, client.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "stream": True}),
            {"Authorization": "Bearer usual"})
        self.wait_for(cluster, "running", 1)
        return connection

    @staticmethod
    def wait_for(cluster, state, count):
        wait_until(lambda: cluster.scrape("d0").sum(f"vllm:num_requests_{state}", role="decode") == count,
                   f"{count} requests are {state}")

    def test_the_most_urgent_is_served_first(self):
        for place in ("always", "never"):
            with self.subTest(local_prefill=place):
                order, ignored = self.order(place)
                self.assertEqual(order, ["urgent", "first", "ignored", "last", "late"])
                self.assertEqual(ignored, {"first": "", "ignored": "priority", "late": "", "last": "",
                                           "urgent": ""})


if __name__ == "__main__":
    unittest.main()
