#!/usr/bin/env python3
"""make.py BUILD OUT: packs the programs of a build folder.

Writes OUT/package/ (what an image copies), OUT/baton-VERSION-linux-x86_64.tar.gz with the same
files below one folder, and OUT/baton-VERSION-linux-x86_64-symbols.tar.gz with the symbols that were
stripped. Equal inputs give equal bytes: names are sorted, times and owners fixed (SOURCE_DATE_EPOCH
is honoured).

Which shared libraries are needed, and which Debian packages bring them, is read from the programs,
from UCX's loadable modules and from dpkg; whose headers were compiled in, from the build's own
record of dependencies.
"""

import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("baton", "baton-router", "baton-prefill", "baton-decode")
# Of deploy/, what only builds.
NOT_PACKED = ("baton", "cmake", "package", "packages", "Dockerfile")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))  # 2020-01-01


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fail(message):
    sys.exit(f"package: {message}")


def version_of(program):
    """'baton 0.1.0 (commit ...)' is what the program itself says."""
    return output_of(program, "--version").split()[1]


# ---- shared libraries


def libraries_of(binary):
    """Paths as the loader finds them, the loader's own among them; /lib is /usr/lib."""
    found = set()
    for line in output_of("ldd", binary).splitlines():
        words = line.split()
        if "not found" in line:
            fail(f"{binary} needs {words[0]}, which is not installed")
        paths = [word for word in words if word.startswith("/")]
        if paths:
            path = pathlib.Path(paths[0])
            found.add(str(path.parent.resolve() / path.name))
    return found


def ucx_modules(libraries):
    """UCX opens what lies in the folder ucx beside libuct; no program names them."""
    modules = set()
    for path in libraries:
        if pathlib.Path(path).name.startswith("libuct.so"):
            folder = pathlib.Path(path).parent / "ucx"
            modules.update(str(module) for module in folder.glob("libuct_*.so.0"))
    return modules


# ---- Debian packages


class Owners:
    """Which package a file of this system belongs to."""

    def __init__(self):
        self._owner = {}
        for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
            package = listing.name.removesuffix(".list").split(":")[0]
            for line in listing.read_text(encoding="utf-8").splitlines():
                self._owner[line] = package

    def of(self, path):
        """None for files of no package. /lib and /usr/lib are one folder, listed under either."""
        real = str(pathlib.Path(path).resolve())
        for name in (path, real):
            for candidate in (name, name.removeprefix("/usr"), "/usr" + name):
                if candidate in self._owner:
                    return self._owner[candidate]
        return None


def versions_of(packages):
    lines = output_of("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages)
    return dict(line.split() for line in lines.splitlines())


def headers_of(build):
    """Headers outside the tree that went into the programs' objects."""
    wanted = set(output_of("ninja", "-C", build, "-t", "inputs", *PROGRAMS).split())
    headers, used = set(), False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            used = line.split(":")[0] in wanted
        elif used and line.strip().startswith("/usr/"):
            headers.add(line.strip())
    if not headers:
        fail(f"{build} has no record of its headers; build it first")
    return headers


# ---- the files


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def pack_programs(build, package, symbols):
    for name in PROGRAMS:
        source, target = build / "bin" / name, package / "bin" / name
        debug = symbols / f"{name}.debug"
        for folder in (target.parent, symbols):
            folder.mkdir(parents=True, exist_ok=True)
        output_of("objcopy", "--only-keep-debug", source, debug)
        output_of("strip", "--strip-all", "-o", target, source)
        output_of("objcopy", f"--add-gnu-debuglink={debug}", target)
        target.chmod(0o755)


def pack_documents(package):
    for name in ("LICENSE", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, package / name)
    shutil.copyfile(ROOT / "deploy/package/INSTALL.md", package / "INSTALL.md")
    shutil.copytree(ROOT / "docs", package / "docs")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for path in sorted((ROOT / "deploy").iterdir()):
        if path.name in NOT_PACKED:
            continue
        target = package / "deploy" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=ignored)
        else:
            shutil.copyfile(path, target)
            shutil.copymode(path, target)


