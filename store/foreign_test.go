package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func TestDeliveriesOfOtherHooksAreCounted(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for guid, payload := range map[string]string{
		"g-1": `{"repository":{"full_name":"ada/web"},"installation":{"id":1}}`, "g-2": `{"repository":{"full_name":"ada/web"}}`,
		"g-3": `{"repository":{"full_name":"ada/web"}}`, "g-4": `{"zen":"x"}`, "g-5": `not json`} {
		if _, err := s.AcceptDelivery(t.Context(), nod.Delivery{GUID: guid, Event: "issues", Order: guid, Payload: []byte(payload), ReceivedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		d, err := s.LeaseDelivery(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		d.State, d.LeaseUntil = nod.DeliveryDead, time.Time{}
		if err := s.Apply(t.Context(), &nod.Change{By: nod.Supervisor(), Deliveries: []*nod.Delivery{&d}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.ForeignDeliveries(t.Context(), time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"ada/web": 2, "": 1}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, err = s.ForeignDeliveries(t.Context(), time.Now().Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("later: %v, %v", got, err)
	}
}
