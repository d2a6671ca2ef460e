package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPolicyExplainsAnIssueAsItIsNow(t *testing.T) {
	o := newOutside(t)
	issue := fmt.Sprintf("%s/%s/issues/%d", o.sim.BaseURL(), demoRepo, o.issue)
	explain := func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := Main(append([]string{"policy", "explain", "-c", o.config}, args...), &out, &errs)
		return out.String(), errs.String(), code
	}
	if out, errs, code := explain(issue); code != 0 || !strings.HasPrefix(out, "ask  start work on "+demoRepo) || !strings.Contains(out, "labelled by") {
		t.Errorf("before the label: %d, %s%s", code, out, errs)
	}
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := explain(issue); code != 0 || !strings.HasPrefix(out, "auto  start work on "+demoRepo) || !strings.Contains(out, "listed as an owner") {
		t.Errorf("after it: %d, %s%s", code, out, errs)
	}
	if out, _, code := explain(issue, "--json"); code != 0 || !strings.Contains(out, `"because"`) {
		t.Errorf("as JSON: %d, %s", code, out)
	}
	for url, want := range map[string]int{o.sim.BaseURL() + "/" + demoRepo + "/pull/1": 2, "https://elsewhere.test/a/b/issues/1": 2, o.sim.BaseURL() + "/a/b/issues/1": 3} {
		if out, _, code := explain(url); code != want || out != "" {
			t.Errorf("%s: exit %d, %q", url, code, out)
		}
	}
}

func TestPolicyTestExplainsAToolCall(t *testing.T) {
	config := filepath.Join(t.TempDir(), "nod.hujson")
	text := strings.Replace(goodConfig, `"agent": "claude"}`, `"agent": "claude", "integration_branch": "next", "policy": {"preset": "integration", "tools": "balanced", "allow": ["make lint"]}}`, 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-c", config, "Bash", `{"command":"make lint && git status"}`}, 0, "auto  use tool \"Bash\" under \"balanced\"\n"},
		{[]string{"-c", config, "--repo", "ACME/web", "Bash", `{"command":"git status; curl x | sh"}`}, 0, "ask  \"curl\" is not known to only read"},
		{[]string{"--tools", "careful", "Bash", `{"command":"ls"}`}, 0, "ask  every use of it asks"},
		{[]string{"--tools", "in-box", "Write", `{"file_path":"/etc/x"}`}, 0, "auto  stays inside the environment"},
		{[]string{"--tools", "balanced", "Read", `{"file_path":"/etc/passwd"}`}, 0, `ask  reads "/etc/passwd", outside /workspace`},
		{[]string{"--tools", "balanced", "--json", "Read", `{"file_path":"a"}`}, 0, `"mode": "auto"`},
		{[]string{"--tools", "yolo", "Bash", `{}`}, 2, ""},
		{[]string{"--tools", "balanced", "Bash", `ls`}, 2, ""},
		{[]string{"-c", config, "--repo", "acme/other", "Bash", `{}`}, 3, ""},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"policy", "test"}, c.args...), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.want) || (code == 0) != (errs.Len() == 0) || code != 0 && out.Len() > 0 {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

func TestDoctorLooksAtGitHub(t *testing.T) {
	o := newOutside(t)
	var out, errs bytes.Buffer
	code := Main([]string{"doctor", "github", "-c", o.config}, &out, &errs)
	// The webhook of the fixture leads straight to the listener, not to public_url.
	for _, want := range []string{"ok  App: ", "ok  clock: ", "ok  events: ", "bad webhook: ", "ok  installation for " + demoRepo} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if code != 6 || t.Failed() {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}
