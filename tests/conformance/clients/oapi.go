package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"acme.example/program/longshore"
)

func main() {
	authorize := func(ctx context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("LONGSHORE_KEY"))
		return nil
	}
	client, err := longshore.NewClientWithResponses(
		os.Getenv("LONGSHORE_URL"), longshore.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	id, name := "ann", "Ann"
	ann := longshore.AttributeObject{ExternalId: &id, FirstName: &name}
	request := longshore.TrackRequest{Attributes: &[]longshore.AttributeObject{ann}}
	tracked, err := client.TrackWithResponse(ctx, nil, request)
	if err != nil || tracked.JSON201 == nil {
		log.Fatal(err, tracked)
	}
	fmt.Println(tracked.JSON201.Message, *tracked.JSON201.AttributesProcessed)
	page, err := client.ListCampaignsWithResponse(ctx, nil)
	if err != nil || page.JSON200 == nil {
		log.Fatal(err, page)
	}
	for _, campaign := range page.JSON200.Campaigns {
		fmt.Println(campaign.Name)
	}
}
