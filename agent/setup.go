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
func SetUp(ctx context.Context, ex nod.Executor, env map[string]string, script, input string, l Limits) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.StartTimeout)
	defer cancel()
	p, err := ex.Exec(ctx, nod.Command{Argv: []string{"sh", "-c", script}, Env: env})
	if err != nil {
		return nod.E(nod.Unavailable, "the agent's home could not be made", err)
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
	var said strings.Builder
	var streams sync.WaitGroup
	streams.Go(func() { _, _ = io.Copy(io.Discard, p.Stdout()) }) // an error is the end of it
	streams.Go(func() {
		_, _ = io.Copy(&said, io.LimitReader(p.Stderr(), 1<<10))
		_, _ = io.Copy(io.Discard, p.Stderr())
	})
	_, written := io.WriteString(p.Stdin(), input)
	closed := p.Stdin().Close()
	streams.Wait()
	status, err := p.Wait()
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case status.Code != 0:
		err = fmt.Errorf("exit %d: %s", status.Code, Clean(said.String(), 200))
	case written != nil:
		err = written
	default:
		err = closed
	}
	if err != nil {
		return nod.E(nod.Unavailable, "the agent's home could not be made", err)
	}
	return nil
}
