"""The production overlay: installed, upgraded, disturbed and scaled as its guides say, under a
load whose ledger is compared with an export at the end.
"""

import json
import pathlib
import re
import signal
import sys
import time

from checks import (API, HERE, KEY, ROOT, USERS, curl, expect, export_users, import_users,
                    query_dashboard, secret)
from node import ADDRESS, ENTER, Failure, read, run, say, wait

OVERLAY = HERE / "production"
NEXT = HERE / "production-next"
SELECTOR = "app.kubernetes.io/name=longshore,app.kubernetes.io/component="
EXPORTS = 15


def secrets(place):
    """The S3 server's address is that of its pod, which the pods and this machine reach."""
    address = place.node.kubectl("--namespace=servers", "get", "pod", "s3-0",
                                 "--output=jsonpath={.status.podIP}")
    return {
        "LONGSHORE_DATABASE_URL":
            "postgres://longshore:laptop@postgres.servers.svc.cluster.local/longshore",
        "LONGSHORE_OBJECTS_URL":
            f"s3://longshore/built?region=us-east-1&endpoint=http://{address}:7070&path_style=true"
            "&access_key_id=longshore&secret_access_key=laptop-laptop",
        "LONGSHORE_SECRET_KEY": "bGFwdG9wLWxhcHRvcC1sYXB0b3AtbGFwdG9wLTEyMzQ=",
    }


