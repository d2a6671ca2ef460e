// Package lease is the host's end of one exec, for every driver: the frames of
// package guest over a connection whose end means that nobody answers for the
// exec any more.
//
// It owns the streams, their bounds and the proof of a kill. It must never say
// that something has ended without the word of who reaped it, or of the driver.
package lease
