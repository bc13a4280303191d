"""A root folder as a container has it, without a container engine: namespaces, mounts, chroot.

Everything needs root. All mounts live in a private mount namespace and all processes in a private
pid namespace, which in_namespaces() makes; both are gone when the test ends, however it ends.
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build/tools/image"
SUITE = "bookworm"
CLONE_NEWNET = 0x40000000
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# What reaches a mirror or an index from here, as container engines pass it on.
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy",
           "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# As in the slim images: no documents but licences; unpacked files are not synced one by one.
DPKG_SETTINGS = """force-unsafe-io
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
"""


def in_namespaces(*flags):
    """Goes on in mount and pid namespaces of its own, and those that `flags` name."""
    if os.geteuid() != 0:
        sys.exit("tests/image: needs root, for mounts and namespaces")
    if os.environ.get("BATON_IMAGE_NAMESPACES") == "1":
        return
    os.environ["BATON_IMAGE_NAMESPACES"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                          "--propagation", "private", *flags, sys.executable, *sys.argv])


def call(*command, **options):
    """Runs it; on failure prints what it said and raises."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          errors="replace", check=False, **options)
    if done.returncode != 0:
        sys.stderr.write((done.stdout + done.stderr)[-4000:])
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def sources():
    """apt's sources of this machine for the suite, as lines of a sources.list."""
    targets = call("apt-get", "indextargets", "--format", "$(SITE)|$(RELEASE)|$(COMPONENT)",
                   "Created-By: Packages")
    wanted = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    lines = []
    for row in targets.splitlines():
        site, release, component = row.split("|")
        if release in wanted and component == "main" and row not in lines:
            lines.append(row)
    if not any(line.split("|")[1] == SUITE for line in lines):
        raise RuntimeError(f"apt knows no mirror of {SUITE}; run apt-get update")
    return [tuple(line.split("|")) for line in lines]


def make_base():
    """A minimal Debian as a tarball; made once."""
    base = TOOLS / f"base-{SUITE}.tar"
    if base.exists():
        return base
    TOOLS.mkdir(parents=True, exist_ok=True)
    mirror = next(site for site, release, _ in sources() if release == SUITE)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        call("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, folder, mirror)
        for archive in pathlib.Path(folder, "var/cache/apt/archives").glob("*.deb"):
            archive.unlink()
        part = base.with_suffix(".part")
        call("tar", "-C", folder, "--exclude=./dev/*", "--exclude=./proc/*", "-cf", part, ".")
        part.rename(base)
    return base


class Container:
    """One root folder. Use as a context; mounts and folder are gone at its end."""

    def __init__(self, name):
        TOOLS.mkdir(parents=True, exist_ok=True)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=TOOLS))
        self._mounts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for target in reversed(self._mounts):
            subprocess.run(["umount", "-l", target], check=False)
        if not any(line.split()[4].startswith(str(self.path))
                   for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            subprocess.run(["rm", "-rf", "--one-file-system", self.path], check=False)

    def inside(self, path):
        return self.path / str(path).lstrip("/")

    # ---- contents

    def unpack_base(self):
        call("tar", "-C", self.path, "-xpf", make_base())
        self.path.chmod(0o755)  # that of a temporary folder came along
        self.write("/etc/dpkg/dpkg.cfg.d/slim", DPKG_SETTINGS)
        self.write("/etc/apt/sources.list", "".join(
            f"deb {site} {release} {component}\n" for site, release, component in sources()))
        self.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", mode=0o755)
        self._copy_network_settings()

    def _copy_network_settings(self):
        """How this machine reaches the mirrors: names, certificates, apt's proxies and keys."""
        for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
            target = self.inside(name)
            target.unlink(missing_ok=True)
            shutil.copyfile(name, target)
        for setting in sorted(pathlib.Path("/etc/apt/apt.conf.d").glob("*")):
            text = setting.read_text(encoding="utf-8", errors="replace")
            if "Acquire" in text and "DPkg::" not in text and "APT::Update" not in text:
                self.write(setting, text)
        for folder in ("auth.conf.d", "trusted.gpg.d", "keyrings"):
            source = pathlib.Path("/etc/apt", folder)
            if source.is_dir():
                shutil.copytree(source, self.inside(source), dirs_exist_ok=True)

    def write(self, path, text, mode=0o644):
        target = self.inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)

    # ---- mounts

    def _mount(self, target, *arguments):
        call("mount", *arguments, target)
        self._mounts.append(str(target))

    def bind(self, source, path, read_only=False):
        target = self.inside(path)
        target.mkdir(parents=True, exist_ok=True)
        self._mount(target, "--bind", source)
        if read_only:
            call("mount", "-o", "remount,bind,ro", target)

    def tmpfs(self, path, options):
        target = self.inside(path)
        target.mkdir(parents=True, exist_ok=True)
        self._mount(target, "-t", "tmpfs", "-o", options, "tmpfs")

    def mount_system(self, shm_size="64m"):
        """/proc, a small /dev and /dev/shm."""
        self._mount(self.path, "--bind", self.path)
        self.inside("/proc").mkdir(exist_ok=True)
        self._mount(self.inside("/proc"), "-t", "proc", "proc")
        self.tmpfs("/dev", "mode=755,size=1m")
        for name in DEVICES:
            self.inside(f"/dev/{name}").touch()
            self._mount(self.inside(f"/dev/{name}"), "--bind", f"/dev/{name}")
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"),
                             ("stderr", "fd/2")):
            self.inside(f"/dev/{name}").symlink_to(target)
        self.tmpfs("/dev/shm", f"mode=1777,size={shm_size}")

    def mount_sys(self):
        """/sys with the network devices of the current namespace."""
        self.inside("/sys").mkdir(exist_ok=True)
        self._mount(self.inside("/sys"), "-t", "sysfs", "-o", "ro", "sysfs")

    def seal(self):
        """The root becomes read-only; what is mounted below it stays as it is."""
        call("mount", "-o", "remount,bind,ro", self.path)

    # ---- processes

    def run(self, *command, env=None, cwd="/"):
        """As root, with this machine's network; output is shown when it fails."""
        variables = {"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        variables.update({name: os.environ[name] for name in PROXIES if name in os.environ})
        variables.update(env or {})
        call("chroot", self.path, "/usr/bin/env", "-C", cwd, *command, env=variables)

    def start(self, *command, env, user=0, stdout=None):
        """In a pid namespace of its own, as process 1, without capabilities or new privileges."""
        return subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={self.inside('/proc')}", "chroot", self.path, "/usr/bin/setpriv",
             f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
             "--bounding-set=-all", "--inh-caps=-all", *command],
            env=env, stdout=stdout, stderr=subprocess.STDOUT, text=True)


def main_process(starter, timeout=10):
    """The pid of process 1 of a started container, seen from here; None if it has ended."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        children = pathlib.Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text()
        if children.split():
            return int(children.split()[0])
        if starter.poll() is not None:
            break
        time.sleep(0.02)
    return None


def loopback_up():
    call("ip", "link", "set", "lo", "up")


def stopwatch():
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


def leave_network():
    """This process and those it starts have no network but a loopback of their own from here on."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare of the network namespace")
