package runtimetest

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const dialPatience = 3 * time.Second

// tryNetwork dials "network|address" each, and looks names up.
func tryNetwork(targets []string) error {
	var out []outcome
	noWay := []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EADDRNOTAVAIL}
	for _, t := range targets {
		network, address, _ := strings.Cut(t, "|")
		want := noWay
		if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsLoopback() {
			want = []error{unix.ECONNREFUSED}
		}
		out = append(out, judge(attempt{"C16", t, func() error {
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
		}, want}))
	}
	for _, name := range []string{"example.com", "host.docker.internal", "canary.nod.invalid"} {
		_, err := net.LookupHost(name)
		o := outcome{Check: "C18", Name: "resolve " + name, Got: fmt.Sprint(err), OK: err != nil}
		out = append(out, o)
	}
	out = append(out, judge(attempt{"C16", "a listener of one's own", func() error {
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
	}, mustWork}))
	return json.NewEncoder(os.Stdout).Encode(out)
}

// tryConnect writes the status line of the proxy's answer to each request line.
// One that starts with a method is sent as it is.
func tryConnect(requests []string) error {
	answers := map[string]string{}
	for _, r := range requests {
		answers[r] = request(r)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func request(r string) string {
	c, err := net.DialTimeout("tcp", "127.0.0.1:3128", dialPatience)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err.Error()
	}
	head := "CONNECT " + r + " HTTP/1.1\r\n\r\n"
	if strings.Contains(r, "\r\n") {
		head = r
	}
	if _, err := io.WriteString(c, head); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if f := strings.Fields(line); err == nil && len(f) > 1 {
		return f[1]
	}
	return "closed"
}

// tryTunnel fetches a URL through the proxy and writes the body.
func tryTunnel(args []string) error {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy),
		// The server is this test's own; who it is is not the question here.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}, Timeout: 10 * time.Second}
	resp, err := client.Post(args[0], "text/plain", os.Stdin)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// listenAll offers itself on a TCP port, an abstract and a path socket, and a
// shared memory file, says so and waits.
func listenAll(args []string) error {
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
// signal behind, prints "grown" once all run, and stays. With an argument it is
// one of them, so many levels deep.
func growTree(args []string) error {
	for _, s := range []string{
		`setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 600; done' >/dev/null 2>&1 &`,
		`(setsid sh -c '(setsid sleep 601 &) ; sleep 602' &) `,
		`nohup sleep 603 >/dev/null 2>&1 & (nohup setsid sleep 604 >/dev/null 2>&1 &)`,
		`(trap "" TERM; sleep 605) & sleep 606 &`,
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
	fmt.Println("grown")
	unix.Pause() // until killed
	return nil
}
