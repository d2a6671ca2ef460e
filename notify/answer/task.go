package answer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"nod"
)

type taskView struct {
	frame
	Task         nod.Task
	State, Class string
	Run          *nod.Run
	IssueURL     string
	PullURL      string
	Pull         int
	Open         []openItem
	Entries      []entry
	Last         int64 // seq of the last entry
	Before       int64 // seq to page back from; 0 is none
	Live         bool
	Acts         bool   // the reader may speak to the agent, and end the task
	Paused       bool   // the agent is, and can go on
	Pausable     bool   // it runs
	Usage        string // the newest, in words
	Steps        []stage
}

// stage is one of the few stages of a task.
type stage struct{ Name, Class string }

// stages says how far a task is, without its log: what is done, what is under way
// (or went wrong there), what is to come.
func stages(c nod.Case) []stage {
	list := []stage{{Name: "Queued"}, {Name: "Agent works"}, {Name: "Checked"}, {Name: "Your review"}, {Name: "Pull request"}}
	at := 0
	if c.Run != nil {
		at = 1
		if c.Run.State == nod.RunStopped {
			at = 2
		}
	}
	// A revision that was superseded is of an earlier run.
	if r := c.Revision; r != nil && at == 2 {
		switch r.State {
		case nod.RevisionPrepared:
			at = 3
		case nod.RevisionApproved, nod.RevisionPushed, nod.RevisionPublished:
			at = 4
		}
	}
	if c.Task.State == nod.TaskReadyForReview || c.Task.State == nod.TaskCompleted {
		at = len(list)
	}
	for i := range list {
		switch {
		case i < at:
			list[i].Class = "done"
		case i == at && c.Task.Done():
			list[i].Class = "bad"
		case i == at:
			list[i].Class = "now"
		}
	}
	return list
}

// entry is one event as the transcript shows it. It is also what the event stream
// sends, as JSON.
type entry struct {
	Seq   int64  `json:"seq"`
	At    string `json:"at"`   // RFC 3339
	Who   string `json:"who"`  // "agent" or "nod"
	What  string `json:"what"` // constant words
	Link  string `json:"link,omitempty"`
	Text  []bit  `json:"text"` // untrusted
	Short bool   `json:"short,omitempty"`
	Fresh bool   `json:"fresh,omitempty"` // the page's head is out of date now
}

// bit is a span on the wire.
type bit struct {
	Text string `json:"t,omitempty"`
	Mark string `json:"m,omitempty"`
	Name string `json:"n,omitempty"`
}

const (
	entriesPerPage = 60
	usageBack      = 1000 // events to look for the newest usage in
	entryCap       = 1200 // characters of one event; nod logs has the rest
)

func (s *Server) taskPage(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	id := r.PathValue("id")
	c, err := s.caseOf(r.Context(), id, by)
	if err != nil {
		return err
	}
	last, err := s.lastSeq(r.Context(), id)
	if err != nil {
		return err
	}
	v := taskView{frame: s.frame("Task", true), Task: c.Task, Run: c.Run, IssueURL: s.issueURL(c.Task), Live: true}
	v.Page = "task"
	v.State, v.Class = stateLabel(c.Task)
	v.Pausable = c.Run != nil && c.Run.State == nod.RunRunning
	if v.Paused = c.Run != nil && c.Run.State == nod.RunPaused && !c.Task.Done(); v.Paused {
		v.State, v.Class = "paused", "wait"
	}
	if before, err := strconv.ParseInt(r.FormValue("before"), 10, 64); err == nil && before > 1 && before <= last {
		last, v.Live = before-1, false
	}
	if c.Revision != nil && c.Revision.PullRequest.Number > 0 {
		v.Pull, v.PullURL = c.Revision.PullRequest.Number, s.webURL(c.Revision.PullRequest.URL)
	}
	for _, d := range c.Open() {
		if !d.Late(s.now()) {
			v.Open = append(v.Open, openItem{ID: d.ID, Title: words(d).Title, About: about(d), Clock: s.clock(d, "")})
		}
	}
	after := max(0, last-entriesPerPage)
	events, err := s.streams.Events(r.Context(), id, after, entriesPerPage)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Seq <= last {
			v.Entries = append(v.Entries, entryOf(e))
			v.Last = e.Seq
		}
	}
	if after > 0 {
		v.Before = after + 1
	}
	v.Acts = s.acts != nil && v.Live && !c.Task.Done()
	v.Steps = stages(c)
	if v.Usage = lastUsage(events); v.Usage == "" && after > 0 {
		if events, err = s.streams.Events(r.Context(), id, max(0, last-usageBack), usageBack); err != nil {
			return err
		}
		v.Usage = lastUsage(events)
	}
	return s.render(w, http.StatusOK, "task", v)
}

// lastUsage is the newest usage among events, in words.
func lastUsage(events []nod.Event) (usage string) {
	for _, e := range events {
		if e.Kind == nod.EventUsage || e.Kind == nod.EventAgentUsage {
			if _, text, ok := inWords(e); ok {
				usage = text
			}
		}
	}
	return usage
}

// caseOf returns a task that the session covers, or NotFound.
func (s *Server) caseOf(ctx context.Context, task string, by nod.Session) (nod.Case, error) {
	c, err := s.decisions.Case(ctx, task)
	if err == nil && !by.Covers(c.Task.Repo) {
		return nod.Case{}, nod.E(nod.NotFound, "there is no such task", nil)
	}
	return c, err
}

