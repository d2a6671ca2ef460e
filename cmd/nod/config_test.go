package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod"
)

const goodConfig = `{
  // A comment, and a trailing comma below.
  "public_url": "https://nod.example.org",
  "state_dir": "/var/lib/nod",
  "github": {"app_id": 1, "private_key_file": "/k", "webhook_secret_files": ["/w"], "owners": [7]},
  "ntfy": {"url": "https://ntfy.example.org", "topic_file": "/t"},
  "agents": {"claude": {"argv": ["/opt/claude"]}},
  "repos": [{"repo": "acme/web", "agent": "claude"}],
}`

func TestConfigTakesCommentsAndFillsDefaults(t *testing.T) {
	c, err := ParseConfig("nod.hujson", []byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:8467" || c.TriggerLabel != "nod" || c.DecisionTime != "10m0s" || c.SigningKey != "/var/lib/nod/signing_key" {
		t.Errorf("defaults are %+v", c)
	}
}

// Whoever has no public address needs no webhook secret.
func TestConfigPollsWithoutAWebhook(t *testing.T) {
	c, err := ParseConfig("nod.hujson", []byte(strings.Replace(goodConfig, `"webhook_secret_files": ["/w"]`, `"receive": ["poll"]`, 1)))
	if err != nil || c.GitHub.hears(byWebhook) || c.GitHub.hears(byDeliveries) || !c.GitHub.hears(byPoll) {
		t.Errorf("%+v, %v", c.GitHub, err)
	}
	if c, err := ParseConfig("nod.hujson", []byte(goodConfig)); err != nil || !c.GitHub.hears(byWebhook) || !c.GitHub.hears(byDeliveries) || c.GitHub.hears(byPoll) {
		t.Errorf("%+v, %v", c.GitHub, err)
	}
}

