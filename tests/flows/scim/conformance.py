"""Runs every check of scim2-tester against a service: conformance.py ADDRESS, with the token in
SCIM_TOKEN. Prints what failed, then how many checks came to what, as JSON. Ends with 0 only when
nothing failed and nothing was left out."""

import collections
import json
import os
import sys

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

address = sys.argv[1]
headers = {
    "Authorization": f"Bearer {os.environ['SCIM_TOKEN']}",
    "X-Request-Origin": "conformance",
}
with Client(base_url=address, headers=headers, timeout=60) as client:
    results = check_server(SyncSCIMClient(client))

good = {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE}
bad = [result for result in results if result.status not in good]
for result in bad:
    print(result.status.name, result.title, result.reason, result.data, sep=" | ")
print(json.dumps(collections.Counter(result.status.name for result in results)))
sys.exit(bool(bad) or not results)
