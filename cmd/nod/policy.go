package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/bot"
	"nod/bot/github"
	"nod/policy"
)

// newGitHub makes the client that the configuration describes.
func newGitHub(c Config, s secrets, log *slog.Logger) (*github.Client, string, error) {
	host, err := githubHost(c.GitHub.WebURL)
	if err != nil {
		return nil, "", err
	}
	client, err := github.New(github.Config{APIURL: c.GitHub.APIURL, WebURL: c.GitHub.WebURL, Host: host, AppID: c.GitHub.AppID,
		PrivateKey: s.privateKey, Owners: c.GitHub.Owners, TriggerLabel: c.TriggerLabel,
		PushWorkflows: c.GitHub.Workflows, Now: time.Now, Log: log})
	return client, host, err
}

func policyCommand() *cobra.Command {
	root := &cobra.Command{Use: "policy", Short: "Say what the policy decides, and why"}
	var path string
	var asJSON bool
	explain := &cobra.Command{
		Use: "explain ISSUE-URL", Short: "Print whether the label would start work on an issue as it is now, and what that rests on",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := LoadConfig(path)
			if err != nil {
				return err
			}
			sec, err := readSecrets(cfg)
			if err != nil {
				return err
			}
			client, host, err := newGitHub(cfg, sec, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			repo, number, err := issueURL(cfg, host, args[0])
			if err != nil {
				return err
			}
			set, err := repoRules(cfg, repo)
			if err != nil {
				return err
			}
			o := nod.Occurrence{Kind: nod.IssueLabeled, Repo: repo, Issue: number}
			if o.Installation, err = client.Installation(cmd.Context(), repo); err != nil {
				return err
			}
			issue, err := client.Issue(cmd.Context(), o.Installation, repo, number)
			if err != nil {
				return err
			}
			o.Sender = issue.Labeller
			if o.Sender.Kind == "" { // nobody has set it: nobody to trust, as when GitHub forgot
				o.Sender = nod.Actor{Kind: nod.ActorGitHub, Host: host, Login: "nobody yet"}
			}
			facts, _ := bot.StartFacts(cmd.Context(), client, set, o, issue)
			v := policy.Start(facts)
			if asJSON {
				return printJSON(cmd, v)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), printable(v.Because.String()))
			return err
		},
	}
	configFlag(explain, &path)
	explain.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	root.AddCommand(explain, policyTestCommand())
	return root
}

// policyTestCommand judges one permission prompt as the bot would.
func policyTestCommand() *cobra.Command {
	var path, repo, tools string
	var asJSON bool
	c := &cobra.Command{
		Use: "test TOOL INPUT", Short: "Print how a tool call of an agent would be judged, and why",
		Long: `Judges one tool call by the tool rules of a repository, as nod does before it asks anybody.
INPUT is the JSON that the agent would run. Links in paths are not followed: there is no
workspace to look at.`,
		Example: `  nod policy test "Bash" '{"command":"git status && rm -rf build"}' --repo acme/web
  nod policy test Read '{"file_path":"/etc/passwd"}' --tools balanced`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := toolRules(path, repo, tools)
			if err != nil {
				return err
			}
			if !json.Valid([]byte(args[1])) {
				return &nod.Error{Code: nod.Invalid, Msg: "the input is not JSON", Hint: `such as '{"command":"ls"}'`}
			}
			v := policy.Tool(rules, args[0], json.RawMessage(args[1]))
			if asJSON {
				return printJSON(cmd, v)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), printable(v.Because.String()))
			return err
		},
	}
	configFlag(c, &path)
	c.Flags().StringVar(&repo, "repo", "", "whose rules; not needed where the configuration has one repository")
	c.Flags().StringVar(&tools, "tools", "", "judge by careful, balanced or in-box alone, without a configuration")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("repo", "tools")
	return c
}

// toolRules are those of a repository in the configuration at path, or a preset.
func toolRules(path, repo, tools string) (policy.ToolRules, error) {
	if tools != "" {
		rules, err := policy.Compile(policy.Settings{Preset: string(policy.Prototype), Tools: tools})
		return rules.Tools, err
	}
	cfg, err := LoadConfig(path)
	if err != nil {
		return policy.ToolRules{}, err
	}
	if repo == "" && len(cfg.Repos) != 1 {
		return policy.ToolRules{}, &nod.Error{Code: nod.Invalid, Msg: "the configuration has several repositories", Hint: "name one with --repo"}
	} else if repo == "" {
		repo = cfg.Repos[0].Repo
	}
	owner, name, _ := strings.Cut(repo, "/")
	set, err := repoRules(cfg, nod.Repo{Owner: owner, Name: name})
	return set.Rules.Tools, err
}

// repoRules returns what the configuration says of repo.
func repoRules(c Config, repo nod.Repo) (bot.RepoSettings, error) {
	for _, r := range c.Repos {
		if strings.EqualFold(r.Repo, repo.String()) {
			rules, err := policy.Compile(r.Policy)
			return bot.RepoSettings{Repo: repo, Rules: rules}, err
		}
	}
	return bot.RepoSettings{}, nod.E(nod.NotFound, repo.String()+" is not in the configuration", nil)
}

// issueURL reads the web address of an issue on the configured GitHub.
func issueURL(c Config, host, raw string) (nod.Repo, int, error) {
	bad := &nod.Error{Code: nod.Invalid, Msg: "that is not the address of an issue", Hint: strings.TrimSuffix(c.GitHub.WebURL, "/") + "/OWNER/NAME/issues/1"}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() != host {
		return nod.Repo{}, 0, bad
	}
	part := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(part) != 4 || part[2] != "issues" {
		return nod.Repo{}, 0, bad
	}
	number, err := strconv.Atoi(part[3])
	if err != nil || number < 1 {
		return nod.Repo{}, 0, bad
	}
	return nod.Repo{Host: host, Owner: part[0], Name: part[1]}, number, nil
}
