package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"nod"
	"nod/bot"
	"nod/policy"
)

// Config is the configuration file, one HuJSON document (JSON with comments and
// trailing commas). Secrets are paths to files that only their owner can read.
type Config struct {
	GitHub       GitHubConfig           `json:"github"`            // required
	Listen       string                 `json:"listen"`            // loopback address of the forwarded listener; default 127.0.0.1:8467
	PublicURL    string                 `json:"public_url"`        // required; https, or http://localhost for trying things out
	StateDir     string                 `json:"state_dir"`         // required; made with mode 0700
	Ntfy         NtfyConfig             `json:"ntfy"`              // required
	SigningKey   string                 `json:"signing_key_file"`  // the bot's Ed25519 key; default <state_dir>/signing_key, made when absent
	Author       AuthorConfig           `json:"commit_author"`     // default: the App's bot account
	TriggerLabel string                 `json:"trigger_label"`     // default "nod"
	Agents       map[string]AgentConfig `json:"agents"`            // by name; at least one
	Repos        []RepoConfig           `json:"repos"`             // at least one
	DecisionTime string                 `json:"decision_time"`     // how long an approval waits, as a Go duration; default "10m"
	MemoryMiB    int64                  `json:"memory_mib"`        // of one environment; default 4096
	PIDs         int                    `json:"pids"`              // of one environment; default 512
	CloneDepth   int                    `json:"clone_depth"`       // commits of history that a new mirror fetches; more when needed; default all
	Runtime      RuntimeConfig          `json:"runtime"`           // where environments live; default the embedded driver
	DiskMiB      int64                  `json:"disk_mib"`          // of one environment's workspace and home together; default none
	SoftLimits   bool                   `json:"limits_may_be_off"` // accept an environment whose limits this host cannot enforce
}

// GitHubConfig is the GitHub App.
type GitHubConfig struct {
	APIURL      string   `json:"api_url"`              // default https://api.github.com/
	WebURL      string   `json:"web_url"`              // default https://github.com
	AppID       int64    `json:"app_id"`               // required
	PrivateKey  string   `json:"private_key_file"`     // required
	WebhookKeys []string `json:"webhook_secret_files"` // one, or two during a rotation; required with the way "webhook"
	Receive     []string `json:"receive"`              // ways to hear of things: webhook, deliveries, poll; default the first two
	PollEvery   string   `json:"poll_every"`           // between two looks of deliveries and of poll, as a Go duration; default "1m"
	Owners      []int64  `json:"owners"`               // numeric ids of the accounts with tier owner
	Workflows   bool     `json:"push_workflows"`       // push workflow files, for which the App has the permission Workflows
}

// The ways by which nod hears of what happens on GitHub. Several may be on at once.
const (
	byWebhook    = "webhook"    // GitHub sends it to public_url
	byDeliveries = "deliveries" // GitHub's list of what it sent, or tried to
	byPoll       = "poll"       // GitHub's API is asked; no webhook is needed

	shortestPoll = 5 * time.Second
)

// hears reports whether way is one of the ways.
func (c GitHubConfig) hears(way string) bool { return slices.Contains(c.Receive, way) }

// AuthorConfig is the account whose signing key the bot's key is, so that GitHub
// shows its commits as verified.
type AuthorConfig struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// NtfyConfig is where pushes go.
type NtfyConfig struct {
	URL   string `json:"url"`        // required, the server's base
	Topic string `json:"topic_file"` // required; at least 20 random characters
	Token string `json:"token_file"` // optional access token; or
	User  string `json:"user"`       // an account of the server, with its
	Pass  string `json:"password_file"`

	RemindAfter string `json:"remind_after"` // until the first reminder of what nobody opened, each next one after twice that; default "3m"
	Reminders   *int   `json:"reminders"`    // at most so many, 0 to 9; default 2
	// Second is told once nobody opened a decision within remind_after.
	Second *SecondConfig `json:"second"`
}

