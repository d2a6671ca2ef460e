package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"nod"
)

// SetUp runs a shell script in the environment before the program starts, with
// input on its standard input: what must be in the program's home, and what must
// not. No process of it is left, or the error says so.
func SetUp(ctx context.Context, ex nod.Executor, env map[string]string, script, input string, l Limits) error {
	_, err := Output(ctx, ex, nod.Command{Argv: []string{"sh", "-c", script}, Env: env}, input, "the agent's home could not be made", l)
	return err
}

// maxOutput is how much of what a command says Output returns, in bytes.
const maxOutput = 4 << 10

// Output runs a command in the environment, for no longer than the start of a program
// may take, and returns the first 4 KiB of its standard output. No process of it is
// left. The errors are Unavailable and say failed, or that it cannot be proven to be gone.
func Output(ctx context.Context, ex nod.Executor, c nod.Command, input, failed string, l Limits) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.StartTimeout)
	defer cancel()
	p, err := ex.Exec(ctx, c)
	if err != nil {
		return "", nod.E(nod.Unavailable, failed, err)
	}
	defer func() {
		kill, done := context.WithTimeout(context.WithoutCancel(ctx), l.KillTimeout)
		defer done()
		if killed := p.Kill(kill); killed != nil {
			err = nod.E(nod.Unavailable, "the agent cannot be proven to be gone", killed)
		}
	}()
	stop := context.AfterFunc(ctx, func() {
		kill, done := context.WithTimeout(context.WithoutCancel(ctx), l.KillTimeout)
		defer done()
		_ = p.Kill(kill) // done again, and looked at, at the end
	})
	defer stop()
	var said, complained strings.Builder
	var streams sync.WaitGroup
	drain := func(to io.Writer, from io.Reader) { // an error is the end of it
		_, _ = io.Copy(to, io.LimitReader(from, maxOutput))
		_, _ = io.Copy(io.Discard, from)
	}
	streams.Go(func() { drain(&said, p.Stdout()) })
	streams.Go(func() { drain(&complained, p.Stderr()) })
	_, written := io.WriteString(p.Stdin(), input)
	closed := p.Stdin().Close()
	streams.Wait()
	status, err := p.Wait()
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case status.Code != 0:
		err = fmt.Errorf("exit %d: %s", status.Code, Clean(complained.String(), 200))
	case written != nil:
		err = written
	case closed != nil && input != "": // a command that reads nothing may be gone before
		err = closed
	}
	if err != nil {
		return "", nod.E(nod.Unavailable, failed, err)
	}
	return said.String(), nil
}
