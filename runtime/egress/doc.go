// Package egress is the only way out of an environment: a CONNECT proxy that
// one listener serves for one environment, with an allowlist of exact hosts.
//
// It owns the order of the checks, which matters: head, authority grammar,
// allowlist, and only then name resolution (a refused name must never reach
// DNS), public addresses, dial of exactly the addresses that were checked, TLS
// with the allowed name as SNI, splice. Whatever is not understood is refused.
//
// What asks the proxy itself for a path goes to Config.Local unread, where there is
// one: the model gateway, which has its own rules.
//
// It must never decrypt, never speak plain HTTP itself, never follow a name the policy
// does not hold, and never put bytes of the guest into a reply.
//
// What it cannot see: the name inside the encrypted stream. A guest may ask an
// allowed content network for another of its customers by the inner Host
// header, or by the SNI of a second ClientHello after a HelloRetryRequest. Keep
// shared content networks off the allowlist. Encrypted ClientHello is passed on,
// because its outer name is the allowed one.
package egress
