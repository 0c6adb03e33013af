"""Reads the headers of emails, a JSON list in a file, as a mail program shows them."""

import email
import email.header
import email.policy
import email.utils
import json
import re
import sys


def mailbox(header):
    # The parser of `email.policy` before Python 3.13 adds blanks between the words of a name.
    name, address = email.utils.parseaddr(re.sub(r"\r?\n", "", header))
    return [str(email.header.make_header(email.header.decode_header(name))), address]


def read(text):
    message = email.message_from_bytes(text.encode(), policy=email.policy.default)
    raw = email.message_from_bytes(text.encode())
    names = ["Subject", "X-Text", "List-Id", "X-Message-Extras"]
    return {
        "subject": str(message["Subject"]),
        "from": mailbox(raw["From"]),
        "reply_to": mailbox(raw["Reply-To"]),
        "to": mailbox(raw["To"]),
        "custom": [str(message["X-Text"]), str(message["List-Id"])],
        "extras": str(message["X-Message-Extras"]),
        "bcc": message["Bcc"],
        "defects": sum(len(message[name].defects) for name in names),
    }


with open(sys.argv[1]) as file:
    print(json.dumps([read(text) for text in json.load(file)]))
