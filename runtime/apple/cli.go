package apple

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/runtime/contain"
)

const (
	callPatience = 60 * time.Second
	endPatience  = 20 * time.Second
	maxSaid      = 4 << 10
)

// cli runs the program. It implements contain.Engine.
type cli struct{ program string }

var _ contain.Engine = (*cli)(nil)

// command is the program with an environment that holds nothing to leak: flags and
// images can name variables that it would fill in from its own.
func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = []string{}
	for _, k := range []string{"HOME", "PATH", "TMPDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	return cmd
}

// failure is a call that ended with another status than 0.
type failure struct {
	code int
	said string
}

func (f *failure) Error() string {
	return "container ended with " + strconv.Itoa(f.code) + ": " + f.said
}

// is reports whether err is the program's own error of that name.
func is(err error, name string) bool {
	var f *failure
	return errors.As(err, &f) && f.code == 1 && (strings.Contains(f.said, "Error: "+name+":") || name == "notFound" && strings.Contains(f.said, "not found"))
}

// run runs the program to its end and returns its stdout.
func (c *cli) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	cmd := c.command(ctx, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		text := said.String()
		return nil, &failure{exit.ExitCode(), text[:min(len(text), maxSaid)]}
	}
	return out.Bytes(), err
}

// check asks the program for its version, and whether its services run.
func (c *cli) check(ctx context.Context) error {
	out, err := c.run(ctx, "system", "version", "--format", "json")
	var versions []struct {
		Version string `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(out, &versions)
	}
	if err != nil || len(versions) == 0 {
		return nod.E(nod.Unavailable, "the container program does not tell its version", err)
	}
	if !atLeast(versions[0].Version, [3]int{1, 2, 0}) {
		return &nod.Error{Code: nod.Unsupported, Msg: "the container program is older than 1.2.0", Hint: upgrade}
	}
	out, err = c.run(ctx, "system", "status", "--format", "json")
	var s struct {
		Status string `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil || s.Status != "running" {
		return &nod.Error{Code: nod.Unavailable, Msg: "the container services do not run", Hint: "container system start", Err: err}
	}
	return nil
}

const upgrade = "upgrade to container 1.2.0 or later: before it the program's environment leaked into containers"

func atLeast(version string, want [3]int) bool {
	parts := strings.SplitN(strings.SplitN(version, "-", 2)[0], ".", 3)
	for i, w := range want {
		if i >= len(parts) {
			return false
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < w {
			return false
		}
		if n > w {
			return true
		}
	}
	return true
}

// listed is one container as list and inspect show it.
type listed struct {
	id     string
	labels map[string]string
	state  string
}

func (l listed) running() bool { return l.state != "stopped" }

// parseList reads the JSON of 1.x. That of 0.x, whose status is a string, is refused.
func parseList(text []byte) ([]listed, error) {
	var raw []struct {
		Configuration struct {
			ID     string            `json:"id"`
			Labels map[string]string `json:"labels"`
		} `json:"configuration"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nod.E(nod.Internal, "the container program's list has another form", err)
	}
	out := make([]listed, 0, len(raw))
	for _, r := range raw {
		if bytes.HasPrefix(bytes.TrimSpace(r.Status), []byte(`"`)) {
			return nil, &nod.Error{Code: nod.Unsupported, Msg: "the container services are of version 0", Hint: upgrade}
		}
		var s struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal(r.Status, &s); err != nil || r.Configuration.ID == "" {
			return nil, nod.E(nod.Internal, "the container program's list has another form", err)
		}
		out = append(out, listed{r.Configuration.ID, r.Configuration.Labels, s.State})
	}
	return out, nil
}

func (c *cli) list(ctx context.Context) ([]listed, error) {
	out, err := c.run(ctx, "list", "--all", "--format", "json")
	if err != nil {
		return nil, nod.E(nod.Unavailable, "the container program does not list", err)
	}
	return parseList(out)
}

// inspect returns false when there is no such container.
func (c *cli) inspect(ctx context.Context, id string) (listed, bool, error) {
	out, err := c.run(ctx, "inspect", id)
	if is(err, "notFound") {
		return listed{}, false, nil
	}
	if err != nil {
		return listed{}, false, nod.E(nod.Unavailable, "the container program does not describe a container", err)
	}
	all, err := parseList(out)
	if err != nil {
		return listed{}, false, err
	}
	if len(all) != 1 || all[0].id != id {
		return listed{}, false, nod.E(nod.Internal, "the container program described another container", nil)
	}
	return all[0], true, nil
}

// Start starts a machine that was created.
func (c *cli) Start(ctx context.Context, id string) error {
	if _, err := c.run(ctx, "start", id); err != nil {
		return nod.E(nod.Unavailable, "the container program does not start the machine", err)
	}
	return nil
}

// End kills a machine and returns once the program says that it has stopped.
func (c *cli) End(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	_, killed := c.run(ctx, "kill", "-s", "KILL", id)
	for {
		l, ok, err := c.inspect(ctx, id)
		if err != nil {
			return err
		}
		if !ok || !l.running() {
			return nil
		}
		if killed != nil {
			return nod.E(nod.Unavailable, "the container program does not kill the machine", killed)
		}
		select {
		case <-ctx.Done():
			return nod.E(nod.Unavailable, "the machine was killed but its end is not proven yet", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// HasEnded asks again and again: the program tells of no events.
func (c *cli) HasEnded(ctx context.Context, id string) bool {
	for {
		l, ok, err := c.inspect(ctx, id)
		if err != nil {
			return false
		}
		if !ok || !l.running() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Logs is what the machine's init has said.
func (c *cli) Logs(id string) string {
	out, err := c.run(context.Background(), "logs", "-n", "20", id)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(out[:min(len(out), maxSaid)])
}

// Exec starts argv by a program of its own, whose stdin is the lease: when it
// ends, for whatever reason, the guest's stdin does.
func (c *cli) Exec(ctx context.Context, id string, argv []string) (contain.Streams, error) {
	cmd := c.command(context.WithoutCancel(ctx), append([]string{"exec", "-i", id}, argv...)...)
	s := &streams{cmd: cmd}
	cmd.Stderr = &s.said
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, nod.E(nod.Unavailable, "no pipe for the command", err)
	}
	if s.out, err = cmd.StdoutPipe(); err != nil {
		return nil, nod.E(nod.Unavailable, "no pipe for the command", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, nod.E(nod.Unavailable, "the container program does not start", err)
	}
	return s, nil
}

// streams is one exec's program.
type streams struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	said cut
	once sync.Once
	err  error
}

func (s *streams) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *streams) Write(b []byte) (int, error) { return s.in.Write(b) }
func (s *streams) Said() string                { return s.said.String() }

// Cut kills the program; what it leads to ends with its stdin.
func (s *streams) Cut() { _ = s.cmd.Process.Kill() } // one that has ended needs none

// Close ends the program and waits for it.
func (s *streams) Close() error {
	s.once.Do(func() {
		_ = s.in.Close() // the program may be gone
		timer := time.AfterFunc(time.Second, s.Cut)
		defer timer.Stop()
		var exit *exec.ExitError
		// Its status says nothing: that of the command came in a frame.
		if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			s.err = err
		}
	})
	return s.err
}

// cut keeps the beginning of what is written.
type cut struct {
	mu   sync.Mutex
	text []byte
}

func (c *cut) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := maxSaid - len(c.text); room > 0 {
		c.text = append(c.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (c *cut) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}
