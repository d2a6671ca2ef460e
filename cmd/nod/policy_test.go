package main

import (
	"bytes"
	"fmt"
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
