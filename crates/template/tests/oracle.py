"""Renders templates as python-liquid does, which follows the reference implementation.

Reads a JSON array of {"template", "data"}; writes a JSON array with the text of each, or null for
one that is refused.
"""

import json
import os
import sys
import time

os.environ["TZ"] = "UTC"
time.tzset()

from liquid.future import Environment  # noqa: E402

environment = Environment()


def render(case):
    try:
        return environment.from_string(case["template"]).render(**case.get("data", {}))
    except Exception:
        return None


json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
