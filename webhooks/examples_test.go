package webhooks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"nod"
	"nod/runtime/runtimetest"
	"nod/webhooks"
)

// TestPublicExamples sends every example of the npm package
// @octokit/webhooks-examples, in the directory that NOD_WEBHOOK_EXAMPLES names,
// through the receiver and the parser. Most are from hooks of repositories, so
// those that lack an installation are parsed once more with one.
func TestPublicExamples(t *testing.T) {
	dir := os.Getenv("NOD_WEBHOOK_EXAMPLES")
	if dir == "" {
		runtimetest.Missing(t, "the npm package @octokit/webhooks-examples (NOD_WEBHOOK_EXAMPLES)")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "index.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples in %s: %v", dir, err)
	}
	kinds := map[string]nod.OccurrenceKind{
		"issues.labeled": nod.IssueLabeled, "issues.unlabeled": nod.IssueUnlabeled, "issues.closed": nod.IssueClosed,
		"issue_comment.created": nod.CommentCreated, "pull_request.closed": nod.PullRequestClosed,
		"pull_request_review.submitted": nod.ReviewSubmitted, "pull_request_review_comment.created": nod.ReviewCommentCreated,
		"check_suite.completed": nod.CheckSuiteCompleted,
		"installation.created":  nod.InstallationChanged, "installation.deleted": nod.InstallationChanged,
		"installation.suspend": nod.InstallationChanged, "installation.unsuspend": nod.InstallationChanged,
		"installation.new_permissions_accepted": nod.InstallationChanged,
		"installation_repositories.added":       nod.InstallationChanged, "installation_repositories.removed": nod.InstallationChanged,
	}
	events, examples, ignored, foreign := map[string]bool{}, 0, 0, 0
	handled := map[nod.OccurrenceKind]int{}
	parse := webhooks.Parser("github.com")
	for _, file := range files {
		var all []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		for _, event := range all {
			events[event.Name] = true
			for i, body := range event.Examples {
				examples++
				where := fmt.Sprintf("%s %s[%d]", filepath.Base(filepath.Dir(file)), event.Name, i)
				rc, s, _ := receiver(t, nil)
				w := send(rc, delivery(guid, event.Name, body))
				if event.Name == "ping" {
					if w.Code != http.StatusOK {
						t.Errorf("%s: answered %d", where, w.Code)
					}
					ignored++
					continue
				}
				if w.Code != http.StatusAccepted || len(s.rows) != 1 {
					t.Errorf("%s: answered %d %s", where, w.Code, w.Body)
					continue
				}
				row := s.rows[0]
				want, ok := kinds[event.Name+"."+row.Action]
				if !ok {
					o, err := parse(row)
					// A push to a tag is ignored, one to a branch is not; some are by a hook of a repository.
					pushed := event.Name == "push" && (o != nil && o.Kind == nod.BranchMoved && o.HeadRef != "" || nod.CodeOf(err) == nod.Invalid)
					if (o != nil || err != nil) && !pushed {
						t.Errorf("%s: %v, %v", where, o, err)
					}
					ignored++
					continue
				}
				var has struct {
					Installation struct{ ID int64 } `json:"installation"`
				}
				if err := json.Unmarshal(body, &has); err != nil {
					t.Fatal(err)
				}
				if has.Installation.ID == 0 {
					if _, err := parse(row); nod.CodeOf(err) != nod.Invalid {
						t.Errorf("%s: without an installation: %v", where, err)
					}
					row.Payload = edit(t, body, "installation", map[string]any{"id": 1})
					foreign++
				}
				o, err := parse(row)
				if err != nil || o.Kind != want || o.Sender.ID == 0 {
					t.Errorf("%s: %+v, %v", where, o, err)
					continue
				}
				handled[want]++
			}
		}
	}
	t.Logf("%d examples of %d events: %d ignored, handled %v, of which %d were sent without an installation", examples, len(events), ignored, handled, foreign)
	for _, kind := range kinds {
		if handled[kind] == 0 && kind != nod.IssueClosed { // the package has none
			t.Errorf("no example of %s", kind)
		}
	}
}
