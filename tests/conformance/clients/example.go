package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"acme.example/clients/longshore"
)

func main() {
	configuration := longshore.NewConfiguration()
	configuration.Servers = longshore.ServerConfigurations{{URL: os.Getenv("LONGSHORE_URL")}}
	client := longshore.NewAPIClient(configuration)
	key := os.Getenv("LONGSHORE_KEY")
	ctx := context.WithValue(context.Background(), longshore.ContextAccessToken, key)

	ann := longshore.NewAttributeObject()
	ann.SetExternalId("ann")
	ann.SetFirstName("Ann")
	ann.AdditionalProperties = map[string]interface{}{"tier": "gold"}
	request := longshore.TrackRequest{Attributes: []longshore.AttributeObject{*ann}}
	tracked, _, err := client.TrackingAPI.Track(ctx).TrackRequest(request).Execute()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tracked.Message, tracked.GetAttributesProcessed())
	page, _, err := client.CampaignsAPI.ListCampaigns(ctx).Execute()
	if err != nil {
		log.Fatal(err)
	}
	for _, campaign := range page.Campaigns {
		fmt.Println(campaign.Name)
	}
}
