package runtimetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const dialPatience = 10 * time.Second

var noWay = []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EADDRNOTAVAIL}

// tryNetwork dials "check|network|address" each.
func tryNetwork(targets []string) error {
	list := []attempt{
		{"C16", "a listener of one's own", ownListener, mustWork, true},
		{"C16", "ICMP", ping(unix.AF_INET, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}}), append(noWay, noAccess...), false},
		{"C16", "ICMPv6", ping(unix.AF_INET6, unix.IPPROTO_ICMPV6, &unix.SockaddrInet6{Addr: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}}), append(noWay, noAccess...), false},
	}
	for _, t := range targets {
		check, target, _ := strings.Cut(t, "|")
		network, address, _ := strings.Cut(target, "|")
		want := noWay
		if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsLoopback() {
			want = []error{unix.ECONNREFUSED, unix.EADDRNOTAVAIL} // the latter where loopback has one family
		}
		list = append(list, attempt{check, target, func() error { return exchange(network, address) }, want, false})
	}
	return report(list)
}

func exchange(network, address string) error {
	c, err := net.DialTimeout(network, address, dialPatience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(dialPatience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// ping sends with the one kind of socket for it that needs no capability.
func ping(family, protocol int, to unix.Sockaddr) func() error {
	return func() error {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, protocol)
		if err != nil {
			return err
		}
		kind := byte(8) // echo request
		if family == unix.AF_INET6 {
			kind = 128
		}
		return errors.Join(unix.Sendto(fd, []byte{kind, 0, 0, 0, 0, 0, 0, 0}, 0, to), unix.Close(fd))
	}
}

func ownListener() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.DialTimeout("tcp", l.Addr().String(), dialPatience)
	if err != nil {
		return err
	}
	return c.Close()
}

// tryNames looks names up as any program would.
func tryNames(names []string) error {
	list := []attempt{{"C18", "resolve localhost", func() error { _, err := net.LookupHost("localhost"); return err }, mustWork, true}}
	for _, name := range names {
		list = append(list, attempt{"C18", "resolve " + name, func() error {
			_, err := net.LookupHost(name)
			if err != nil {
				return unix.ENETUNREACH // however it says so
			}
			return nil
		}, noWay, false})
	}
	return report(list)
}

// listenAll offers itself on a TCP port, an abstract and a path socket, and a
// shared memory file, says so and waits.
func listenAll([]string) error {
	for _, at := range [][2]string{{"tcp", "127.0.0.1:9999"}, {"unix", "@nod-try"}, {"unix", "/tmp/nod-try.sock"}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			return err
		}
		defer l.Close()
	}
	if err := os.WriteFile("/dev/shm/nod-try", []byte("x"), 0o666); err != nil {
		return err
	}
	fmt.Println("listening")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// growTree starts processes that leave their parent, their session and every
// signal behind, prints "grown" once all run, and stays. Each sleeps for mark
// with a digit of its own behind it.
func growTree(args []string) error {
	m := args[0]
	for _, s := range []string{
		`setsid sh -c 'trap "" TERM HUP INT; while :; do sleep ` + m + `0; done' >/dev/null 2>&1 &`,
		`(setsid sh -c '(setsid sleep ` + m + `1 &) ; sleep ` + m + `2' &) `,
		`nohup sleep ` + m + `3 >/dev/null 2>&1 & (nohup setsid sleep ` + m + `4 >/dev/null 2>&1 &)`,
		`(trap "" TERM; sleep ` + m + `5) & sleep ` + m + `6 &`,
	} {
		c := exec.Command("sh", "-c", s)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Stdout = os.Stdout // descendants hold the pipe
		if err := c.Start(); err != nil {
			return err
		}
		if err := c.Wait(); err != nil {
			return err
		}
	}
	for i := range 7 {
		for showing("sleep\x00"+m+strconv.Itoa(i)) == 0 { // not yet become its sleep
			time.Sleep(time.Millisecond)
		}
	}
	fmt.Println("grown")
	unix.Pause() // until killed
	return nil
}

// treeSize is how many processes of growTree show its mark at least, itself among them.
const treeSize = 8

// count says how many processes show a mark, itself left out.
func count(args []string) error {
	fmt.Println(showing(args[0]))
	return nil
}

func showing(mark string) (n int) {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return -1
	}
	for _, e := range list {
		if e.Name()[0] < '1' || e.Name()[0] > '9' || e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.Contains(string(text), mark) {
			n++
		}
	}
	return n
}
