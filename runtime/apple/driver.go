package apple

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nod"
	"nod/runtime"
	"nod/runtime/contain"
	"nod/runtime/egress"
	"nod/runtime/lease"
)

// Config is what the driver needs.
type Config struct {
	Program  string        // absolute path of the container program; required
	StateDir string        // absolute and short, for its sockets' paths hold 104 bytes; required, made with mode 0700
	Guest    string        // static Linux binary that calls guest.Dispatch; required
	Image    string        // reference that stands for runtime.HostImage, which the program must have; required
	Landlock int           // the least version required; 0 means 1, a negative number none
	Egress   egress.Config // template of each environment's proxy; Audit is required
	Log      *slog.Logger  // nil discards
}

// Driver implements runtime.Driver. Make it with New, end it with Close.
type Driver struct {
	cfg        Config
	log        *slog.Logger
	cli        *cli
	guest      string
	supervisor string

	envs runtime.Table[environment]
}

var _ runtime.Driver = (*Driver)(nil)

type environment struct {
	owner    string     // never changes
	mu       sync.Mutex // held over each change
	prepared runtime.PreparedSpec
	inst     *contain.Instance
}

// A name has 63 bytes at most, of which the prefix is the rest.
const maxID = 39

func validID(id string) bool { return len(id) <= maxID && runtime.ValidID(id) }

