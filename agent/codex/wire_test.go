package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
)

// FuzzLine holds of any bytes a program writes that they never panic, and that
// what it is told back is one line of JSON that accepts nothing.
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
	f.Add([]byte(mayRun("0", "c1", "x", `,"kind":7`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.IndexByte(raw, '\n') >= 0 {
			return // it would be two lines
		}
		var l line
		if !decode(raw, &l) {
			return
		}
		var p params
		decode(l.Params, &p)
		var i item
		if decode(p.Item, &i) {
			if _, input, ok := i.call(p.Item); ok && len(p.Item) > 0 && !json.Valid(input) {
				t.Errorf("an input that is not JSON: %q", input)
			}
		}
		var u turn
		if decode(p.Turn, &u) {
			if r := u.outcome(); r.OK != (r.Reason == "") {
				t.Errorf("%+v", r)
			}
		}
		if l.hasID() {
			if out, err := answer(l.ID, map[string]string{"decision": decline}); err != nil || !json.Valid(out) || bytes.IndexByte(out, '\n') != len(out)-1 {
				t.Errorf("the answer is not one line of JSON: %q, %v", out, err)
			}
		}
	})
}

func TestTheCommandLineLeavesNothingToAFile(t *testing.T) {
	f := newFake(t)
	f.exit(1)
	a, err := New(config(func(c *Config) { c.Model, c.BaseURL, c.Retries = `m"\`, "http://127.0.0.1:1/v1", -1 }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes, Env: map[string]string{"HOME": "/h"}}); err == nil {
		t.Fatal("it started")
	}
	got := strings.Join(f.command.Argv, "|") + "|"
	for _, want := range []string{"/opt/codex|app-server|", `|-c|projects={"/workspace"={trust_level="untrusted"}}|`, "|-c|project_doc_max_bytes=0|",
		"|-c|skills.include_instructions=false|", "|--disable|plugins|", "|--disable|apps|", "|--disable|hooks|", "|--disable|multi_agent|"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if f.command.Env["CODEX_HOME"] != "/h/.codex" {
		t.Errorf("%v", f.command.Env)
	}
	for _, want := range []string{`model = "m\"\\"`, `base_url = "http://127.0.0.1:1/v1"`, `env_key = "OPENAI_API_KEY"`, "request_max_retries = 0", `exclude = ["OPENAI_API_KEY"]`} {
		if !strings.Contains(f.config, want+"\n") {
			t.Errorf("%s is not in %s", want, f.config)
		}
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no program": func(c *Config) { c.Argv = nil },
		"no log":     func(c *Config) { c.Log = nil },
		"version":    func(c *Config) { c.MinVersion = "two" },
		"time":       func(c *Config) { c.StopGrace = -1 },
		"address":    func(c *Config) { c.BaseURL = "ftp://x" },
		"workspace":  func(c *Config) { c.Workspace = "here/../there" },
	} {
		if _, err := New(config(change)); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, spec := range map[string]nod.AgentSpec{
		"no prompt":       {Approve: yes},
		"no approver":     {Prompt: "x"},
		"flag as session": {Prompt: "x", Approve: yes, Session: "--dangerously"},
		"no home":         {Prompt: "x", Approve: yes, Env: map[string]string{"HOME": ""}},
		"root as home":    {Prompt: "x", Approve: yes, Env: map[string]string{"HOME": "/"}},
		"home with dots":  {Prompt: "x", Approve: yes, Env: map[string]string{"HOME": "/h/.."}},
		"a setting":       {Prompt: "x", Approve: yes, Env: map[string]string{"CODEX_HOME": "/elsewhere"}},
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

// The program's home is made by a shell: what an earlier session left must be
// gone, but for its sessions, however often and wherever it was cut short.
func TestTheHomeIsMadeAnewAndKeepsTheSessions(t *testing.T) {
	for name, c := range map[string]struct {
		plant string // run in HOME before
		want  string // of the sessions: the content of a file, or ""
	}{
		"nothing there":         {"true", ""},
		"an earlier session":    {"mkdir -p .codex/sessions .codex/rules; echo kept > .codex/sessions/a; echo x > .codex/AGENTS.md; echo x > .codex/rules/r", "kept\n"},
		"cut before the move":   {"mkdir -p .codex.old/sessions; echo kept > .codex.old/sessions/a; echo x > .codex.old/AGENTS.md", "kept\n"},
		"cut after the mkdir":   {"mkdir -p .codex .codex.old/sessions; echo kept > .codex.old/sessions/a", "kept\n"},
		"cut after the move":    {"mkdir -p .codex/sessions .codex.old; echo kept > .codex/sessions/a; echo x > .codex.old/AGENTS.md", "kept\n"},
		"a link as home":        {"mkdir -p away/sessions; echo no > away/sessions/a; ln -s away .codex", ""},
		"a link as sessions":    {"mkdir -p away .codex; echo no > away/a; ln -s ../away .codex/sessions", ""},
		"a link as old":         {"mkdir -p away/sessions; echo no > away/sessions/a; ln -s away .codex.old", ""},
		"a file as home":        {"echo x > .codex", ""},
		"a link as config file": {"mkdir .codex; echo precious > away; ln -s ../away .codex/config.toml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			host := agenttest.Host{Dir: home}
			env := map[string]string{"PATH": "/usr/bin:/bin", "HOME": home, "CODEX_HOME": home + "/.codex"}
			p, err := host.Exec(t.Context(), nod.Command{Argv: []string{"sh", "-c", c.plant}, Env: env})
			if err != nil {
				t.Fatal(err)
			}
			if status, err := p.Wait(); err != nil || status.Code != 0 {
				t.Fatalf("%+v, %v", status, err)
			}
			cfg := config(nil)
			if err := cfg.Fill(); err != nil {
				t.Fatal(err)
			}
			cfg.Model = "mine"
			if err := agent.SetUp(t.Context(), host, env, prepare, cfg.file(), cfg.Limits); err != nil {
				t.Fatal(err)
			}
			read := func(name string) string {
				raw, err := os.ReadFile(filepath.Join(home, name))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return string(raw)
			}
			if got := read(".codex/sessions/a"); got != c.want {
				t.Errorf("the sessions hold %q", got)
			}
			if !strings.Contains(read(".codex/config.toml"), `model = "mine"`) {
				t.Errorf("the configuration is %q", read(".codex/config.toml"))
			}
			if name == "a link as config file" && read("away") != "precious\n" {
				t.Error("a link was written through")
			}
			left, err := os.ReadDir(filepath.Join(home, ".codex"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				if n := e.Name(); n != "config.toml" && n != "sessions" {
					t.Errorf("%s is left", n)
				}
			}
			if _, err := os.Lstat(filepath.Join(home, ".codex.old")); !os.IsNotExist(err) {
				t.Errorf("the old home is left: %v", err)
			}
		})
	}
}

func TestAPatchIsLaidOutByFile(t *testing.T) {
	for changes, want := range map[string]string{
		`[{"path":"/a","kind":{"type":"add"},"diff":"x\n"},{"path":"/b","kind":{"type":"update","move_path":null},"diff":"<y>"}]`: `{"add /a":"x\n","update /b":"\u003cy\u003e"}`,
		`[{"path":"/a","kind":{"type":"update","move_path":"/c"},"diff":""}]`:                                                     `{"update /a and move it to /c":""}`,
		// What is not understood is shown as it is.
		`[{"path":"/a","kind":{"type":"add"},"diff":"x","mode":"setuid"}]`:                                `{"changes":[{"path":"/a","kind":{"type":"add"},"diff":"x","mode":"setuid"}]}`,
		`[{"path":"/a","kind":{"type":"add"},"diff":"x"},{"path":"/a","kind":{"type":"add"},"diff":"y"}]`: `{"changes":[{"path":"/a","kind":{"type":"add"},"diff":"x"},{"path":"/a","kind":{"type":"add"},"diff":"y"}]}`,
		`["/a"]`: `{"changes":["/a"]}`, `[]`: `{}`, `null`: `{}`, `7`: `{}`, ``: `{}`,
	} {
		if got := string(files(json.RawMessage(changes))); got != want {
			t.Errorf("%s is laid out as %s", changes, got)
		}
	}
}

func TestEveryErrorOfAModelHasAReason(t *testing.T) {
	for info, want := range map[string]string{`"unauthorized"`: agent.ReasonAuthExpired, `{"httpConnectionFailed":{"httpStatusCode":403}}`: agent.ReasonAuthExpired,
		`"usageLimitExceeded"`: agent.ReasonQuotaExhausted, `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`: agent.ReasonQuotaExhausted,
		`{"httpConnectionFailed":{"httpStatusCode":402}}`: agent.ReasonQuotaExhausted, `"internalServerError"`: agent.ReasonAPIError, `"other"`: agent.ReasonAPIError,
		`{"responseStreamDisconnected":{"httpStatusCode":null}}`: agent.ReasonAPIError, `"contextWindowExceeded"`: agent.ReasonError, `"fromTheFuture"`: agent.ReasonError,
		`7`: agent.ReasonError, ``: agent.ReasonError, `{}`: agent.ReasonError, `{"a":7}`: agent.ReasonAPIError, `"sessionBudgetExceeded"`: agent.ReasonMaxBudget} {
		if got := (&turnError{Info: json.RawMessage(info)}).reason(); got != want {
			t.Errorf("%s is %s, wants %s", info, got, want)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	text := strings.Repeat("hello ", 100)
	raw := []byte(started(command("c1", text, "")) + "\n" + completed(command("c1", text, `,"status":"completed","exitCode":-1,"aggregatedOutput":`+quote(text))) + "\n")
	raw = bytes.ReplaceAll(raw, []byte(`"status":"completed"`), []byte(`"status":"declined"`))
	s := newSession(config(nil), nod.AgentSpec{}, nil)
	s.Change(func(st *agent.State) { st.ID = threadID })
	go func() {
		for range s.Events() {
		}
	}()
	b.SetBytes(int64(len(raw) / 2))
	b.ReportAllocs()
	in := agent.NewLines(endless{raw})
	for b.Loop() {
		l, err := in.Next()
		if err != nil {
			b.Fatal(err)
		}
		if !s.Line(l) {
			b.Fatal("not a line")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// endless repeats its lines.
type endless struct{ lines []byte }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.lines) <= len(p) {
		n += copy(p[n:], e.lines)
	}
	return n, nil
}

// BenchmarkApproval is from the program's request to the answer at its input, with
// an approver that answers at once: what nod adds to a person's time.
func BenchmarkApproval(b *testing.B) {
	f := newFake(b)
	s := begin(b, f, yes, nil)
	go drain(s)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		id := fmt.Sprint("c", n)
		f.say(started(command(id, "go test", "")), mayRun(fmt.Sprint(n), id, "go test", ""))
		if f.told(`"decision"`) == "" {
			b.Fatal("no answer")
		}
		f.say(completed(command(id, "go test", `,"status":"completed","exitCode":0`)))
		n++
	}
	f.exit(0)
}
