//go:build unix

package plain

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

// OnlyForScripted is the one value that Config.OnlyFor may have.
const OnlyForScripted = "scripted"

// Config is what the driver needs.
type Config struct {
	OnlyFor  string       // must be OnlyForScripted: whoever makes this driver has said it aloud
	StateDir string       // required, absolute
	Guest    string       // what stands for nod.GuestPath; empty is the running binary
	Log      *slog.Logger // nil discards
}

// Driver implements runtime.Driver without isolation.
type Driver struct {
	cfg Config
	log *slog.Logger

	mu   sync.Mutex
	envs map[string]*environment
}

var _ runtime.Driver = (*Driver)(nil)

type environment struct {
	spec    runtime.Spec
	tmp     string
	running bool
	procs   map[*process]bool
}

// record is what List finds after a restart.
type record struct {
	ID    string `json:"id"`
	Owner string `json:"owner"`
}

// New returns Forbidden unless the driver is asked for by name for the scripted agent.
func New(c Config) (*Driver, error) {
	if c.OnlyFor != OnlyForScripted {
		return nil, nod.E(nod.Forbidden, "processes without isolation are for the scripted demo agent only", nil)
	}
	if !filepath.IsAbs(c.StateDir) {
		return nil, nod.E(nod.Invalid, "the runtime's state directory must be an absolute path", nil)
	}
	if c.Guest == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, nod.E(nod.Internal, "the running binary cannot be named", err)
		}
		c.Guest = self
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(c.StateDir, "plain"), 0o700); err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state directory cannot be made", err)
	}
	return &Driver{cfg: c, log: c.Log, envs: map[string]*environment{}}, nil
}

// Name is "plain".
func (d *Driver) Name() string { return "plain" }

// Capabilities says that nothing is enforced.
func (d *Driver) Capabilities(context.Context) runtime.Capabilities {
	return runtime.Capabilities{
		Supported: true, Egress: "none", KillProof: "process table",
		Missing: []string{"every isolation: commands run as ordinary processes of this user"},
	}
}

// Build is Unsupported: there are no images.
func (d *Driver) Build(context.Context, string, string) (string, error) {
	return "", &nod.Error{Code: nod.Unsupported, Msg: "processes without isolation have no image", Hint: "use another driver"}
}

func (d *Driver) dir(id string) string { return filepath.Join(d.cfg.StateDir, "plain", id) }

// Provision refuses required limits, images and mounts: none could be kept.
func (d *Driver) Provision(_ context.Context, p runtime.PreparedSpec) error {
	if p.Digest() == "" {
		return nod.E(nod.Invalid, "the spec was not prepared", nil)
	}
	s := p.Spec()
	if s.Limits.Required {
		return nod.E(nod.Unsupported, "processes without isolation have no limits", nil)
	}
	if s.Image != runtime.HostImage || len(s.Mounts) > 0 {
		return nod.E(nod.Unsupported, "processes without isolation have no image and no mounts", nil)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.envs[s.ID]; ok && e.running {
		return nod.E(nod.Conflict, "the environment is running", nil)
	}
	tmp := filepath.Join(d.dir(s.ID), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be made", err)
	}
	if s.Home == "" {
		s.Home = filepath.Join(d.dir(s.ID), "home")
		if err := os.MkdirAll(s.Home, 0o700); err != nil {
			return nod.E(nod.Internal, "the environment's home cannot be made", err)
		}
	}
	b, err := json.Marshal(record{ID: s.ID, Owner: s.Owner})
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir(s.ID), "state.json"), b, 0o600)
	}
	if err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be written", err)
	}
	d.envs[s.ID] = &environment{spec: s, tmp: tmp, procs: map[*process]bool{}}
	return nil
}

