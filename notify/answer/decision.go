package answer

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nod"
)

type decisionView struct {
	frame
	Words    wording
	Permit   bool   // it is allow or deny: two buttons, and a reason for the second
	Lead     string // the subject, where it says more than a tool's name
	Quoted   bool   // Lead is the agent's or an outsider's words
	Decision nod.Decision
	Task     nod.Task
	Run      int // number of the asking run, 0 when there is none or it is not the latest
	Clock    *clock
	Broken   string // why nothing can be allowed here
	Blocks   []block
	Facts    []fact
	Warnings []string
	Review   *reviewView
	Pager    pager
	Options  []option
	Closed   bool // no buttons: answered, expired or superseded
	Mine     bool // the reader's passkey has allowed it, and others must too
	Outcome  string
	Raw      bool // the input byte by byte
	HasRaw   bool
}

// clock is a deadline that counts down.
type clock struct {
	At          time.Time
	Left, Total int // seconds
	Then        string
}

type fact struct {
	Name  string
	Value string
	Code  bool
	Pill  string // class of the pill around the value
	More  string // after the pill
}

type option struct {
	Value string // when it is one of nod's own words
	Coded string // base64url of any other answer, which must reach the script unchanged
	Label string
	Class string
}

type reviewView struct {
	Revision       nod.Revision
	Summary        string
	Commits        []nod.Commit
	More           int // commits that are on later pages, by count
	Files          []shownFile
	Check          []block // tail of its output
	Added, Deleted int
}

func (s *Server) decisionPage(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	d, err := s.decisionOf(r.Context(), r.PathValue("id"), by)
	if err != nil {
		return err
	}
	page, err := strconv.Atoi(r.FormValue("page"))
	if err != nil || page < 1 {
		page = 1
	}
	v, err := s.decisionView(r.Context(), d, page, r.FormValue("raw") == "1")
	if err != nil {
		return err
	}
	if v.Mine = d.Approved(by.Passkey) && !v.Closed; v.Mine {
		v.Options = slices.DeleteFunc(v.Options, func(o option) bool { return o.Value == nod.Allow })
	}
	return s.render(w, http.StatusOK, "decision", v)
}

func (s *Server) decisionView(ctx context.Context, d nod.Decision, page int, raw bool) (decisionView, error) {
	v := decisionView{frame: s.frame("", true), Words: words(d), Decision: d, Raw: raw}
	v.Title, v.Page = v.Words.Title, "decision"
	m, err := s.shown(ctx, d)
	switch {
	case err != nil && nod.CodeOf(err) == nod.Conflict:
		v.Broken = nod.PublicMessage(err)
	case err != nil:
		return v, err
	}
	v.Task = m.Case.Task
	if run := m.Case.Run; run != nil && run.ID == d.Run {
		v.Run = run.Number
	}
	v.Permit = permits(d)
	if d.Cause != nod.CauseTool && d.Subject != m.Input && d.Subject != m.Case.Task.Where() {
		v.Lead, v.Quoted = d.Subject, d.Cause == nod.CauseAgentQuestion
	}
	s.outcome(&v)
	v.Clock = s.clock(d, v.Words.Then)
	if v.Broken == "" {
		s.layOut(&v, m, page)
	}
	v.Facts = append(v.Facts, facts(d, m)...)
	if !v.Closed {
		v.Options = options(d, v.Words, v.Broken != "")
	}
	return v, nil
}

// layOut distributes what d is about over pages and takes the asked one.
func (s *Server) layOut(v *decisionView, m material, page int) {
	d := v.Decision
	var text []block
	switch {
	case d.Kind == nod.Review:
		s.layOutReview(v, m, page)
		return
	case v.Raw:
		text = []block{code("exactly as received", m.Input)}
	default:
		text = blocks(d, m.Input)
	}
	v.HasRaw = d.Cause == nod.CauseTool || d.Cause == nod.CausePlan || d.Cause == nod.CauseUntrustedStart || d.Cause == nod.CauseAgentQuestion
	v.Warnings = append(v.Warnings, textWarnings(text)...)
	pages := pageBlocks(text)
	v.Pager = pager{Page: min(page, len(pages)), Pages: len(pages), Path: "/d/" + d.ID}
	v.Blocks = pages[v.Pager.Page-1]
}

