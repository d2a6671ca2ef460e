//go:build !linux

package linux

import (
	"context"
	goruntime "runtime"

	"nod"
	"nod/runtime"
)

// Driver exists on Linux only; New never returns one elsewhere.
type Driver struct{}

func unsupported() error {
	return &nod.Error{
		Code: nod.Unsupported, Msg: "the embedded driver needs Linux namespaces, this is " + goruntime.GOOS,
		Hint: "use a container driver, or run nod on a Linux machine",
	}
}

// New returns an error with code Unsupported.
func New(Config) (*Driver, error) { return nil, unsupported() }

// Name is "linux".
func (*Driver) Name() string { return "linux" }

// Capabilities says that nothing is supported.
func (*Driver) Capabilities(context.Context) runtime.Capabilities {
	return runtime.Capabilities{Missing: []string{"Linux namespaces: this is " + goruntime.GOOS}, Hint: "use a container driver, or run nod on a Linux machine"}
}

// Provision returns an error with code Unsupported.
func (*Driver) Provision(context.Context, runtime.PreparedSpec) error { return unsupported() }

// Start returns an error with code Unsupported.
func (*Driver) Start(context.Context, string) (nod.Attestation, error) {
	return nod.Attestation{}, unsupported()
}

// Exec returns an error with code Unsupported.
func (*Driver) Exec(context.Context, string, nod.Command) (nod.Process, error) {
	return nil, unsupported()
}

// Stop returns an error with code Unsupported.
func (*Driver) Stop(context.Context, string) error { return unsupported() }

// Delete returns an error with code Unsupported.
func (*Driver) Delete(context.Context, string) error { return unsupported() }

// List returns an error with code Unsupported.
func (*Driver) List(context.Context, string) ([]runtime.Status, error) { return nil, unsupported() }

// Close does nothing.
func (*Driver) Close() error { return nil }
