package main

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nod"
)

func sayCommand() *cobra.Command {
	return hostAct("say TASK WORDS", "Tell the agent of a task something", nod.ActSay, cobra.MinimumNArgs(2))
}

func cancelCommand() *cobra.Command {
	return hostAct("cancel TASK [WHY]", "End a task: its agent is stopped, and nothing more is pushed", nod.ActCancel, cobra.MinimumNArgs(1))
}

func pauseCommand() *cobra.Command {
	return hostAct("pause TASK", "End a running agent's process, and keep its session and environment", nod.ActPause, cobra.ExactArgs(1))
}

func resumeCommand() *cobra.Command {
	return hostAct("resume TASK [WORDS]", "Let a paused agent go on", nod.ActResume, cobra.MinimumNArgs(1))
}

// hostAct records what the host wants done; a serving nod does it at once, the next
// one otherwise.
func hostAct(use, short string, kind nod.ActKind, args cobra.PositionalArgs) *cobra.Command {
	var path string
	c := &cobra.Command{Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			a, err := s.RecordAct(cmd.Context(), nod.Act{ID: "a" + strings.ToLower(rand.Text()), Task: args[0], Kind: kind,
				Words: strings.Join(args[1:], " "), By: nod.Actor{Kind: nod.ActorHost}})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\n", a.Task, a.Kind, a.State)
			return err
		}}
	configFlag(c, &path)
	return c
}
