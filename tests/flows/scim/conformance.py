"""Runs every check of scim2-tester and of scim-sanity against a service: conformance.py ADDRESS, with
the token in SCIM_TOKEN. Sends X-Request-Origin unless --without-origin follows. Prints what failed,
then how many checks of each tool passed. Ends with 0 only if nothing failed, nothing but drafts was
left out, and each tool found enough to check."""

import contextlib
import io
import json
import os
import sys

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server
from scim_sanity.http_client import SCIMClient
from scim_sanity.probe.runner import run_probe

address = sys.argv[1]
token = os.environ["SCIM_TOKEN"]
origin = {} if "--without-origin" in sys.argv[2:] else {"X-Request-Origin": "conformance"}


def tester():
    """The status of each check of scim2-tester, and the failures."""
    headers = {"Authorization": f"Bearer {token}"} | origin
    with Client(base_url=address, headers=headers, timeout=60) as client:
        results = check_server(SyncSCIMClient(client))
    good = {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE}
    bad = [
        (result.status.name, result.title, result.reason, result.data)
        for result in results
        if result.status not in good
    ]
    return [result.status.name for result in results], bad


def sanity():
    """The same of scim-sanity, which has no option for a header."""
    build = SCIMClient._build_headers
    SCIMClient._build_headers = lambda self, *args, **more: build(self, *args, **more) | origin
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run_probe(address, token=token, json_output=True, accept_side_effects=True, timeout=60)
    results = json.loads(out.getvalue())["results"]
    # Drafts that Longshore does not have.
    results = [
        result
        for result in results
        if not (result["status"] == "skip" and "Agent" in result["name"] + result["phase"])
    ]
    bad = [
        (result["status"], result["phase"], result["name"], result["message"])
        for result in results
        if result["status"] != "pass"
    ]
    return [result["status"] for result in results], bad


failed = False
# Far fewer checks mean that a tool did not find what there is.
for name, run, least in [("scim2-tester", tester, 130), ("scim-sanity", sanity, 25)]:
    statuses, bad = run()
    for one in bad:
        print(name, *one, sep=" | ")
    passed = statuses.count("SUCCESS") + statuses.count("pass")
    print(f"{name}: {passed} checks of {len(statuses)} passed, at least {least} must")
    failed = failed or bool(bad) or passed < least
sys.exit(failed)
