"""A Kubernetes node on this machine, in a network namespace of its own without a way out.

Everything that it starts is written down, and ended by `stop`; settings of the kernel that
kubelet changes get their values back.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

NAMESPACE = "longshore-cluster"
NAME = "node"
ADDRESS = "10.250.0.1"
PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
# What kubelet sets for the whole machine.
KERNEL = [
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
]
# Folders outside of ours in which kubelet and containerd leave something.
TRACES = ["/run/netns", "/var/lib/cni/results", "/var/log/containers", "/var/lib/kubelet"]
ENTER = ["nsenter", f"--net=/run/netns/{NAMESPACE}"]

START = time.monotonic()


def say(text):
    """A line of the report, after the seconds since the start."""
    print(f"{time.monotonic() - START:7.1f} s  {text}", flush=True)


class Failure(Exception):
    """A check that does not hold, or a command that fails."""


def run(*command, text=None, timeout=300, check=True):
    """What a command prints; a command that fails is a Failure with its last words."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL if text is None else None, timeout=timeout,
    )
    if check and done.returncode:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise Failure(f"{' '.join(words)[:300]}: {said}")
    return done.stdout


def wait(what, check, seconds=120, pause=0.5):
    """Waits until `check` returns something true, and returns that."""
    end, error = time.monotonic() + seconds, None
    while True:
        try:
            if result := check():
                return result
        except Failure as failure:
            error = failure
        if time.monotonic() > end:
            raise Failure(f"{what}: not after {seconds} s" + (f" ({error})" if error else ""))
        time.sleep(pause)


