"""Stands for what the Prometheus operator makes of the PodMonitor in overlays/production: writes
the pods to scrape, whenever they change, in the form of file_sd_configs.

    targets.py FOLDER    as node.py starts it
"""

import http.client
import json
import pathlib
import ssl
import sys
import time

ADDRESS = "10.250.0.1"
PODS = "/api/v1/pods?labelSelector=app.kubernetes.io/name%3Dlongshore,app.kubernetes.io/component%21%3Dmigrate"


def main(folder):
    context = ssl.create_default_context(cafile=folder / "pki/ca.crt")
    context.load_cert_chain(folder / "pki/admin.crt", folder / "pki/admin.key")
    written = None
    while True:
        try:
            server = http.client.HTTPSConnection(ADDRESS, 6443, context=context, timeout=20)
            while True:
                found = targets(fetch(server))
                if found != written:
                    new = folder / "targets/new"
                    new.write_text(json.dumps(found))
                    new.rename(folder / "targets/longshore.json")
                written = found
                time.sleep(0.5)
        except (OSError, http.client.HTTPException, ValueError) as error:
            print(f"targets: {error}", flush=True)
            time.sleep(1)


def fetch(server):
    server.request("GET", PODS)
    response = server.getresponse()
    body = response.read()
    if response.status != 200:
        raise ValueError(f"{PODS}: {response.status}")
    return json.loads(body)["items"]


def targets(pods):
    found = []
    for pod in pods:
        ports = [port for c in pod["spec"]["containers"] for port in c.get("ports") or []]
        number = next((port["containerPort"] for port in ports if port.get("name") == "ops"), None)
        status = pod["status"]
        if number and status.get("podIP") and status["phase"] in ("Pending", "Running"):
            found.append({
                "targets": [f"{status['podIP']}:{number}"],
                "labels": {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]},
            })
    return found


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
