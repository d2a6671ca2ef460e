package nod

import "errors"

// Code classifies an error for machines. The zero value means Internal.
type Code string

const (
	Internal        Code = "internal"
	Invalid         Code = "invalid"         // the input is wrong; saying it again will not help
	NotFound        Code = "not_found"       //
	Conflict        Code = "conflict"        // the state or version moved on, or the transition is forbidden
	Unauthenticated Code = "unauthenticated" // who are you
	Forbidden       Code = "forbidden"       // you may not
	Expired         Code = "expired"         // too late
	TooLarge        Code = "too_large"       // over a documented cap
	RateLimited     Code = "rate_limited"    // later
	Unavailable     Code = "unavailable"     // a transport or a peer failed; a retry may help
	Unsupported     Code = "unsupported"     // this host or driver cannot do it, and nothing weaker is tried
	NeedsHuman      Code = "needs_human"     // only a person can tell
	Failed          Code = "failed"          // the task itself ended badly
)

// meaning is the one table from a code to the languages it is spoken in. The statuses
// are numbers: net/http would be in every process that an environment starts with.
var meaning = map[Code]struct{ status, exit int }{
	Internal:        {500, 1},
	Invalid:         {400, 2},
	NotFound:        {404, 3},
	Conflict:        {409, 5},
	Unauthenticated: {401, 4},
	Forbidden:       {403, 4},
	Expired:         {410, 7},
	TooLarge:        {413, 2},
	RateLimited:     {429, 1},
	Unavailable:     {503, 1},
	Unsupported:     {501, 1},
	NeedsHuman:      {409, 6},
	Failed:          {500, 10},
}

// HTTPStatus is the status that tells c to an HTTP client; 500 for an unknown code.
func (c Code) HTTPStatus() int {
	if m, ok := meaning[c]; ok {
		return m.status
	}
	return 500
}

// ExitCode is the process exit status that tells c to a shell: 0 is never
// returned, 1 stands for an unknown code. The numbers are documented in README.md.
func (c Code) ExitCode() int {
	if m, ok := meaning[c]; ok {
		return m.exit
	}
	return 1
}

// Error is the error of this project. Msg may be shown to strangers; Err stays
// in the log. Hint, when set, says what the reader can do about it.
type Error struct {
	Code Code
	Msg  string
	Hint string
	Err  error
}

// E makes an Error with no hint. err may be nil.
func E(code Code, msg string, err error) *Error { return &Error{Code: code, Msg: msg, Err: err} }

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the outermost Error in err's chain, or Internal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Code
	}
	return Internal
}

// PublicMessage returns what a stranger may read of err: the outermost Msg, or a
// constant when err was not made for strangers.
func PublicMessage(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Msg
	}
	return "something went wrong inside nod"
}
