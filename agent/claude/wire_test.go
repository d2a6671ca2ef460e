package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/agent"
)

// FuzzLine holds two things of any bytes a program writes: they never panic, and
// a permission request is answered with the very bytes it came with.
func FuzzLine(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	recorded, err2 := filepath.Glob("testdata/recordings/*.txt")
	if err := errors.Join(err, err2); err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, recorded...) {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for l := range bytes.SplitSeq(raw, []byte("\n")) {
			f.Add(bytes.TrimPrefix(l, []byte("< ")))
		}
	}
	f.Add([]byte(canUse("r1", "Bash", `{"command":"<&> \u2028"}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.IndexByte(raw, '\n') >= 0 {
			return // it would be two lines
		}
		l, ok := parse(raw)
		if !ok {
			return
		}
		for _, b := range l.Message.blocks() {
			_ = b.text()
		}
		l.cost()
		if r := l.outcome(""); r.OK != (r.Reason == "") {
			t.Errorf("%+v", r)
		}
		if l.Request == nil || !object(l.Request.Input) {
			return
		}
		out, err := allow(l.RequestID, l.Request.Input)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out) || bytes.IndexByte(out, '\n') != len(out)-1 {
			t.Fatalf("the answer is not one line of JSON: %q", out)
		}
		if !bytes.Contains(raw, l.Request.Input) || !bytes.Contains(out, l.Request.Input) {
			t.Fatalf("the input was changed: %q, %q", raw, out)
		}
	})
}

func TestTheCommandLineLeavesNothingToTheWorkspace(t *testing.T) {
	c, err := config(func(c *Config) { c.Env["CLAUDECODE"], c.Env["DISABLE_AUTOUPDATER"] = "1", "0" }).filled(t).command(nod.AgentSpec{
		Session: sessionID, Env: map[string]string{"HOME": "/h"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.Argv, "|")
	for _, want := range []string{"/opt/claude|-p|", "|--permission-prompt-tool|stdio|", "|--permission-mode|default|", "|--setting-sources||--settings|", "|--strict-mcp-config|",
		"|--disable-slash-commands|", "|--resume=" + sessionID, `{"permissions":{"ask":["Agent","Bash","BashOutput","Edit","EnterPlanMode","Glob","Grep","KillShell","NotebookEdit","Read","Task","TaskOutput","TaskStop","WebFetch","Write"]}}`} {
		if !strings.Contains(got+"|", want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if _, ok := c.Env["CLAUDECODE"]; ok || c.Env["DISABLE_AUTOUPDATER"] != "1" || c.Env["HOME"] != "/h" || c.Env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] != "1" {
		t.Errorf("%v", c.Env)
	}
}

func (c Config) filled(t *testing.T) Config {
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a.cfg
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no program": func(c *Config) { c.Argv = nil },
		"no log":     func(c *Config) { c.Log = nil },
		"tool":       func(c *Config) { c.Tools = []string{"Bash,Write"} },
		"ask":        func(c *Config) { c.Ask = []string{""} },
		"version":    func(c *Config) { c.MinVersion = "two" },
		"time":       func(c *Config) { c.StopGrace = -1 },
	} {
		if _, err := New(config(change)); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, spec := range map[string]nod.AgentSpec{
		"no prompt":       {Approve: yes},
		"no approver":     {Prompt: "x"},
		"flag as session": {Prompt: "x", Approve: yes, Session: "--dangerously-skip-permissions"},
		"no home":         {Prompt: "x", Approve: yes, Env: map[string]string{"HOME": ""}},
	} {
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Start(t.Context(), newFake(t), spec); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	raw := []byte(`{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/workspace/a.txt","content":"` +
		strings.Repeat("hello ", 100) + `"}}],"stop_reason":null,"usage":{"input_tokens":100,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"` + sessionID + `","uuid":"u"}` + "\n")
	s := newSession(config(nil), nod.AgentSpec{}, nil)
	go func() {
		for range s.Events() {
		}
	}()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	in := agent.NewLines(endless{raw})
	for b.Loop() {
		line, err := in.Next()
		if err != nil {
			b.Fatal(err)
		}
		l, _ := parse(line)
		s.handle(l)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// endless repeats one line.
type endless struct{ line []byte }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.line) <= len(p) {
		n += copy(p[n:], e.line)
	}
	return n, nil
}

// BenchmarkApproval is from the program's request to the answer at its input, with
// an approver that answers at once: what nod adds to a person's time.
func BenchmarkApproval(b *testing.B) {
	f := newFake(b)
	s := begin(b, f, yes, nil)
	go drain(s)
	ask := canUse("r1", "Bash", `{"command":"go test ./..."}`)
	b.ReportAllocs()
	for b.Loop() {
		f.say(ask)
		if f.told() == "" {
			b.Fatal("no answer")
		}
	}
	f.exit(0)
}