// decisionOf returns a decision that the session covers, or NotFound.
func (s *Server) decisionOf(ctx context.Context, id string, by nod.Session) (nod.Decision, error) {
	d, err := s.decisions.Decision(ctx, id)
	if err != nil || len(by.Repos) == 0 {
		return d, err
	}
	if _, err := s.caseOf(ctx, d.Task, by); err != nil {
		return nod.Decision{}, nod.E(nod.NotFound, "there is no such decision", err)
	}
	return d, nil
}

// lastSeq finds the sequence number of the newest event of a task: the first n such
// that there is nothing after n, by doubling and halving.
func (s *Server) lastSeq(ctx context.Context, task string) (int64, error) {
	beyond := func(n int64) (bool, error) {
		events, err := s.streams.Events(ctx, task, n, 1)
		return len(events) > 0, err
	}
	low, high := int64(0), int64(1)
	for {
		more, err := beyond(high - 1)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		low, high = high, high*2
	}
	// Nothing lies beyond high-1; something does beyond low-1, unless low is 0.
	for low < high-1 {
		middle := low + (high-low)/2
		more, err := beyond(middle - 1)
		if err != nil {
			return 0, err
		}
		if more {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

func (s *Server) issueURL(t nod.Task) string {
	u := url.URL{Scheme: "https", Host: t.Repo.Host}
	if s.github != nil {
		u.Scheme, u.Host, u.Path = s.github.Scheme, s.github.Host, strings.TrimSuffix(s.github.Path, "/")
	}
	u.Path += "/" + t.Repo.Owner + "/" + t.Repo.Name + "/issues/" + strconv.Itoa(t.Issue)
	return u.String()
}

// webURL returns u when it is a plain web address, else "". Without TLS it must be
// on the configured GitHub.
func (s *Server) webURL(u string) string {
	p, err := url.Parse(u)
	if err != nil || p.Host == "" || p.User != nil {
		return ""
	}
	if p.Scheme != "https" && (s.github == nil || p.Scheme != s.github.Scheme || p.Host != s.github.Host) {
		return ""
	}
	return u
}

func entryOf(e nod.Event) entry {
	out := entry{Seq: e.Seq, At: e.At.UTC().Format("2006-01-02T15:04:05Z"), Who: "nod"}
	if e.Tier == nod.Transcript {
		out.Who = "agent"
	}
	text := ""
	switch e.Kind {
	case nod.EventMessage:
		var m nod.Message
		out.What, text = "says", field1(e, &m, func() string { return m.Text })
	case nod.EventToolCall:
		var c nod.ToolCall
		out.What, text = "uses", field1(e, &c, func() string { return c.Tool + " " + about(nod.Decision{Cause: nod.CauseTool, Input: string(c.Input)}) })
		out.Short = true
	case nod.EventToolResult:
		var t nod.ToolResult
		out.What, text = "gets", field1(e, &t, func() string { return t.Text })
		out.Short = true
	case nod.EventResult:
		var t nod.Result
		out.What, text = "ends", field1(e, &t, func() string { return strings.TrimSpace(t.Text + " " + t.Reason) })
	case nod.EventAgentError:
		var t nod.AgentError
		out.What, text = "reports trouble", field1(e, &t, func() string { return t.Text })
	case nod.EventTaskState, nod.EventRunState, nod.EventEnvironment, nod.EventRevision:
		var c nod.StateChange
		noun, _, _ := strings.Cut(string(e.Kind), ".")
		out.What, text = noun, field1(e, &c, func() string { return strings.TrimSpace(strings.ReplaceAll(c.To, "_", " ") + " " + c.Why) })
		out.Fresh = e.Kind == nod.EventTaskState || e.Kind == nod.EventRevision || e.Kind == nod.EventRunState && (c.To == string(nod.RunPaused) || c.From == string(nod.RunPaused))
	case nod.EventDecisionOpened:
		var d nod.Decision
		out.What, text = "asks you", field1(e, &d, func() string { return words(d).Title })
		out.Link, out.Fresh = decisionLink(d), true
	case nod.EventDecisionClosed:
		var c struct {
			Decision nod.Decision `json:"decision"`
		}
		out.What, text = "was told", field1(e, &c, func() string { return strings.TrimSpace(string(c.Decision.State) + " " + c.Decision.Answer) })
		out.Link, out.Fresh = decisionLink(c.Decision), true
	default:
		out.Short = true
		var known bool
		if out.What, text, known = inWords(e); !known {
			out.What, text = strings.NewReplacer(".", " ", "_", " ").Replace(string(e.Kind)), string(e.Data)
		}
	}
	limit := entryCap
	if out.Short {
		limit = 400
	}
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit]) + " … " + strconv.Itoa(len(runes)-limit) + " more characters"
	}
	for _, v := range visible(text) {
		out.Text = append(out.Text, bit{Text: v.Text, Mark: v.Mark, Name: v.Name})
	}
	return out
}

func decisionLink(d nod.Decision) string {
	if !strings.HasPrefix(d.ID, "d") {
		return ""
	}
	return "/d/" + url.PathEscape(d.ID)
}

// field1 reads the data of e into v and returns what text says of it; data that is
// something else is shown as it is.
func field1(e nod.Event, v any, text func() string) string {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return string(e.Data)
	}
	return text()
}
