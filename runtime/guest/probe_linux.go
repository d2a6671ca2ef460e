package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nod"
)

const (
	probeProxy   = "127.0.0.1:3128"
	probePatient = 2 * time.Second
)

// probeMain writes a Sighting.
func probeMain() int {
	out, err := json.Marshal(sight(os.Args[2:]))
	if err == nil {
		_, err = os.Stdout.Write(append(out, '\n'))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: probe: %v\n", err)
		return 1
	}
	return 0
}

// sight looks at this thread's own isolation and at the identity of paths. Every
// fact is tried, none is taken from what was asked for. What cannot be told is
// reported as missing.
func sight(paths []string) Sighting {
	s := Sighting{Namespaces: map[string]string{}}
	a := &s.Attestation
	note := func(what string, err error) {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: %v", what, err))
	}
	// The proxy answers from outside, meanwhile the rest is looked at.
	type answer struct {
		refused bool
		err     error
	}
	asked := make(chan answer, 1)
	go func() {
		refused, err := proxyRefuses(nod.ProbeHost + ":443")
		asked <- answer{refused, err}
	}()
	a.UID, a.GID = os.Getuid(), os.Getgid()
	if status, err := os.ReadFile("/proc/thread-self/status"); err != nil {
		note("status", err)
	} else {
		readStatus(status, &s)
	}
	for _, kind := range NamespaceKinds {
		link, err := os.Readlink("/proc/thread-self/ns/" + kind)
		if err != nil {
			note("namespace", err)
		}
		s.Namespaces[kind] = link
	}
	if list, err := net.Interfaces(); err != nil {
		note("interfaces", err)
	} else {
		for _, i := range list {
			a.Interfaces = append(a.Interfaces, i.Name)
		}
	}
	a.RootReadOnly = true
	for _, dir := range []string{"/", "/usr", "/etc", "/nod", "/dev"} {
		if _, err := os.Lstat(dir); dir == "/usr" && errors.Is(err, os.ErrNotExist) {
			continue // an image may do without; then "/" says that none can be made
		}
		// An engine's /dev is a file system of its own, and root's.
		if err := tryWrite(dir); !errors.Is(err, unix.EROFS) && (dir != "/dev" || !errors.Is(err, unix.EACCES)) {
			a.RootReadOnly = false
			note("write "+dir, err)
		}
	}
	// One of these is writable for us, as access(2) says that knows nothing of
	// landlock: only landlock stands before it.
	for _, dir := range []string{"/run", ProbeDir} {
		if unix.Access(dir, unix.W_OK) != nil {
			continue
		}
		if err := tryWrite(dir); errors.Is(err, unix.EACCES) {
			a.Landlock = landlockABI()
		} else {
			note("write "+dir, err)
		}
	}
	a.DirectRefused = true
	for _, d := range [][2]string{
		{"tcp", "192.0.2.1:443"}, {"udp", "192.0.2.1:53"}, {"tcp", "169.254.169.254:80"}, {"tcp", "[2001:db8::1]:443"}, {"udp", "[2001:db8::1]:53"},
	} {
		if err := direct(d[0], d[1]); !noRoute(err) {
			a.DirectRefused = false
			note("direct "+d[1], err)
		}
	}
	s.Files = map[string]string{}
	for _, p := range paths {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			note("identity", err)
			continue
		}
		s.Files[p] = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	s.Limits = seenLimits()
	proxy := <-asked
	if a.EgressRefused = proxy.refused; proxy.err != nil {
		note("proxy", proxy.err)
	}
	return s
}

// readStatus takes what the kernel says of this very thread.
func readStatus(status []byte, s *Sighting) {
	var union uint64
	sets := 0
	for sc := bufio.NewScanner(bytes.NewReader(status)); sc.Scan(); {
		key, value, _ := strings.Cut(sc.Text(), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
			if n, err := strconv.ParseUint(value, 16, 64); err == nil {
				union |= n
				sets++
			}
		case "NoNewPrivs":
			s.Attestation.NoNewPrivs = value == "1"
		case "Seccomp":
			s.Attestation.Seccomp = value == "2"
		}
	}
	if sets == 5 {
		s.Attestation.Capabilities = fmt.Sprintf("%016x", union)
	}
}

func tryWrite(dir string) error {
	name := dir + "/.nod-probe"
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Close(fd), unix.Unlink(name), errors.New("it was possible"))
}

// proxyRefuses reports whether the proxy answers a CONNECT with 403.
func proxyRefuses(authority string) (bool, error) {
	c, err := net.DialTimeout("tcp", probeProxy, probePatient)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(probePatient)); err != nil {
		return false, err
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority); err != nil {
		return false, err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return false, err
	}
	if f := strings.Fields(line); len(f) < 2 || f[1] != "403" {
		return false, errors.New("the proxy did not refuse an unlisted host")
	}
	return true, nil
}

func direct(network, address string) error {
	c, err := net.DialTimeout(network, address, probePatient)
	if err != nil {
		return err
	}
	if network == "udp" {
		_, err = c.Write([]byte("x"))
	}
	return errors.Join(err, c.Close())
}

func noRoute(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EADDRNOTAVAIL)
}
