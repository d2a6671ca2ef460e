package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"nod"
	"nod/agent"
)

// lineCap bounds what is kept of an answer to read its usage: one event of a
// stream, or all of an answer that is none.
const lineCap = 32 << 20

var (
	errCut      = errors.New("the run may use no more of its model")
	errUnclear  = errors.New("an event of over 32 MiB, whose cost cannot be seen")
	eventPrefix = []byte("event:")
	dataPrefix  = []byte("data:")
)

// call is one call under way.
type call struct {
	way   *route
	usage nod.Usage // under route.mu
}

// end settles what the call used. Nothing is left to be cut off.
func (c *call) end() {
	c.way.mu.Lock()
	u := c.usage
	c.way.mu.Unlock()
	_ = c.way.used(c, u, true) // the next call hears of it
}

// measured is an answer's body whose usage is read while it passes.
type measured struct {
	body io.ReadCloser
	call *call
	gauge
	err error
}

// Read passes on what the model's API sent, unless the run may use no more.
func (m *measured) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.body.Read(p)
	if m.feed(p[:n], err == io.EOF) {
		if m.call.way.used(m.call, m.usage(), false) != nil {
			m.err = errCut
		}
	}
	if m.broken {
		m.err = errUnclear
	}
	if m.err != nil {
		return 0, m.err
	}
	return n, err
}

func (m *measured) Close() error { return m.body.Close() }

// gauge reads the usage of one answer. Until the API tells it, each piece of the
// answer counts as one token, which it is at least.
type gauge struct {
	api    API
	stream bool

	line   []byte // the one that is not complete yet
	deltas int64
	told   nod.Usage
	broken bool
}

func (g *gauge) usage() nod.Usage {
	u := g.told
	u.OutputTokens = max(u.OutputTokens, g.deltas)
	return u
}

// feed takes a piece of the body and reports whether the usage changed.
func (g *gauge) feed(p []byte, end bool) bool {
	before := g.usage()
	if g.stream {
		for {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				break
			}
			line := p[:i]
			if len(g.line) > 0 {
				line = append(g.line, line...)
			}
			g.event(line)
			g.line, p = g.line[:0], p[i+1:]
		}
	}
	g.line = append(g.line, p...)
	if len(g.line) > lineCap {
		g.broken, g.line = true, nil
	}
	if end && len(g.line) > 0 {
		if g.stream {
			g.event(g.line)
		} else {
			g.read(g.line)
		}
		g.line = nil
	}
	return g.usage() != before
}

// event takes one line of a stream of server-sent events.
func (g *gauge) event(line []byte) {
	if rest, ok := bytes.CutPrefix(line, eventPrefix); ok {
		if bytes.HasSuffix(bytes.TrimSpace(rest), []byte("delta")) {
			g.deltas++
		}
		return
	}
	if data, ok := bytes.CutPrefix(line, dataPrefix); ok && bytes.Contains(data, []byte(`"usage"`)) {
		g.read(data)
	}
}

// reported is where the APIs tell usage: a message or a response, and the events
// that begin and end one.
type reported struct {
	Usage    *tokens `json:"usage"`
	Message  struct{ Usage *tokens }
	Response struct{ Usage *tokens }
}

type tokens struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

// read takes the usage of one JSON object. What is told later counts where it is
// more: an event may leave out what an earlier one told.
func (g *gauge) read(raw []byte) {
	var r reported
	if json.Unmarshal(raw, &r) != nil {
		return
	}
	for _, t := range []*tokens{r.Usage, r.Message.Usage, r.Response.Usage} {
		if t == nil {
			continue
		}
		in := agent.AddTokens(0, t.Input)
		if g.api == Anthropic { // OpenAI's count holds the cached ones
			in = agent.AddTokens(in, t.CacheCreation, t.CacheRead)
		}
		g.told.InputTokens = max(g.told.InputTokens, in)
		g.told.OutputTokens = max(g.told.OutputTokens, agent.AddTokens(0, t.Output))
	}
}

func plus(a, b nod.Usage) nod.Usage {
	return nod.Usage{InputTokens: agent.AddTokens(a.InputTokens, b.InputTokens), OutputTokens: agent.AddTokens(a.OutputTokens, b.OutputTokens)}
}
