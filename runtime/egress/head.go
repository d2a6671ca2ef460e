package egress

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// headCap is how many bytes a request head may have, its empty line included.
const headCap = 8 << 10

// errHeadTooLarge says that headCap bytes came without an empty line.
var errHeadTooLarge = errors.New("request head is over 8 KiB")

// readHead reads up to and including the empty line and nothing beyond it.
func readHead(r *bufio.Reader) (string, error) {
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		if len(head)+len(line) > headCap || errors.Is(err, bufio.ErrBufferFull) {
			return "", errHeadTooLarge
		}
		head = append(head, line...)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		if string(line) == "\r\n" || string(line) == "\n" {
			return string(head), nil
		}
	}
}

// toItself reports whether a head asks the proxy itself for something: a path, not
// an authority or the address of another server.
func toItself(head string) bool {
	method, rest, ok := strings.Cut(head, " ")
	return ok && isToken(method) && strings.HasPrefix(rest, "/")
}

// parseHead takes a CONNECT head apart. It is strict where parsers differ: CRLF
// only, single spaces, no control bytes, no folded lines, no body, at most one
// Host, which must name the same target.
func parseHead(head string) (target, Reason) {
	body, ok := strings.CutSuffix(head, "\r\n\r\n")
	if !ok {
		return target{}, BadRequest
	}
	lines := strings.Split(body, "\r\n")
	method, rest, ok := strings.Cut(lines[0], " ")
	if !ok || !isToken(method) {
		return target{}, BadRequest
	}
	authority, version, ok := strings.Cut(rest, " ")
	if method != "CONNECT" {
		return target{}, BadMethod
	}
	if !ok || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return target{}, BadRequest
	}
	hosts := 0
	host := ""
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || !isFieldValue(value) {
			return target{}, BadRequest
		}
		value = strings.Trim(value, " \t")
		switch lower(name) {
		case "host":
			hosts++
			host = value
		case "transfer-encoding":
			return target{}, BadRequest
		case "content-length":
			if value != "0" {
				return target{}, BadRequest
			}
		}
	}
	var k target
	var why Reason
	if k.host, k.port, why = parseAuthority(authority); why != "" {
		return target{}, why
	}
	if hosts > 1 || hosts == 1 && !sameHost(host, k) {
		return target{}, HostMismatch
	}
	return k, ""
}

// sameHost reports whether a Host header names k. Some clients leave the port out.
func sameHost(header string, k target) bool {
	if !strings.Contains(header, ":") {
		host, why := parseHost(header)
		return why == "" && host == k.host
	}
	host, port, why := parseAuthority(header)
	return why == "" && host == k.host && port == k.port
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
