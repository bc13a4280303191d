"""A real Prometheus beside a test, with the configuration of deploy/prometheus."""

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request

from cluster import wait_until
from ports import free_port
from prompts import ROOT

TOOLS = os.path.join(ROOT, "build", "tools", "prometheus")
DEPLOY = os.path.join(ROOT, "deploy", "prometheus")


def promtool(*arguments, text=None, cwd=DEPLOY):
    return subprocess.run([os.path.join(TOOLS, "promtool"), *arguments], input=text, cwd=cwd,
                          capture_output=True, text=True, timeout=60)


class Prometheus:
    """Scrapes, evaluates and looks for targets every second, as configured otherwise."""

    def __init__(self, router_url):
        self._router = urllib.parse.urlsplit(router_url).netloc
        self._process = None

    def __enter__(self):
        if not os.access(os.path.join(TOOLS, "prometheus"), os.X_OK):
            raise AssertionError(f"no {TOOLS}/prometheus: run deploy/prometheus/fetch.sh")
        self._folder = tempfile.TemporaryDirectory(prefix="baton-prometheus-")
        with open(os.path.join(DEPLOY, "prometheus.yml")) as file:
            text = file.read()
        text = text.replace("127.0.0.1:8000", self._router)
        text = re.sub(r"(interval: )\d+s", r"\g<1>1s", text)
        text = text.replace("- alerts.yml", f"- {DEPLOY}/alerts.yml")
        config = os.path.join(self._folder.name, "prometheus.yml")
        with open(config, "w") as file:
            file.write(text)
        self._url = f"http://127.0.0.1:{free_port()}"
        self._log = open(os.path.join(self._folder.name, "log"), "w+")
        self._process = subprocess.Popen(
            [os.path.join(TOOLS, "prometheus"), f"--config.file={config}",
             f"--storage.tsdb.path={self._folder.name}/data", "--log.level=error",
             f"--web.listen-address={urllib.parse.urlsplit(self._url).netloc}"],
            stdout=self._log, stderr=subprocess.STDOUT, cwd=self._folder.name)
        try:
            wait_until(self._ready, "Prometheus to be ready", 20)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        self._log.seek(0)
        print(self._log.read(), end="")
        self._log.close()
        self._folder.cleanup()

    def _ready(self):
        if self._process.poll() is not None:
            raise AssertionError(f"prometheus ended with {self._process.returncode}")
        try:
            with urllib.request.urlopen(self._url + "/-/ready", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def api(self, path, **parameters):
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def series(self, expression, **when):
        """{labels: value} of an expression at one moment."""
        result = self.api("query", query=expression, **when)["result"]
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1])
                for one in result}

    def value(self, expression):
        """The one value of an expression, or None."""
        values = list(self.series(expression).values())
        if len(values) > 1:
            raise AssertionError(f"{len(values)} series for {expression}")
        return values[0] if values else None

    def values_over(self, expression, start, end):
        """[(time, value)] of all series of an expression, each second."""
        result = self.api("query_range", query=expression, start=start, end=end, step=1)["result"]
        return [(float(at), float(value)) for one in result for at, value in one["values"]]

    def targets(self):
        """{process: health} of what is scraped."""
        return {one["labels"]["process"]: one["health"]
                for one in self.api("targets", state="active")["activeTargets"]}

    def rules(self):
        return [rule for group in self.api("rules")["groups"] for rule in group["rules"]]