func textWarnings(text []block) (warnings []string) {
	unseen, hidden := 0, 0
	for _, b := range text {
		unseen += marked(b.Spans)
		for _, s := range b.Spans {
			if s.Hidden {
				hidden++
			}
			if word := mixedScripts(s.Text); word != "" && len(warnings) == 0 {
				warnings = append(warnings, "A word mixes letters of two alphabets that look alike. Check it letter by letter.")
			}
		}
	}
	if hidden > 0 {
		warnings = append(warnings, plural(hidden, "passage is", "passages are")+" hidden on GitHub; marked below.")
	}
	if unseen > 0 {
		warnings = append(warnings, plural(unseen, "character that cannot be seen is", "characters that cannot be seen are")+" marked below.")
	}
	return warnings
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func (s *Server) layOutReview(v *decisionView, m material, page int) {
	r := m.Revision
	files := parseDiff(m.Diff)
	rv := &reviewView{Revision: r, Commits: r.Commits}
	for _, f := range files {
		rv.Added, rv.Deleted = rv.Added+f.Added, rv.Deleted+f.Deleted
		for _, why := range f.Flags {
			v.Warnings = append(v.Warnings, printable(f.Path())+": "+why+".")
		}
		if word := mixedScripts(f.Path()); word != "" {
			v.Warnings = append(v.Warnings, printable(f.Path())+": mixes letters of two alphabets that look alike.")
		}
	}
	const manyWarnings = 12
	if n := len(v.Warnings); n > manyWarnings {
		v.Warnings = append(v.Warnings[:manyWarnings], fmt.Sprintf("%d more warnings; they are repeated at each file.", n-manyWarnings))
	}
	if len(files) != len(r.Files) {
		v.Warnings = append(v.Warnings, fmt.Sprintf("The diff holds %d files, the result lists %d.", len(files), len(r.Files)))
	}
	commits, diffs := pageCommits(r.Commits), pageDiff(files)
	total := len(diffs)
	if len(commits) > 1 {
		total += len(commits)
	}
	v.Pager = pager{Page: min(page, total), Pages: total, Path: "/d/" + v.Decision.ID}
	switch n := v.Pager.Page; {
	case len(commits) == 1:
		rv.Files = diffs[n-1]
	case n <= len(commits):
		rv.Commits = commits[n-1]
	default:
		rv.Commits, rv.Files = nil, diffs[n-1-len(commits)]
	}
	rv.Summary = plural(len(r.Commits), "commit", "commits") + ", " + plural(len(files), "file", "files")
	if v.Pager.Last() && r.Check.Tail != "" {
		// The receipt's facts count; of its output the end is enough here.
		const tail = 4 << 10
		out := visible(strings.ToValidUTF8(r.Check.Tail[max(0, len(r.Check.Tail)-tail):], ""))
		label := "end of the check’s output"
		rv.Check = pageBlocks([]block{{Label: label, Spans: out}})[0]
	}
	v.Review, v.Wide = rv, true
}

// pageCommits distributes commits over pages; up to a third of a page's budget they
// stay beside the diff.
func pageCommits(commits []nod.Commit) [][]nod.Commit {
	pages, used := [][]nod.Commit{nil}, 0
	for _, c := range commits {
		cost := 200
		for _, sp := range visible(c.Message + c.Subject) {
			cost += spanCost(sp)
		}
		if used+cost > pageBudget/3 && len(pages[len(pages)-1]) > 0 {
			pages, used = append(pages, nil), 0
		}
		pages[len(pages)-1] = append(pages[len(pages)-1], c)
		used += cost
	}
	return pages
}

// printable is visible for places that take plain text only.
func printable(s string) string {
	var b strings.Builder
	for _, v := range visible(strings.ReplaceAll(s, "\n", "␊")) {
		if v.Mark != "" {
			b.WriteString("‹" + v.Mark + "›")
			continue
		}
		b.WriteString(v.Text)
	}
	return b.String()
}

func (s *Server) clock(d nod.Decision, then string) *clock {
	if d.Deadline.IsZero() || d.State != nod.DecisionOpen || d.Late(s.now()) {
		return nil
	}
	left, total := d.Deadline.Sub(s.now()), d.Deadline.Sub(d.CreatedAt)
	return &clock{At: d.Deadline, Left: int(left / time.Second), Total: max(1, int(max(left, total)/time.Second)), Then: then}
}

// outcome says how a closed decision was closed.
func (s *Server) outcome(v *decisionView) {
	d := v.Decision
	switch {
	case d.State == nod.DecisionAnswered:
		v.Closed, v.Outcome = true, answered(d.Answer)
	case d.State == nod.DecisionSuperseded:
		v.Closed, v.Outcome = true, "Superseded: what asked this is gone, nothing was permitted."
	case d.State == nod.DecisionExpired || d.Late(s.now()):
		v.Closed, v.Outcome = true, "Expired: nobody answered in time, nothing was permitted."
	}
}

func answered(answer string) string {
	switch answer {
	case nod.Allow:
		return "Allowed"
	case nod.Deny:
		return "Denied"
	}
	return "Answered"
}

// permits reports whether d is answered by allow or deny and by nothing else.
func permits(d nod.Decision) bool {
	return d.Kind != nod.Question || !d.FreeText && slices.Equal(d.Options, []string{nod.Allow, nod.Deny})
}

// harmless reports whether answer may be given without having seen what d is about:
// it denies or gives up, and means that because nod itself asks.
func harmless(d nod.Decision, answer string) bool {
	return d.Cause != nod.CauseAgentQuestion && (answer == nod.Deny || answer == nod.Cancel && d.Kind == nod.Question)
}

func options(d nod.Decision, w wording, broken bool) []option {
	if permits(d) {
		list := []option{{Value: nod.Deny, Label: w.No, Class: "no"}}
		if !broken {
			list = append(list, option{Value: nod.Allow, Label: w.Go, Class: "go"})
		}
		return list
	}
	list := make([]option, 0, len(d.Options))
	for _, o := range d.Options {
		if broken && !harmless(d, o) {
			continue
		}
		class := ""
		switch o { // what an agent offers is offered evenly
		case nod.Retry, nod.Allow:
			class = "go"
		case nod.Cancel, nod.Deny:
			class = "no"
		}
		item := option{Label: optionLabel(o), Class: class}
		if item.Label != o {
			item.Value = o
		} else {
			item.Coded = base64.RawURLEncoding.EncodeToString([]byte(o))
		}
		list = append(list, item)
	}
	return list
}

// approvals says how many passkeys must allow d, and which have.
func approvals(d nod.Decision) fact {
	have := make([]string, 0, len(d.ApprovedBy)+1)
	for _, a := range d.ApprovedBy {
		have = append(have, printable(a.Show()))
	}
	if d.Permits() {
		have = append(have, printable(d.AnsweredBy.Show()))
	}
	f := fact{Name: "Approvals", Value: fmt.Sprintf("%d of %d", len(have), d.Approvals), Pill: "wait", More: strings.Join(have, ", ")}
	switch {
	case len(have) >= d.Approvals:
		f.Pill = "ok"
	case len(have) == 0:
		f.More = "different passkeys must allow it"
	default:
		f.More += "; " + plural(d.Approvals-len(have), "other passkey", "other passkeys") + " must allow it too"
	}
	return f
}

func facts(d nod.Decision, m material) (list []fact) {
	r := m.Revision
	if d.Approvals > 1 {
		list = append(list, approvals(d))
	}
	if d.Kind == nod.Review && r.SHA != "" {
		check := fact{Name: "Check", Value: "none", Pill: "wait", More: "no check is configured"}
		if len(r.Check.Command) > 0 {
			run := printable(strings.Join(r.Check.Command, " ")) + " · " + r.Check.Duration.Round(100*time.Millisecond).String()
			switch {
			case r.Check.Passed(r.SHA):
				check = fact{Name: "Check", Value: "passed", Pill: "ok", More: run}
			case r.Check.SHA != r.SHA:
				check = fact{Name: "Check", Value: "not for this commit", Pill: "bad", More: run}
			default:
				check = fact{Name: "Check", Value: "failed", Pill: "bad", More: run + " · exit " + strconv.Itoa(r.Check.ExitCode)}
			}
		}
		list = append(list, check, fact{Name: "Into", Value: printable(r.BaseRef)}, fact{Name: "Branch", Value: printable(r.Branch), Code: true},
			fact{Name: "Head", Value: r.SHA, Code: true}, fact{Name: "Onto", Value: r.BaseSHA, Code: true},
			fact{Name: "Diff", Value: r.DiffDigest, Code: true})
		return list
	}
	if d.Cause == nod.CauseTool {
		list = append(list, fact{Name: "Tool", Value: printable(d.Subject), Code: true})
		if e := m.Case.Environment; e != nil && e.Attestation.Holds() == nil {
			list = append(list, fact{Name: "Network", Value: "only the listed hosts, through nod’s proxy"},
				fact{Name: "Files", Value: "its own clone of " + printable(m.Case.Task.Repo.String())})
		}
	}
	return append(list, fact{Name: "Digest", Value: d.InputDigest, Code: true})
}
