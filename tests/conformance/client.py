"""Makes each call that the documentation of the PyPI package braze-client shows.

    client.py BASE_URL KEY

Prints a line for each: its name, a tab, and "passed" or what went wrong.
"""

import asyncio
import sys
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
    "user_delete": lambda c: c.user_delete(["ann", "bob"]),
    "an error": lambda c: refused(lambda: c.campaign_trigger_schedule_create(
        campaign_id="none", schedule=LATER, broadcast=True,
    )),
}


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
            outcome = "passed" if answer["success"] else f"failed: {answer}"
        except Exception as error:  # Whatever a client raises is an outcome.
            outcome = f"failed: {type(error).__name__} {error}"
        print(f"{name}\t{outcome}")


main(*sys.argv[1:])