// SecondConfig is another way to the same person: an ntfy topic, or a webhook.
type SecondConfig struct {
	URL     string `json:"url"`        // with topic_file: base of an ntfy server; default that of the first
	Topic   string `json:"topic_file"` // at least 20 random characters
	Webhook string `json:"webhook_file"`
	Token   string `json:"token_file"` // optional, of either
	User    string `json:"user"`       // of the ntfy server
	Pass    string `json:"password_file"`
}

// AgentConfig is one agent program.
type AgentConfig struct {
	Kind    string            `json:"kind"`        // claude, codex, codex-exec (asks nobody) or scripted; default scripted with a script_file, claude without
	Argv    []string          `json:"argv"`        // the program inside the environment; required unless script_file is set
	Model   string            `json:"model"`       // the model's name, for codex; its own default when empty
	BaseURL string            `json:"base_url"`    // of the model's API, as the program has it; default Anthropic's or OpenAI's
	CAFile  string            `json:"ca_file"`     // PEM, the authorities to trust for base_url; default the system's
	Key     string            `json:"key"`         // gateway (default): the key stays on the host; login: so does the token of a claude subscription; direct: the program is given the key
	Mounts  map[string]string `json:"mounts"`      // host directory by path inside, read-only
	Env     map[string]string `json:"env"`         // not for secrets
	KeyFile string            `json:"key_file"`    // the model API's key
	Egress  []string          `json:"egress"`      // hosts the program itself needs
	Script  string            `json:"script_file"` // plays this script instead of a program, for trying things out
}

// ProtectedConfig is what is done about a change to files that guard the repository.
type ProtectedConfig struct {
	Paths []string `json:"paths"` // patterns with * and **; default: workflows, lock files, CODEOWNERS and the like
	Mode  string   `json:"mode"`  // "ask" (default): Ready to push? names them; "forbid": refused
}

// CheckConfig is a command, as an array, or the word "none".
type CheckConfig struct {
	Command []string
	None    bool
}

// UnmarshalJSON takes either form.
func (c *CheckConfig) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word != "none" {
			return fmt.Errorf("check is a command as an array, or \"none\", not %q", word)
		}
		*c = CheckConfig{None: true}
		return nil
	}
	*c = CheckConfig{}
	if err := json.Unmarshal(raw, &c.Command); err != nil || len(c.Command) == 0 || c.Command[0] == "" {
		return errors.New("check is a command as an array, or \"none\"")
	}
	return nil
}

// RepoConfig is one repository.
type RepoConfig struct {
	Sign nod.SignMode `json:"sign"` // "github" or "ssh"; default: ssh with a commit_author, else github
	// Reviewers are logins, or teams as org/team, that are asked to review.
	Reviewers []string `json:"reviewers"`
	Labels    []string `json:"labels"` // of the pull request
	// Protected are files that guard the repository.
	Protected ProtectedConfig `json:"protected"`

	Repo   string      `json:"repo"`   // owner/name, required
	Agent  string      `json:"agent"`  // a name in agents, required
	Check  CheckConfig `json:"check"`  // command for the prepared commit, or "none"; without it somebody is asked each time
	Egress []string    `json:"egress"` // hosts its build needs
	Draft  bool        `json:"draft"`
	// CIAttempts is how many times red checks on GitHub put the agent to work again by
	// themselves; default 2, and -1 always asks.
	CIAttempts int             `json:"ci_attempts"`
	Policy     policy.Settings `json:"policy"`
	// Integration is the branch that results go into under the policy presets
	// integration, by pull requests, and prototype, by themselves; never the default
	// branch.
	Integration string `json:"integration_branch"`
	// Approvals is how many different passkeys must allow a decision of a cause,
	// such as {"ready_to_push": 2}; 1 where nothing is said.
	Approvals map[nod.Cause]int `json:"approvals"`
}

// approvable are the causes whose decisions are allowed or denied.
var approvable = []nod.Cause{nod.CauseTool, nod.CausePlan, nod.CauseUntrustedStart, nod.CauseEgressHost, nod.CauseFeatureSource,
	nod.CauseReadyToPush, nod.CauseAgentMayRun}

// LoadConfig reads and checks the file at path. Every error says where: an
// unknown key or a wrong type as path:line:column.
func LoadConfig(path string) (Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nod.E(nod.NotFound, "the configuration cannot be read", err)
	}
	return ParseConfig(path, raw)
}

