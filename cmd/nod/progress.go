package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"nod"
)

// tellProgress writes one line for each thing that happens, as it happens, until
// ctx ends and then closes the channel. What agents and issues say is kept out.
func tellProgress(ctx context.Context, d *demo, w io.Writer) <-chan struct{} {
	told := make(chan struct{})
	go func() {
		defer close(told)
		var seen int64
		for {
			events, err := d.system.store.Wait(ctx, "", seen)
			if err != nil {
				return
			}
			for _, e := range events {
				seen = e.ID
				if line := progress(e, d.public); line != "" {
					fmt.Fprintln(w, line)
				}
			}
		}
	}()
	return told
}

// progress is the line for one event, or "" when it is not worth one. Its first
// word is the verb that is at work.
func progress(e nod.Event, public string) string {
	say := func(verb, format string, args ...any) string {
		return fmt.Sprintf("%-8s %s", verb, printable(fmt.Sprintf(format, args...)))
	}
	var change nod.StateChange
	switch e.Kind {
	case nod.EventVerdict:
		var v struct {
			Action, Tool string
			Verdict      struct{ Mode string }
		}
		if json.Unmarshal(e.Data, &v) != nil {
			return ""
		}
		if v.Tool != "" {
			return say("decide", "%s goes on by rule (%s)", v.Tool, v.Verdict.Mode)
		}
		return say("decide", "%s: %s", v.Action, v.Verdict.Mode)
	case nod.EventAttested:
		var a nod.Attestation
		if json.Unmarshal(e.Data, &a) != nil {
			return ""
		}
		return say("start", "environment up: %s, uid %d, capabilities %s, only %v, read-only root: %v", a.Isolation, a.UID, a.Capabilities, a.Interfaces, a.RootReadOnly)
	case nod.EventToolCall:
		var t nod.ToolCall
		if json.Unmarshal(e.Data, &t) != nil {
			return ""
		}
		return say("drive", "the agent calls %s", t.Tool)
	case nod.EventDecisionOpened:
		var d nod.Decision
		if json.Unmarshal(e.Data, &d) != nil {
			return ""
		}
		return say("ask", "%s (%s): %s/d/%s", d.Subject, d.Cause, public, d.ID)
	case nod.EventDecisionClosed:
		var o struct{ Decision nod.Decision }
		if json.Unmarshal(e.Data, &o) != nil {
			return ""
		}
		return say("answer", "%s: %s %s", o.Decision.Subject, o.Decision.State, o.Decision.Answer)
	case nod.EventTaskCreated:
		return say("receive", "a task for the labelled issue")
	case nod.EventTaskState:
		if json.Unmarshal(e.Data, &change) != nil {
			return ""
		}
		return say("task", "%s", change.To)
	case nod.EventRevision:
		if json.Unmarshal(e.Data, &change) != nil {
			return ""
		}
		return say("publish", "revision %s", change.To)
	}
	return ""
}
