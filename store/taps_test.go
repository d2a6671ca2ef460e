package store

import (
	"path/filepath"
	"testing"
	"time"

	"nod"
)

func TestTapIsKeptUntilItsEnd(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "nod.db"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	digest := nod.Digest([]byte("token"))
	if _, err := s.Tappable(t.Context(), digest); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("before it is there: %v", err)
	}
	if err := s.Tap(t.Context(), digest); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("tapped before it is there: %v", err)
	}
	if err := s.CreateTap(t.Context(), digest, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true, true} {
		if got, err := s.Tappable(t.Context(), digest); err != nil || got != want {
			t.Errorf("tapped: %v, %v; want %v", got, err, want)
		}
		if err := s.Tap(t.Context(), digest); err != nil {
			t.Error(err)
		}
	}
	now = now.Add(time.Minute)
	if err := s.Tap(t.Context(), digest); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("after its end: %v", err)
	}
}