// ParseConfig is LoadConfig on the bytes of a file called path.
func ParseConfig(path string, raw []byte) (Config, error) {
	at := func(offset int64, format string, args ...any) error {
		line, column := position(raw, offset)
		return nod.E(nod.Invalid, fmt.Sprintf("%s:%d:%d: %s", path, line, column, fmt.Sprintf(format, args...)), nil)
	}
	doc, err := hujson.Parse(raw)
	if err != nil {
		return Config{}, nod.E(nod.Invalid, fmt.Sprintf("%s: %v", path, err), nil)
	}
	if key, offset := unknownKey(doc, reflect.TypeFor[Config]()); key != "" {
		return Config{}, at(offset, "unknown key %q", key)
	}
	doc.Standardize()
	var c Config
	if err := json.Unmarshal(doc.Pack(), &c); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Config{}, at(e.Offset, "%s cannot be a %s", e.Field, e.Value)
		}
		return Config{}, nod.E(nod.Invalid, fmt.Sprintf("%s: %v", path, err), nil)
	}
	c.defaults()
	if err := c.check(); err != nil {
		return Config{}, nod.E(nod.Invalid, fmt.Sprintf("%s: %s", path, err), nil)
	}
	return c, nil
}

func (c *Config) defaults() {
	set := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	set(&c.GitHub.APIURL, "https://api.github.com/")
	set(&c.GitHub.WebURL, "https://github.com")
	set(&c.Listen, "127.0.0.1:8467")
	set(&c.TriggerLabel, "nod")
	set(&c.SigningKey, filepath.Join(c.StateDir, "signing_key"))
	set(&c.GitHub.PollEvery, "1m")
	if len(c.GitHub.Receive) == 0 {
		c.GitHub.Receive = []string{byWebhook, byDeliveries}
	}
	set(&c.DecisionTime, nod.ApprovalDeadline.String())
	set(&c.Ntfy.RemindAfter, "3m")
	if c.Ntfy.Reminders == nil {
		c.Ntfy.Reminders = new(2)
	}
	if c.Ntfy.Second != nil && c.Ntfy.Second.Topic != "" {
		set(&c.Ntfy.Second.URL, c.Ntfy.URL)
	}
	for i := range c.Repos {
		if c.Author.Email != "" {
			set((*string)(&c.Repos[i].Sign), string(nod.SignSSH))
		}
		set((*string)(&c.Repos[i].Sign), string(nod.SignGitHub))
	}
	if c.MemoryMiB == 0 {
		c.MemoryMiB = 4096
	}
	if c.PIDs == 0 {
		c.PIDs = 512
	}
}

// intoBranch reports whether results go into a named branch.
func intoBranch(s policy.Settings) bool {
	p := policy.PresetName(s.Preset)
	return p == policy.Integration || p == policy.Prototype
}

