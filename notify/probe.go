package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"nod"
)

// Trial is a push that asks to be opened. token is what its link ends in.
func Trial(publicURL, token string, second bool) nod.Push {
	return nod.Push{Title: "Test push", Message: "Open it to show that it arrived.", Click: strings.TrimRight(publicURL, "/") + "/tap/" + url.PathEscape(token),
		Priority: urgent, Tag: "bell", Sequence: "test-" + nod.Digest([]byte(token))[:16], Second: second}
}

// Healthy asks the server whether it is well. Errors are Unavailable, or what its
// answer means.
func (p *Publisher) Healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.root+"v1/health", nil)
	if err != nil {
		return nod.E(nod.Internal, "the health of the ntfy server cannot be asked for", err)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nod.E(nod.Unavailable, "the ntfy server cannot be reached", err)
	}
	defer func() { _ = resp.Body.Close() }() // everything worth reading was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerCap))
	var said struct {
		Healthy bool `json:"healthy"`
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return refusal(server, resp, answer)
	case err != nil || json.Unmarshal(answer, &said) != nil:
		return &nod.Error{Code: nod.Failed, Msg: "what answers there is no ntfy server", Hint: "is ntfy.url the root of one?", Err: err}
	case !said.Healthy:
		return nod.E(nod.Unavailable, "the ntfy server is not well", nil)
	}
	return nil
}

// Subscribe is the link that a phone subscribes with: it opens the app where that is
// installed, and it holds the topic.
func (p *Publisher) Subscribe() string {
	return "ntfy://" + strings.TrimSuffix(strings.SplitN(p.root, "://", 2)[1], "/") + "/" + p.topic.Reveal()
}
