"""Makes each call that the documentation of the PyPI package braze-client shows. A call has passed
if its effect is there as well.

    client.py BASE_URL KEY

Prints a line for each: its name, a tab, and "passed" or what went wrong. $LONGSHORE is the program
that shows the effects.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import types

# The retries that the client imports are older than Python 3.11, which has this under one name.
if not hasattr(asyncio, "coroutine"):
    asyncio.coroutine = types.coroutine

from braze.client import BrazeClient, BrazeClientError  # noqa: E402

CAMPAIGN = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60"
TIME = "2024-07-16T19:20:30+1:00"
LATER = {"time": "2127-01-01T09:00:00Z"}
AUDIENCE = {
    "AND": [
        {"custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
        }},
    ],
}


def event(user):
    return {**user, "name": "watched_trailer", "time": TIME, "properties": {"seconds": 30}}


def purchase(user):
    return {
        **user, "app_id": "app", "product_id": "tea", "currency": "USD", "price": 12.12,
        "quantity": 6, "time": TIME, "properties": {"color": "red", "monogram": "ABC"},
    }


ANN = {"external_id": "ann"}
ALIAS = {"user_alias": {"alias_name": "c-1", "alias_label": "crm"}}
CASES = {
    "user_track attributes": lambda c: c.user_track(attributes=[{
        **ANN, "first_name": "First name", "last_name": "Last name",
        "email": "email@example.com", "status": "Active",
    }]),
    "user_track events": lambda c: c.user_track(events=[event(ANN)]),
    "user_track purchases": lambda c: c.user_track(purchases=[purchase(ANN)]),
    "user_track all at once": lambda c: c.user_track(
        attributes=[{**ANN, "tier": "gold"}], events=[event(ANN)], purchases=[purchase(ANN)],
    ),
    "user_track by alias": lambda c: c.user_track(attributes=[{**ALIAS, "tier": "gold"}]),
    "user_track by braze_id": lambda c: c.user_track(attributes=[
        {"braze_id": "0190b9a6-1c00-7000-8000-000000000000", "tier": "gold"},
    ]),
    "user_track inc, add and remove": lambda c: c.user_track(attributes=[{
        **ANN, "visits": {"inc": 1}, "colors": {"add": ["red"]}, "sizes": {"remove": ["L"]},
    }]),
    "user_track array of objects": lambda c: c.user_track(attributes=[{
        **ANN, "pets": {"$add": [{"id": 1, "name": "Rex", "born": {"$time": TIME}}]},
    }]),
    "user_track update only": lambda c: c.user_track(attributes=[
        {**ANN, "_update_existing_only": True, "push_token_import": False, "tier": "gold"},
    ]),
    "campaign_trigger_schedule_create recipients": lambda c: c.campaign_trigger_schedule_create(
        campaign_id=CAMPAIGN, schedule=LATER, send_id="send",
        recipients=[{"external_user_id": "ann", "trigger_properties": {"a": 1}}],
    ),
    "campaign_trigger_schedule_create audience": lambda c: c.campaign_trigger_schedule_create(
        campaign_id=CAMPAIGN, schedule=LATER, broadcast=True, audience=AUDIENCE,
    ),
    "campaign_trigger_schedule_create broadcast": lambda c: c.campaign_trigger_schedule_create(
        campaign_id=CAMPAIGN, schedule={**LATER, "in_local_time": True}, broadcast=True,
    ),
    "campaign_trigger_schedule_create optimal": lambda c: c.campaign_trigger_schedule_create(
        campaign_id=CAMPAIGN, schedule={**LATER, "at_optimal_time": True},
        recipients=[{"user_alias": ALIAS["user_alias"]}], broadcast=False,
    ),
    "user_export": lambda c: c.user_export(
        external_ids=["ann", "nobody"], fields_to_export=["external_id", "email"],
    ),
    "user_export by email": lambda c: c.user_export(email="email@example.com"),
    "user_delete": lambda c: c.user_delete(["ann", "bob"]),
    "an error": lambda c: refused(lambda: c.campaign_trigger_schedule_create(
        campaign_id="none", schedule=LATER, broadcast=True,
    )),
}


def shown(*command):
    """What a command of the program shows as JSON; None if it fails, as for an unknown user."""
    run = subprocess.run([os.environ["LONGSHORE"], *command, "--json"], capture_output=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else None


def custom(name):
    return ((shown("users", "show", "ann") or {}).get("custom_attributes") or {}).get(name)


def schedule_state(answer):
    return (shown("schedules", "show", answer["schedule_id"]) or {}).get("state")


# What shows the effect of a call, from its response, and what that must be.
SCHEDULED = (schedule_state, "pending")
EFFECTS = {
    "user_track attributes": (lambda _: (shown("users", "show", "ann") or {}).get("email"), "email@example.com"),
    "user_track events": (lambda answer: answer["events_processed"], 1),
    "user_track purchases": (lambda answer: answer["purchases_processed"], 1),
    "user_track all at once": (lambda _: custom("tier"), "gold"),
    "user_track by alias": (lambda answer: answer["attributes_processed"], 1),
    "user_track by braze_id": (lambda answer: answer["attributes_processed"], 1),
    "user_track inc, add and remove": (lambda _: (custom("visits"), custom("colors")), (1, ["red"])),
    "user_track array of objects": (lambda _: [pet["name"] for pet in custom("pets") or []], ["Rex"]),
    "user_track update only": (lambda _: custom("tier"), "gold"),
    "campaign_trigger_schedule_create recipients": SCHEDULED,
    "campaign_trigger_schedule_create audience": SCHEDULED,
    "campaign_trigger_schedule_create broadcast": SCHEDULED,
    "campaign_trigger_schedule_create optimal": SCHEDULED,
    "user_export": (
        lambda answer: (answer["users"], answer["invalid_user_ids"]),
        ([{**ANN, "email": "email@example.com"}], ["nobody"]),
    ),
    "user_export by email": (
        lambda answer: [user["external_id"] for user in answer["users"]], ["ann"],
    ),
    "user_delete": (lambda _: shown("users", "show", "ann"), None),
}


def check_effect(name, answer):
    """Waits for an effect, which workers have soon after the response."""
    read, expected = EFFECTS.get(name, (lambda _: None, None))
    for _ in range(60):
        seen = read(answer)
        if seen == expected:
            return
        time.sleep(0.25)
    raise AssertionError(f"the effect is {seen!r}, not {expected!r}")


def refused(call):
    try:
        call()
    except BrazeClientError as error:
        assert error.args[0] == "Invalid Campaign ID", error
        return {"success": True}
    raise AssertionError("it was not refused")


def main(base, key):
    client = BrazeClient(api_key=key, api_url=base)
    for name, case in CASES.items():
        try:
            answer = case(client)
            assert answer["success"], answer
            check_effect(name, answer)
            outcome = "passed"
        except Exception as error:  # Whatever a client raises is an outcome.
            outcome = f"failed: {type(error).__name__} {error}"
        print(f"{name}\t{outcome}")


main(*sys.argv[1:])