class Node:
    def __init__(self, tools, folder):
        self.tools, self.folder = pathlib.Path(tools), pathlib.Path(folder)
        self.program = str(self.tools / "node")
        self.socket = str(self.folder / "containerd.sock")
        self.config = str(self.folder / "admin.kubeconfig")

    def kubectl(self, *words, **options):
        # In the namespace, where the API server is.
        return run(*ENTER, self.program, "kubectl", f"--kubeconfig={self.config}",
                   f"--cache-dir={self.folder}/kubectl", *words, **options)

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "--output=json"))

    def spawn(self, name, *command, enter=True, environment=None, cwd=None):
        """Starts a process that `stop` ends; its output is in log/NAME."""
        command = (ENTER if enter else []) + [str(word) for word in command]
        with open(self.folder / "log" / name, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd,
                start_new_session=True, env={**os.environ, **(environment or {})},
            )
        record = f"{process.pid} {born(process.pid)}\n"
        (self.folder / "pids" / name).write_text(record)
        return process

    def end(self, name, how=signal.SIGTERM, seconds=20):
        """Ends a process that was started under this name, by its id."""
        file = self.folder / "pids" / name
        if not file.exists():
            return
        pid, since = file.read_text().split()
        pid = int(pid)
        if born(pid) == since:
            for signum in (how, signal.SIGKILL):
                os.kill(pid, signum)
                end = time.monotonic() + seconds
                while born(pid) == since and time.monotonic() < end:
                    reap(pid)
                    time.sleep(0.05)
                if born(pid) != since:
                    break
        file.unlink(missing_ok=True)

    # Start

    def start(self):
        if self.folder.exists():
            self.stop()
        for part in ("log", "pids", "pki", "volumes", "cni", "targets"):
            (self.folder / part).mkdir(parents=True)
        before = {path: read(f"/proc/sys/{path}") for path in KERNEL}
        traces = {path: names(path) for path in TRACES}
        (self.folder / "before.json").write_text(json.dumps({"kernel": before, "traces": traces}))
        self.start_network()
        self.start_containerd()
        self.make_certificates()
        self.start_control_plane()
        self.start_kubelet()
        self.write("kube-proxy.yaml", PROXY)
        self.spawn("kube-proxy", self.program, "kube-proxy",
                   f"--config={self.folder}/kube-proxy.yaml")
        self.spawn("targets", sys.executable, pathlib.Path(__file__).with_name("targets.py"),
                   self.folder)
        volumes = []
        for number in range(8):
            path = self.folder / f"volumes/{number}"
            path.mkdir()
            path.chmod(0o777)
            volumes.append(volume(number, path))
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": volumes}))
        wait("the node is ready", lambda: "True" in self.kubectl(
            "get", "node", NAME, "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"))
        # The network policies alone: kube-proxy has the services, and the pods have routes.
        self.spawn("kube-router", self.tools / "kube-router", "--run-firewall=true",
                   "--run-router=false", "--run-service-proxy=false",
                   f"--kubeconfig={self.config}", f"--hostname-override={NAME}",
                   f"--service-cluster-ip-range={SERVICES}")
        say("the node is ready")

    def start_dns(self):
        """CoreDNS, once its image is loaded."""
        self.apply(read(pathlib.Path(__file__).with_name("dns") / "coredns.yaml"))
        self.kubectl("--namespace=kube-system", "rollout", "status", "deployment/coredns",
                     "--timeout=120s")
        say("the cluster's DNS runs")

    def start_network(self):
        run("ip", "netns", "add", NAMESPACE)
        run(*ENTER, "sh", "-ec", f"""
            ip link set lo up
            ip link add node0 type bridge
            ip address add {ADDRESS}/24 dev node0
            ip address add 10.250.0.2/24 dev node0
            ip link set node0 up
            ip route add {SERVICES} dev node0
            echo 1 > /proc/sys/net/ipv4/ip_forward
        """)

    def start_containerd(self):
        self.write("containerd.toml", CONTAINERD)
        self.write("cni/10-pods.conflist", CNI)
        self.spawn("containerd", "containerd", "--config", self.folder / "containerd.toml")
        wait("containerd", lambda: pathlib.Path(self.socket).exists() and self.ctr("version"))
        say("containerd runs")

    def ctr(self, *words, **options):
        return run("ctr", "--address", self.socket, "--namespace", "k8s.io", *words, **options)

    def load_image(self, archive):
        self.ctr("images", "import", archive, timeout=600)

    def make_certificates(self):
        """The authority, and a certificate for each part and for who calls."""
        pki = self.folder / "pki"
        names = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost"
        names = f"subjectAltName={names},IP:127.0.0.1,IP:10.96.0.1,IP:{ADDRESS}"
        for authority in ("ca", "front-ca"):
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "30", "-subj", f"/CN=longshore-{authority}",
                "-keyout", pki / f"{authority}.key", "-out", pki / f"{authority}.crt")
        for name, subject, authority in (
            ("apiserver", "/CN=kube-apiserver", "ca"),
            ("kubelet", f"/CN={NAME}", "ca"),
            ("admin", "/O=system:masters/CN=admin", "ca"),
            ("node", f"/O=system:nodes/CN=system:node:{NAME}", "ca"),
            ("front", "/CN=front-proxy", "front-ca"),
        ):
            (pki / "names").write_text(names)
            run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", subject, "-keyout", pki / f"{name}.key", "-out", pki / f"{name}.csr")
            run("openssl", "x509", "-req", "-days", "30", "-in", pki / f"{name}.csr",
                "-CA", pki / f"{authority}.crt", "-CAkey", pki / f"{authority}.key",
                "-CAcreateserial", "-extfile", pki / "names", "-out", pki / f"{name}.crt")
        run("openssl", "genrsa", "-out", pki / "accounts.key", "2048")
        run("openssl", "rsa", "-in", pki / "accounts.key", "-pubout", "-out", pki / "accounts.pub")
        for name, file in (("admin", "admin"), ("node", "kubelet")):
            self.write(f"{file}.kubeconfig", KUBECONFIG.replace("{name}", name))

    def start_control_plane(self):
        pki, data = self.folder / "pki", self.folder / "etcd"
        self.spawn("etcd", self.program, "etcd", "--name=node", f"--data-dir={data}",
                   "--unsafe-no-fsync", "--listen-client-urls=http://127.0.0.1:2379",
                   "--advertise-client-urls=http://127.0.0.1:2379",
                   "--listen-peer-urls=http://127.0.0.1:2380")
        self.spawn(
            "kube-apiserver", self.program, "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379", f"--advertise-address={ADDRESS}",
            "--bind-address=0.0.0.0", "--secure-port=6443", f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt", f"--kubelet-client-certificate={pki}/admin.crt",
            f"--kubelet-client-key={pki}/admin.key", f"--service-account-key-file={pki}/accounts.pub",
            f"--service-account-signing-key-file={pki}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
            # For the metrics server, which is behind the API server.
            f"--requestheader-client-ca-file={pki}/front-ca.crt",
            "--requestheader-allowed-names=front-proxy", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/front.crt", f"--proxy-client-key-file={pki}/front.key",
        )
        wait("the API server", lambda: self.kubectl("get", "--raw=/readyz") == "ok", 180)
        say("the API server runs")
        both = [f"--kubeconfig={self.config}", "--leader-elect=false", "--bind-address=127.0.0.1",
                f"--authentication-kubeconfig={self.config}",
                f"--authorization-kubeconfig={self.config}"]
        self.spawn("kube-controller-manager", self.program, "kube-controller-manager", *both,
                   f"--service-account-private-key-file={pki}/accounts.key",
                   f"--root-ca-file={pki}/ca.crt", "--use-service-account-credentials",
                   # Scaling decisions in seconds, so that a test need not wait for minutes.
                   "--horizontal-pod-autoscaler-sync-period=5s",
                   "--horizontal-pod-autoscaler-initial-readiness-delay=5s",
                   "--horizontal-pod-autoscaler-cpu-initialization-period=10s")
        self.spawn("kube-scheduler", self.program, "kube-scheduler", *both)

    def start_kubelet(self):
        self.write("kubelet.yaml", KUBELET)
        self.write("resolv.conf", "nameserver {address}\n")
        self.spawn("kubelet", self.program, "kubelet", f"--config={self.folder}/kubelet.yaml",
                   f"--kubeconfig={self.folder}/kubelet.kubeconfig",
                   f"--root-dir={self.folder}/kubelet", f"--hostname-override={NAME}",
                   f"--node-ip={ADDRESS}")

    def write(self, name, text):
        for key, value in (("folder", self.folder), ("address", ADDRESS), ("pods", PODS),
                           ("node", NAME)):
            text = text.replace("{" + key + "}", str(value))
        (self.folder / name).write_text(text)

    def apply(self, text):
        return self.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=text)

    # Stop

    def stop(self):
        """Ends all, and leaves the machine as it was; also after a run that was killed."""
        if not self.folder.exists():
            return
        for file in sorted((self.folder / "pids").glob("*")):
            if file.name not in ("containerd", "etcd", "kube-apiserver"):
                self.end(file.name)
        self.end("kube-apiserver", seconds=2)
        self.end("etcd")
        if (self.folder / "pids/containerd").exists():
            self.stop_containers()
        self.end("containerd")
        for pid in shims(self.socket):
            os.kill(pid, signal.SIGKILL)
        self.restore()
        mounts = [line.split()[1] for line in read("/proc/mounts").splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                run("umount", "--lazy", mount, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        say("everything is stopped, and the machine is as it was")

    def stop_containers(self):
        listed = lambda *words: self.ctr(*words, "list", "--quiet", check=False).split()
        for task in listed("tasks"):
            self.ctr("tasks", "kill", "--signal", "SIGKILL", "--all", task, check=False)
        for container in listed("containers"):
            self.ctr("tasks", "delete", "--force", container, check=False)
            self.ctr("containers", "delete", container, check=False)

    def restore(self):
        state = self.folder / "before.json"
        before = json.loads(state.read_text()) if state.exists() else {"kernel": {}, "traces": {}}
        for path, value in before["kernel"].items():
            if read(f"/proc/sys/{path}") != value:
                pathlib.Path(f"/proc/sys/{path}").write_text(value)
        for folder, known in before["traces"].items():
            for name in set(names(folder)) - set(known) - {NAMESPACE}:
                path = pathlib.Path(folder) / name
                if folder == "/run/netns":
                    run("umount", "--lazy", path, check=False)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        if pathlib.Path(f"/run/netns/{NAMESPACE}").exists():
            run("ip", "netns", "delete", NAMESPACE, check=False)
        for tree in pathlib.Path("/sys/fs/cgroup").glob("*/kubepods"):
            for path, _, _ in os.walk(tree, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass


def volume(number, path):
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{number}"},
        "spec": {
            "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(path)},
        },
    }


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def names(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def born(pid):
    """When a process was started, in the kernel's ticks; empty where there is none."""
    stat = read(f"/proc/{pid}/stat")
    state = stat.rpartition(")")[2].split()
    return state[19] if state and state[0] != "Z" else ""


def reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def shims(socket):
    """What containerd started at this socket and a kill of it left."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        words = read(f"/proc/{pid}/cmdline").split("\0")
        if "containerd-shim" in words[0] and socket in words:
            yield int(pid)


CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "localhost/pause:3.10"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""

# Each pod has a wire of its own to the node, so that whatever goes from pod to pod is forwarded
# by the node, where the network policies are.
CNI = """\
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "{folder}/ipam",
    "ranges": [[{"subnet": "{pods}"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
"""

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: "https://{address}:6443", certificate-authority: {folder}/pki/ca.crt}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
users: [{name: it, user: {client-certificate: {folder}/pki/{name}.crt, client-key: {folder}/pki/{name}.key}}]
"""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: {folder}/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: {folder}/pki/kubelet.crt
tlsPrivateKeyFile: {folder}/pki/kubelet.key
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://{folder}/containerd.sock
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: {folder}/resolv.conf
oomScoreAdj: 0
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
podLogsDir: {folder}/podlogs
enforceNodeAllocatable: []
"""

PROXY = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: {pods}
hostnameOverride: {node}
oomScoreAdj: 0
clientConnection: {kubeconfig: {folder}/admin.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nodePortAddresses: ["primary"]
"""
