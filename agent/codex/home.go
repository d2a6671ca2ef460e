package codex

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/agent"
)

// prepare makes CODEX_HOME anew with the configuration file that comes on its
// input. Of what an earlier session left there only the sessions are kept: rules,
// skills, hooks and configuration would be read again. A link is not followed.
const prepare = `set -eu
umask 077
home=$CODEX_HOME
old=$home.old
if [ -d "$old/sessions" ] && [ ! -L "$old" ] && [ ! -L "$old/sessions" ] && [ ! -e "$home/sessions" ]; then
	rm -rf "$home"
	mv "$old" "$home"
fi
rm -rf "$old"
if [ -d "$home" ] && [ ! -L "$home" ]; then mv "$home" "$old"; else rm -rf "$home"; fi
mkdir "$home"
if [ -d "$old/sessions" ] && [ ! -L "$old/sessions" ]; then mv "$old/sessions" "$home/sessions"; fi
rm -rf "$old"
cat > "$home/config.toml"`

// setUp runs prepare. No process of it is left, or the error says so.
func (c Config) setUp(ctx context.Context, ex nod.Executor, env map[string]string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	p, err := ex.Exec(ctx, nod.Command{Argv: []string{"sh", "-c", prepare}, Env: env})
	if err != nil {
		return nod.E(nod.Unavailable, "the agent's home could not be made", err)
	}
	defer func() {
		kill, done := context.WithTimeout(context.WithoutCancel(ctx), c.KillTimeout)
		defer done()
		if killed := p.Kill(kill); killed != nil {
			err = nod.E(nod.Unavailable, "the agent cannot be proven to be gone", killed)
		}
	}()
	stop := context.AfterFunc(ctx, func() {
		kill, done := context.WithTimeout(context.WithoutCancel(ctx), c.KillTimeout)
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
	_, written := io.WriteString(p.Stdin(), c.file())
	closed := p.Stdin().Close()
	streams.Wait()
	status, err := p.Wait()
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case status.Code != 0:
		err = fmt.Errorf("exit %d: %s", status.Code, agent.Clean(said.String(), 200))
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

func now() time.Time { return time.Now().UTC() }