def start(place):
    node = place.node
    node.apply(node.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", HERE / "servers"))
    for file in sorted((place.tools / "crds").glob("*.yaml")):
        node.kubectl("apply", "--server-side", "--filename", file)
    for name in ("kafka", "postgres", "s3"):
        node.kubectl("--namespace=servers", "rollout", "status", f"statefulset/{name}",
                     "--timeout=240s", timeout=260)
    say("the servers run")
    # docs/how-to/kubernetes.md, from step 2 on.
    node.kubectl("apply", "--server-side", "--filename", ROOT / "deploy/kubernetes/base/namespace.yaml")
    node.apply(secret("longshore", **secrets(place)))
    node.apply(secret("longshore-workspace", ACME_KEY=KEY))
    migrate(place, OVERLAY)
    node.kubectl("apply", "--server-side", "--kustomize", OVERLAY)
    node.apply(run(ROOT / "deploy/kubernetes/prometheus-rule"))
    place.kubectl("wait", "--for=condition=complete", "job/longshore-apply", "--timeout=240s",
                  timeout=260)
    place.rollout()
    say("every pod is ready")
    start_metrics(place)
    place.start_prometheus()
    start_keda(place)


def migrate(place, overlay):
    place.kubectl("delete", "job/longshore-migrate", "job/longshore-apply", "--ignore-not-found")
    place.node.kubectl("apply", "--server-side", "--kustomize", overlay,
                       "--selector=app.kubernetes.io/component in (settings, migrate)")
    place.kubectl("wait", "--for=condition=complete", "job/longshore-migrate", "--timeout=240s",
                  timeout=260)
    say("migrated")


def start_metrics(place):
    """The metrics server by its own manifests."""
    version = re.search(r"cmd/metrics-server@(\S+)", read(ROOT / "scripts/cluster"))[1]
    module = json.loads(run("go", "mod", "download", "-json", f"sigs.k8s.io/metrics-server@{version}"))
    text = place.node.kubectl("kustomize", pathlib.Path(module["Dir"]) / "manifests/base")
    text = re.sub(r"image: .*metrics-server.*", "image: metrics-server:it", text)
    text = text.replace("      - args:", "      - command: [/metrics-server]\n        args:")
    place.node.apply(text.replace("initialDelaySeconds: 20", "initialDelaySeconds: 5"))


def start_keda(place):
    """KEDA's operator and metrics server by its own manifests, without its admission webhooks."""
    config = place.node.tools / "keda/config"
    parts = ("crd", "general", "rbac", "service_account", "manager", "metrics-server")
    text = "\n---\n".join(place.node.kubectl("kustomize", config / part) for part in parts)
    text = re.sub(r"image: \S+/keda:\S+", "image: keda:it", text)
    text = re.sub(r"image: \S+/keda-metrics-apiserver:\S+", "image: keda-adapter:it", text)
    text = re.sub(r"initialDelaySeconds: \d+", "initialDelaySeconds: 2", text)
    rotation = "- --enable-cert-rotation=true"
    text = text.replace(rotation, f"{rotation}\n        - --enable-webhook-patching=false")
    place.node.apply(text.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"))
    for name in ("keda-operator", "keda-metrics-apiserver"):
        place.node.kubectl("--namespace=keda", "rollout", "status", f"deployment/{name}",
                           "--timeout=180s")
    say("KEDA runs")


def test(place):
    place.forward("longshore-gateway:8080:80")
    said = place.execute("messages", "doctor")
    expect("FAIL" not in said, f"doctor: {len(said.splitlines())} lines, none of them FAIL")
    import_users(place)
    check_admission(place)
    check_network(place)
    check_triggers(place)
    query_dashboard(place)
    load = Load(place)
    try:
        for disturb in (scale, scale_workers, upgrade, roll_back, upgrade, evict, kill_gateways,
                        kill_worker, kill_node_parts):
            disturb(place)
            load.check(disturb.__name__.replace("_", " "))
    finally:
        load.stop()
    load.compare(place)
    draw_dashboards(place)
    check_settings_file(place)
    place.end_forwards()


def stop(place):
    pass


class Load:
    """load.py in the node's network, at the Service."""

    def __init__(self, place):
        self.ledger, self.stopped = place.folder / "ledger", place.folder / "stop"
        self.progress = place.folder / "progress"
        address = place.kubectl("get", "service", "longshore-gateway",
                                "--output=jsonpath={.spec.clusterIP}")
        self.process = place.node.spawn(
            "load", sys.executable, HERE / "load.py", f"http://{address}", KEY, self.ledger,
            self.stopped, self.progress)
        self.seen = {"calls": 0, "repeated": 0}
        wait("the load", self.progress.exists, 60)
        say("the load runs")

    def check(self, what):
        read_progress = lambda: json.loads(self.progress.read_text())
        time.sleep(2)
        # A call whose gateway was killed is in progress until its lease ends.
        made = read_progress()["calls"]
        wait("the load continues", lambda: read_progress()["calls"] > made, 90)
        now = read_progress()
        calls = now["calls"] - self.seen["calls"]
        repeated = now["repeated"] - self.seen["repeated"]
        self.seen = now
        expect(not now["failed"] and calls > 0,
               f"{what}: {calls} calls, 0 failed, {repeated} made again {now['reasons'] if repeated else ''}")

    def stop(self):
        self.stopped.touch()
        if self.process.wait(120):
            raise Failure("the load broke off")

    def compare(self, place):
        """Every acknowledged purchase is in an export, once."""
        ledger = json.loads(self.ledger.read_text())["purchases"]
        total = sum(ledger.values())
        place.end_forwards()
        place.forward("longshore-gateway:8080:80")
        attempts = iter(range(100))

        def exported():
            found = {}
            users = export_users(place, "external_id,purchases", f"load-{next(attempts)}")
            for user in users:
                if user.get("external_id") in ledger:
                    found[user["external_id"]] = sum(p["count"] for p in user.get("purchases", []))
            return found == ledger

        wait("the ledger and an export are equal", exported, 120, 5)
        expect(True, f"ledger: {total} acknowledged purchases of {len(ledger)} users are exported, each once")


def upgrade(place):
    """docs/how-to/kubernetes-operate.md, "Upgrade"."""
    migrate(place, NEXT)
    place.node.kubectl("apply", "--server-side", "--kustomize", NEXT,
                       "--selector=app.kubernetes.io/component notin (gateway)")
    place.rollout(seconds=600)
    say("the workers are of the next version")
    place.node.kubectl("apply", "--server-side", "--kustomize", NEXT)
    place.rollout("deployment/longshore-gateway", seconds=600)
    images = {pod["spec"]["containers"][0]["image"] for pod in place.pods(SELECTOR + "gateway")}
    expect(images == {"registry.example.com/longshore:0.2.0"}, "the gateways are of the next version")


def roll_back(place):
    """docs/how-to/kubernetes-operate.md, "Roll back"."""
    place.kubectl("delete", "job/longshore-migrate", "job/longshore-apply", "--ignore-not-found")
    place.node.kubectl("apply", "--server-side", "--kustomize", OVERLAY,
                       "--selector=app.kubernetes.io/component in (settings, gateway)")
    place.rollout("deployment/longshore-gateway", seconds=600)
    former = {"registry.example.com/longshore:0.1.0"}
    wait("the newer gateways have ended", lambda: images(place, "in (gateway)") == former, 180, 2)
    wait_until_applied(place)
    place.node.kubectl("apply", "--server-side", "--kustomize", OVERLAY)
    place.rollout(seconds=600)
    wait("the newer workers have ended", lambda: images(place, "notin (migrate,apply)") == former,
         180, 2)
    expect(True, "every pod is of the former version")


def images(place, components):
    """The images of pods, also of those that are ending: these still work."""
    selector = f"app.kubernetes.io/name=longshore,app.kubernetes.io/component {components}"
    pods = place.node.get("--namespace=longshore", "pods", f"--selector={selector}")["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def wait_until_applied(place):
    """Until the workers, still of the next version, have applied what its gateways appended."""
    def partitions():
        lines = place.execute("messages", "log", "status", "--json").splitlines()
        return {(one["topic"], one["group"], one["partition"]): one for one in map(json.loads, lines)}

    ends = {key: one["end"] for key, one in partitions().items()}

    def applied():
        now = partitions()
        return all(key in now and end is not None and now[key]["next"] >= end
                   for key, end in ends.items())

    wait("the messages of the newer gateways are applied", applied, 300, 2)
    expect(ends, f"the workers have applied {len(ends)} partitions before they are rolled back")


def ready(place, component):
    return [
        pod["metadata"]["name"] for pod in place.pods(SELECTOR + component)
        if any(c["type"] == "Ready" and c["status"] == "True"
               for c in pod["status"].get("conditions") or [])
    ]


def evict(place):
    """What `kubectl drain` does with each pod; with a single node, without the cordon."""
    wait("two gateways", lambda: len(ready(place, "gateway")) >= 2, 120)

    def evicted(pod):
        body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                           "metadata": {"name": pod, "namespace": "longshore"}})
        said = place.node.kubectl("create", "--filename=-", "--raw",
                                  f"/api/v1/namespaces/longshore/pods/{pod}/eviction",
                                  text=body, check=False)
        return "Success" in said

    def at_rest():
        """Every gateway is ready: none is being added or removed."""
        status = place.node.get("--namespace=longshore", "pdb", "longshore-gateway")["status"]
        deployment = place.node.get("--namespace=longshore", "deployment", "longshore-gateway")
        return status["expectedPods"] == status["currentHealthy"] == deployment["spec"]["replicas"] \
            == len(ready(place, "gateway"))

    wait("the gateways are at rest", at_rest, 180)
    first, second = ready(place, "gateway")[:2]
    held = evicted(first) and not evicted(second)
    expect(held, "the disruption budget lets one gateway be evicted, and not a second one")
    wait("the second one can be evicted", lambda: evicted(second), 180, 2)
    wait("two gateways again", lambda: len(ready(place, "gateway")) >= 2
         and not {first, second} & set(ready(place, "gateway")), 180)
    for component in ("exports", "ingest", "messages"):
        (pod, *_) = ready(place, component)
        if not evicted(pod):
            raise Failure(f"{pod} cannot be evicted")
    place.rollout()
    place.node.kubectl("cordon", "node")
    (pod, *_) = ready(place, "catalogs")
    said = place.node.kubectl("drain", "node", "--ignore-daemonsets", "--timeout=90s",
                              "--pod-selector=app.kubernetes.io/component=catalogs")
    place.node.kubectl("uncordon", "node")
    place.rollout()
    expect(pod in said, "kubectl drain empties the node of a component, which comes back after uncordon")


def kill_gateways(place):
    """One after the other, so that each client of the load meets it."""
    for pod in place.pods(SELECTOR + "gateway"):
        kill_pod(place, pod)


def kill_worker(place):
    kill_pod(place, place.pods(SELECTOR + "ingest")[0])


def kill_pod(place, pod):
    """kill -9 for the process of a pod."""
    status = pod["status"]["containerStatuses"][0]
    container = status["containerID"].rpartition("/")[2]
    place.node.ctr("tasks", "kill", "--signal", "SIGKILL", container)
    name = pod["metadata"]["name"]

    def restarted():
        now = place.node.get("--namespace=longshore", "pod", name)["status"]["containerStatuses"][0]
        return now["restartCount"] > status["restartCount"] and now["ready"]

    since = time.monotonic()
    wait(f"{name} runs again", restarted, 120)
    expect(True, f"{name} was killed, and is ready again after {time.monotonic() - since:.0f} s")


def kill_node_parts(place):
    """Kubelet and containerd are killed and started again; the pods go on."""
    node = place.node
    before = {pod["metadata"]["uid"] for pod in place.pods(SELECTOR + "gateway")}
    for name in ("kubelet", "containerd"):
        node.end(name, signal.SIGKILL)
    time.sleep(5)
    node.spawn("containerd", "containerd", "--config", node.folder / "containerd.toml")
    wait("containerd", lambda: node.ctr("version"), 60)
    node.start_kubelet()
    wait("kubelet answers", lambda: node.kubectl("get", "--raw=/api/v1/nodes/node/proxy/healthz") == "ok", 120)
    place.rollout()
    after = {pod["metadata"]["uid"] for pod in place.pods(SELECTOR + "gateway")}
    expect(before & after == before, "killed kubelet and containerd: the same pods run on")


def scale(place):
    """The gateways' HPA with the metrics server: the load is above 70 % of what they request."""

    def scaled():
        status = place.node.get("--namespace=longshore", "hpa", "longshore-gateway")["status"]
        metrics = [one for one in status.get("currentMetrics") or [] if one.get("resource")]
        return status.get("desiredReplicas", 0) >= 3 and metrics and status

    status = wait("the HPA starts a third gateway", scaled, 300, 2)
    place.rollout("deployment/longshore-gateway")
    expect(True, f"the HPA went to {status['desiredReplicas']} gateways by the metrics server's numbers")


def scale_workers(place):
    """KEDA adds workers of the role exports while files wait, by Prometheus' numbers."""
    before = len(place.pods(SELECTOR + "exports"))
    body = json.dumps({"fields_to_export": ["external_id", "custom_attributes"]})
    prefixes = set()
    for _ in range(EXPORTS):
        response = json.loads(curl(
            f"{API}/users/export/global_control_group", "--header", f"Authorization: Bearer {KEY}",
            "--header", "Content-Type: application/json", "--data", body))
        prefixes.add(response["object_prefix"])
    scaled = wait("KEDA starts another worker", lambda: len(ready(place, "exports")) > before
                  and len(ready(place, "exports")), 180, 2)

    def done():
        listed = json.loads(place.longshore("export", "list", "--json", "--url", API, "--key", KEY))
        states = {one["object_prefix"]: one["state"] for one in listed}
        return all(states.get(prefix) == "done" for prefix in prefixes)

    wait("the exports are done", done, 300, 2)
    expect(True, f"KEDA went from {before} to {scaled} workers; {len(prefixes)} exports are done")


def check_admission(place):
    pod = json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "privileged", "namespace": "longshore"},
        "spec": {"containers": [{"name": "x", "image": "tools:it", "securityContext": {"privileged": True}}]},
    })
    try:
        place.node.apply(pod)
        refused = ""
    except Failure as failure:
        refused = str(failure)
    expect("violates PodSecurity \"restricted" in refused,
           "a privileged pod is refused (restricted), and Longshore's own run")


