"""Validates a document with openapi-spec-validator."""

import json
import sys

from openapi_spec_validator import validate

validate(json.load(open(sys.argv[1])))
