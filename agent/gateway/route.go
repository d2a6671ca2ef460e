package gateway

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"

	"nod"
)

// Route is the way of one run to its model.
type Route struct {
	Environment string    // the only one that the token is good in; required
	Upstream    *Upstream // required
	Meter       nod.Meter // told of everything, and can end it; required
}

// Pass is what a run is given.
type Pass struct {
	Token nod.Secret
	close func()
}

// Close makes the token worthless and ends what is under way on it. It may be
// called twice.
func (p *Pass) Close() { p.close() }

// route is an open Route.
type route struct {
	Route
	slots chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	calls map[*call]struct{} // under way
	total nod.Usage          // of those that have ended
}

// Open makes a token for a run. Errors are Invalid.
func (g *Gateway) Open(r Route) (*Pass, error) {
	if r.Environment == "" || r.Upstream == nil || r.Meter == nil {
		return nil, nod.E(nod.Invalid, "a way to a model needs an environment, an upstream and a meter", nil)
	}
	token := newToken()
	id := sha256.Sum256([]byte(token.Reveal()))
	way := &route{Route: r, slots: make(chan struct{}, perRun), ended: make(chan struct{}), calls: map[*call]struct{}{}}
	g.mu.Lock()
	g.routes[id] = way
	g.mu.Unlock()
	var once sync.Once
	return &Pass{Token: token, close: func() {
		once.Do(func() {
			g.mu.Lock()
			delete(g.routes, id)
			g.mu.Unlock()
			close(way.ended)
		})
	}}, nil
}

// find returns the route whose token r carries, in the environment it came from.
// The token is looked up by its hash, so that how long that takes tells nothing.
func (g *Gateway) find(r *http.Request) (*route, bool) {
	token := r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token == "" {
		token = bearer
	}
	environment, _ := r.Context().Value(environmentKey{}).(string)
	g.mu.Lock()
	way, ok := g.routes[sha256.Sum256([]byte(token))]
	g.mu.Unlock()
	return way, ok && way.Environment == environment
}

// begin counts a call among those under way.
func (w *route) begin() *call {
	c := &call{way: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c] = struct{}{}
	return c
}

// used tells the meter what the run has used with c at u, which is over when last.
// The lock keeps what the meter hears in order.
func (w *route) used(c *call, u nod.Usage, last bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.calls[c]; !ok {
		return nil // it was over already
	}
	c.usage = u
	if last {
		delete(w.calls, c)
		w.total = plus(w.total, u)
	}
	sum := w.total
	for other := range w.calls {
		sum = plus(sum, other.usage)
	}
	return w.Meter.Used(sum)
}
