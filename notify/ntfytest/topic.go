package ntfytest

import "slices"

// topic is a bounded list of messages and the bell that rings for each new one.
// The server's mutex guards it.
type topic struct {
	messages []Message
	first    int           // how many were forgotten before messages[0]
	bell     chan struct{} // closed and replaced at each publish
}

func newTopic() *topic { return &topic{bell: make(chan struct{})} }

func (t *topic) add(m Message, keep int) {
	t.messages = append(t.messages, m)
	if over := len(t.messages) - keep; over > 0 {
		t.messages = slices.Delete(t.messages, 0, over)
		t.first += over
	}
	close(t.bell)
	t.bell = make(chan struct{})
}

// from returns the messages at position seq and later, and the position behind them.
func (t *topic) from(seq int) ([]Message, int) {
	at := min(max(0, seq-t.first), len(t.messages))
	return slices.Clone(t.messages[at:]), t.first + len(t.messages)
}

// since returns the cached messages that a subscriber asks for.
func (t *topic) since(since string, now int64) []Message {
	if since == "latest" {
		return slices.Clone(t.messages[max(0, len(t.messages)-1):])
	}
	if i := slices.IndexFunc(t.messages, func(m Message) bool { return m.ID == since }); i >= 0 {
		return slices.Clone(t.messages[i+1:])
	}
	var out []Message
	for _, m := range t.messages {
		if after(m, since, now) {
			out = append(out, m)
		}
	}
	return out
}
