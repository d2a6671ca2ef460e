package store_test

import (
	"path/filepath"
	"testing"

	"nod/store"
	"nod/store/storetest"
)

// TestStoreConforms runs the conformance suite on real files.
func TestStoreConforms(t *testing.T) {
	storetest.Run(t, func(t testing.TB, s storetest.Setup) storetest.Store {
		st, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "nod.db"), Now: s.Now, Secrets: s.Secrets, VerifyAssertion: s.VerifyAssertion})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		return st
	})
}
