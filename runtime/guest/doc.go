// Package guest is the code that runs inside an environment, under the same
// binary as the supervisor or under cmd/nod-guest: the init that builds the
// environment around itself and then gives up every right to change it, the
// runner that holds one exec and proves its end, and the probe that says what a
// process inside sees of its isolation.
//
// It owns the frames spoken between host and guest. It must never trust what
// comes from inside the environment, start anything the host did not ask for, or
// go on after a step that did not work.
package guest
