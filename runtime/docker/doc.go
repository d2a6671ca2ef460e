// Package docker is the driver for environments in containers of a Docker or a
// Podman engine on this machine, over the Engine API on its unix socket.
//
// It owns the containers that carry its labels. It must never use an engine over
// a network, name anything by a pattern, pull an image that the configuration does
// not let it pull, hand the engine's socket in, or start a container that the
// guest inside cannot attest.
package docker
