"""Stands for the cluster's DNS, for the network plugin that enforces NetworkPolicies, and for what
the Prometheus operator makes of a PodMonitor: writes the names of services for dnsmasq, the
policies as rules of nftables, and the pods to scrape, whenever they change.

    network.py FOLDER    as node.py starts it
"""

import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import time

ADDRESS = "10.250.0.1"
PATHS = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "services": "/api/v1/services",
    "slices": "/apis/discovery.k8s.io/v1/endpointslices",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}
# The node's DNS server stands for the pods of kube-dns.
DNS = {
    "metadata": {"name": "dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
    "spec": {"containers": []},
    "status": {"podIP": ADDRESS},
}


def main(folder):
    context = ssl.create_default_context(cafile=folder / "pki/ca.crt")
    context.load_cert_chain(folder / "pki/admin.crt", folder / "pki/admin.key")
    written = {}
    while True:
        try:
            server = http.client.HTTPSConnection(ADDRESS, 6443, context=context, timeout=20)
            while True:
                seen = {name: fetch(server, path) for name, path in PATHS.items()}
                names, rules, scraped = hosts(seen), policies(seen), targets(seen)
                if names != written.get("names"):
                    (folder / "dns/hosts").write_text(names)
                    os.kill(int((folder / "pids/dnsmasq").read_text().split()[0]), signal.SIGHUP)
                if rules != written.get("rules"):
                    subprocess.run(["nft", "--file", "-"], input=rules, text=True, check=True)
                if scraped != written.get("scraped"):
                    new = folder / "targets/new"
                    new.write_text(json.dumps(scraped))
                    new.rename(folder / "targets/longshore.json")
                written = {"names": names, "rules": rules, "scraped": scraped}
                time.sleep(0.5)
        except (OSError, http.client.HTTPException, ValueError, subprocess.CalledProcessError) as error:
            print(f"network: {error}", flush=True)
            time.sleep(1)


def fetch(server, path):
    server.request("GET", path)
    response = server.getresponse()
    body = response.read()
    if response.status != 200:
        raise ValueError(f"{path}: {response.status}")
    return json.loads(body)["items"]


def hosts(seen):
    """A line for each address of each service, as in /etc/hosts."""
    lines = set()
    kinds = {}
    for service in seen["services"]:
        where, spec = service["metadata"], service["spec"]
        name = f"{where['name']}.{where['namespace']}.svc.cluster.local"
        kinds[where["namespace"], where["name"]] = (name, spec.get("clusterIP"))
        if spec.get("clusterIP", "None") != "None":
            lines.add(f"{spec['clusterIP']} {name}")
    for slice in seen["slices"]:
        where = slice["metadata"]
        service = (where.get("labels") or {}).get("kubernetes.io/service-name")
        name, address = kinds.get((where["namespace"], service), (None, None))
        if address != "None":
            continue
        for endpoint in slice.get("endpoints") or []:
            if endpoint.get("conditions", {}).get("ready", True):
                for ip in endpoint["addresses"]:
                    lines.add(f"{ip} {name}")
                    if endpoint.get("hostname"):
                        lines.add(f"{ip} {endpoint['hostname']}.{name}")
    return "".join(line + "\n" for line in sorted(lines))


def targets(seen):
    """The pods of the PodMonitor in overlays/production, in the form of file_sd_configs."""
    found = []
    for pod in seen["pods"]:
        own = labels(pod)
        if own.get("app.kubernetes.io/name") != "longshore" or not is_placed(pod) \
                or own.get("app.kubernetes.io/component") == "migrate":
            continue
        if port := number_of("ops", pod):
            found.append({
                "targets": [f"{pod['status']['podIP']}:{port}"],
                "labels": {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]},
            })
    return found


