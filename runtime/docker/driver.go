package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
)

// Driver implements runtime.Driver. Make it with New, end it with Close.
type Driver struct {
	cfg        Config
	log        *slog.Logger
	engine     *engine
	lock       *runtime.Held
	guest      string // the file seen at nod.GuestPath
	seccomp    string // the profile, or its path for Podman
	supervisor string // what tells this driver's containers from others'
	keepID     bool   // an engine without root maps this process's user to the agent's

	envs runtime.Table[environment]
}

var _ runtime.Driver = (*Driver)(nil)

// environment is what this process knows of one environment.
type environment struct {
	mu        sync.Mutex // held over each change
	prepared  runtime.PreparedSpec
	container string // full id
	image     engineImage
	used      bool // was started once
	inst      *contain.Instance
}

// New reaches the engine and ends what a process that died left running. Errors
// are Invalid, Conflict when another process holds the state, Unavailable when
// there is no engine, Unsupported when it cannot do what is needed.
func New(ctx context.Context, c Config) (*Driver, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(c.StateDir))
	d := &Driver{cfg: c, log: c.Log, supervisor: hex.EncodeToString(sum[:])[:16]}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func (d *Driver) open(ctx context.Context) error {
	if err := d.openState(); err != nil {
		return err
	}
	var err error
	if d.engine, err = connect(ctx, d.cfg); err != nil {
		return err
	}
	rootless := d.engine.info.has("rootless")
	switch uid := os.Geteuid(); {
	case rootless && d.engine.podman:
		d.keepID = true
	case rootless:
		return &nod.Error{Code: nod.Unsupported, Msg: "a rootless Docker engine cannot map this user to the environment's", Hint: "use rootless Podman, or the embedded driver"}
	case uid != 0 && uid != agentUID:
		return &nod.Error{Code: nod.Unsupported, Msg: "an engine with root's rights needs nod to run as root or as user 1000, whose files the agent could not write otherwise",
			Hint: "use rootless Podman, or the embedded driver"}
	}
	return d.sweep(ctx)
}

// Close ends every environment, proven, and lets the state go. The containers,
// stopped, stay until Delete.
func (d *Driver) Close() error {
	var err error
	for _, e := range d.envs.All() {
		err = errors.Join(err, d.stop(context.Background(), e))
	}
	return errors.Join(err, d.release())
}

func (d *Driver) release() error {
	if d.engine != nil {
		d.engine.close()
	}
	return d.lock.Close()
}

// Name is "docker" or "podman".
func (d *Driver) Name() string { return d.cfg.Engine }

// Provision creates the container, in place of one of an earlier process. The same
// spec again changes nothing; another one is a Conflict while the environment runs
// and replaces it otherwise.
func (d *Driver) Provision(ctx context.Context, p runtime.PreparedSpec) error {
	if p.Digest() == "" {
		return nod.E(nod.Invalid, "the spec was not prepared", nil)
	}
	s := p.Spec()
	if d.cfg.Owner != "" && s.Owner != d.cfg.Owner {
		return nod.E(nod.Forbidden, "the environment belongs to another owner", nil)
	}
	if filepath.IsAbs(s.Image) {
		return &nod.Error{Code: nod.Unsupported, Msg: "a container has an image of the engine, not a directory", Hint: "import the directory's tar as an image"}
	}
	if err := d.checkLimits(s.Limits); err != nil {
		return err
	}
	e := d.envs.Make(s.ID, &environment{})
	e.mu.Lock()
	defer e.mu.Unlock()
	switch running := e.inst != nil && !e.inst.Ended(); {
	case e.prepared.Digest() == p.Digest():
		return nil
	case running:
		return nod.E(nod.Conflict, "the environment is running under another spec", nil)
	case e.prepared.Digest() != "" && e.prepared.Spec().Owner != s.Owner:
		return nod.E(nod.Conflict, "the environment's id belongs to another owner", nil)
	}
	if err := d.provision(ctx, e, p); err != nil {
		if e.prepared.Digest() == "" {
			d.envs.Forget(s.ID)
		}
		return err
	}
	return nil
}

func (d *Driver) provision(ctx context.Context, e *environment, p runtime.PreparedSpec) error {
	for _, src := range d.places(p) {
		// Podman 4 writes a mount as one line with commas between its options.
		if d.engine.podman && strings.ContainsAny(src.Path, ",\"") {
			return &nod.Error{Code: nod.Invalid, Msg: "Podman mounts no path that holds a comma or a quote", Hint: "move the directory"}
		}
	}
	if err := d.give(p); err != nil {
		return err
	}
	if err := d.makeSocketDir(p.Spec().ID); err != nil {
		return err
	}
	return d.create(ctx, e, p)
}