// check returns the first thing that is missing or wrong.
func (c Config) check() error {
	for _, way := range c.GitHub.Receive {
		if way != byWebhook && way != byDeliveries && way != byPoll {
			return fmt.Errorf("github.receive takes webhook, deliveries and poll, not %q", way)
		}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case c.GitHub.AppID <= 0:
		return errors.New("github.app_id is required")
	case c.GitHub.PrivateKey == "":
		return errors.New("github.private_key_file is required")
	case c.GitHub.hears(byWebhook) && (len(c.GitHub.WebhookKeys) < 1 || len(c.GitHub.WebhookKeys) > 2):
		return errors.New("github.webhook_secret_files takes one or two files")
	case !c.GitHub.hears(byWebhook) && len(c.GitHub.WebhookKeys) > 0:
		return errors.New("github.webhook_secret_files goes with \"webhook\" in github.receive")
	case len(c.GitHub.Owners) == 0:
		return errors.New("github.owners is empty: nobody could answer")
	case c.StateDir == "" || !filepath.IsAbs(c.StateDir):
		return errors.New("state_dir must be an absolute path")
	case c.Ntfy.URL == "" || c.Ntfy.Topic == "":
		return errors.New("ntfy.url and ntfy.topic_file are required")
	case *c.Ntfy.Reminders < 0 || *c.Ntfy.Reminders > 9:
		return errors.New("ntfy.reminders is not from 0 to 9")
	case c.Ntfy.Second != nil && (c.Ntfy.Second.Topic == "") == (c.Ntfy.Second.Webhook == ""):
		return errors.New("ntfy.second takes a topic_file or a webhook_file")
	case c.Ntfy.Second != nil && c.Ntfy.Second.Webhook != "" && c.Ntfy.Second.URL != "":
		return errors.New("ntfy.second.url goes with topic_file; a webhook's address is in webhook_file")
	case len(c.Repos) == 0:
		return errors.New("repos is empty")
	case c.CloneDepth < 0:
		return errors.New("clone_depth cannot be negative")
	case c.MemoryMiB < 0 || c.PIDs < 0 || c.DiskMiB < 0:
		return errors.New("memory_mib, pids and disk_mib cannot be negative")
	case err != nil || !net.ParseIP(host).IsLoopback():
		return fmt.Errorf("listen must be a loopback address and a port, not %q", c.Listen)
	}
	for name, u := range map[string]string{"public_url": c.PublicURL, "github.api_url": c.GitHub.APIURL, "github.web_url": c.GitHub.WebURL, "ntfy.url": c.Ntfy.URL} {
		p, err := url.Parse(u)
		if err != nil || p.Host == "" || p.Scheme != "https" && p.Scheme != "http" {
			return fmt.Errorf("%s is not an http or https address: %q", name, u)
		}
	}
	if d, err := time.ParseDuration(c.GitHub.PollEvery); err != nil || d < shortestPoll {
		return fmt.Errorf("github.poll_every is not a duration of at least %s: %q", shortestPoll, c.GitHub.PollEvery)
	}
	if d, err := time.ParseDuration(c.DecisionTime); err != nil || d <= 0 {
		return fmt.Errorf("decision_time is not a duration such as \"10m\": %q", c.DecisionTime)
	}
	if d, err := time.ParseDuration(c.Ntfy.RemindAfter); err != nil || d < time.Second {
		return fmt.Errorf("ntfy.remind_after is not a duration such as \"3m\": %q", c.Ntfy.RemindAfter)
	}
	if err := c.Runtime.check(); err != nil {
		return err
	}
	for name, a := range c.Agents {
		switch kind := a.kind(); {
		case kind != kindClaude && kind != kindCodex && kind != kindExec && kind != kindScripted:
			return fmt.Errorf("agents.%s.kind is not claude, codex, codex-exec or scripted: %q", name, kind)
		case (kind == kindScripted) != (a.Script != ""):
			return fmt.Errorf("agents.%s.script_file goes with the kind scripted, and only with it", name)
		case len(a.Argv) == 0 && kind != kindScripted:
			return fmt.Errorf("agents.%s.argv is required", name)
		case !a.isCodex() && a.Model != "":
			return fmt.Errorf("agents.%s: model is for the kind codex", name)
		case a.Key != "" && a.Key != keyGateway && a.Key != keyDirect && a.Key != keyLogin:
			return fmt.Errorf("agents.%s.key is not gateway, login or direct: %q", name, a.Key)
		case a.Key == keyLogin && kind != kindClaude:
			return fmt.Errorf("agents.%s.key \"login\" is for the kind claude: %s takes an API key", name, kind)
		case a.KeyFile == "" && (a.Key != "" || a.CAFile != ""):
			return fmt.Errorf("agents.%s: key and ca_file go with a key_file", name)
		case a.Key == keyDirect && a.CAFile != "":
			return fmt.Errorf("agents.%s.ca_file is for the gateway: with a direct key the program needs it, see its env", name)
		case a.gated() && a.Env[baseVariable] != "":
			return fmt.Errorf("agents.%s.env sets %s: write base_url", name, baseVariable)
		}
	}
	for i, r := range c.Repos {
		if owner, name, ok := strings.Cut(r.Repo, "/"); !ok || owner == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("repos[%d].repo must be owner/name, not %q", i, r.Repo)
		}
		if _, ok := c.Agents[r.Agent]; !ok {
			return fmt.Errorf("repos[%d].agent %q is not in agents", i, r.Agent)
		}
		for _, p := range r.Protected.Paths {
			if !bot.ValidPattern(p) {
				return fmt.Errorf("repos[%d].protected.paths: %q is not a pattern", i, p)
			}
		}
		switch {
		case r.Protected.Mode != "" && r.Protected.Mode != "ask" && r.Protected.Mode != "forbid":
			return fmt.Errorf("repos[%d].protected.mode must be \"ask\" or \"forbid\", not %q", i, r.Protected.Mode)
		case intoBranch(r.Policy) != (r.Integration != ""):
			return fmt.Errorf("repos[%d].integration_branch goes with the policy presets \"integration\" and \"prototype\", and only with them", i)
		case r.Sign != nod.SignSSH && r.Sign != nod.SignGitHub:
			return fmt.Errorf("repos[%d].sign must be \"github\" or \"ssh\", not %q", i, r.Sign)
		case r.Sign == nod.SignSSH && c.Author.Email == "":
			return fmt.Errorf("repos[%d].sign \"ssh\" needs commit_author: GitHub takes an SSH signature only from the account that holds the key, and an App's bot holds none", i)
		}
		for cause, n := range r.Approvals {
			if n < 1 || n > nod.MaxApprovals || !slices.Contains(approvable, cause) {
				return fmt.Errorf("repos[%d].approvals takes %v, each from 1 to %d, not %q: %d", i, approvable, nod.MaxApprovals, cause, n)
			}
		}
		rules, err := policy.Compile(r.Policy)
		if err != nil {
			return fmt.Errorf("repos[%d].policy: %w", i, err)
		}
		if slices.Contains(c.unasking(), r.Agent) && !rules.Tools.InBox() {
			return fmt.Errorf("repos[%d]: the agent %s asks nobody: it takes the tool rules \"in-box\"", i, r.Agent)
		}
		if scope := rules.Budgets.NeedsPrice(); scope != "" && slices.Contains(c.unpriced(), r.Agent) {
			return fmt.Errorf("repos[%d].policy.budgets.%s counts dollars alone, and the agent %s tells no price: set hard_tokens or soft_tokens too", i, scope, r.Agent)
		}
	}
	return nil
}

