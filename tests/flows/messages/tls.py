"""A relay that takes emails over TLS only, and only from ann. It says its ports first, that of
STARTTLS and that of TLS from the first byte on, and then of each email whether it came encrypted,
who had logged in, and its Message-ID, with tabs between."""

import asyncio
import email
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

certificate, key = sys.argv[1:]


class Handler:
    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content)
        encrypted = session.ssl is not None or server.transport.get_extra_info("sslcontext")
        login = session.auth_data.login.decode() if session.auth_data else ""
        tell("tls" if encrypted else "plain", login, message["Message-ID"])
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"ann", b"pass-word"), auth_data=data)


def tell(*words):
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    common = {"hostname": "relay.example", "authenticator": authenticate, "auth_required": True}

    def starting():
        return SMTP(Handler(), tls_context=context, require_starttls=True, **common)

    def wrapped():
        return SMTP(Handler(), auth_require_tls=False, **common)

    loop = asyncio.get_running_loop()
    first = await loop.create_server(starting, "127.0.0.1", 0)
    second = await loop.create_server(wrapped, "127.0.0.1", 0, ssl=context)
    ports = [server.sockets[0].getsockname()[1] for server in (first, second)]
    tell(*(str(port) for port in ports))
    await asyncio.gather(first.serve_forever(), second.serve_forever())


asyncio.run(main())