def unlink_sources(package):
    """Links of documents to what only the repository has become its path there."""
    for page in sorted(package.rglob("*.md")):

        def text_of(link, folder=page.parent):
            target = pathlib.Path(os.path.normpath(folder / link[2]))
            if target.exists():
                return link[0]
            path = f"`{os.path.relpath(target, package)}` of the source tree"
            return path if link[1] in path else f"{link[1]} ({path})"

        page.write_text(LINK.sub(text_of, page.read_text(encoding="utf-8")), encoding="utf-8")


def pack_libraries(package, libraries, linked, owners):
    """libraries.txt and packages.txt; returns the packages."""
    rows, packages = [], set()
    for path in sorted(libraries):
        owner = owners.of(path)
        if owner is None:
            fail(f"{path} belongs to no Debian package")
        packages.add(owner)
        rows.append((path, owner, "linked" if path in linked else "loaded"))
    versions = versions_of(sorted(packages))
    lines = ["# file, Debian package, its version, linked by a program or loaded by UCX's modules"]
    lines += [f"{path} {owner} {versions[owner]} {how}" for path, owner, how in rows]
    write(package / "libraries.txt", "\n".join(lines) + "\n")
    write(package / "packages.txt", "\n".join(sorted(packages)) + "\n")
    return packages


def pack_licences(package, linked, compiled_in):
    """The copyright file of each package, and the common licences that these refer to."""
    folder = package / "licences"
    versions = versions_of(sorted(linked | compiled_in))
    lines = ["Software of others that the programs use. LICENSE is that of Baton itself.", ""]
    common = set()
    for name in sorted(linked | compiled_in):
        text = pathlib.Path(f"/usr/share/doc/{name}/copyright").read_text(encoding="utf-8")
        common.update(COMMON_LICENCE.findall(text))
        write(folder / f"{name}.txt", text)
        uses = [use for use, names in (("shared library", linked), ("compiled in", compiled_in))
                if name in names]
        lines.append(f"{name} {versions[name]}: {', '.join(uses)}")
    for name in sorted(common):
        source = pathlib.Path("/usr/share/common-licenses") / name
        if source.exists():
            write(folder / "common-licenses" / name, source.read_text(encoding="utf-8"))
    write(folder / "README.txt", "\n".join(lines) + "\n")


def archive(folder, target, top):
    """A tar.gz whose bytes depend on names, modes and contents only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, arcname=f"{top}/{path.relative_to(folder)}")
            info.mtime, info.uid, info.gid, info.uname, info.gname = TIME, 0, 0, "root", "root"
            info.mode = 0o755 if path.is_dir() or info.mode & 0o100 else 0o644
            if path.is_file():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    target.write_bytes(gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    build, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    version = version_of(build / "bin/baton")
    name = f"baton-{version}-linux-x86_64"
    package, symbols = out / "package", out / "package-symbols"
    for folder in (package, symbols):
        shutil.rmtree(folder, ignore_errors=True)

    linked = set().union(*(libraries_of(build / "bin" / program) for program in PROGRAMS))
    modules = ucx_modules(linked)
    libraries = linked.union(modules, *(libraries_of(module) for module in modules))
    owners = Owners()
    compiled_in = {owners.of(header) for header in headers_of(build)} - {None}

    pack_programs(build, package, symbols)
    pack_documents(package)
    unlink_sources(package)
    packages = pack_libraries(package, libraries, linked, owners)
    pack_licences(package, packages, compiled_in)
    archive(package, out / f"{name}.tar.gz", name)
    archive(symbols, out / f"{name}-symbols.tar.gz", f"{name}-symbols")
    shutil.rmtree(symbols)
    size = (out / f"{name}.tar.gz").stat().st_size / 1e6
    print(f"package: {out / name}.tar.gz, {size:.1f} MB; needs {len(packages)} Debian packages")


if __name__ == "__main__":
    main()
