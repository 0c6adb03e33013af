"""An SMTP server that takes every message, and tells of each on standard output before it says
so to the client: a line of when that was (nanoseconds since the epoch), the Message-ID, the
recipients and the Subject, with tabs between. The first line is its port. It ends with whoever
has started it: at the end of standard input."""

import asyncio
import os
import re
import sys
import threading
import time

from aiosmtpd.smtp import SMTP

HEADERS = re.compile(rb"^(message-id|subject):[ \t]*(.*?)\r?$", re.IGNORECASE | re.MULTILINE)


class Handler:
    async def handle_DATA(self, server, session, envelope):
        head = envelope.content.split(b"\r\n\r\n", 1)[0]
        unfolded = re.sub(rb"\r\n[ \t]+", b" ", head)
        headers = {name.lower(): value.decode() for name, value in HEADERS.findall(unfolded)}
        tell(
            str(time.time_ns()),
            headers.get(b"message-id", ""),
            ",".join(envelope.rcpt_tos),
            headers.get(b"subject", ""),
        )
        return "250 OK"


def tell(*words):
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


def end_with_input():
    sys.stdin.read()
    os._exit(0)


async def main():
    loop = asyncio.get_running_loop()

    def connection():
        return SMTP(Handler(), hostname="mail.example", enable_SMTPUTF8=True, loop=loop)

    server = await loop.create_server(connection, "127.0.0.1", 0, backlog=512)
    tell(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


threading.Thread(target=end_with_input, daemon=True).start()
asyncio.run(main())
