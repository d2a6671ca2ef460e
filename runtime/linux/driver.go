//go:build linux

package linux

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/image"
)

// Driver implements runtime.Driver. Make it with New, end it with Close.
type Driver struct {
	cfg      Config
	log      *slog.Logger
	lock     *runtime.Held
	self     *os.File // sealed copy of the guest binary, what PID 1 executes
	guest    string   // the file seen at nod.GuestPath
	spawner  *spawner
	spare    spare
	limiter  *limiter
	images   *image.Store
	landlock int

	envs runtime.Table[environment]
}

var _ runtime.Driver = (*Driver)(nil)

// environment is what this process knows of one environment.
type environment struct {
	mu       sync.Mutex // held over each change
	prepared runtime.PreparedSpec
	state    state
	root     root
	inst     *instance // nil unless running
}

// New opens the driver's state and ends what a process that died left behind. It
// returns Conflict when another process holds the state.
func New(c Config) (*Driver, error) {
	if !filepath.IsAbs(c.StateDir) {
		return nil, nod.E(nod.Invalid, "the runtime's state directory must be an absolute path", nil)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Egress.Log == nil {
		c.Egress.Log = c.Log
	}
	if c.Egress.Audit == nil {
		log := c.Log
		c.Egress.Audit = func(e egress.Event) { log.Info("egress", "event", e) }
	}
	d := &Driver{cfg: c, log: c.Log, landlock: max(c.Landlock, 0)}
	if c.Landlock == 0 {
		d.landlock = 1
	}
	if err := os.MkdirAll(filepath.Join(c.StateDir, "env"), 0o700); err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state directory cannot be made", err)
	}
	if err := os.Chmod(c.StateDir, 0o700); err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state directory cannot be made private", err)
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func (d *Driver) open() error {
	var err error
	if d.lock, err = runtime.Hold(filepath.Join(d.cfg.StateDir, "lock"), "the runtime's state"); err != nil {
		return err
	}
	if err := d.copyGuest(); err != nil {
		return nod.E(nod.Internal, "the guest binary cannot be copied", err)
	}
	d.limiter = newLimiter(d.cfg)
	if d.images, err = image.Open(image.Config{Dir: filepath.Join(d.cfg.StateDir, "images"), Log: d.log}); err != nil {
		return err
	}
	if err := d.sweep(); err != nil {
		return err
	}
	d.spawner = newSpawner()
	return nil
}

// Close ends every environment, proven, and lets the state go.
func (d *Driver) Close() error {
	var err error
	for _, e := range d.envs.All() {
		err = errors.Join(err, d.stop(context.Background(), e))
	}
	return errors.Join(err, d.release())
}

func (d *Driver) release() error {
	err := d.dismiss()
	if d.spawner != nil {
		d.spawner.close()
	}
	if d.images != nil {
		err = errors.Join(err, d.images.Close())
	}
	if d.self != nil {
		err = errors.Join(err, d.self.Close())
	}
	return errors.Join(err, d.lock.Close())
}

// Name is "linux".
func (d *Driver) Name() string { return "linux" }

// Provision makes the environment's state and, as root, gives workspace and home
// to a user of the environment's own. The same spec again changes nothing;
// another one is a Conflict while the environment runs and replaces it otherwise.
func (d *Driver) Provision(ctx context.Context, p runtime.PreparedSpec) error {
	if p.Digest() == "" {
		return nod.E(nod.Invalid, "the spec was not prepared", nil)
	}
	s := p.Spec()
	if d.cfg.Owner != "" && s.Owner != d.cfg.Owner {
		return nod.E(nod.Forbidden, "the environment belongs to another owner", nil)
	}
	if err := errors.Join(d.limiter.check(s.Limits), checkDisk(p)); err != nil {
		return err
	}
	e := d.envs.Make(s.ID, &environment{})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inst != nil && !e.inst.ended() {
		if e.state.Digest == p.Digest() {
			return nil
		}
		return nod.E(nod.Conflict, "the environment is running under another spec", nil)
	}
	if err := d.provision(ctx, e, p); err != nil {
		if e.prepared.Digest() == "" {
			d.envs.Forget(s.ID)
		}
		return err
	}
	d.prepare() // a start follows
	return nil
}

func (d *Driver) provision(ctx context.Context, e *environment, p runtime.PreparedSpec) error {
	s := p.Spec()
	root, err := d.rootOf(ctx, p)
	if err != nil {
		return err
	}
	st, err := d.loadState(s.ID)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nod.E(nod.Internal, "the environment's state cannot be read", err)
	}
	if err == nil && st.Owner != s.Owner {
		return nod.E(nod.Conflict, "the environment's id belongs to another owner", nil)
	}
	if err != nil {
		st = state{ID: s.ID, Owner: s.Owner}
		if st.HostUID, err = d.newUID(); err != nil {
			return nod.E(nod.Internal, "no user is left for the environment", err)
		}
	}
	if e.prepared.Digest() == p.Digest() && st.Image == root.digest {
		return nil
	}
	st.Digest, st.Image = p.Digest(), root.digest
	if os.Geteuid() == 0 {
		for _, src := range []runtime.Source{p.Workspace(), p.Home()} {
			if src.Info == nil || st.owns(src) {
				continue // what the agent has made is never walked as root
			}
			var mark func(int) error
			if s.Limits.DiskBytes > 0 {
				mark = func(fd int) error { return joinProject(fd, uint32(st.HostUID)) }
			}
			if err := runtime.GiveTree(src, st.HostUID, mark); err != nil {
				return err
			}
			st.own(src)
		}
	}
	if err := d.limitDisk(p, uint32(st.HostUID)); err != nil {
		return err
	}
	if err := d.saveState(st); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be written", err)
	}
	e.prepared, e.state, e.root = p, st, root
	return nil
}

