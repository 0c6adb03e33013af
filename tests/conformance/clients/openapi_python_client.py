import os

from longshore_client import AuthenticatedClient
from longshore_client.api.campaigns import list_campaigns
from longshore_client.api.tracking import track
from longshore_client.models import AttributeObject, TrackRequest

client = AuthenticatedClient(os.environ["LONGSHORE_URL"], os.environ["LONGSHORE_KEY"])
ann = AttributeObject(external_id="ann", first_name="Ann")
ann["tier"] = "gold"
tracked = track.sync(client=client, body=TrackRequest(attributes=[ann]))
print(tracked.message, tracked.attributes_processed)
for campaign in list_campaigns.sync(client=client).campaigns:
    print(campaign.name)
