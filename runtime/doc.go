// Package runtime is verb ③, Start: the contract for hardened environments. A
// Spec becomes a PreparedSpec by Prepare, which refuses mount sources that could
// hand the host to the agent; a Driver takes nothing else.
//
// Only this package's drivers start processes in an environment. A driver that
// cannot enforce what a spec requires must refuse with code Unsupported and name
// what is missing; it must never run something weaker.
package runtime
