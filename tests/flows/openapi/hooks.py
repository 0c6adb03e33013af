"""What schemathesis is told beyond the document: what is there on the gateway that it tests, and
what no schema can say of a request. Requests that are meant to be wrong are left alone."""

import json
import os
import zoneinfo

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

# What the test has made: ids, names, addresses.
THERE = json.loads(os.environ["THERE"])

schemathesis.openapi.format(
    "iana-time-zone", st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime"}))
)


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE:
        change = CHANGES.get(case.operation.definition.raw["operationId"])
        if change is not None:
            change(case)
        one_projection(case)


def one_projection(case):
    """`attributes` and `excludedAttributes` exclude each other."""
    for given in (case.query, case.body):
        if isinstance(given, dict) and given.get("attributes"):
            given.pop("excludedAttributes", None)


def list_exports(case):
    """A cursor is the service's own."""
    if "cursor" in (case.query or {}):
        case.query["cursor"] = THERE["cursor"]


def request_export(case):
    """The destination that every workspace has."""
    if case.body.get("destination") is not None:
        case.body["destination"] = "url"


def schedule(case):
    """A Canvas that there is, and a time that is not past."""
    case.body["canvas_id"] = THERE["canvas"]
    case.body["schedule"]["time"] = "2127-01-01T09:00:00Z"


def send_messages(case):
    """A segment and a campaign that there are, users who are no more than may be, and a message
    that can be sent."""
    body = case.body
    for name, there in (("segment_id", "segment"), ("campaign_id", "campaign")):
        if body.get(name) is not None:
            body[name] = THERE[there]
    for name in ("external_user_ids", "user_aliases", "recipients"):
        if body.get(name):
            body[name] = body[name][:16]
    if body.get("messages") is not None:
        body["messages"] = {"webhook": {"url": "https://acme.example/", "request_method": "GET"}}


def schedule_messages(case):
    """And a time that is not past."""
    send_messages(case)
    case.body["schedule"]["time"] = "2127-01-01T09:00:00Z"


def start_live_activity(case):
    """An app, one of its activities and a segment that there are, and an alert that is a template."""
    case.body["app_id"] = THERE["app"]
    case.body["activity_attributes_type"] = "Delivery"
    case.body["notification"] = {"alert": {"title": "Here", "body": "{{${first_name}}}"}}
    if case.body.get("segment_id") is not None:
        case.body["segment_id"] = THERE["segment"]
    if case.body.get("external_user_ids"):
        case.body["external_user_ids"] = case.body["external_user_ids"][:50]


def preview_templates(case):
    """A template or a message that can be rendered, for no user who is stored."""
    case.body.pop("external_user_id", None)
    case.body.pop("user_alias", None)
    if case.body.get("template") is not None:
        case.body["template"] = "Hi {{${first_name}}}"
    else:
        case.body["messages"] = {"webhook": {"url": "https://acme.example/", "request_method": "GET"}}


def delete_schedule(case):
    case.body["canvas_id"] = THERE["canvas"]


def edit_items(case):
    """A catalog that there is, and of its fields those that take the values; ids that are unique."""
    case.path_parameters["catalog_name"] = THERE["catalog"]
    items = {item["id"]: item for item in case.body["items"]}
    case.body["items"] = [
        {"id": id, **{field(value): value for name, value in item.items() if name != "id"}}
        for id, item in items.items()
    ]


def field(value):
    """A field of the catalog that takes the value."""
    fields = {bool: "Open", int: "Rating", float: "Rating", list: "Tags", dict: "Address"}
    return fields.get(type(value), "City")


def read_user(case):
    """A user that there is, but for where the calls before tell which."""
    if case.meta is not None and case.meta.phase.name != "stateful":
        case.path_parameters["id"] = THERE["user"]


def replace_user(case):
    read_user(case)
    app_groups(case)


def app_groups(case):
    """The app groups that there are: one."""
    permissions = case.body.get("permissions")
    if isinstance(permissions, dict) and permissions.get("appGroup"):
        permissions["appGroup"] = [{"appGroupName": THERE["workspace"]}]


def patch_user(case):
    """What a path can name depends on the user, and what is read-only on the path."""
    read_user(case)
    for operation in case.body["Operations"]:
        if operation.get("path"):
            operation["path"] = "department"
            if operation.get("value") is not None:
                operation["value"] = "Sales"
        elif isinstance(operation.get("value"), dict):
            operation["value"].pop("permissions", None)


def send_transactional(case):
    """A campaign that there is."""
    case.path_parameters["campaign_id"] = THERE["receipt"]


def download(case):
    case.path_parameters["object_prefix"] = THERE["object_prefix"]
    case.query = {"signature": THERE["signature"]}


def allowed_signers(case):
    """A workspace that there is."""
    case.path_parameters["workspace"] = THERE["workspace"]


CHANGES = {
    "allowedSigners": allowed_signers,
    "listExports": list_exports,
    "requestExport": request_export,
    "scheduleCanvas": schedule,
    "sendMessages": send_messages,
    "scheduleMessages": schedule_messages,
    "startLiveActivity": start_live_activity,
    "previewTemplates": preview_templates,
    "deleteSchedule": delete_schedule,
    "editItems": edit_items,
    "createUser": app_groups,
    "readUser": read_user,
    "replaceUser": replace_user,
    "patchUser": patch_user,
    "sendTransactional": send_transactional,
    "downloadExport": download,
}
