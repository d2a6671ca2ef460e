package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"nod"
)

// keptCap is how many bytes of a topic's messages are read when looking for one.
const keptCap = 1 << 20

// Sent looks for push among the messages that the server still keeps, for twelve
// hours as ntfy comes. Decision ids and the numbers of reminders make each push
// unlike every other. It returns "" when it is not there, and also when the server
// does not answer or lets this sender write only.
func (p *Publisher) Sent(ctx context.Context, push nod.Push, within time.Duration) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s%s/json?poll=1&since=%ds", p.root, p.topic.Reveal(), max(1, int(within/time.Second))), nil)
	if err != nil {
		return ""
	}
	p.authorize(req)
	resp, err := p.http.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }() // everything worth reading was read
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, keptCap))
	for lines.Scan() {
		var m struct {
			ID       string `json:"id"`
			Event    string `json:"event"`
			Topic    string `json:"topic"`
			Title    string `json:"title"`
			Message  string `json:"message"`
			Click    string `json:"click"`
			Sequence string `json:"sequence_id"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Event != "message" || m.Topic != p.topic.Reveal() || !idPattern.MatchString(m.ID) {
			continue
		}
		if m.Title == push.Title && m.Message == push.Message && m.Click == push.Click && (m.Sequence == push.Sequence || m.Sequence == "" || m.Sequence == m.ID) {
			return m.ID
		}
	}
	return ""
}
