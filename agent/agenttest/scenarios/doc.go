// Package scenarios drives a real agent program inside real environments, through
// their egress proxy, against a mock model: one list for every program. It owns the
// environments, the list and what must hold after each: what ran had been allowed,
// and no process is left. The caller says how its program's model and configuration
// are spelt. It is for tests, and must never be linked into a program.
package scenarios
