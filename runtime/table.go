package runtime

import (
	"maps"
	"sync"

	"nod"
)

// Table is what a driver's process knows of the environments that it has provisioned,
// by their id. The zero value is empty; all methods are safe for concurrent use.
type Table[E any] struct {
	mu   sync.Mutex
	byID map[string]*E
}

// Known returns the environment id, or NotFound.
func (t *Table[E]) Known(id string) (*E, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byID[id]; ok {
		return e, nil
	}
	return nil, nod.E(nod.NotFound, "no such environment is provisioned by this process", nil)
}

// Make returns the environment id, which is fresh when there was none.
func (t *Table[E]) Make(id string, fresh *E) *E {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byID[id]; ok {
		return e
	}
	if t.byID == nil {
		t.byID = map[string]*E{}
	}
	t.byID[id] = fresh
	return fresh
}

// Forget lets the environment id go; one that is not there is no error.
func (t *Table[E]) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// All returns a copy.
func (t *Table[E]) All() map[string]*E {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.byID)
}
