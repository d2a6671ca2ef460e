package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/store"
)

// Answers from the host are written to the database that a serving nod has open:
// it notices within besideEvery. They carry no assertion, and the audit log says
// that they came from the host.

// shaMin is how many digits of a commit must be named to allow its push.
const shaMin = 7

func approveCommand() *cobra.Command {
	var sha string
	c := hostAnswer("approve DECISION", "Allow what a decision asks for", cobra.ExactArgs(1), func([]string) string { return nod.Allow }, &sha)
	c.Flags().StringVar(&sha, "sha", "", "the commit that may be pushed, 7 digits or more; required for a review")
	return c
}

func denyCommand() *cobra.Command {
	return hostAnswer("deny DECISION", "Deny what a decision asks for", cobra.ExactArgs(1), func([]string) string { return nod.Deny }, nil)
}

func answerCommand() *cobra.Command {
	return hostAnswer("answer DECISION ANSWER", "Answer a question, by one of its options or in your own words", cobra.MinimumNArgs(2),
		func(args []string) string { return strings.Join(args[1:], " ") }, nil)
}

func hostAnswer(use, short string, args cobra.PositionalArgs, words func([]string) string, sha *string) *cobra.Command {
	var path, reason string
	var asJSON bool
	c := &cobra.Command{Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			a := nod.Answer{Answer: words(args), Reason: reason, By: nod.Actor{Kind: nod.ActorHost}}
			d, err := named(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if a.Answer == nod.Allow {
				named := ""
				if sha != nil {
					named = *sha
				}
				if err := allowable(cmd.Context(), s, d, named); err != nil {
					return err
				}
			}
			a.Decision = d.ID
			if d, err = s.RecordAnswer(cmd.Context(), a); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, d)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\n", d.ID, d.State, printable(d.Answer))
			return err
		}}
	configFlag(c, &path)
	c.Flags().StringVar(&reason, "reason", "", "why; the agent is told")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// named returns the decision with this id, or the only open one whose id begins
// like this.
func named(ctx context.Context, s *store.Store, id string) (nod.Decision, error) {
	d, err := s.Decision(ctx, id)
	if nod.CodeOf(err) != nod.NotFound {
		return d, err
	}
	open, listErr := s.OpenDecisions(ctx)
	if listErr != nil {
		return d, listErr
	}
	open = slices.DeleteFunc(open, func(d nod.Decision) bool { return !strings.HasPrefix(d.ID, id) })
	switch {
	case len(open) == 1 && id != "":
		return open[0], nil
	case len(open) > 1 && id != "":
		return d, &nod.Error{Code: nod.Invalid, Msg: "several decisions begin with " + id, Hint: "nod inbox lists them"}
	}
	return d, &nod.Error{Code: nod.NotFound, Msg: "there is no decision " + id, Hint: "nod inbox lists what waits", Err: err}
}

// allowable refuses to allow what cannot be shown whole, and a push of another
// commit than the one that was named.
func allowable(ctx context.Context, s *store.Store, d nod.Decision, sha string) error {
	switch {
	case d.Kind == nod.Review && (len(sha) < shaMin || !strings.HasPrefix(d.CommitSHA, strings.ToLower(sha))):
		return &nod.Error{Code: nod.Conflict, Msg: "the commit to push must be named", Hint: "--sha " + d.CommitSHA + ", once you have looked at it"}
	case d.Kind != nod.Review && sha != "":
		return nod.E(nod.Invalid, "this decision is not about a commit", nil)
	}
	_, err := whole(ctx, s, d)
	return err
}

// whole is what d is about, or Conflict when that is not kept as it was.
func whole(ctx context.Context, s *store.Store, d nod.Decision) ([]byte, error) {
	text, err := s.Blob(ctx, d.InputDigest)
	if err != nil && nod.CodeOf(err) != nod.NotFound {
		return nil, err
	}
	if err != nil || nod.Digest(text) != d.InputDigest {
		return text, &nod.Error{Code: nod.Conflict, Msg: "what this decision is about cannot be shown whole, so it cannot be allowed", Hint: "deny it", Err: err}
	}
	return text, nil
}

func inboxCommand() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "inbox [DECISION]", Short: "List what waits for an answer, or show the whole of one decision", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 1 {
				return showDecision(cmd, s, args[0], asJSON)
			}
			open, err := s.OpenDecisions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, open)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, d := range open {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.ID, d.Cause, printable(d.Subject), deadline(d))
			}
			return w.Flush()
		},
	}
	configFlag(c, &path)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func deadline(d nod.Decision) string {
	if d.Deadline.IsZero() {
		return "no deadline"
	}
	return d.Deadline.Format(time.RFC3339)
}

// showDecision prints a decision with the whole of what it is about.
func showDecision(cmd *cobra.Command, s *store.Store, id string, asJSON bool) error {
	d, err := named(cmd.Context(), s, id)
	if err != nil {
		return err
	}
	text, err := whole(cmd.Context(), s, d)
	if err != nil && nod.CodeOf(err) != nod.Conflict {
		return err
	}
	if asJSON {
		return printJSON(cmd, struct {
			nod.Decision
			Whole string `json:"whole_input"`
		}{d, string(text)})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s  %s  %s  %s  task %s\n%s\n", d.ID, d.Kind, d.Cause, d.State, d.Task, printable(d.Subject))
	if d.CommitSHA != "" {
		fmt.Fprintf(out, "commit %s\n", d.CommitSHA)
	}
	fmt.Fprintf(out, "digest %s\n%s\n\n%s\n", d.InputDigest, deadline(d), printable(string(text)))
	return err
}
