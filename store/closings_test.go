package store

import (
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

func TestOthersHearOfAnAnswerOnceItsReceiverHasToldOrAfterAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		waiting, telling int
		want             time.Duration
	}{
		"nobody waits":       {0, 0, 0},
		"one waits":          {1, 1, time.Millisecond},
		"two wait":           {2, 2, 2 * time.Millisecond},
		"one of two tells":   {2, 1, handOver},
		"none of them tells": {1, 0, handOver},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cs closings
				for i := range c.waiting {
					w := cs.join("d1")
					go func() {
						<-w.given
						if i < c.telling {
							time.Sleep(time.Duration(i+1) * time.Millisecond)
							w.tell()
							w.tell() // which may be said twice
						}
					}()
				}
				other := cs.join("d2")
				begin := time.Now()
				cs.hand([]nod.Decision{{ID: "d1"}})
				if took := time.Since(begin); took != c.want {
					t.Errorf("others hear after %v, not %v", took, c.want)
				}
				if len(other.given) > 0 {
					t.Error("another decision was handed over")
				}
			})
		})
	}
}
