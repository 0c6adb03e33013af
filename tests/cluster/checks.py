"""What the checks of both overlays share."""

import base64
import json
import pathlib
import subprocess
import time
import urllib.parse
import zipfile

from node import ADDRESS, ENTER, Failure, run, say, wait

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
KEY = "a-key-for-laptops-alone"
API = "http://127.0.0.1:8080"
USERS = 2000


class Place:
    """A node, and where the files of a run are."""

    def __init__(self, node, rootfs, programs, tools):
        self.node, self.rootfs = node, pathlib.Path(rootfs)
        self.programs, self.tools = pathlib.Path(programs), pathlib.Path(tools)
        self.folder = node.folder / "person"
        self.folder.mkdir()

    def longshore(self, *words, **options):
        """Runs the program of the image on this machine, in the node's network."""
        files = self.rootfs
        libraries = ":".join(str(path) for path in files.glob("lib/*-linux-gnu"))
        libraries += "".join(f":{path}" for path in files.glob("usr/lib/*-linux-gnu"))
        loader = next(files.glob("lib64/ld-linux-*"), None) or next(files.glob("lib/ld-linux-*"))
        return run(*ENTER, loader, "--library-path", libraries,
                   files / "usr/local/bin/longshore", *words, **options)

    def kubectl(self, *words, **options):
        return self.node.kubectl("--namespace=longshore", *words, **options)

    def execute(self, deployment, *words, **options):
        """Runs a command of Longshore in a pod, as the guides do."""
        flags = ["--stdin"] if options.get("text") else []
        return self.kubectl("exec", *flags, f"deployment/longshore-{deployment}", "--",
                            "longshore", *words, **options)

    def forward(self, *services):
        """`kubectl port-forward` for each SERVICE:PORTS, or NAMESPACE/SERVICE:PORTS."""
        for one in services:
            name, ports = one.split(":", 1)
            namespace, _, service = name.rpartition("/")
            self.node.spawn(
                f"forward-{service}", self.node.program, "kubectl",
                f"--kubeconfig={self.node.config}", f"--namespace={namespace or 'longshore'}",
                "port-forward", f"service/{service}", ports,
            )
            local = ports.split(":")[0]
            url = f"http://127.0.0.1:{local}/"
            wait(f"port {local}", lambda: curl("--include", url), 60)

    def end_forwards(self):
        for file in (self.node.folder / "pids").glob("forward-*"):
            self.node.end(file.name)

    def rollout(self, *what, seconds=300):
        what = what or ("deployment", "--selector=app.kubernetes.io/part-of=longshore")
        self.kubectl("rollout", "status", *what, f"--timeout={seconds}s", timeout=seconds + 30)

    def pods(self, selector):
        found = self.node.get("--namespace=longshore", "pods", f"--selector={selector}")["items"]
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def start_prometheus(self):
        text = self.node.kubectl("kustomize", str(HERE / "monitoring"))
        text = text.replace("PROGRAMS", str(self.programs))
        self.node.apply(text.replace("TARGETS", str(self.node.folder / "targets")))
        self.node.kubectl("--namespace=monitoring", "rollout", "status", "deployment/prometheus",
                          "--timeout=180s")
        address = self.node.kubectl(
            "--namespace=monitoring", "get", "service", "prometheus-operated",
            "--output=jsonpath={.spec.clusterIP}")
        self.prometheus = f"http://{address}:9090"

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        answer = json.loads(curl(f"{self.prometheus}/api/v1/query?{query}"))
        if answer["status"] != "success":
            raise Failure(f"{expression}: {answer}")
        return answer["data"]["result"]


def curl(*words):
    return run(*ENTER, "curl", "--silent", "--show-error", "--max-time", "30", *words)


def expect(holds, text):
    """Prints what was checked; or ends the run."""
    if not holds:
        raise Failure(f"does not hold: {text}")
    say(f"ok   {text}")


def import_users(place):
    records = place.longshore("generate", "--users", USERS)
    said = place.execute("gateway", "import", "-", text=records)
    expect(f"{USERS} " in said or f"{USERS:,} " in said, f"import: {said.strip().splitlines()[-1]}")


def export_users(place, fields, name, check=None):
    """An export as a person runs it: the file comes from outside the pods, and is read back."""
    out = place.folder / name
    out.mkdir()
    place.longshore("export", "run", "--url", API, "--key", KEY, "--fields", fields,
                    "--output", out, timeout=300)
    (archive,) = out.glob("*.zip")
    users = []
    with zipfile.ZipFile(archive) as opened:
        bad = opened.testzip()
        for file in opened.namelist():
            users += [json.loads(line) for line in opened.read(file).splitlines()]
    if bad or check:
        size = archive.stat().st_size
        expect(bad is None and check(users), f"export: {len(users)} users in {size:,} bytes")
    return users


def send_message(place):
    """A webhook to a user that a receiver outside the pods gets."""
    received = place.folder / "received"
    received.touch()
    place.node.spawn("receiver", "python3", HERE / "receiver.py", "10.250.0.2", 80, received)
    key = place.execute("gateway", "key", "create", "--name", "sender",
                        "--permission", "messages.send").strip()
    user = json.loads(place.longshore("generate", "--users", 1))
    body = json.dumps({
        "external_user_ids": [user["external_id"]],
        "messages": {"webhook": {"url": "http://10.250.0.2/hook", "request_method": "POST",
                                 "body": "Hello from a cluster"}},
    })
    answer = json.loads(curl(f"{API}/messages/send", "--header", f"Authorization: Bearer {key}",
                             "--header", "Content-Type: application/json", "--data", body))
    if answer.get("message") != "success":
        raise Failure(f"messages/send: {answer}")
    since = time.monotonic()
    lines = wait("the message", lambda: received.read_text().splitlines(), 60)
    hook = json.loads(lines[0])
    expect(hook["body"] == "Hello from a cluster" and "webhook-signature" in hook["headers"],
           f"message: the receiver has it {time.monotonic() - since:.1f} s after the call, signed")
    place.node.end("receiver")


def query_dashboard(place):
    """The expressions of a dashboard, as Grafana asks for them."""
    dashboard = json.loads((ROOT / "deploy/grafana/fleet.json").read_text())
    asked = answered = 0
    for panel in panels(dashboard["panels"]):
        for target in panel.get("targets") or []:
            expression = target["expr"].replace("$__rate_interval", "1m").replace("$__range", "10m")
            for name in ("namespace", "instance", "job"):
                expression = expression.replace(f"${name}", ".*").replace("${" + name + "}", ".*")
            asked += 1
            answered += bool(place.query(expression))
            if panel["title"] == "Gateways":
                gateways = int(place.query(expression)[0]["value"][1])
    expect(gateways >= 1, f"dashboard: {gateways} gateways; {answered} of {asked} queries have data")


def panels(listed):
    for panel in listed:
        yield panel
        yield from panels(panel.get("panels") or [])


def secret(name, **values):
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "data": data,
                       "metadata": {"name": name, "namespace": "longshore"}})
