package agent

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nod"
)

func TestCommandsThatRunTestsAreKnown(t *testing.T) {
	for command, want := range map[string]bool{
		"go test ./...": true, "cd x && go test": true, "A=1 B=2 pytest -q": true, "(cargo test)": true, "go vet; make check": true,
		"go build": false, "echo go test": false, "gotest": false, "pytestify": false, "": false, "A=1": false, "cat go test": false,
	} {
		if got := RunsTests(command); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}

func TestALongChangeIsCutAtALine(t *testing.T) {
	for _, line := range []string{"+0123456789\n", "+grüße🌍\n", strings.Repeat("é", DiffCap)} {
		d := NewDiff("c", "p", strings.Repeat(line, DiffCap/len(line)+2))
		if len(d.Text) > DiffCap+40 || !strings.HasSuffix(d.Text, "left out]\n") || !utf8.ValidString(d.Text) {
			t.Errorf("%d bytes, …%q", len(d.Text), d.Text[len(d.Text)-40:])
		}
	}
	if d := NewDiff("c", "p", "+a\n"); d.Text != "+a\n" {
		t.Errorf("%q", d.Text)
	}
}

func TestOnlyWhatAPersonCanMendIsTrouble(t *testing.T) {
	reset := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	kind, trouble, ok := Trouble(nod.Result{Reason: ReasonQuotaExhausted, Text: "later", ResetsAt: reset})
	if kind != nod.EventQuota || !trouble.ResetsAt.Equal(reset) || !ok {
		t.Errorf("%s %+v %v", kind, trouble, ok)
	}
	if kind, _, ok := Trouble(nod.Result{Reason: ReasonAuthExpired}); kind != nod.EventSignedOut || !ok {
		t.Errorf("%s %v", kind, ok)
	}
	for _, r := range []nod.Result{{OK: true}, {Reason: ReasonAPIError}, {Reason: ReasonInterrupted}} {
		if _, _, ok := Trouble(r); ok {
			t.Errorf("%+v is trouble", r)
		}
	}
}
