package ntfytest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Message is one event of a topic, in ntfy's JSON.
type Message struct {
	ID       string   `json:"id"`
	Time     int64    `json:"time"` // Unix seconds
	Expires  int64    `json:"expires,omitempty"`
	Event    string   `json:"event"` // "message", "open" or "keepalive"
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message,omitempty"`
	Priority int      `json:"priority,omitempty"` // 1 to 5; 0 means 3
	Tags     []string `json:"tags,omitempty"`
	Click    string   `json:"click,omitempty"`
	Actions  []Action `json:"actions,omitempty"`
	Icon     string   `json:"icon,omitempty"`
	// Sequence names a message: a later one with the same name takes its place on the
	// phone. Without one it is the message's own id (ntfy 2.16).
	Sequence string `json:"sequence_id,omitempty"`
}

// Action is a button of a push.
type Action struct {
	ID     string `json:"id,omitempty"`
	Action string `json:"action"` // only "view" is known here
	Label  string `json:"label"`
	URL    string `json:"url"`
	Clear  bool   `json:"clear"`
}

const (
	messageCap = 4096 // bytes of text, as ntfy's default
	bodyCap    = 16 << 10
	titleCap   = 1024
	maxActions = 3
	maxTags    = 16
)

var topicPattern = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// reserved names are pages, not topics.
var reserved = map[string]bool{"phone": true, "v1": true, "static": true, "docs": true, "file": true, "app": true}

func checkTopic(s string) *problem {
	switch {
	case !topicPattern.MatchString(s):
		return bad(40009, "invalid request: topic invalid")
	case reserved[s]:
		return bad(40010, "invalid request: topic name is disallowed")
	}
	return nil
}

// problem is an error body of ntfy.
type problem struct {
	Code  int    `json:"code"` // the HTTP status and two digits more
	HTTP  int    `json:"http"`
	Error string `json:"error"`
}

func bad(code int, text string) *problem { return &problem{Code: code, HTTP: code / 100, Error: text} }

// readJSON reads a JSON publish.
func readJSON(r io.Reader) (Message, *problem) {
	body, p := readBody(r)
	if p != nil {
		return Message{}, p
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return Message{}, bad(40017, "invalid request: request body must be message JSON")
	}
	return m, nil
}

// readHeaders reads a publish whose body is the message.
func readHeaders(topic string, r *http.Request) (Message, *problem) {
	body, p := readBody(r.Body)
	if p != nil {
		return Message{}, p
	}
	m := Message{Topic: topic, Message: strings.TrimSpace(string(body)),
		Title: param(r, "x-title", "title", "ti", "t"), Sequence: param(r, "x-sequence-id", "sequence-id", "sid"), Click: param(r, "x-click", "click")}
	if s := param(r, "x-priority", "priority", "prio", "p"); s != "" {
		if m.Priority, p = priority(s); p != nil {
			return Message{}, p
		}
	}
	for tag := range strings.SplitSeq(param(r, "x-tags", "tags", "tag", "ta"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			m.Tags = append(m.Tags, tag)
		}
	}
	if s := param(r, "x-actions", "actions", "action"); s != "" {
		if m.Actions, p = actions(s); p != nil {
			return Message{}, p
		}
	}
	return m, nil
}

func readBody(r io.Reader) ([]byte, *problem) {
	body, err := io.ReadAll(io.LimitReader(r, bodyCap+1))
	if err != nil {
		return nil, bad(40017, "invalid request: request body could not be read")
	}
	if len(body) > bodyCap {
		return nil, bad(41303, "body too large")
	}
	return body, nil
}

// param is the first of names that is set, as header or in the query. A header
// may be encoded as RFC 2047 says.
func param(r *http.Request, names ...string) string {
	for _, name := range names {
		value := r.Header.Get(name)
		if decoded, err := new(mime.WordDecoder).DecodeHeader(value); err == nil {
			value = decoded
		}
		if value == "" {
			value = r.URL.Query().Get(name)
		}
		if value = strings.TrimSpace(value); value != "" {
			return value
		}
	}
	return ""
}

func priority(s string) (int, *problem) {
	switch strings.ToLower(s) {
	case "1", "min":
		return 1, nil
	case "2", "low":
		return 2, nil
	case "3", "default":
		return 3, nil
	case "4", "high":
		return 4, nil
	case "5", "max", "urgent":
		return 5, nil
	}
	return 0, bad(40007, "invalid request: priority invalid")
}

// actions reads "view, Label, URL[, clear=true]; …" or a JSON array.
func actions(s string) ([]Action, *problem) {
	var list []Action
	if strings.HasPrefix(s, "[") {
		if err := json.Unmarshal([]byte(s), &list); err != nil {
			return nil, bad(40018, "invalid request: actions invalid")
		}
		return list, nil
	}
	for one := range strings.SplitSeq(s, ";") {
		parts := strings.Split(one, ",")
		if len(parts) < 3 || len(parts) > 4 {
			return nil, bad(40018, "invalid request: actions invalid")
		}
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		list = append(list, Action{Action: parts[0], Label: parts[1], URL: parts[2], Clear: len(parts) == 4 && parts[3] == "clear=true"})
	}
	return list, nil
}

// settle checks a message that came in and fills in what ntfy fills in.
func (m *Message) settle(id string, now, expires int64) *problem {
	if p := checkTopic(m.Topic); p != nil {
		return p
	}
	switch {
	case len(m.Message) > messageCap || len(m.Title) > titleCap || len(m.Click) > titleCap:
		return bad(41301, "message too large")
	case !utf8.ValidString(m.Message) || !utf8.ValidString(m.Title):
		return bad(40011, "invalid message: message must be UTF-8 encoded")
	case m.Priority < 0 || m.Priority > 5:
		return bad(40007, "invalid request: priority invalid")
	case m.Sequence != "" && !topicPattern.MatchString(m.Sequence):
		return bad(40049, "invalid request: sequence ID invalid")
	case len(m.Tags) > maxTags || len(m.Actions) > maxActions:
		return bad(40018, "invalid request: too many tags or actions")
	}
	for i := range m.Actions {
		a := &m.Actions[i]
		if a.Action != "view" || a.Label == "" || a.URL == "" || len(a.Label)+len(a.URL) > titleCap {
			return bad(40018, "invalid request: actions invalid")
		}
		a.ID = fmt.Sprintf("%s%d", id[:min(8, len(id))], i)
	}
	if m.Message == "" {
		m.Message = "triggered"
	}
	m.ID, m.Event, m.Time, m.Expires = id, "message", now, expires
	return nil
}

// after reports whether m is newer than since allows: a Unix time, a duration
// before now, "none" or nothing. Anything else is "all", or an id that was
// forgotten, whose reader has missed everything.
func after(m Message, since string, now int64) bool {
	if since == "" || since == "none" {
		return false
	}
	if n, err := strconv.ParseInt(since, 10, 64); err == nil {
		return m.Time >= n
	}
	if d, ok := span(since); ok {
		return m.Time >= now-d
	}
	return true
}

// span reads "90s", "10m", "2h" or "3d" as seconds.
func span(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	unit := map[byte]int64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[s[len(s)-1]]
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 32)
	return n * unit, err == nil && unit > 0 && n >= 0
}
