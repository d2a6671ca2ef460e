package store_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"nod"
	"nod/store"
)

// TestDeliveriesThatComeAtOnceAreEachDurable: with every GUID twice, and a bad one
// among them that must not take the others along.
func TestDeliveriesThatComeAtOnceAreEachDurable(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	const n = 500
	var fresh, twice atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 * n {
		wg.Go(func() {
			ok, err := s.AcceptDelivery(t.Context(), nod.Delivery{GUID: fmt.Sprint("guid-", i%n), SemanticKey: fmt.Sprint("key-", i%n), Event: "issues", Order: "o", Payload: []byte("{}")})
			switch {
			case err != nil:
				t.Error(err)
			case ok:
				fresh.Add(1)
			default:
				twice.Add(1)
			}
		})
		if i%100 == 0 {
			wg.Go(func() {
				if _, err := s.AcceptDelivery(t.Context(), nod.Delivery{GUID: "bad"}); nod.CodeOf(err) != nod.Invalid {
					t.Errorf("a delivery of no event: %v", err)
				}
			})
		}
	}
	wg.Wait()
	by, err := s.DeliveriesByState(t.Context())
	if err != nil || by[nod.DeliveryPending] != n || fresh.Load() != n || twice.Load() != n {
		t.Errorf("%d fresh, %d known, stored %v, %v", fresh.Load(), twice.Load(), by, err)
	}
}