PROBE = {
    "apiVersion": "v1", "kind": "Pod",
    "spec": {
        "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "probe", "image": "tools:it", "command": ["sleep", "3600"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }],
    },
}


def check_network(place):
    """Connections that the policies allow succeed, and the others do not."""
    node = place.node
    where = {
        "ingress": ("ingress-nginx", {}), "monitoring": ("monitoring", {}), "stranger": ("default", {}),
        "ingest": ("longshore", {"component": "ingest"}), "exports": ("longshore", {"component": "exports"}),
        "messages": ("longshore", {"component": "messages"}),
    }
    node.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ingress-nginx"}}))
    for name, (namespace, labels) in where.items():
        labels = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
        if labels:
            labels["app.kubernetes.io/name"] = "longshore"
        meta = {"name": f"probe-{name}", "namespace": namespace, "labels": labels}
        node.apply(json.dumps({**PROBE, "metadata": meta}))
    for name, (namespace, _) in where.items():
        node.kubectl(f"--namespace={namespace}", "wait", "--for=condition=Ready",
                     f"pod/probe-{name}", "--timeout=90s")
    time.sleep(2)
    gateway = place.pods(SELECTOR + "gateway")[0]["status"]["podIP"]
    worker = place.pods(SELECTOR + "ingest")[0]["status"]["podIP"]
    address = lambda name: node.get("--namespace=servers", "pod", f"{name}-0")["status"]["podIP"]
    kafka, postgres, s3 = address("kafka"), address("postgres"), address("s3")
    expected = [
        ("ingress", gateway, 8080, True), ("ingress", gateway, 9100, False),
        ("monitoring", gateway, 9100, True), ("monitoring", gateway, 8080, False),
        ("monitoring", worker, 9100, True),
        ("stranger", gateway, 8080, False), ("stranger", worker, 9100, False),
        ("stranger", postgres, 5432, True), # of another namespace, without policies
        ("ingest", postgres, 5432, True), ("ingest", kafka, 9092, True), ("ingest", s3, 7070, False),
        ("ingest", gateway, 8080, False), ("ingest", "10.250.0.2", 80, False),
        ("ingest", ADDRESS, 6443, False),
        ("exports", s3, 7070, True), ("exports", postgres, 5432, True), ("exports", ADDRESS, 6443, False),
        ("messages", s3, 7070, True), ("messages", ADDRESS, 6443, False),
        ("messages", gateway, 9100, False),
    ]
    receiver = node.spawn("listener", sys.executable, HERE / "receiver.py", "10.250.0.2", 80, "/dev/null")
    wrong = []
    for name, target, port, allowed in expected:
        said = node.kubectl(
            f"--namespace={where[name][0]}", "exec", f"probe-{name}", "--", "sh", "-c",
            f"nc -z -w 3 {target} {port} && echo open || echo closed")
        if ("open" in said) != allowed:
            wrong.append(f"{name} to {target}:{port} is {said.strip()}")
    node.end("listener")
    for name, (namespace, _) in where.items():
        node.kubectl(f"--namespace={namespace}", "delete", "pod", f"probe-{name}", "--wait=false")
    expect(not wrong, f"network policies: {len(expected)} connections open or closed as they must be {wrong or ''}")


