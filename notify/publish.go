package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"unicode"
	"unicode/utf8"

	"nod"
)

const (
	// answerCap is how many bytes of an answer are read; ntfy's are a few hundred.
	answerCap = 64 << 10
	// Caps on what a push may say, far below ntfy's 4,096 bytes.
	titleCap   = 120
	messageCap = 400
	clickCap   = 1000
)

var (
	tagPattern = regexp.MustCompile(`^[a-z0-9_+-]{1,40}$`)
	idPattern  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// publication is ntfy's JSON publish message.
type publication struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Click    string   `json:"click,omitempty"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags,omitempty"`
	Actions  []action `json:"actions,omitempty"`
	Icon     string   `json:"icon,omitempty"`
	Sequence string   `json:"sequence_id,omitempty"` // ntfy 2.16 and later; unknown to older ones
}

type action struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Clear  bool   `json:"clear"`
}

// Send publishes p and returns the id that the server gave it. Its errors are
// Invalid for a push that breaks the rules, which will never be sent; anything else
// is worth trying again: RateLimited (see RetryAfter) and Unavailable by itself, the
// rest once the server or the configuration was mended.
func (p *Publisher) Send(ctx context.Context, push nod.Push) (id string, err error) {
	if err := check(push); err != nil {
		return "", err
	}
	m := publication{Topic: p.topic.Reveal(), Title: push.Title, Message: push.Message, Click: push.Click, Priority: push.Priority, Sequence: push.Sequence, Icon: p.icon}
	if m.Priority == 0 {
		m.Priority = calm
	}
	if push.Tag != "" {
		m.Tags = []string{push.Tag}
	}
	if push.Click != "" {
		m.Actions = []action{{Action: "view", Label: "Open", URL: push.Click, Clear: true}}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return "", nod.E(nod.Internal, "the push cannot be written as JSON", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.root, bytes.NewReader(body))
	if err != nil {
		return "", nod.E(nod.Internal, "the push cannot be requested", err)
	}
	req.Header.Set("Content-Type", "application/json")
	p.authorize(req)
	resp, err := p.http.Do(req)
	if err != nil {
		return "", nod.E(nod.Unavailable, "the ntfy server cannot be reached", err)
	}
	defer func() { _ = resp.Body.Close() }() // everything worth reading was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerCap+1))
	if resp.StatusCode != http.StatusOK {
		return "", refusal(server, resp, answer)
	}
	if err != nil {
		return "", nod.E(nod.Unavailable, "the ntfy server's answer broke off", err)
	}
	id, err = p.published(answer)
	if err != nil {
		return "", err
	}
	p.log.DebugContext(ctx, "push sent", "id", id, "priority", m.Priority)
	return id, nil
}

// server is what errors call the other side.
const server = "the ntfy server"

func (p *Publisher) authorize(req *http.Request) {
	switch {
	case !p.token.Empty():
		req.Header.Set("Authorization", "Bearer "+p.token.Reveal())
	case p.user != "":
		req.SetBasicAuth(p.user, p.pass.Reveal())
	}
}

// published reads the id from the answer to a publish, which echoes the message.
func (p *Publisher) published(answer []byte) (string, error) {
	var m struct {
		ID    string `json:"id"`
		Event string `json:"event"`
		Topic string `json:"topic"`
	}
	var why error
	switch {
	case len(answer) > answerCap:
		why = fmt.Errorf("answer is over %d bytes", answerCap)
	default:
		why = json.Unmarshal(answer, &m)
	}
	if why == nil && (m.Event != "message" || m.Topic != p.topic.Reveal() || !idPattern.MatchString(m.ID)) {
		why = fmt.Errorf("answer is no message of the topic")
	}
	if why != nil {
		return "", &nod.Error{Code: nod.Unavailable, Msg: "the ntfy server answered with something else than a message",
			Hint: "does ntfy.url lead to an ntfy server?", Err: why}
	}
	return m.ID, nil
}

// check refuses what Tell never makes: control characters, other links
// than http, lengths beyond the caps.
func check(p nod.Push) error {
	switch {
	case !clean(p.Title, titleCap) || !clean(p.Message, messageCap):
		return invalid("the push has no title or message, or one that no phone should show", "")
	case p.Priority < 0 || p.Priority > 5:
		return invalid("the push has a priority that ntfy does not know", "")
	case p.Tag != "" && !tagPattern.MatchString(p.Tag):
		return invalid("the push has a tag that ntfy does not know", "")
	case p.Sequence != "" && !topicPattern.MatchString(p.Sequence):
		return invalid("the push has a name that ntfy does not take", "")
	}
	if p.Click == "" {
		return nil
	}
	u, err := url.Parse(p.Click)
	if err != nil || len(p.Click) > clickCap || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return invalid("the push leads to something else than a page", "")
	}
	return nil
}

// clean reports whether s is one line of visible text of at most max characters.
func clean(s string, max int) bool {
	if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > max {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