// position turns a byte offset into a line and a column, both from 1.
func position(raw []byte, offset int64) (line, column int) {
	before := string(raw[:min(int(offset), len(raw))])
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

// unknownKey finds the first key of v that type t has no field for.
func unknownKey(v hujson.Value, t reflect.Type) (string, int64) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch body := v.Value.(type) {
	case *hujson.Array:
		if t.Kind() != reflect.Slice {
			return "", 0
		}
		for _, e := range body.Elements {
			if key, at := unknownKey(e, t.Elem()); key != "" {
				return key, at
			}
		}
	case *hujson.Object:
		for _, m := range body.Members {
			name := m.Name.Value.(hujson.Literal).String()
			var field reflect.Type
			switch t.Kind() {
			case reflect.Map:
				field = t.Elem()
			case reflect.Struct:
				for f := range t.Fields() {
					if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
						field = f.Type
					}
				}
				if field == nil {
					return name, int64(m.Name.StartOffset)
				}
			default:
				return "", 0
			}
			if key, at := unknownKey(m.Value, field); key != "" {
				return key, at
			}
		}
	}
	return "", 0
}

// secretFile reads a secret. A file that others can read is refused.
func secretFile(path string) (nod.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nod.Secret{}, nod.E(nod.NotFound, "a secret file cannot be read", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nod.Secret{}, &nod.Error{Code: nod.Forbidden, Msg: "the secret file " + path + " can be read by others", Hint: "chmod 600 " + path}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nod.Secret{}, nod.E(nod.NotFound, "a secret file cannot be read", err)
	}
	if s := nod.NewSecret(strings.TrimSpace(string(raw))); !s.Empty() {
		return s, nil
	}
	return nod.Secret{}, nod.E(nod.Invalid, "the secret file "+path+" is empty", nil)
}