def policies(seen):
    """All policies, as a table of nftables that replaces the one before."""
    pods = [pod for pod in seen["pods"] if is_placed(pod)]
    peers = pods + [DNS]
    spaces = {one["metadata"]["name"]: labels(one) for one in seen["namespaces"]}
    lines = ["table inet policies", "delete table inet policies", "table inet policies {"]
    jumps = []
    for pod in pods:
        namespace, ip = pod["metadata"]["namespace"], pod["status"]["podIP"]
        selecting = [
            policy for policy in seen["policies"]
            if policy["metadata"]["namespace"] == namespace
            and selects(policy["spec"].get("podSelector"), labels(pod))
        ]
        for way, kind, side in (("egress", "Egress", "daddr"), ("ingress", "Ingress", "saddr")):
            mine = [one for one in selecting if kind in one["spec"].get("policyTypes", ["Ingress"])]
            if not mine:
                continue
            chain = f"{way}_{ip.replace('.', '_')}"
            lines.append(f"  chain {chain} {{")
            rules = [
                f"{rule} return comment \"{policy['metadata']['name']}\""
                for policy in mine
                for allowed in policy["spec"].get(way) or []
                for rule in matches(allowed, way, side, pod, peers, spaces)
            ]
            lines += [f"    {rule}" for rule in dict.fromkeys(rules)]
            lines += ["    counter reject", "  }"]
            own = "saddr" if way == "egress" else "daddr"
            jumps.append((way, f"    ip {own} {ip} jump {chain}"))
    # What the node itself sends, such as probes, passes no forward hook: it is always allowed.
    for hook in ("forward", "input"):
        lines.append(f"  chain {hook} {{")
        lines.append(f"    type filter hook {hook} priority 0; policy accept;")
        lines.append("    ct state established,related accept")
        lines += [jump for way, jump in jumps if hook == "forward" or way == "egress"]
        lines.append("  }")
    return "\n".join(lines + ["}"]) + "\n"


def matches(allowed, way, side, pod, peers, spaces):
    """What one rule of a policy lets through, as conditions of nftables."""
    namespace = pod["metadata"]["namespace"]
    targets = []
    for peer in allowed.get("to" if way == "egress" else "from") or [{"ipBlock": {"cidr": "0.0.0.0/0"}}]:
        if block := peer.get("ipBlock"):
            if ":" not in block["cidr"]:
                without = ", ".join(block.get("except") or [])
                without = f" ip {side} != {{ {without} }}" if without else ""
                targets.append((f"ip {side} {block['cidr']}{without}", None))
            continue
        for other in peers:
            where = other["metadata"]["namespace"]
            if "namespaceSelector" in peer:
                if not selects(peer["namespaceSelector"], spaces.get(where, {})):
                    continue
            elif where != namespace:
                continue
            if selects(peer.get("podSelector"), labels(other)):
                targets.append((f"ip {side} {other['status']['podIP']}", other))
    for condition, other in targets:
        if not allowed.get("ports"):
            yield condition
        for port in allowed.get("ports") or []:
            protocol = port.get("protocol", "TCP").lower()
            if "port" not in port:
                yield f"{condition} meta l4proto {protocol}"
            elif number := number_of(port["port"], other if way == "egress" else pod):
                yield f"{condition} {protocol} dport {number}"


def number_of(port, pod):
    if isinstance(port, int):
        return port
    ports = [one for c in (pod or DNS)["spec"]["containers"] for one in c.get("ports") or []]
    return next((one["containerPort"] for one in ports if one.get("name") == port), None)


def is_placed(pod):
    status = pod["status"]
    return status.get("podIP") and status["phase"] in ("Pending", "Running") \
        and not pod["spec"].get("hostNetwork")


def labels(one):
    return one["metadata"].get("labels") or {}


def selects(selector, have):
    selector = selector or {}
    for name, value in (selector.get("matchLabels") or {}).items():
        if have.get(name) != value:
            return False
    for one in selector.get("matchExpressions") or []:
        value, values = have.get(one["key"]), one.get("values") or []
        held = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": one["key"] in have,
            "DoesNotExist": one["key"] not in have,
        }[one["operator"]]
        if not held:
            return False
    return True


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
