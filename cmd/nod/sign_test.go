package main

import (
	"fmt"
	"strings"
	"testing"

	"nod"
)

// TestWhoSignsIsSaidOrFollowsFromTheAuthor: GitHub signs for the App unless commits
// have an author of their own, and an SSH signature without one is a mistake.
func TestWhoSignsIsSaidOrFollowsFromTheAuthor(t *testing.T) {
	const author = `"commit_author": {"name": "Nod", "email": "1+nod@users.noreply.github.com"},`
	config := func(author, sign string) (Config, error) {
		return ParseConfig("nod.hujson", []byte(fmt.Sprintf(`{
			"github": {"app_id": 1, "private_key_file": "/k", "webhook_secret_files": ["/w"], "owners": [1]},
			"public_url": "https://nod.example.com", "state_dir": "/var/lib/nod", "ntfy": {"url": "https://ntfy.sh", "topic_file": "/t"},
			"agents": {"a": {"argv": ["agent"]}}, %s "repos": [{"repo": "acme/web", "agent": "a"%s}]}`, author, sign)))
	}
	for _, c := range []struct {
		author, sign string
		want         nod.SignMode
		refused      string
	}{
		{"", "", nod.SignGitHub, ""},
		{author, "", nod.SignSSH, ""},
		{author, `, "sign": "github"`, nod.SignGitHub, ""},
		{"", `, "sign": "ssh"`, "", "needs commit_author"},
		{author, `, "sign": "gpg"`, "", `not "gpg"`},
	} {
		got, err := config(c.author, c.sign)
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%q %q: %v", c.author, c.sign, err)
		case c.refused == "" && (err != nil || got.Repos[0].Sign != c.want):
			t.Errorf("%q %q: %v, %v", c.author, c.sign, got.Repos, err)
		}
	}
}
