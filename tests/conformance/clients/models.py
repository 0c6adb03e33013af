import os

import httpx
from longshore import AttributeObject, CampaignPage, Tracked, TrackRequest

key = {"Authorization": "Bearer " + os.environ["LONGSHORE_KEY"]}
with httpx.Client(base_url=os.environ["LONGSHORE_URL"], headers=key) as client:
    ann = AttributeObject(external_id="ann", first_name="Ann", tier="gold")
    request = TrackRequest(attributes=[ann]).model_dump(exclude_unset=True)
    tracked = Tracked.model_validate(client.post("/users/track", json=request).json())
    print(tracked.message.value, tracked.attributes_processed)
    page = CampaignPage.model_validate(client.get("/campaigns/list").json())
    for campaign in page.campaigns:
        print(campaign.name)
