// Command nod labels an issue, nods on a phone and reviews a pull request: the
// program that a maintainer runs. All wiring is here; see wire.go.
//
// stdout is data, stderr is for people. Exit status: see nod.Code.ExitCode.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"nod"
	"nod/agent/agenttest"
	"nod/runtime/guest"
)

func main() {
	// Inside an environment this same binary is the guest helper, and the demo's
	// scripted agent.
	if guest.Dispatch(os.Args) || agenttest.Dispatch(os.Args) {
		return
	}
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// Main runs the program with args and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*nod.Error](err)
	if !ok { // cobra's own errors are about the words of the command line
		e = &nod.Error{Code: nod.Invalid, Msg: err.Error(), Hint: root.CommandPath() + " --help"}
	}
	fmt.Fprintf(stderr, "nod: %s\n", printable(strings.TrimSuffix(err.Error(), ".")))
	if e.Hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", printable(e.Hint))
	}
	return e.Code.ExitCode()
}

// printable replaces control characters, so that nothing untrusted can drive a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nod",
		Short:         "Label an issue, nod on your phone, review the pull request",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(serveCommand(), demoCommand(), passkeyCommand(), auditCommand(), inboxCommand(), approveCommand(), denyCommand(),
		answerCommand(), sayCommand(), pauseCommand(), resumeCommand(), cancelCommand(), doctorCommand(), policyCommand(), setupCommand(),
		showCommand(), diffCommand(), bundleCommand(), openCommand(), shellCommand(), agentCommand())
	return root
}