// create makes p's container, in place of any there is.
func (d *Driver) create(ctx context.Context, e *environment, p runtime.PreparedSpec) error {
	s := p.Spec()
	image, err := d.image(ctx, s.Image)
	if err != nil {
		return err
	}
	old, err := d.find(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, c := range old {
		if c.Labels[labelOwner] != s.Owner {
			return nod.E(nod.Conflict, "the environment's id belongs to another owner", nil)
		}
		if err := d.remove(ctx, c.ID); err != nil {
			return err
		}
	}
	var made struct {
		ID string `json:"Id"`
	}
	name := "nod-" + d.supervisor + "-" + s.ID
	if err := d.engine.call(ctx, "POST", "/containers/create"+query("name", name), d.body(p, image.ID), &made); err != nil {
		return nod.E(nod.Unavailable, "the engine does not create the container", err)
	}
	if !fullID(made.ID) {
		return nod.E(nod.Internal, "the engine answered with no container's id", nil)
	}
	e.prepared, e.container, e.image, e.used = p, made.ID, image, false
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
	if e.inst != nil && !e.inst.Ended() {
		return nod.Attestation{}, nod.E(nod.Conflict, "the environment is already running", nil)
	}
	// A container that ran has directories in its layer that the image has not, and
	// their modes would be the mounts'.
	if e.used {
		if err := d.create(ctx, e, e.prepared); err != nil {
			return nod.Attestation{}, err
		}
	}
	e.used = true
	inst, err := d.launch(ctx, e.prepared, e.container, e.image.Config.Env)
	if err != nil {
		return nod.Attestation{}, err
	}
	a, err := d.attest(ctx, inst, e.prepared)
	if err != nil {
		return a, errors.Join(err, inst.Stop(context.WithoutCancel(ctx)))
	}
	e.inst = inst
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
	if inst == nil || inst.Ended() {
		return nil, nod.E(nod.Conflict, "the environment is not running", nil)
	}
	return inst.Exec(ctx, c)
}

// UpdateEgress swaps the rules, of a running environment at once. They are no part
// of the container.
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
	if e.inst != nil && !e.inst.Ended() {
		if err := e.inst.Update(p.Policy()); err != nil {
			return err
		}
	}
	e.prepared = p
	return nil
}

// Stop kills the container; the kernel ends everything else in its pid namespace
// before its init can be waited for, and the engine says that it has ended.
func (d *Driver) Stop(ctx context.Context, id string) error {
	e, err := d.envs.Known(id)
	if err == nil {
		return d.stop(ctx, e)
	}
	left, ferr := d.find(ctx, id)
	if ferr != nil {
		return ferr
	}
	if len(left) == 0 {
		return err
	}
	for _, c := range left { // of an earlier process
		if err := d.engine.End(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) stop(ctx context.Context, e *environment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inst == nil {
		return nil
	}
	if err := e.inst.Stop(ctx); err != nil {
		return err
	}
	d.log.Info("environment stopped", "environment", e.prepared.Spec().ID)
	e.inst = nil
	return nil
}

// Delete stops the environment and removes its container. Workspace and home stay,
// and stay with the agent's user.
func (d *Driver) Delete(ctx context.Context, id string) error {
	if !runtime.ValidID(id) {
		return nod.E(nod.Invalid, "this is no environment id", nil)
	}
	if e, err := d.envs.Known(id); err == nil {
		if err := d.stop(ctx, e); err != nil {
			return err
		}
	}
	left, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	for _, c := range left {
		if err := d.remove(ctx, c.ID); err != nil {
			return err
		}
	}
	d.envs.Forget(id)
	if err := os.RemoveAll(d.socketDir(id)); err != nil {
		return nod.E(nod.Internal, "the environment's state cannot be removed", err)
	}
	return nil
}

// Inspect asks the engine.
func (d *Driver) Inspect(ctx context.Context, id string) (runtime.Status, error) {
	if !runtime.ValidID(id) {
		return runtime.Status{}, nod.E(nod.Invalid, "this is no environment id", nil)
	}
	found, err := d.find(ctx, id)
	if err != nil {
		return runtime.Status{}, err
	}
	if len(found) == 0 {
		return runtime.Status{}, nod.E(nod.NotFound, "there is no such environment", nil)
	}
	s := found[0].status()
	if e, err := d.envs.Known(id); err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.Digest = e.prepared.Digest() // the label does not know of later rules
	}
	return s, nil
}

// List asks the engine.
func (d *Driver) List(ctx context.Context, owner string) ([]runtime.Status, error) {
	all, err := d.engine.list(ctx, map[string]string{labelSupervisor: d.supervisor, labelOwner: owner})
	if err != nil {
		return nil, err
	}
	var out []runtime.Status
	for _, c := range all {
		if runtime.ValidID(c.Labels[labelEnv]) {
			out = append(out, c.status())
		}
	}
	slices.SortFunc(out, func(a, b runtime.Status) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func (d *Driver) socketDir(id string) string { return filepath.Join(d.cfg.StateDir, "sockets", id) }