func TestConfigErrorsSayWhatAndWhere(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown key":        {`"state_dir"`, `"state_dri"`, `nod.hujson:4:3: unknown key "state_dri"`},
		"unknown nested key": {`"app_id": 1`, `"app_id": 1, "app_name": "x"`, `nod.hujson:5:27: unknown key "app_name"`},
		"unknown key in a list": {`"agent": "claude"}`, `"agent": "claude", "chek": []}`,
			`nod.hujson:8:53: unknown key "chek"`},
		"wrong type":        {`"app_id": 1`, `"app_id": "one"`, "nod.hujson:5:"},
		"not JSON":          {`"state_dir":`, `"state_dir"`, "nod.hujson: "},
		"no App":            {`"app_id": 1`, `"app_id": 0`, "github.app_id is required"},
		"no owners":         {`[7]`, `[]`, "nobody could answer"},
		"relative state":    {`/var/lib/nod`, `lib/nod`, "absolute path"},
		"public listener":   {`"state_dir"`, `"listen": "0.0.0.0:80", "state_dir"`, "loopback"},
		"not an address":    {`https://nod.example.org`, `nod.example.org`, "public_url"},
		"bad repository":    {`acme/web`, `web`, "owner/name"},
		"no such agent":     {`"agent": "claude"`, `"agent": "codex"`, `"codex" is not in agents`},
		"agent without one": {`["/opt/claude"]`, `[]`, "agents.claude.argv"},
		"login of codex":    {`"argv": [`, `"kind": "codex", "key": "login", "key_file": "/k", "argv": [`, "takes an API key"},
		"asks nobody": {`{"claude": {"argv": ["/opt/claude"]}},
  "repos": [{"repo": "acme/web", "agent": "claude"}]`, `{"c": {"kind": "codex-exec", "argv": ["/x"]}},
  "repos": [{"repo": "acme/web", "agent": "c", "policy": {"preset": "integration", "tools": "balanced"}, "integration_branch": "next"}]`, `asks nobody: it takes the tool rules "in-box"`},
		"dollars alone": {`{"claude": {"argv": ["/opt/claude"]}},
  "repos": [{"repo": "acme/web", "agent": "claude"}]`, `{"codex": {"kind": "codex", "argv": ["/x"]}},
  "repos": [{"repo": "acme/web", "agent": "codex", "policy": {"budgets": {"task": {"hard_usd": 5, "soft_tokens": 9}}}}]`,
			"repos[0].policy.budgets.task counts dollars alone, and the agent codex tells no price"},
		"unknown kind":      {`"argv": [`, `"kind": "gpt", "argv": [`, "agents.claude.kind"},
		"script of another": {`"argv": [`, `"kind": "codex", "script_file": "/s", "argv": [`, "agents.claude.script_file"},
		"no script":         {`"argv": [`, `"kind": "scripted", "argv": [`, "agents.claude.script_file"},
		"model for claude":  {`"argv": [`, `"model": "m", "argv": [`, "model is for"},
		"unknown key mode":  {`"argv": [`, `"key": "held", "key_file": "/k", "argv": [`, "agents.claude.key is not"},
		"key without file":  {`"argv": [`, `"key": "direct", "argv": [`, "go with a key_file"},
		"direct authority":  {`"argv": [`, `"key": "direct", "key_file": "/k", "ca_file": "/ca", "argv": [`, "for the gateway"},
		"address in env":    {`"argv": [`, `"key_file": "/k", "env": {"ANTHROPIC_BASE_URL": "https://x.example"}, "argv": [`, "write base_url"},
		"bad policy":        {`"agent": "claude"}`, `"agent": "claude", "policy": {"tools": "yolo"}}`, "repos[0].policy"},
		"bad approvals":     {`"agent": "claude"}`, `"agent": "claude", "approvals": {"run_failed": 2}}`, "repos[0].approvals"},
		"bad duration":      {`"state_dir"`, `"decision_time": "soon", "state_dir"`, "decision_time"},
		"unknown driver":    {`"state_dir"`, `"runtime": {"driver": "lxc"}, "state_dir"`, "runtime.driver"},
		"half an engine":    {`"state_dir"`, `"runtime": {"driver": "docker"}, "state_dir"`, "needs socket, image"},
		"embedded socket":   {`"state_dir"`, `"runtime": {"socket": "/s"}, "state_dir"`, "only an engine has a socket"},
		"unknown way":       {`"owners"`, `"receive": ["email"], "owners"`, `not "email"`},
		"useless secret":    {`"owners"`, `"receive": ["poll"], "owners"`, "goes with"},
		"hurried poll":      {`"owners"`, `"poll_every": "1s", "owners"`, "github.poll_every"},
		"check of a word":   {`"agent": "claude"}`, `"agent": "claude", "check": "all"}`, `or "none", not "all"`},
		"empty check":       {`"agent": "claude"}`, `"agent": "claude", "check": []}`, "check is a command"},
		"no integration":    {`"agent": "claude"}`, `"agent": "claude", "policy": {"preset": "integration"}}`, "integration_branch goes with"},
		"idle integration":  {`"agent": "claude"}`, `"agent": "claude", "integration_branch": "next"}`, "integration_branch goes with"},
		"prototype":         {`"agent": "claude"}`, `"agent": "claude", "policy": {"preset": "prototype"}}`, "integration_branch goes with"},
		"negative depth":    {`"state_dir"`, `"clone_depth": -1, "state_dir"`, "clone_depth"},
		"three secrets":     {`["/w"]`, `["/a","/b","/c"]`, "one or two"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodConfig, c.from, c.to, 1)
			if text == goodConfig {
				t.Fatal("the case changes nothing")
			}
			_, err := ParseConfig("nod.hujson", []byte(text))
			if nod.CodeOf(err) != nod.Invalid || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckIsACommandOrNone(t *testing.T) {
	for value, want := range map[string]CheckConfig{`"none"`: {None: true}, `["npm", "test"]`: {Command: []string{"npm", "test"}}} {
		c, err := ParseConfig("nod.hujson", []byte(strings.Replace(goodConfig, `"agent": "claude"}`, `"agent": "claude", "check": `+value+`}`, 1)))
		if err != nil || c.Repos[0].Check.None != want.None || !slices.Equal(c.Repos[0].Check.Command, want.Command) {
			t.Errorf("check %s is %+v, %v", value, c.Repos, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add([]byte(`{"repos":[{"repo":1}]}`))
	f.Add([]byte("[{}, // x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig("f", raw)
		if err == nil && (c.GitHub.AppID <= 0 || len(c.Repos) == 0) {
			t.Errorf("accepted %q", raw)
		}
	})
}

func TestSecretFileThatOthersCanReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := secretFile(path); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("mode 0644: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := secretFile(path); err != nil || s.Reveal() != "s3cret" {
		t.Errorf("mode 0600: %v", err)
	}
	if err := os.WriteFile(path, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secretFile(path); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("empty: %v", err)
	}
}

func TestOneSupervisorPerStateDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if locked(path) {
		t.Error("a lock that nobody has made is held")
	}
	release, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(path); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second one: %v", err)
	}
	if !locked(path) {
		t.Error("the lock is not held")
	}
	release()
	if locked(path) {
		t.Error("the lock is held after it was released")
	}
	again, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
