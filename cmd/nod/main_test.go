package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"nod/agent/agenttest"
	"nod/notify/answer/answertest/chromium"
	"nod/runtime/guest"
)

// TestMain lets the test binary be what the program is: the guest helper and the
// scripted agent inside environments, and the whole program in a child.
func TestMain(m *testing.M) {
	if guest.Dispatch(os.Args) || agenttest.Dispatch(os.Args) {
		return
	}
	if os.Getenv("NOD_TEST_PROGRAM") != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(chromium.Main(m))
}

func TestUsageErrorsSayHowToGoOn(t *testing.T) {
	for _, args := range [][]string{{"sevre"}, {"passkey", "add"}, {"demo", "--json"}, {"serve", "--config", "/nowhere/nod.hujson"}} {
		var out, errs bytes.Buffer
		code := Main(args, &out, &errs)
		if code == 0 || out.Len() != 0 || !strings.HasPrefix(errs.String(), "nod: ") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
}

func TestPrintableKeepsTerminalsSafe(t *testing.T) {
	if got := printable("a\x1b[31mb\x07\u009bc\td\n"); got != "a\uFFFD[31mb\uFFFD\uFFFDc\td\n" {
		t.Errorf("got %q", got)
	}
}
