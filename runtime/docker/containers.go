package docker

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"nod"
	"nod/runtime"
)

// fullID reports whether id is a whole one, as the engine itself makes them. Nothing
// shorter is ever sent.
func fullID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == 32 && strings.ToLower(id) == id
}

// listed is one container as the engine lists it.
type listed struct {
	ID      string `json:"Id"`
	ImageID string
	Labels  map[string]string
	State   string
}

func (l listed) status() runtime.Status {
	return runtime.Status{ID: l.Labels[labelEnv], Owner: l.Labels[labelOwner], Running: l.running(), Digest: l.Labels[labelSpec], Image: l.ImageID}
}

// running errs on the side of running: of the states only these have no process.
func (l listed) running() bool {
	return !slices.Contains([]string{"created", "exited", "dead", "configured", "stopped", "initialized"}, l.State)
}

// list returns the containers that carry every one of labels with exactly that
// value. The engine's filter is looked at again: engines have matched by prefix.
func (e *engine) list(ctx context.Context, labels map[string]string) ([]listed, error) {
	var want []string
	for k, v := range labels {
		want = append(want, k+"="+v)
	}
	filters, err := json.Marshal(map[string][]string{"label": want})
	if err != nil {
		return nil, err
	}
	var all []listed
	if err := e.call(ctx, "GET", "/containers/json"+query("all", "1", "filters", string(filters)), nil, &all); err != nil {
		return nil, nod.E(nod.Unavailable, "the engine does not list its containers", err)
	}
	return slices.DeleteFunc(all, func(c listed) bool {
		for k, v := range labels {
			if got, ok := c.Labels[k]; !ok || got != v {
				return true
			}
		}
		return !fullID(c.ID)
	}), nil
}

// find returns the containers of one environment of this driver: none or one.
func (d *Driver) find(ctx context.Context, id string) ([]listed, error) {
	return d.engine.list(ctx, map[string]string{labelSupervisor: d.supervisor, labelEnv: id})
}

const endPatience = 20 * time.Second

// End kills a container and returns once the engine says that it has ended. One
// that is gone, or has ended already, is no error.
func (e *engine) End(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	// Podman says 500 of a container that ended meanwhile; whether it has is asked next.
	err := e.call(ctx, "POST", "/containers/"+id+"/kill"+query("signal", "KILL"), nil, nil)
	if refused(err, 404) {
		return nil
	}
	if err != nil && !refused(err, 409, 500) {
		return nod.E(nod.Unavailable, "the engine does not kill the container", err)
	}
	killed := err
	for {
		var c struct {
			State struct {
				Running bool
				Status  string
			}
		}
		err := e.call(ctx, "GET", "/containers/"+id+"/json", nil, &c)
		if refused(err, 404) {
			return nil
		}
		if err != nil {
			return nod.E(nod.Unavailable, "the engine does not say whether the container has ended", err)
		}
		if !c.State.Running && !(listed{State: c.State.Status}).running() {
			return nil
		}
		if killed != nil {
			return nod.E(nod.Unavailable, "the engine does not kill the container", killed)
		}
		select {
		case <-ctx.Done():
			return nod.E(nod.Unavailable, "the container was killed but its end is not proven yet", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// remove ends a container and removes it with its anonymous volumes.
func (d *Driver) remove(ctx context.Context, id string) error {
	if err := d.engine.End(ctx, id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for {
		err := d.engine.call(ctx, "DELETE", "/containers/"+id+query("force", "1", "v", "1"), nil, nil)
		if err == nil || refused(err, 404) {
			return nil
		}
		if !refused(err, 409) { // somebody else removes it
			return nod.E(nod.Unavailable, "the engine does not remove the container", err)
		}
		select {
		case <-ctx.Done():
			return nod.E(nod.Unavailable, "the engine does not remove the container", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweep ends what a process that died left running. That is nothing once the
// guest has seen that its host is gone. A container that is not running yet is asked
// for too: the engine may have been told to start it, and answers once it has.
func (d *Driver) sweep(ctx context.Context) error {
	all, err := d.engine.list(ctx, map[string]string{labelSupervisor: d.supervisor})
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := d.engine.End(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}
