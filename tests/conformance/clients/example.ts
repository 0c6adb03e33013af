import { CampaignsApi, Configuration, TrackingApi } from "longshore";

const configuration = new Configuration({
  basePath: process.env.LONGSHORE_URL!,
  accessToken: process.env.LONGSHORE_KEY!,
});
const ann = { externalId: "ann", firstName: "Ann", tier: "gold" };
const tracked = await new TrackingApi(configuration).track({ trackRequest: { attributes: [ann] } });
console.log(tracked.message, tracked.attributesProcessed);
for (const campaign of (await new CampaignsApi(configuration).listCampaigns()).campaigns) {
  console.log(campaign.name);
}
