// Package runtimetest is the conformance suite that every runtime driver passes,
// and what tests everywhere use to say that a part of the machine is missing.
//
// Run starts real environments and has a program inside try to get out. The
// program is the test binary itself, which every environment has at nod.GuestPath:
// call Dispatch in TestMain, behind guest.Dispatch.
package runtimetest
