"""A receiver of webhooks: writes each request's path, headers and body as a line of JSON.

    receiver.py ADDRESS PORT FILE
"""

import http.server
import json
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        line = {
            "path": self.path, "headers": {n.lower(): v for n, v in self.headers.items()},
            "body": self.rfile.read(length).decode(errors="replace"),
        }
        with open(sys.argv[3], "a") as file:
            file.write(json.dumps(line) + "\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Receiver).serve_forever()
