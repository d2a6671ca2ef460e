package docker

import (
	"context"

	"nod"
	"nod/runtime"
	"nod/runtime/contain"
)

var _ contain.Engine = (*engine)(nil)

// launch starts a container whose places are still the ones that were judged.
func (d *Driver) launch(ctx context.Context, p runtime.PreparedSpec, container string, env []string) (*contain.Instance, error) {
	if err := d.samePlaces(p); err != nil {
		return nil, err
	}
	s := p.Spec()
	way := d.cfg.Egress
	way.Policy, way.Environment = p.Policy(), s.ID
	return contain.Start(ctx, contain.Config{ID: s.ID, Container: container, Engine: d.engine, SocketDir: d.socketDir(s.ID),
		Landlock: d.cfg.Landlock, Env: env, Egress: way, Log: d.log})
}

// Start starts a container.
func (e *engine) Start(ctx context.Context, id string) error {
	if err := e.call(ctx, "POST", "/containers/"+id+"/start", nil, nil); err != nil {
		return startError(err)
	}
	return nil
}

// Exec creates an exec and takes its connection over.
func (e *engine) Exec(ctx context.Context, id string, argv []string) (contain.Streams, error) {
	var made struct {
		ID string `json:"Id"`
	}
	create := map[string]any{"AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Tty": false, "User": agent, "WorkingDir": "/", "Cmd": argv}
	if err := e.call(ctx, "POST", "/containers/"+id+"/exec", create, &made); err != nil {
		return nil, execError(err)
	}
	if !fullID(made.ID) {
		return nil, nod.E(nod.Internal, "the engine answered with no exec's id", nil)
	}
	s, err := e.hijack(ctx, "/exec/"+made.ID+"/start", map[string]any{"Detach": false, "Tty": false})
	if err != nil {
		return nil, execError(err)
	}
	return s, nil
}

func execError(err error) error {
	if refused(err, 404, 409) {
		return nod.E(nod.Conflict, "the environment is not running", err)
	}
	return nod.E(nod.Unavailable, "the engine does not start the command", err)
}
