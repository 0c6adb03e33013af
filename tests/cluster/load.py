"""A load of tracking calls with a ledger: what was acknowledged must be in an export, once.

    load.py URL KEY LEDGER STOP PROGRESS    until the file STOP exists, inside the node's network

Each client sends one call after another over a connection that it keeps while the gateway does.
A call that fails is made again under the same idempotency key: it counts as repeated, and as
failed only if it is never acknowledged.
"""

import http.client
import json
import pathlib
import sys
import threading
import time
import urllib.parse
import uuid

CLIENTS = 4
PAUSE = 0.02
TIMEOUT = 60
RUN = uuid.uuid4().hex[:8]


class Totals:
    def __init__(self):
        self.lock = threading.Lock()
        self.calls = self.repeated = 0
        self.failed, self.reasons, self.purchases, self.slowest = [], {}, {}, 0.0


def main(url, key, ledger, stop, progress):
    totals = Totals()
    clients = [
        threading.Thread(target=client, args=(number, url, key, pathlib.Path(stop), totals))
        for number in range(CLIENTS)
    ]
    for one in clients:
        one.start()
    while any(one.is_alive() for one in clients):
        write(progress, totals)
        time.sleep(0.5)
    for file in (progress, ledger):
        write(file, totals)


def write(file, totals):
    """In one step, for a reader at any time."""
    with totals.lock:
        text = json.dumps({
            "calls": totals.calls, "repeated": totals.repeated, "failed": totals.failed,
            "reasons": totals.reasons, "slowest": round(totals.slowest, 2),
            "purchases": totals.purchases,
        })
    new = pathlib.Path(f"{file}.new")
    new.write_text(text)
    new.rename(file)


def client(number, url, key, stop, totals):
    host = urllib.parse.urlsplit(url).netloc
    connection, calls = None, 0
    while not stop.exists():
        user = f"load-{RUN}-{number}-{calls % 50}"
        body = json.dumps({"purchases": [{
            "external_id": user, "product_id": "tea", "currency": "USD", "price": 1,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }]})
        headers = {
            "authorization": f"Bearer {key}", "content-type": "application/json",
            "idempotency-key": str(uuid.uuid4()),
        }
        since, acknowledged, reason = time.monotonic(), False, ""
        while not acknowledged and time.monotonic() - since < TIMEOUT:
            if reason:
                with totals.lock:
                    totals.repeated += 1
                    totals.reasons[reason] = totals.reasons.get(reason, 0) + 1
                time.sleep(0.2)
            try:
                connection = connection or http.client.HTTPConnection(host, timeout=20)
                connection.request("POST", "/users/track", body, headers)
                response = connection.getresponse()
                text = response.read().decode()
                acknowledged, reason = response.status == 201, f"{response.status} {text[:80]}"
                if response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                reason = f"{type(error).__name__}"
                connection.close()
                connection = None
        calls += 1
        with totals.lock:
            totals.calls += 1
            totals.slowest = max(totals.slowest, time.monotonic() - since)
            if acknowledged:
                totals.purchases[user] = totals.purchases.get(user, 0) + 1
            else:
                totals.failed.append(reason)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
