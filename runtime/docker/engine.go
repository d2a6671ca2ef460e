package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nod"
)

// floor is the API version that Docker 20.10 and Podman 4.3 both speak.
const floor = "1.41"

const (
	callPatience = 60 * time.Second
	maxAnswer    = 8 << 20
)

// engine speaks the Engine API. Its methods are safe for concurrent use.
type engine struct {
	socket string
	api    string // "/v1.41"
	http   *http.Client
	podman bool
	about  string // name and version, for messages
	info   info
}

// version is what /version says.
type version struct {
	Version       string
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string
	Components    []struct{ Name string }
}

// info is what /info says of the limits and the rights of the engine.
type info struct {
	MemoryLimit     bool
	CPUCfsQuota     bool `json:"CpuCfsQuota"`
	PidsLimit       bool
	CgroupVersion   string
	SecurityOptions []string
}

func (i info) has(option string) bool {
	for _, o := range i.SecurityOptions {
		for _, part := range strings.Split(o, ",") {
			if part == "name="+option || part == option {
				return true
			}
		}
	}
	return false
}

// connect asks the engine who it is, and refuses one that is not as configured.
func connect(ctx context.Context, c Config) (*engine, error) {
	e := &engine{socket: c.Socket}
	e.http = &http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) },
		MaxIdleConns:    4,
		IdleConnTimeout: time.Minute,
	}}
	var v version
	if err := e.call(ctx, "GET", "/version", nil, &v); err != nil {
		return nil, &nod.Error{Code: nod.Unavailable, Msg: "the " + c.Engine + " engine does not answer on its socket", Hint: "is the engine running, and may this user open its socket?", Err: err}
	}
	for _, part := range v.Components {
		e.podman = e.podman || strings.Contains(part.Name, "Podman")
	}
	if e.podman != (c.Engine == Podman) {
		return nil, nod.E(nod.Invalid, "the engine on this socket is not "+c.Engine, nil)
	}
	e.about = c.Engine + " " + v.Version
	use := floor
	if newer(v.MinAPIVersion, floor) {
		use = v.MinAPIVersion
	}
	if newer(use, v.APIVersion) {
		return nil, nod.E(nod.Unsupported, "the engine's API is older than "+floor, fmt.Errorf("%s has %s", e.about, v.APIVersion))
	}
	e.api = "/v" + use
	if err := e.call(ctx, "GET", "/info", nil, &e.info); err != nil {
		return nil, nod.E(nod.Unavailable, "the engine does not describe itself", err)
	}
	return e, nil
}

func (e *engine) close() { e.http.CloseIdleConnections() }

func (e *engine) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "unix", e.socket)
}

// newer compares "1.41" with "1.5" by number; what is no number is oldest.
func newer(a, b string) bool {
	parse := func(s string) (major, minor int) {
		x, y, _ := strings.Cut(s, ".")
		major, errMajor := strconv.Atoi(x)
		minor, errMinor := strconv.Atoi(y)
		if errMajor != nil || errMinor != nil {
			return 0, 0
		}
		return major, minor
	}
	aMajor, aMinor := parse(a)
	bMajor, bMinor := parse(b)
	return aMajor > bMajor || aMajor == bMajor && aMinor > bMinor
}

// refusal is an answer with an error status.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the engine answered %d: %s", r.status, r.message)
}

// refused reports whether err is the engine's answer with one of statuses.
func refused(err error, statuses ...int) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, s := range statuses {
		if r.status == s {
			return true
		}
	}
	return false
}

// call sends one request with a JSON body and decodes the answer into into,
// which may be nil.
func (e *engine) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	var r io.Reader
	if body != nil {
		blob, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(blob)
	}
	text, err := e.send(ctx, method, path, "application/json", r)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// send sends one request and returns the whole answer.
func (e *engine) send(ctx context.Context, method, path, kind string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+e.api+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, refusalOf(resp.StatusCode, text)
	}
	return text, nil
}

func refusalOf(status int, text []byte) error {
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = fmt.Sprintf("%.300s", text)
	}
	return &refusal{status, said.Message}
}

func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "?" + q.Encode()
}

// stream posts body, reads progress messages to their end and returns the status
// of the last one. One that tells of an error is one.
func (e *engine) stream(ctx context.Context, path string, body io.Reader) (last string, err error) {
	text, err := e.send(ctx, "POST", path, "application/x-tar", body)
	if err != nil {
		return "", err
	}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return last, nil
		} else if err != nil {
			return "", err
		}
		if m.Error != "" {
			return "", errors.New(m.Error)
		}
		last = m.Status
	}
}
