import os

import longshore

configuration = longshore.Configuration(
    host=os.environ["LONGSHORE_URL"], access_token=os.environ["LONGSHORE_KEY"]
)
with longshore.ApiClient(configuration) as client:
    ann = longshore.AttributeObject(external_id="ann", first_name="Ann")
    ann.additional_properties["tier"] = "gold"
    tracked = longshore.TrackingApi(client).track(longshore.TrackRequest(attributes=[ann]))
    print(tracked.message, tracked.attributes_processed)
    for campaign in longshore.CampaignsApi(client).list_campaigns().campaigns:
        print(campaign.name)