// Start returns an attestation that does not hold. It is the caller's to refuse it.
func (d *Driver) Start(_ context.Context, id string) (nod.Attestation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.envs[id]
	if !ok {
		return nod.Attestation{}, nod.E(nod.NotFound, "no such environment is provisioned by this process", nil)
	}
	if e.running {
		return nod.Attestation{}, nod.E(nod.Conflict, "the environment is already running", nil)
	}
	e.running = true
	d.log.Warn("environment started without isolation", "environment", id)
	return nod.Attestation{Isolation: "none", UID: os.Getuid(), GID: os.Getgid()}, nil
}

// Exec starts the running binary, sh or git; anything else is Forbidden.
func (d *Driver) Exec(_ context.Context, id string, c nod.Command) (nod.Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.envs[id]
	if !ok {
		return nil, nod.E(nod.NotFound, "no such environment is provisioned by this process", nil)
	}
	if !e.running {
		return nil, nod.E(nod.Conflict, "the environment is not running", nil)
	}
	p, err := d.start(e, c)
	if err != nil {
		return nil, err
	}
	e.procs[p] = true
	go func() {
		<-p.done
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(e.procs, p)
	}()
	return p, nil
}

// Stop kills what runs and looks again.
func (d *Driver) Stop(ctx context.Context, id string) error {
	d.mu.Lock()
	e, ok := d.envs[id]
	if !ok {
		d.mu.Unlock()
		if _, err := os.Stat(filepath.Join(d.dir(filepath.Base(id)), "state.json")); err == nil {
			return nil
		}
		return nod.E(nod.NotFound, "no such environment", nil)
	}
	e.running = false
	var procs []*process
	for p := range e.procs {
		procs = append(procs, p)
	}
	d.mu.Unlock()
	var err error
	for _, p := range procs {
		err = errors.Join(err, p.Kill(ctx))
	}
	return err
}

// Delete stops it and removes what Provision made.
func (d *Driver) Delete(ctx context.Context, id string) error {
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return nod.E(nod.Invalid, "this is no environment id", nil)
	}
	if err := d.Stop(ctx, id); err != nil && nod.CodeOf(err) != nod.NotFound {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.envs, id)
	if err := os.RemoveAll(d.dir(id)); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be removed", err)
	}
	return nil
}

// List reads the states on disk.
func (d *Driver) List(_ context.Context, owner string) ([]runtime.Status, error) {
	dirs, err := os.ReadDir(filepath.Join(d.cfg.StateDir, "plain"))
	if err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state cannot be read", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []runtime.Status
	for _, e := range dirs {
		b, err := os.ReadFile(filepath.Join(d.dir(e.Name()), "state.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r record
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			return nil, nod.E(nod.Internal, "the runtime's state cannot be read", err)
		}
		if r.Owner == owner {
			env := d.envs[r.ID]
			out = append(out, runtime.Status{ID: r.ID, Owner: r.Owner, Running: env != nil && env.running})
		}
	}
	return out, nil
}

// Inspect reads the state on disk.
func (d *Driver) Inspect(_ context.Context, id string) (runtime.Status, error) {
	if id == "" || id != filepath.Base(id) {
		return runtime.Status{}, nod.E(nod.Invalid, "this is no environment id", nil)
	}
	b, err := os.ReadFile(filepath.Join(d.dir(id), "state.json"))
	var r record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return runtime.Status{}, nod.E(nod.NotFound, "there is no such environment", err)
	case err != nil:
		return runtime.Status{}, nod.E(nod.Internal, "the runtime's state cannot be read", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.envs[id]
	return runtime.Status{ID: r.ID, Owner: r.Owner, Running: e != nil && e.running}, nil
}

// UpdateEgress is refused: nothing here holds a process to any rules.
func (d *Driver) UpdateEgress(context.Context, string, []egress.Rule) error {
	return nod.E(nod.Unsupported, "processes without isolation reach every host", nil)
}

// Close stops every environment.
func (d *Driver) Close() error {
	d.mu.Lock()
	var ids []string
	for id := range d.envs {
		ids = append(ids, id)
	}
	d.mu.Unlock()
	var err error
	for _, id := range ids {
		err = errors.Join(err, d.Stop(context.Background(), id))
	}
	return err
}
