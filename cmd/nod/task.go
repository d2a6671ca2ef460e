package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/bot/hostgit"
	"nod/store"
)

// These commands show what a task made, and get it out when it could not be
// published. They read the database and the mirror that a serving nod has open.

// onTask makes a command about one task: by its id, the beginning of it, or
// owner/name#issue.
func onTask(use, short, long string, extra cobra.PositionalArgs, run func(cmd *cobra.Command, cfg Config, s *store.Store, c nod.Case, args []string) error) *cobra.Command {
	var path string
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: extra,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := caseNamed(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return run(cmd, cfg, s, c, args[1:])
		}}
	configFlag(c, &path)
	return c
}

// caseNamed finds the newest task that name means.
func caseNamed(ctx context.Context, s *store.Store, name string) (nod.Case, error) {
	tasks, err := s.Tasks(ctx)
	if err != nil {
		return nod.Case{}, err
	}
	for _, t := range slices.Backward(tasks) {
		if len(name) >= 4 && strings.HasPrefix(t.ID, name) || len(name) >= 4 && strings.HasPrefix(t.Short(), name) ||
			strings.EqualFold(name, fmt.Sprintf("%s#%d", t.Repo, t.Issue)) {
			return s.Case(ctx, t.ID)
		}
	}
	return nod.Case{}, &nod.Error{Code: nod.NotFound, Msg: "no task is called " + name, Hint: "an id, four or more of its characters, or owner/name#issue"}
}

// result is the revision of c, which must have one.
func result(c nod.Case) (nod.Revision, error) {
	if c.Revision == nil {
		return nod.Revision{}, nod.E(nod.NotFound, "the task has made nothing yet", nil)
	}
	return *c.Revision, nil
}

func showCommand() *cobra.Command {
	var asJSON bool
	c := onTask("show TASK", "Show a task, what it made and where that is", "", cobra.ExactArgs(1),
		func(cmd *cobra.Command, _ Config, _ *store.Store, c nod.Case, _ []string) error {
			if asJSON {
				return printJSON(cmd, c)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			line := func(name, format string, args ...any) {
				fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
			}
			line("task", "%s (%s#%d) %s", c.Task.ID, c.Task.Repo, c.Task.Issue, c.Task.Title)
			line("state", "%s %s", c.Task.State, c.Task.Reason)
			if r := c.Revision; r != nil {
				line("result", "%s, %d commits on %s of %s, branch %s", r.State, len(r.Commits), r.BaseSHA, r.BaseRef, r.Branch)
				for _, k := range r.Commits {
					line("commit", "%s verified=%v %s", k.OnGitHub(), k.Verified, k.Subject)
				}
				if r.PullRequest.URL != "" {
					line("pull request", "%s", r.PullRequest.URL)
				}
			}
			for _, e := range c.Effects {
				if e.State == nod.EffectIntended || e.State == nod.EffectRefused || e.State == nod.EffectUnknown {
					line("outside", "%s is %s after %d attempts %s", e.Kind, e.State, e.Attempt, e.Error)
				}
			}
			for _, d := range c.Open() {
				line("waits for", "%s %s: %s", d.ID, d.Cause, d.Subject)
			}
			return w.Flush()
		})
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func diffCommand() *cobra.Command {
	return onTask("diff TASK", "Print the diff of what a task made", "", cobra.ExactArgs(1),
		func(cmd *cobra.Command, _ Config, s *store.Store, c nod.Case, _ []string) error {
			r, err := result(c)
			if err != nil {
				return err
			}
			diff, err := s.Blob(cmd.Context(), r.DiffDigest)
			if err != nil {
				return err
			}
			text := string(diff)
			if f, ok := cmd.OutOrStdout().(*os.File); ok {
				if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
					text = printable(text) // a terminal; anything else gets the bytes
				}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		})
}

// hostGit opens the supervisor's git for reading what it keeps.
func hostGit(cfg Config) (*hostgit.Git, error) {
	return hostgit.New(hostgit.Config{Dir: filepath.Join(cfg.StateDir, "git"), Author: hostgit.Identity{Name: "nod", Email: "nod@localhost"},
		Remote: func(context.Context, nod.Task, bool) (string, nod.Secret, error) {
			return "", nod.Secret{}, nod.E(nod.Unsupported, "this command does not talk to GitHub", nil)
		}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

func bundleCommand() *cobra.Command {
	return onTask("bundle TASK FILE", "Write what a task made as a git bundle",
		`Writes the prepared commits of a task to FILE, which must not exist: with
"git fetch FILE HEAD" they come into any clone that has the target branch. This is how
to get at work that GitHub refused.`, cobra.ExactArgs(2),
		func(cmd *cobra.Command, cfg Config, _ *store.Store, c nod.Case, args []string) error {
			r, err := result(c)
			if err != nil {
				return err
			}
			git, err := hostGit(cfg)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return nod.E(nod.Conflict, "the file cannot be made", err)
			}
			err = git.Bundle(cmd.Context(), c.Task, r.BaseSHA, r.SHA, f)
			if err = errors.Join(err, f.Close()); err != nil {
				return errors.Join(err, os.Remove(args[0]))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "nod: %s is at HEAD of the bundle\n", r.SHA)
			return nil
		})
}

func openCommand() *cobra.Command {
	return onTask("open TASK DIR", "Clone what a task made for a person's editor",
		`Makes a clone in DIR, which must not exist, of the prepared commits as the supervisor
keeps them, never of the tree that the agent worked in. Files by which an editor or a
shell could run something by itself are listed on stderr: look at them first.`, cobra.ExactArgs(2),
		func(cmd *cobra.Command, cfg Config, _ *store.Store, c nod.Case, args []string) error {
			r, err := result(c)
			if err != nil {
				return err
			}
			git, err := hostGit(cfg)
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return nod.E(nod.Invalid, "the directory has no absolute path", err)
			}
			url := strings.TrimRight(cfg.GitHub.WebURL, "/") + "/" + c.Task.Repo.String() + ".git"
			if err := git.Copy(cmd.Context(), c.Task, url, r.BaseSHA, r.SHA, dir); err != nil {
				return err
			}
			eager, err := eagerFiles(dir)
			if err != nil {
				return err
			}
			for _, name := range eager {
				fmt.Fprintf(cmd.ErrOrStderr(), "nod: may run by itself: %s\n", printable(name))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		})
}

// eager are files and directories from which editors and shells run things unasked.
var eager = []string{".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".fleet", ".zed", ".envrc", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc",
	".lvimrc", ".dir-locals.el", ".editorconfig", ".autoenv.zsh", ".mise.toml", "mise.toml", ".tool-versions", ".projectile"}

func eagerFiles(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.ToLower(d.Name())
		switch {
		case err != nil:
			return err
		case path == filepath.Join(dir, ".git"):
			return fs.SkipDir
		case !slices.Contains(eager, name) && !strings.HasSuffix(name, ".code-workspace"):
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		found = append(found, rel)
		if err == nil && d.IsDir() {
			err = fs.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, nod.E(nod.Internal, "look through the clone", err)
	}
	return found, nil
}