def check_triggers(place):
    """KEDA has found each trigger's source, and serves a number for it to the autoscaler."""
    listed = lambda kind: place.node.get("--namespace=longshore", kind)["items"]
    names = {scaled["metadata"]["name"] for scaled in listed("scaledobjects")}

    def waiting():
        """The scalers that are not ready, or have no number yet."""
        ready = {scaled["metadata"]["name"] for scaled in listed("scaledobjects")
                 for one in scaled.get("status", {}).get("conditions") or []
                 if one["type"] == "Ready" and one["status"] == "True"}
        measured = {scaler["metadata"]["name"] for scaler in listed("hpa")
                    if len(scaler["status"].get("currentMetrics") or []) == len(scaler["spec"]["metrics"])
                    and all("external" in one for one in scaler["status"]["currentMetrics"])}
        return names - {name for name in ready if f"keda-hpa-{name}" in measured}

    wait("KEDA's scalers have numbers", lambda: not waiting(), 120)
    triggers = sum(len(scaled["spec"]["triggers"]) for scaled in listed("scaledobjects"))
    expect(triggers > 6, f"KEDA: {len(names)} scalers are ready, with numbers for {triggers} triggers")


def check_settings_file(place):
    """Secrets as a file and not in the environment: a settings file in a mounted Secret."""
    values = secrets(place)
    text = "\n".join([
        f'secret_key = "{values["LONGSHORE_SECRET_KEY"]}"',
        "[database]", f'url = "{values["LONGSHORE_DATABASE_URL"]}"',
        "[objects]", f'url = "{values["LONGSHORE_OBJECTS_URL"]}"', ""])
    place.node.apply(secret("longshore-file", **{"longshore.toml": text}))
    patch = json.dumps({"spec": {"template": {"spec": {
        "volumes": [{"name": "settings", "secret": {"secretName": "longshore-file"}}],
        "containers": [{
            "name": "longshore", "envFrom": [{"configMapRef": {"name": config_map(place)}}],
            "env": [{"name": "LONGSHORE_CONFIG", "value": "/settings/longshore.toml"}],
            "volumeMounts": [{"name": "settings", "mountPath": "/settings", "readOnly": True}],
        }],
    }}}})
    place.kubectl("patch", "deployment/longshore-exports", "--type=strategic", f"--patch={patch}")
    place.kubectl("patch", "deployment/longshore-exports", "--type=json", "--patch", json.dumps(
        [{"op": "replace", "path": "/spec/template/spec/containers/0/envFrom",
          "value": [{"configMapRef": {"name": config_map(place)}}]}]))
    place.rollout("deployment/longshore-exports")
    export_users(place, "external_id", "settings-file", lambda users: len(users) > USERS)
    expect(True, "a worker with its secrets in a mounted file exports")


def draw_dashboards(place):
    """A picture of what the run looked like, to be looked at."""
    page = place.node.folder.parent / "dashboards.html"
    said = run(*ENTER, sys.executable, ROOT / "scripts/dashboards", place.prometheus, page,
               "--minutes", 10, "--namespace", "longshore")
    expect(", 0 rejected" in said, said.strip())


def config_map(place):
    containers = place.node.get("--namespace=longshore", "deployment", "longshore-exports")
    sources = containers["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    return next(one["configMapRef"]["name"] for one in sources if "configMapRef" in one)
