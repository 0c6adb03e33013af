"""What scripts/cluster runs, once everything is built."""

import argparse
import pathlib
import shutil
import signal
import sys
import time
import traceback

import laptop
import production
from checks import Place
from images import Images
from node import Failure, Node, say


def main():
    parser = argparse.ArgumentParser(prog="scripts/cluster")
    parser.add_argument("command", choices=["up", "test", "down", "image"])
    parser.add_argument("overlay", nargs="*", default=["laptop", "production"])
    parser.add_argument("--cache", required=True)
    parser.add_argument("--services")
    parser.add_argument("--prometheus")
    parser.add_argument("--tools")
    parser.add_argument("--binary")
    parser.add_argument("--previous")
    parser.add_argument("--version", default="0.2.0")
    parser.add_argument("--crates")
    parser.add_argument("--archive")
    options = parser.parse_args()
    cache = pathlib.Path(options.cache)
    node = Node(cache / "bin", cache / "run")
    # As ctrl-C, so that everything is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    if options.command == "down":
        node.stop()
        return 0
    images = Images(cache, options.services)
    if options.archive:
        name = f"docker.io/library/longshore:{options.version}"
        archives, size, identity = images.longshore(
            options.binary, options.version, [name], options.crates)
        shutil.move(archives[0], options.archive)
        say(f"the image has {size / 1e6:.1f} MB, {identity}: {options.archive}")
        return 0
    names = ["docker.io/library/longshore:dev"]
    if "production" in options.overlay:
        names.append("registry.example.com/longshore:0.2.0")
    archives, size, identity = images.longshore(options.binary, "0.2.0", names)
    say(f"the image has {size / 1e6:.1f} MB, {identity}")
    images.unpack("longshore-cluster:0.2.0", cache / "rootfs")
    if options.command == "image":
        return 0
    if "production" in options.overlay:
        before = options.previous or options.binary
        old = ["registry.example.com/longshore:0.1.0"]
        found, _, _ = images.longshore(before, "0.1.0", old)
        archives += found
    archives += images.servers()
    failed = False
    try:
        node.start()
        for archive in archives:
            node.load_image(archive)
        say(f"{len(archives)} images are loaded")
        node.start_dns()
        place = Place(node, cache / "rootfs", options.prometheus, options.tools)
        if options.command == "up":
            laptop.start(place)
            place.forward("longshore-gateway:8080:80", "s3:7070")
            say("it runs until ctrl-C; in its network (scripts/cluster help) the API is at "
                "http://127.0.0.1:8080, with the key a-key-for-laptops-alone")
            while True:
                time.sleep(60)
        for overlay, module in (("laptop", laptop), ("production", production)):
            if overlay in options.overlay:
                say(f"-- {overlay} --")
                module.start(place)
                module.test(place)
                module.stop(place)
        say("all checks hold")
    except KeyboardInterrupt:
        say("interrupted")
    except Exception as error:
        failed = True
        traceback.print_exc() if not isinstance(error, Failure) else say(f"FAIL {error}")
        show_pods(node)
    finally:
        # From here on a second ctrl-C does not leave half of it behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        node.stop()
    return int(failed)


def show_pods(node):
    """What a person would look at first."""
    try:
        print(node.kubectl("get", "pods", "--all-namespaces", "--output=wide"))
        print(node.kubectl("get", "events", "--namespace=longshore", "--field-selector=type=Warning",
                           "--sort-by=.lastTimestamp")[-3000:])
        print(node.kubectl("logs", "--namespace=longshore", "--prefix", "--tail=5", "--max-log-requests=20",
                           "--selector=app.kubernetes.io/part-of=longshore", check=False)[-6000:])
    except Failure as failure:
        print(failure)


if __name__ == "__main__":
    sys.exit(main())
