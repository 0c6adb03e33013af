"""Takes callbacks and webhooks over HTTP, in a process of its own that can be killed and paused:
of each a line of JSON goes to the end of a file before it is answered 200.

    taker.py PORT FILE"""

import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, path = int(sys.argv[1]), sys.argv[2]
lines, lock = open(path, "ab", buffering=0), threading.Lock()


class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        line = {
            "at": time.time_ns() // 1_000_000,
            "path": self.path,
            "id": self.headers.get("webhook-id", ""),
            "timestamp": self.headers.get("webhook-timestamp", ""),
            "signature": self.headers.get("webhook-signature", ""),
            "body": base64.b64encode(body).decode(),
        }
        with lock:
            lines.write(json.dumps(line).encode() + b"\n")
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


Server(("127.0.0.1", port), Taker).serve_forever()