// Start starts it and attests it from inside.
func (d *Driver) Start(ctx context.Context, id string) (nod.Attestation, error) {
	e, err := d.envs.Known(id)
	if err != nil {
		return nod.Attestation{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inst != nil && !e.inst.ended() {
		return nod.Attestation{}, nod.E(nod.Conflict, "the environment is already running", nil)
	}
	inst, a, err := d.launch(ctx, e.prepared, e.root, e.state.HostUID, func(p process) error { return d.saveProcess(id, p) })
	if err != nil {
		return a, err
	}
	e.inst = inst
	d.prepare()
	d.log.Info("environment started", "environment", id)
	return a, nil
}

// Exec starts a process. ctx bounds the start only.
func (d *Driver) Exec(ctx context.Context, id string, c nod.Command) (nod.Process, error) {
	e, err := d.envs.Known(id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	inst := e.inst
	e.mu.Unlock()
	if inst == nil || inst.ended() {
		return nil, nod.E(nod.Conflict, "the environment is not running", nil)
	}
	return inst.exec(ctx, c)
}

// UpdateEgress swaps the rules, of a running environment at once.
func (d *Driver) UpdateEgress(_ context.Context, id string, rules []egress.Rule) error {
	e, err := d.envs.Known(id)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.prepared.WithEgress(rules)
	if err != nil {
		return err
	}
	if e.inst != nil && !e.inst.ended() {
		if err := e.inst.proxy.Update(p.Policy()); err != nil {
			return err
		}
	}
	e.prepared, e.state.Digest = p, p.Digest()
	if err := d.saveState(e.state); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be written", err)
	}
	return nil
}

// Stop kills PID 1; the kernel ends everything else in its namespace before PID 1
// can be waited for, which is the proof.
func (d *Driver) Stop(ctx context.Context, id string) error {
	e, err := d.envs.Known(id)
	if err != nil {
		if _, serr := d.loadState(id); serr == nil {
			return nil // of an earlier process: New has ended it
		}
		return err
	}
	return d.stop(ctx, e)
}

func (d *Driver) stop(ctx context.Context, e *environment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inst == nil {
		return nil
	}
	if err := e.inst.stop(ctx); err != nil {
		return err
	}
	e.inst = nil
	if err := d.forgetProcess(e.state.ID); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be written", err)
	}
	d.log.Info("environment stopped", "environment", e.state.ID)
	return nil
}

// Delete stops the environment and forgets it. Workspace and home stay, and stay
// with the environment's user.
func (d *Driver) Delete(ctx context.Context, id string) error {
	if !runtime.ValidID(id) {
		return nod.E(nod.Invalid, "this is no environment id", nil)
	}
	if e, err := d.envs.Known(id); err == nil {
		if err := d.stop(ctx, e); err != nil {
			return err
		}
		if err := forgetDisk(e); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(d.envDir(id)); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be removed", err)
	}
	d.envs.Forget(id)
	return nil
}

// Inspect reads the state on disk.
func (d *Driver) Inspect(_ context.Context, id string) (runtime.Status, error) {
	st, err := d.loadState(id)
	if errors.Is(err, os.ErrNotExist) {
		return runtime.Status{}, nod.E(nod.NotFound, "there is no such environment", err)
	}
	if err != nil {
		return runtime.Status{}, nod.E(nod.Internal, "the environment's state cannot be read", err)
	}
	return st.status(), nil
}

// List reads the states on disk.
func (d *Driver) List(_ context.Context, owner string) ([]runtime.Status, error) {
	all, err := d.states()
	if err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state cannot be read", err)
	}
	var out []runtime.Status
	for _, st := range all {
		if st.Owner == owner {
			out = append(out, st.status())
		}
	}
	return out, nil
}
