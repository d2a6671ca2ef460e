package github

import (
	"context"
	"encoding/json"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// checkName is what nod's check is called.
const checkName = "nod"

var permCheck = map[string]string{"metadata": "read", "checks": "write"}

// CheckRuns performs nod.EffectCheckRun: the App's one check run called nod on a commit
// is made, or brought up to date when it is there.
type CheckRuns struct{ *Client }

// CheckRuns returns the performer of nod.EffectCheckRun.
func (c *Client) CheckRuns() CheckRuns { return CheckRuns{c} }

func (p CheckRuns) plan(ctx context.Context, t nod.Task, e nod.Effect) (in nod.CheckRun, client *gh.Client, mine *gh.CheckRun, err error) {
	if err := intent(e, nod.EffectCheckRun, &in); err != nil {
		return in, nil, nil, err
	}
	if err := p.check(t.Repo); err != nil {
		return in, nil, nil, err
	}
	in.Summary = CutMarkdown(in.Summary, MaxBody-1)
	if client, err = p.in(ctx, t.Installation, t.Repo, permCheck); err != nil {
		return in, nil, nil, err
	}
	runs, err := checkRuns(ctx, client, t.Repo, in.SHA, checkName)
	for _, r := range runs {
		if r.GetApp().GetID() == p.appID && r.GetName() == checkName && mine == nil {
			mine = r
		}
	}
	return in, client, mine, err
}

// runSays reports whether the run says what is intended already.
func runSays(r *gh.CheckRun, in nod.CheckRun) bool {
	return r != nil && r.GetConclusion() == in.Conclusion && (r.GetStatus() == "completed") == (in.Conclusion != "") &&
		r.GetOutput().GetTitle() == in.Title && r.GetOutput().GetSummary() == in.Summary
}

// Perform makes the check run say what is intended. The outcome is a
// nod.CheckRunOutcome.
func (p CheckRuns) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "set a check on a commit in " + t.Repo.String()
	in, client, mine, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	status, conclusion := "in_progress", (*string)(nil)
	if in.Conclusion != "" {
		status, conclusion = "completed", &in.Conclusion
	}
	output := &gh.CheckRunOutput{Title: &in.Title, Summary: &in.Summary}
	switch {
	case runSays(mine, in):
	case mine == nil || mine.GetStatus() == "completed" && in.Conclusion == "": // one that ended does not begin again
		mine, _, err = client.Checks.CreateCheckRun(ctx, t.Repo.Owner, t.Repo.Name, gh.CreateCheckRunOptions{Name: checkName, HeadSHA: in.SHA,
			DetailsURL: &in.Link, ExternalID: &t.ID, Status: &status, Conclusion: conclusion, Output: output})
	default:
		mine, _, err = client.Checks.UpdateCheckRun(ctx, t.Repo.Owner, t.Repo.Name, mine.GetID(), gh.UpdateCheckRunOptions{Name: checkName,
			DetailsURL: &in.Link, ExternalID: &t.ID, Status: &status, Conclusion: conclusion, Output: output})
	}
	if err != nil {
		return nil, p.fault(act, err)
	}
	return outcome(nod.CheckRunOutcome{ID: mine.GetID()})
}

// Lookup says that the effect happened when the check run says so.
func (p CheckRuns) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	in, _, mine, err := p.plan(ctx, t, e)
	if err != nil || !runSays(mine, in) {
		return nil, p.fault("look for its check on a commit in "+t.Repo.String(), err)
	}
	return outcome(nod.CheckRunOutcome{ID: mine.GetID()})
}
