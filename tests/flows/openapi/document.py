"""Checks a document, on the standard input, by the schema that the OpenAPI Initiative publishes."""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator.schemas import schema_v31

document = json.load(sys.stdin)
errors = [
    f"{list(error.path)}: {error.message[:300]}"
    for error in Draft202012Validator(dict(schema_v31)).iter_errors(document)
]
for schema in document["components"]["schemas"].values():
    Draft202012Validator.check_schema(schema)
sys.exit("\n".join(errors) or None)
