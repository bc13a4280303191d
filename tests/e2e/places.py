"""Machines that a test makes up: a child process in a mount and network namespace of its own, with
other files in /proc and /etc, another user, fewer CPUs. Needs root."""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import tempfile

from prompts import ROOT

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
NR_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM = 158, 0x1023
NOBODY = 65534

LIBC = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0, options=None):
    encode = lambda text: None if text is None else text.encode()
    check(LIBC.mount(encode(source), encode(target), encode(kind), flags, encode(options)),
          f"mount {target}")


def refuse_tiles():
    """A seccomp filter under which the kernel refuses AMX's permission with EPERM."""
    def instruction(code, jump_true, jump_false, k):
        return struct.pack("HBBI", code, jump_true, jump_false, k)
    load, equal, answer = 0x20, 0x15, 0x06
    program = b"".join([
        instruction(load, 0, 0, 0), instruction(equal, 0, 3, NR_ARCH_PRCTL),
        instruction(load, 0, 0, 16), instruction(equal, 0, 1, ARCH_REQ_XCOMP_PERM),
        instruction(answer, 0, 0, 0x00050001), instruction(answer, 0, 0, 0x7FFF0000)])
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 6, ctypes.addressof(code)))
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0), "seccomp")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0x1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


class Place:
    """Used as a context; `enter` is the preexec_fn of a child.

    files      path -> text that stands there for the child (the path must exist)
    tmpfs      path -> size; empty file systems
    written    path -> text, written after those are mounted
    programs   name -> text of a script that comes first in PATH
    offline    no network but the loopback interface
    """

    def __init__(self, files=(), tmpfs=(), written=(), programs=(), offline=False, nobody=False,
                 cpus=None, tiles=True):
        self.files, self.tmpfs, self.written = dict(files), dict(tmpfs), dict(written)
        self.programs = dict(programs)
        self.offline, self.nobody, self.cpus, self.tiles = offline, nobody, cpus, tiles

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        os.chmod(self.folder, 0o755)
        self._sources = {}
        for index, (path, text) in enumerate(self.files.items()):
            source = os.path.join(self.folder, f"file{index}")
            with open(source, "w") as file:
                file.write(text)
            os.chmod(source, 0o644)
            self._sources[path] = source
        bin_folder = os.path.join(self.folder, "bin")
        os.mkdir(bin_folder)
        for name, text in self.programs.items():
            with open(os.path.join(bin_folder, name), "w") as file:
                file.write("#!/bin/bash\n" + text + "\n")
            os.chmod(file.name, 0o755)
        self.path = bin_folder + ":" + os.environ["PATH"]
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    @property
    def folder(self):
        return self._folder.name

    def checkout(self):
        """What `./dev serve` needs of a checkout, without a build and a model."""
        target = os.path.join(self.folder, "checkout")
        copy_checkout(target)
        return target

    def enter(self):
        os.umask(0o022)
        check(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWNET if self.offline else 0)), "unshare")
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        if self.offline:
            loopback_up()
        for path, size in self.tmpfs.items():
            mount("tmpfs", path, "tmpfs", options=f"size={size},mode=1777")
        for path, text in self.written.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        for path, source in self._sources.items():
            mount(source, path, flags=MS_BIND)
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        if not self.tiles:
            refuse_tiles()
        if self.nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)


def copy_checkout(target):
    for folder in ("deploy/packages", "deploy/model"):
        shutil.copytree(os.path.join(ROOT, folder), os.path.join(target, folder))
    for file in ("dev", "deploy/local.yaml", "CMakePresets.json"):
        shutil.copy(os.path.join(ROOT, file), os.path.join(target, file))


def group_files(version, limit, usage):
    """Files of a control group with a memory limit, as arguments of Place."""
    root = "/sys/fs/cgroup"
    if version == 2:
        names, table = ("memory.max", "memory.current"), "0::/\n"
    else:
        root += "/memory"
        names, table = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "4:memory:/\n"
    return {"files": {"/proc/self/cgroup": table}, "tmpfs": {"/sys/fs/cgroup": "1m"},
            "written": {f"{root}/{names[0]}": f"{limit}\n", f"{root}/{names[1]}": f"{usage}\n"}}


def installed_without(*packages):
    """dpkg's list of what is installed, without these."""
    with open("/var/lib/dpkg/status") as file:
        entries = file.read().split("\n\n")
    return "\n\n".join(entry for entry in entries
                       if not any(entry.startswith(f"Package: {name}\n") for name in packages))
