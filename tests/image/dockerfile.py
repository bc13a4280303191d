"""Runs the instructions of a Dockerfile in root folders: exactly those that deploy/Dockerfile uses.

Another instruction or option is an error, so that the file that is tested is the file that is built.
"""

import json
import pathlib
import re
import shlex
import subprocess
from dataclasses import dataclass, field

from container import ROOT, Container, stopwatch

BASE_IMAGE = "debian:12-slim"  # made by debootstrap
NO_EFFECT = ("EXPOSE",)


@dataclass
class Stage:
    base: str
    name: str
    steps: list = field(default_factory=list)  # (instruction, text)


@dataclass
class Image:
    """What a container of the last stage starts with."""
    env: dict = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    healthcheck: list = field(default_factory=list)


def instructions(text):
    """(instruction, text) with comments gone and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    for line in joined.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def parse(path):
    stages = []
    for word, rest in instructions(pathlib.Path(path).read_text(encoding="utf-8")):
        if word == "FROM":
            match = re.fullmatch(r"(\S+)(?: AS (\S+))?", rest, re.I)
            stages.append(Stage(match[1], match[2] or ""))
        else:
            stages[-1].steps.append((word, rest))
    return stages


def ignored(path):
    """Names at the top of the tree that are not part of the context."""
    return set(pathlib.Path(f"{path}.dockerignore").read_text(encoding="utf-8").split())


class Builder:
    """Builds each stage in a Container of its own."""

    def __init__(self, path, cache, arguments, say):
        self._stages = parse(path)
        self._ignored = ignored(path)
        self._cache = cache  # host folder for the mounted cache
        self._arguments = arguments
        self._say = say
        self._built = {}

    def build(self, open_container):
        """open_container(name) gives an entered Container; returns the last one and its Image."""
        for number, stage in enumerate(self._stages):
            if stage.base != BASE_IMAGE:
                raise ValueError(f"FROM {stage.base} is not known here")
            container = open_container(stage.name or f"stage{number}")
            container.unpack_base()
            container.mount_system()
            image = Image()
            for word, rest in stage.steps:
                self._step(container, image, word, rest)
            self._built[stage.name] = container
        return container, image

    def _step(self, container, image, word, rest):
        seconds = stopwatch()
        match word:
            case "RUN":
                self._run(container, image, rest)
            case "COPY":
                self._copy(container, image, rest)
            case "WORKDIR":
                image.workdir = rest
                container.inside(rest).mkdir(parents=True, exist_ok=True)
            case "ARG":
                name, _, default = rest.partition("=")
                image.env[name] = self._arguments.get(name, default)
            case "ENV":
                image.env.update(pair.split("=", 1) for pair in shlex.split(rest))
            case "USER":
                image.user = rest
            case "ENTRYPOINT":
                image.entrypoint = json.loads(rest)
            case "CMD":
                image.command = json.loads(rest)
            case "HEALTHCHECK":
                image.healthcheck = json.loads(rest.split("CMD", 1)[1])
            case _ if word not in NO_EFFECT:
                raise ValueError(f"{word} is not known here")
        self._say(f"{seconds():6.1f} s  {word} {' '.join(rest.split())[:80]}")

    def _run(self, container, image, rest):
        match = re.match(r"--mount=type=cache,target=(\S+)\s+", rest)
        if match:
            container.bind(self._cache, match[1])
            rest = rest[match.end():]
        if rest.startswith("--"):
            raise ValueError(f"RUN {rest.split()[0]} is not known here")
        container.run("/bin/sh", "-c", rest, env=image.env, cwd=image.workdir)

    def _copy(self, container, image, rest):
        words = rest.split()
        source_root = ROOT
        if words[0].startswith("--from="):
            source_root = self._built[words.pop(0).removeprefix("--from=")].path
        source, target = words
        target = container.inside(pathlib.PurePosixPath(image.workdir) / target)
        target.mkdir(parents=True, exist_ok=True)
        if source_root != ROOT:
            folder = source_root / source.lstrip("/")
            subprocess.run(["cp", "-a", "--no-preserve=ownership", f"{folder}/.", target], check=True)
            return
        names = "\0".join(self._context(source)).encode()
        packed = subprocess.run(["tar", "-C", ROOT / source, "--null", "-T", "-", "-cf", "-"],
                                input=names, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-C", target, "--no-same-owner", "-xf", "-"], input=packed,
                       check=True)

    def _context(self, source):
        """Files of the tree below `source`, relative to it, without what is ignored."""
        listed = subprocess.run(
            ["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached",
             "--others", "--exclude-standard", "--", source],
            check=True, capture_output=True, text=True).stdout
        for name in sorted(set(filter(None, listed.split("\0")))):
            if name.split("/")[0] not in self._ignored and (ROOT / name).is_file():
                yield str(pathlib.PurePosixPath(name).relative_to(source))
