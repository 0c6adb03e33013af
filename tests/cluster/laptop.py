"""The laptop overlay, used as a person would."""

import json

from checks import (HERE, expect, export_users, import_users, query_dashboard,
                    send_message)
from node import say, wait


def start(place):
    place.node.kubectl("apply", "--server-side", "--kustomize", HERE / "laptop")
    say("the laptop overlay is applied")
    place.kubectl("wait", "--for=condition=complete", "job/longshore-apply", "--timeout=300s",
                  timeout=330)
    say("the workspace is applied")
    for server in ("kafka", "postgres", "s3"):
        place.rollout(f"statefulset/{server}")
    place.rollout()
    say("every pod is ready")


def test(place):
    place.forward("longshore-gateway:8080:80", "s3:7070")
    said = place.execute("gateway", "doctor")
    expect("FAIL" not in said, f"doctor: {len(said.splitlines())} lines, none of them FAIL")
    import_users(place)
    group = json.loads(place.execute("gateway", "control-group", "show", "--json"))
    export_users(place, "external_id,email", "laptop", lambda users: len(users) == group["users"])
    send_message(place)
    place.start_prometheus()
    wait("Prometheus has asked the gateway", lambda: place.query("longshore_process_info{role='gateway'}"), 60)
    query_dashboard(place)
    place.end_forwards()


def stop(place):
    place.node.kubectl("delete", "namespace", "longshore", "--timeout=180s", timeout=200)
    say("the laptop's namespace is deleted")
