"""Builds the images that a node runs, with buildah: Longshore's from deploy/Dockerfile, and
stand-ins for those that a registry would have.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess

from node import Failure, run, say

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
DOCKERFILE = ROOT / "deploy/Dockerfile"

# Lower limits than the defaults, which not every machine may set; crun cannot do without systemd.
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{cache}/containers"
runroot = "{cache}/containers-run"
"""

# Programs that scripts/cluster builds, and the name of each in its image.
PROGRAMS = [("coredns", "coredns"), ("metrics-server", "metrics-server"), ("operator", "keda"),
            ("adapter", "keda-adapter")]


class Images:
    def __init__(self, cache, services):
        self.cache, self.services = pathlib.Path(cache), pathlib.Path(services)
        self.archives = self.cache / "archives"
        self.archives.mkdir(parents=True, exist_ok=True)
        for name, text in (("containers.conf", CONTAINERS), ("storage.conf", STORAGE)):
            (self.cache / name).write_text(text.replace("{cache}", str(self.cache)))
        os.environ["CONTAINERS_CONF"] = str(self.cache / "containers.conf")
        os.environ["CONTAINERS_STORAGE_CONF"] = str(self.cache / "storage.conf")

    def has(self, image):
        return bool(run("buildah", "images", "--quiet", image, check=False).strip())

    def build(self, image, file, context, *more, shown=False):
        """Builds an image; the output is shown only if the build fails, or on request."""
        command = [
            "buildah", "bud", "--isolation", "chroot", "--network", "host", "--format", "docker",
            "--layers", "--tag", image, "--file", str(file), *map(str, more), str(context),
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, text=True, stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
        )
        if done.returncode:
            raise Failure(f"{image} cannot be built:\n{(done.stdout or '')[-3000:]}")

    def base(self):
        if self.has("debian:trixie-slim"):
            return
        tree = self.cache / "trixie.tar"
        run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "trixie", tree,
            timeout=900)
        run("podman", "import", "--quiet", tree, "debian:trixie-slim", timeout=600)
        tree.unlink()
        say("built debian:trixie-slim")

    def servers(self):
        """The archives of the stand-ins, each built once for what it is built of."""
        self.base()
        context = self.cache / "context"
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(HERE / "images", context)
        run("cc", "-static", "-Os", "-o", context / "pause/pause", context / "pause/pause.c")
        shutil.copy(next(self.services.glob("versitygw-*/versitygw")), context / "s3/versitygw")
        (context / "kafka/libs").mkdir()
        for jar in next(self.services.glob("kafka-*")).glob("*.jar"):
            shutil.copy(jar, context / "kafka/libs")
        archives = []
        for folder, image in (
            ("pause", "localhost/pause:3.10"),
            ("postgres", "docker.io/library/postgres:17"),
            ("kafka", "docker.io/apache/kafka:4.3.1"),
            ("s3", "docker.io/versity/versitygw:v1.8.0"),
            ("tools", "docker.io/library/tools:it"),
        ):
            archives.append(self.built_once(folder, image, context / folder))
        for program, name in PROGRAMS:
            shutil.copy(self.cache / "bin" / program, context / "program/program")
            archives.append(self.built_once(name, f"docker.io/library/{name}:it",
                                            context / "program", "--build-arg", f"NAME={name}"))
        shutil.rmtree(context)
        return archives

    def built_once(self, name, image, context, *arguments):
        """The archive of an image, built unless there is one of the same files."""
        archive = self.archives / f"{name}-{digest(context)}.tar"
        if not archive.exists():
            self.build(image, context / "Dockerfile", context, *arguments)
            self.save(image, archive, image)
            say(f"built {image}")
        return archive

    def save(self, image, archive, name):
        new = archive.with_suffix(".new")
        new.unlink(missing_ok=True)
        run("buildah", "push", "--quiet", image, f"docker-archive:{new}:{name}", timeout=600)
        new.rename(archive)

    def longshore(self, binary, version, names, crates=None):
        """Longshore's image, from source or with a ready binary and the list of its crates: its
        archives under these names, its size in bytes, and its digest."""
        self.base()
        image = f"longshore-cluster:{version}"
        git = lambda *words: run("git", "-C", ROOT, *words).strip()
        arguments = ["--timestamp", git("log", "-1", "--format=%ct"),
                     "--build-arg", f"VERSION={version}",
                     "--build-arg", f"REVISION={git('rev-parse', 'HEAD')}"]
        if binary:
            context = self.cache / "binary"
            shutil.rmtree(context, ignore_errors=True)
            context.mkdir()
            shutil.copy(binary, context / "longshore")
            for file in ("LICENSE", "crates/gateway/src/openapi/scalar.LICENSE"):
                (context / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, context / file)
            (context / "longshore.cdx.json").write_text(pathlib.Path(crates).read_text() if crates else "{}")
            (context / "Dockerfile").write_text(with_binary(DOCKERFILE.read_text()))
            self.build(image, context / "Dockerfile", context, *arguments)
            shutil.rmtree(context)
        else:
            self.toolchain()
            self.build(image, DOCKERFILE, ROOT, "--ignorefile", f"{DOCKERFILE}.dockerignore",
                       *arguments, shown=True)
        archives = []
        for number, name in enumerate(names):
            archive = self.archives / f"longshore-{version}-{number}.tar"
            archive.unlink(missing_ok=True)
            self.save(image, archive, name)
            archives.append(archive)
        inspected = run("podman", "image", "inspect", "--format", "{{.Digest}} {{.Size}}", image)
        identity, size = inspected.split()
        return archives, int(size), identity

    def toolchain(self):
        """Stands for the image rust, with the toolchain of this machine."""
        name = next(line.split()[1] for line in DOCKERFILE.read_text().splitlines()
                    if line.startswith("FROM rust:"))
        if self.has(name):
            return
        toolchain = pathlib.Path(run("rustup", "which", "rustc").strip()).parent.parent
        ignored = self.cache / "ignored"
        ignored.write_text("share\nlib/rustlib/src\n")
        self.build(name, HERE / "images/rust/Dockerfile", toolchain, "--ignorefile", ignored,
                   "--volume", "/etc/ssl/certs/ca-certificates.crt:/authorities.crt:ro")
        say(f"built {name}")

    def unpack(self, image, folder):
        """The image's files, to run its program on this machine."""
        shutil.rmtree(folder, ignore_errors=True)
        container = run("buildah", "from", image).strip()
        try:
            mounted = run("buildah", "mount", container).strip()
            shutil.copytree(mounted, folder, symlinks=True)
        finally:
            run("buildah", "rm", container)


def with_binary(text):
    """The Dockerfile with a ready binary in place of the stages that compile one."""
    head = """\
FROM debian:trixie-slim AS build
COPY longshore /src/target/dist/longshore
RUN mkdir /data && mkdir --mode=0700 /data/longshore
FROM debian:trixie-slim AS sbom
COPY longshore.cdx.json /
"""
    return head + text[text.index("# What the image has of Debian"):]


def digest(folder):
    summed = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            summed.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return summed.hexdigest()[:16]
