// Package apple is the driver for environments in the virtual machines of Apple's
// container, by its command line program, 1.2.0 or later.
//
// It is tested against a double of that program on Linux, never yet against the
// program itself. It owns what carries its labels. It must never give the program
// an environment of its own to leak, use --all, a network or --ssh, put a secret
// into an argument, or rely on a signal that the program would have to forward.
package apple