// New asks the program for its version and ends what a process that died left
// running. Errors are Invalid, Unavailable and Unsupported.
func New(ctx context.Context, c Config) (*Driver, error) {
	if !filepath.IsAbs(c.Program) || !filepath.IsAbs(c.StateDir) || !filepath.IsAbs(c.Guest) || c.Image == "" || strings.HasPrefix(c.Image, "-") || c.Egress.Audit == nil {
		return nil, nod.E(nod.Invalid, "the program, the state directory and the guest are absolute paths, and there is an image and an audit", nil)
	}
	if c.Landlock == 0 {
		c.Landlock = 1
	}
	c.Landlock = max(c.Landlock, 0)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	sum := sha256.Sum256([]byte(c.StateDir))
	d := &Driver{cfg: c, log: c.Log, cli: &cli{c.Program}, guest: filepath.Join(c.StateDir, "guest"), supervisor: hex.EncodeToString(sum[:])[:16]}
	if err := d.cli.check(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return nil, nod.E(nod.Internal, "the runtime's state directory cannot be made", err)
	}
	if err := copyFile(d.guest, c.Guest); err != nil {
		return nil, nod.E(nod.Internal, "the guest binary cannot be copied", err)
	}
	own, err := d.own(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		if err := d.cli.End(ctx, l.id); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func copyFile(to, from string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, src)
	return errors.Join(err, f.Close())
}

// own returns this driver's machines, of one environment unless id is empty. The
// program filters nothing; labels are compared here.
func (d *Driver) own(ctx context.Context, id string) ([]listed, error) {
	all, err := d.cli.list(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(l listed) bool {
		return l.labels[labelSupervisor] != d.supervisor || id != "" && l.labels[labelEnv] != id || l.id != d.name(l.labels[labelEnv])
	}), nil
}

func (d *Driver) name(id string) string      { return "nod-" + d.supervisor + "-" + id }
func (d *Driver) socketDir(id string) string { return filepath.Join(d.cfg.StateDir, "s", id) }

// Close ends every environment, proven.
func (d *Driver) Close() error {
	var err error
	for _, e := range d.envs.All() {
		err = errors.Join(err, e.stop(context.Background()))
	}
	return err
}

// Name is "apple".
func (d *Driver) Name() string { return "apple" }

// Build is Unsupported: the program builds in a machine that has a network.
func (d *Driver) Build(context.Context, string, string) (string, error) {
	return "", &nod.Error{Code: nod.Unsupported, Msg: "no image is built where its steps would have a network", Hint: "container build, or load one that is built"}
}

// Capabilities starts a machine, attests it and removes it again.
func (d *Driver) Capabilities(ctx context.Context) runtime.Capabilities {
	c := runtime.Capabilities{Egress: "socket", KillProof: "subreaper, then the machine's end", Limits: []string{}}
	a, err := d.try(ctx)
	c.Seen = a
	if err != nil {
		c.Missing = []string{nod.PublicMessage(err)}
		var e *nod.Error
		if errors.As(err, &e) {
			c.Hint = e.Hint
		}
		return c
	}
	c.Supported, c.Seccomp, c.LandlockABI, c.Limits = true, a.Seccomp, a.Landlock, []string{"memory", "cpu"}
	return c
}

func (d *Driver) try(ctx context.Context) (a nod.Attestation, err error) {
	dir, err := os.MkdirTemp("", "nod-try-")
	if err != nil {
		return a, nod.E(nod.Internal, "no directory for a trial", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := runtime.Prepare(runtime.Spec{ID: "trial", Owner: "trial", Image: runtime.HostImage, Workspace: dir}, runtime.Roots{Allowed: []string{dir}})
	if err != nil {
		return a, err
	}
	if err := d.Provision(ctx, p); err != nil {
		return a, err
	}
	a, err = d.Start(ctx, "trial")
	return a, errors.Join(err, d.Delete(context.WithoutCancel(ctx), "trial"))
}

// Provision judges the spec; the machine is created with each start, when its
// sockets are there to be mounted.
func (d *Driver) Provision(ctx context.Context, p runtime.PreparedSpec) error {
	if p.Digest() == "" {
		return nod.E(nod.Invalid, "the spec was not prepared", nil)
	}
	s := p.Spec()
	if s.Image != runtime.HostImage || !validID(s.ID) {
		return nod.E(nod.Unsupported, "a machine has the image of the configuration, and an id of at most 39 characters", nil)
	}
	if err := checkLimits(s.Limits); err != nil {
		return err
	}
	if _, err := d.createArgs(p); err != nil {
		return err
	}
	if _, err := d.cli.run(ctx, "image", "inspect", d.cfg.Image); err != nil {
		return &nod.Error{Code: nod.NotFound, Msg: "the container program does not have the image", Hint: "container image pull, or load", Err: err}
	}
	e := d.envs.Make(s.ID, &environment{owner: s.Owner, prepared: p})
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.owner != s.Owner:
		return nod.E(nod.Conflict, "the environment's id belongs to another owner", nil)
	case e.running() && e.prepared.Digest() != p.Digest():
		return nod.E(nod.Conflict, "the environment is running under another spec", nil)
	}
	e.prepared = p
	return nil
}

func (e *environment) running() bool { return e.inst != nil && !e.inst.Ended() }

// Start creates the machine, starts it and attests it from inside.
func (d *Driver) Start(ctx context.Context, id string) (nod.Attestation, error) {
	e, err := d.envs.Known(id)
	if err != nil {
		return nod.Attestation{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running() {
		return nod.Attestation{}, nod.E(nod.Conflict, "the environment is already running", nil)
	}
	p := e.prepared
	if err := samePlaces(p); err != nil {
		return nod.Attestation{}, err
	}
	if err := d.remove(ctx, id); err != nil {
		return nod.Attestation{}, err
	}
	if err := os.MkdirAll(d.socketDir(id), 0o700); err != nil {
		return nod.Attestation{}, nod.E(nod.Internal, "a directory for the environment's sockets cannot be made", err)
	}
	args, err := d.createArgs(p)
	if err != nil {
		return nod.Attestation{}, err
	}
	way := d.cfg.Egress
	way.Policy, way.Environment = p.Policy(), id
	inst, err := contain.Start(ctx, contain.Config{ID: id, Container: d.name(id), Engine: creating{d.cli, args}, SocketDir: d.socketDir(id),
		Landlock: d.cfg.Landlock, Egress: way, Log: d.log})
	if err != nil {
		return nod.Attestation{}, err
	}
	a, err := d.attest(ctx, inst)
	if err != nil {
		return a, errors.Join(err, inst.Stop(context.WithoutCancel(ctx)))
	}
	e.inst = inst
	return a, nil
}

// creating creates a machine before it starts it.
type creating struct {
	*cli
	args []string
}

func (c creating) Start(ctx context.Context, id string) error {
	if _, err := c.run(ctx, c.args...); err != nil {
		return nod.E(nod.Unavailable, "the container program does not create the machine", err)
	}
	return c.cli.Start(ctx, id)
}

// attest runs the probe. That it answers from Linux, where the host has none,
// tells the machine.
func (d *Driver) attest(ctx context.Context, i *contain.Instance) (nod.Attestation, error) {
	s, err := lease.Look(ctx, i.Exec)
	if err != nil {
		return nod.Attestation{}, err
	}
	a := s.Attestation
	a.Isolation = "none"
	if s.Namespaces["pid"] != "" {
		a.Isolation = "vm"
	}
	err = a.Holds()
	if err == nil && a.Landlock < d.cfg.Landlock {
		err = nod.E(nod.Unsupported, "the environment started without landlock", nil)
	}
	if err != nil {
		d.log.Error("attestation does not hold", "err", err, "notes", strings.Join(s.Notes, "; "))
	}
	return a, err
}

// Exec starts a process. ctx bounds the start only.
func (d *Driver) Exec(ctx context.Context, id string, c nod.Command) (nod.Process, error) {
	e, err := d.envs.Known(id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	inst, running := e.inst, e.running()
	e.mu.Unlock()
	if !running {
		return nil, nod.E(nod.Conflict, "the environment is not running", nil)
	}
	return inst.Exec(ctx, c)
}

// Stop kills the machine.
func (d *Driver) Stop(ctx context.Context, id string) error {
	e, err := d.envs.Known(id)
	if err == nil {
		return e.stop(ctx)
	}
	left, lerr := d.own(ctx, id)
	if lerr != nil {
		return lerr
	}
	for _, l := range left { // of an earlier process
		err = d.cli.End(ctx, l.id)
	}
	return err
}

func (e *environment) stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inst == nil {
		return nil
	}
	if err := e.inst.Stop(ctx); err != nil {
		return err
	}
	e.inst = nil
	return nil
}

// Delete ends the machine and removes it.
func (d *Driver) Delete(ctx context.Context, id string) error {
	if !validID(id) {
		return nod.E(nod.Invalid, "this is no environment id", nil)
	}
	if e, err := d.envs.Known(id); err == nil {
		if err := e.stop(ctx); err != nil {
			return err
		}
	}
	if err := d.remove(ctx, id); err != nil {
		return err
	}
	d.envs.Forget(id)
	if err := os.RemoveAll(d.socketDir(id)); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be removed", err)
	}
	return nil
}

func (d *Driver) remove(ctx context.Context, id string) error {
	left, err := d.own(ctx, id)
	if err != nil {
		return err
	}
	for _, l := range left {
		if err := d.cli.End(ctx, l.id); err != nil {
			return err
		}
		if _, err := d.cli.run(ctx, "delete", "--force", l.id); err != nil && !is(err, "notFound") {
			return nod.E(nod.Unavailable, "the container program does not remove the machine", err)
		}
	}
	return nil
}

// UpdateEgress swaps the rules, of a running machine at once.
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
	if e.running() {
		if err := e.inst.Update(p.Policy()); err != nil {
			return err
		}
	}
	e.prepared = p
	return nil
}

// Inspect returns the machine, or what is provisioned without one.
func (d *Driver) Inspect(ctx context.Context, id string) (runtime.Status, error) {
	if !validID(id) {
		return runtime.Status{}, nod.E(nod.Invalid, "this is no environment id", nil)
	}
	found, err := d.own(ctx, id)
	if err != nil {
		return runtime.Status{}, err
	}
	e, err := d.envs.Known(id)
	switch {
	case err != nil && len(found) == 0:
		return runtime.Status{}, nod.E(nod.NotFound, "there is no such environment", nil)
	case err != nil:
		return runtime.Status{ID: id, Owner: found[0].labels[labelOwner], Running: found[0].running()}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return runtime.Status{ID: id, Owner: e.owner, Running: e.running(), Digest: e.prepared.Digest()}, nil
}

// List returns the machines that are there, and what is provisioned without one.
func (d *Driver) List(ctx context.Context, owner string) ([]runtime.Status, error) {
	found, err := d.own(ctx, "")
	if err != nil {
		return nil, err
	}
	byID := map[string]runtime.Status{}
	for id, e := range d.envs.All() {
		byID[id] = runtime.Status{ID: id, Owner: e.owner}
	}
	for _, l := range found {
		id := l.labels[labelEnv]
		byID[id] = runtime.Status{ID: id, Owner: l.labels[labelOwner], Running: l.running()}
	}
	var out []runtime.Status
	for _, s := range byID {
		if s.Owner == owner {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b runtime.Status) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
