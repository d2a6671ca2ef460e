package egress

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Verdict says which of three things an Event reports.
type Verdict string

const (
	Allowed Verdict = "allow"  // a tunnel was opened
	Denied  Verdict = "deny"   // a request was refused, or a tunnel before its first byte
	Closed  Verdict = "closed" // an opened tunnel ended
)

// Reason is a fixed word: why a request was refused or how a tunnel ended. It is
// what X-Nod-Deny carries.
type Reason string

// Why a request was refused.
const (
	BadRequest    Reason = "bad_request"    // no well-formed HTTP/1 head
	BadMethod     Reason = "bad_method"     // anything but CONNECT
	HeadTooLarge  Reason = "head_too_large" // over 8 KiB
	HeadTimeout   Reason = "head_timeout"   // over 10 s
	BadAuthority  Reason = "bad_authority"  // not host:port
	IPLiteral     Reason = "ip_literal"     // an address, however spelled
	HostMismatch  Reason = "host_mismatch"  // the Host header names another target
	NotAllowed    Reason = "not_allowed"    // not on the list; nothing was resolved
	TooMany       Reason = "too_many"       // the cap on tunnels
	ResolveFailed Reason = "resolve_failed" //
	NotPublic     Reason = "not_public"     // at least one address is not public
	DialFailed    Reason = "dial_failed"    //
	NotTLS        Reason = "not_tls"        // the stream is no TLS ClientHello
	NoSNI         Reason = "no_sni"         //
	SNIMismatch   Reason = "sni_mismatch"   //
)

// How an allowed tunnel ended. PolicyChanged and Stopped may also refuse one that
// is being set up.
const (
	Finished      Reason = "finished" // both sides were done
	Broken        Reason = "broken"   // a side reset the connection
	Idle          Reason = "idle"     // no byte either way for the idle cap
	ByteCap       Reason = "byte_cap"
	PolicyChanged Reason = "policy_changed"
	Stopped       Reason = "stopped"
)

// status is the HTTP status that a refusal before the tunnel is told with.
func (r Reason) status() int {
	switch r {
	case BadRequest, HostMismatch:
		return http.StatusBadRequest
	case BadMethod:
		return http.StatusMethodNotAllowed
	case HeadTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case HeadTimeout:
		return http.StatusRequestTimeout
	case ResolveFailed, DialFailed:
		return http.StatusBadGateway
	case TooMany, Stopped:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

// Event is one line of the audit. Host is empty unless it passed the host
// grammar, so it never holds more than letters, digits, hyphens and dots; it is
// still chosen by the guest.
type Event struct {
	At          time.Time `json:"at"`
	Environment string    `json:"environment"`
	Host        string    `json:"host,omitempty"`
	Port        int       `json:"port,omitempty"`
	Verdict     Verdict   `json:"verdict"`
	Reason      Reason    `json:"reason,omitempty"`
	Up          int64     `json:"up,omitempty"`         // bytes from the guest
	Down        int64     `json:"down,omitempty"`       // bytes to the guest
	Suppressed  int64     `json:"suppressed,omitempty"` // denials before this one that the rate limit kept back
}

// audit hands events on. Denials are limited, because a guest can make any
// number of them; how many were kept back is told with the next.
type audit struct {
	emit  func(Event)
	mu    sync.Mutex
	limit *rate.Limiter
	kept  int64
	last  Event
}

func (a *audit) record(e Event) {
	if e.Verdict == Denied {
		a.mu.Lock()
		if !a.limit.AllowN(e.At, 1) {
			a.kept++
			a.last = e
			a.mu.Unlock()
			return
		}
		e.Suppressed, a.kept = a.kept, 0
		a.mu.Unlock()
	}
	a.emit(e)
}

// flush tells of denials that were kept back and followed by none.
func (a *audit) flush() {
	a.mu.Lock()
	e, kept := a.last, a.kept
	a.kept = 0
	a.mu.Unlock()
	if kept > 0 {
		e.Suppressed = kept - 1
		a.emit(e)
	}
}
