package github

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// SwapLabels performs nod.EffectSwapLabel: one label is set, others are removed.
// A label that the repository lacks is made; removing one that is not set is fine.
// Labels are compared without case, as GitHub does.
type SwapLabels struct{ *Client }

// SwapLabels returns the performer of nod.EffectSwapLabel.
func (c *Client) SwapLabels() SwapLabels { return SwapLabels{c} }

// LabelOutcome is the outcome of nod.EffectSwapLabel: the issue's labels after it.
type LabelOutcome struct {
	Labels []string `json:"labels"`
}

const (
	labelColor = "0b6e4f"
	labelText  = "Set by nod"
)

func (p SwapLabels) plan(ctx context.Context, t nod.Task, e nod.Effect) (nod.SwapLabel, *gh.Client, []string, error) {
	var in nod.SwapLabel
	if err := intent(e, nod.EffectSwapLabel, &in); err != nil {
		return in, nil, nil, err
	}
	if err := p.check(t.Repo); err != nil {
		return in, nil, nil, err
	}
	client, err := p.in(ctx, t.Installation, t.Repo, permWrite)
	if err != nil {
		return in, nil, nil, err
	}
	set, err := labelsOf(ctx, client, t.Repo, in.Issue)
	return in, client, set, err
}

// Perform sets the new label before it removes the old ones, so that the issue is
// never without one. The outcome is a LabelOutcome.
func (p SwapLabels) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "change labels in " + t.Repo.String()
	in, client, set, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	if in.Add != "" && !carries(set, in.Add) {
		if err := p.ensure(ctx, client, t.Repo, in.Add); err != nil {
			return nil, p.fault(act, err)
		}
		if err := addLabels(ctx, client, t.Repo, in.Issue, in.Add); err != nil {
			return nil, p.fault(act, err)
		}
	}
	for _, name := range in.Remove {
		if !carries(set, name) || carries([]string{in.Add}, name) {
			continue
		}
		_, err := client.Issues.RemoveLabelForIssue(ctx, t.Repo.Owner, t.Repo.Name, in.Issue, url.PathEscape(name))
		if err != nil && statusOf(err) != http.StatusNotFound {
			return nil, p.fault(act, err)
		}
	}
	if set, err = labelsOf(ctx, client, t.Repo, in.Issue); err != nil {
		return nil, p.fault(act, err)
	}
	return outcome(LabelOutcome{set})
}

// Lookup says that the effect happened when the labels are as it would leave them.
func (p SwapLabels) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	in, _, set, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault("read labels in "+t.Repo.String(), err)
	}
	done := in.Add == "" || carries(set, in.Add)
	for _, name := range in.Remove {
		done = done && (!carries(set, name) || carries([]string{in.Add}, name))
	}
	if !done {
		return nil, nil
	}
	return outcome(LabelOutcome{set})
}

// addLabels sends the labels as GitHub's description has them, in an object; go-github
// sends a bare array.
func addLabels(ctx context.Context, client *gh.Client, repo nod.Repo, number int, names ...string) error {
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", repo.Owner, repo.Name, number)
	req, err := client.NewRequest(http.MethodPost, path, map[string][]string{"labels": names})
	if err != nil {
		return err
	}
	_, err = client.Do(ctx, req, nil)
	return err
}

func labelsOf(ctx context.Context, client *gh.Client, repo nod.Repo, number int) ([]string, error) {
	found, _, err := pages(0, func(page int) ([]*gh.Label, *gh.Response, error) {
		return client.Issues.ListLabelsByIssue(ctx, repo.Owner, repo.Name, number, &gh.ListOptions{Page: page, PerPage: perPage})
	})
	names := []string{}
	for _, l := range found {
		names = append(names, l.GetName())
	}
	return names, err
}

// ensure makes the label when the repository lacks it.
func (p SwapLabels) ensure(ctx context.Context, client *gh.Client, repo nod.Repo, name string) error {
	_, _, err := client.Issues.GetLabel(ctx, repo.Owner, repo.Name, url.PathEscape(name))
	if statusOf(err) != http.StatusNotFound {
		return err
	}
	_, _, err = client.Issues.CreateLabel(ctx, repo.Owner, repo.Name, &gh.Label{Name: &name, Color: gh.String(labelColor), Description: gh.String(labelText)})
	if statusOf(err) == http.StatusUnprocessableEntity && saysAlreadyExists(err) {
		return nil // somebody was quicker
	}
	return err
}
