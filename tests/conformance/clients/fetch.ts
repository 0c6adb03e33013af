import createClient from "openapi-fetch";
import type { paths } from "./longshore.js";

const client = createClient<paths>({
  baseUrl: process.env.LONGSHORE_URL!,
  headers: { Authorization: `Bearer ${process.env.LONGSHORE_KEY}` },
});
const ann = { external_id: "ann", first_name: "Ann", tier: "gold" };
const tracked = await client.POST("/users/track", { body: { attributes: [ann] } });
console.log(tracked.data!.message, tracked.data!.attributes_processed);
const page = await client.GET("/campaigns/list");
for (const campaign of page.data!.campaigns) {
  console.log(campaign.name);
}
