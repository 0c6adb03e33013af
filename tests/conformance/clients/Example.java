import java.util.List;

import longshore.ApiClient;
import longshore.api.CampaignsApi;
import longshore.api.TrackingApi;
import longshore.model.AttributeObject;
import longshore.model.TrackRequest;

class Example {
    public static void main(String[] arguments) throws Exception {
        var key = System.getenv("LONGSHORE_KEY");
        var client = new ApiClient();
        client.updateBaseUri(System.getenv("LONGSHORE_URL"));
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + key));

        var ann = new AttributeObject().externalId("ann").firstName("Ann");
        ann.putAdditionalProperty("tier", "gold");
        var request = new TrackRequest().attributes(List.of(ann));
        var tracked = new TrackingApi(client).track(request, null, null);
        System.out.println(tracked.getMessage() + " " + tracked.getAttributesProcessed());
        var page = new CampaignsApi(client).listCampaigns(null, null, null, null, null);
        for (var campaign : page.getCampaigns()) {
            System.out.println(campaign.getName());
        }
    }
}
