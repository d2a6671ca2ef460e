package agent

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
)

var update = flag.Bool("update", false, "write the golden files")

func TestModeFollowsFromTheCapabilities(t *testing.T) {
	full := Capabilities{Headless: true, Events: true, HostApprovals: true, Resume: true}
	for want, all := range map[Mode][]func(*Capabilities){
		Full:        {func(*Capabilities) {}},
		Degraded:    {func(c *Capabilities) { c.HostApprovals = false }, func(c *Capabilities) { c.Resume = false }},
		Unsupported: {func(c *Capabilities) { c.Headless = false }, func(c *Capabilities) { c.Events = false }, func(c *Capabilities) { *c = Capabilities{} }},
	} {
		for i, change := range all {
			c := full
			change(&c)
			if got := c.Mode(); got != want {
				t.Errorf("%s %d: %s", want, i, got)
			}
		}
	}
}

// What crosses the contract has these JSON forms, so that an adapter can live in
// another process. A change here is a change of Version.
func TestTheContractHasStableNames(t *testing.T) {
	cost, at := 0.5, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	raw := json.RawMessage(`{"command":"ls"}`)
	var out strings.Builder
	for _, v := range []struct {
		name string
		v    any
	}{
		{"version", Version},
		{"capabilities", Capabilities{Headless: true, Events: true, HostApprovals: true, Questions: true, Resume: true, Injection: DeliverTurn, Pause: true, Auth: []string{AuthKey, AuthLogin}, Quota: true, Usage: true, Cost: true}},
		{"modes", []Mode{Full, Degraded, Unsupported}},
		{"delivery", []Delivery{DeliverNever, DeliverTurn, DeliverNext}},
		{"spec", nod.AgentSpec{Prompt: "p", Session: "s", Env: map[string]string{"A": "b"}}},
		{"approval request", nod.ApprovalRequest{ID: "1", CallID: "c", Kind: nod.RequestQuestion, Tool: "T", Input: raw, Reason: "r", Plan: "p",
			Questions: []nod.AgentQuestion{{ID: "q", Header: "h", Text: "t", Several: true, FreeText: true, Secret: true, Options: []nod.AgentOption{{Label: "l", Description: "d"}}}}}},
		{"approval answer", nod.ApprovalAnswer{Allow: true, Reason: "r", Answers: map[string]string{"q": "l"}}},
		{string(nod.EventSession), nod.SessionOpened{Session: "s", Program: "p", Version: "1", Model: "m"}},
		{string(nod.EventMessage), nod.Message{Text: "t"}},
		{string(nod.EventToolCall), nod.ToolCall{ID: "c", Tool: "T", Input: raw}},
		{string(nod.EventToolResult), nod.ToolResult{ID: "c", Text: "t", IsError: true}},
		{string(nod.EventDiff), nod.Diff{CallID: "c", Path: "p", Text: "t"}},
		{string(nod.EventTestResult), nod.TestResult{CallID: "c", Command: "go test", OK: true}},
		{string(nod.EventApproval), nod.ApprovalSettled{ID: "1", CallID: "c", Kind: nod.RequestPlan, Tool: "T", InputDigest: "d", Outcome: nod.SettledWithdrawn, Reason: "r"}},
		{string(nod.EventAgentUsage), nod.Usage{InputTokens: 1, OutputTokens: 2, CostUSD: &cost}},
		{string(nod.EventSignedOut), nod.Trouble{Text: "t"}},
		{string(nod.EventQuota), nod.Trouble{Text: "t", ResetsAt: at}},
		{string(nod.EventAgentError), nod.AgentError{Text: "t"}},
		{string(nod.EventResult), nod.Result{OK: true, Text: "t", Reason: "r", ResetsAt: at, Turns: 3}},
	} {
		j, err := json.Marshal(v.v)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(v.name + " " + string(j) + "\n")
	}
	const golden = "testdata/contract.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
