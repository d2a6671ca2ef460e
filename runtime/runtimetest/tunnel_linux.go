package runtimetest

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// nul stands for a zero byte in a request: an argument holds none.
const nul = "<NUL>"

const answerPatience = 8 * time.Second

func dialProxy() (net.Conn, error) {
	network, address := "tcp", "127.0.0.1:3128"
	if path := os.Getenv(proxyVariable); path != "" {
		network, address = "unix", path
	}
	c, err := net.DialTimeout(network, address, dialPatience)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(answerPatience))
}

// tryConnect writes the status of the proxy's answer to each request. One that
// holds a line's end is sent as it is.
func tryConnect(requests []string) error { return askEach(requests, dialProxy) }

// tryRelayed is tryConnect through a proxy that the agent runs itself.
func tryRelayed(requests []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := dialProxy()
				if err != nil {
					return
				}
				defer up.Close()
				go io.Copy(up, c)
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return askEach(requests, func() (net.Conn, error) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		return c, c.SetDeadline(time.Now().Add(answerPatience))
	})
}

func askEach(requests []string, dial func() (net.Conn, error)) error {
	answers := map[string]string{}
	for _, r := range requests {
		answers[r] = request(r, dial)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// tryEach keeps the order, so that a request may come more than once.
func tryEach(requests []string) error {
	var answers []string
	for _, r := range requests {
		answers = append(answers, request(r, dialProxy))
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func request(r string, dial func() (net.Conn, error)) string {
	c, err := dial()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	r = strings.ReplaceAll(r, nul, "\x00")
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

// trySlow sends a head byte by byte and never its end, and says how that ended.
func trySlow([]string) error {
	c, err := dialProxy()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	head := "CONNECT a.example:443 HTTP/1.1\r\nX-Slow: "
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		b := byte('x')
		if i < len(head) {
			b = head[i]
		}
		if _, err := c.Write([]byte{b}); err != nil {
			break
		}
		select {
		case err := <-ended:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return errors.New("it was kept open")
			}
			fmt.Println("closed")
			return nil
		case <-tick.C:
		}
	}
	fmt.Println("closed")
	return nil
}

// tunnelModes is what one says inside a tunnel to its host.
var tunnelModes = map[string]func(c net.Conn, host string) error{
	"echo": func(c net.Conn, host string) error { return echoTLS(c, &tls.Config{ServerName: host}) },
	"split": func(c net.Conn, host string) error {
		return echoTLS(&splitConn{Conn: c}, &tls.Config{ServerName: host})
	},
	"other": func(c net.Conn, _ string) error { return echoTLS(c, &tls.Config{ServerName: "other.example"}) },
	"none":  func(c net.Conn, _ string) error { return echoTLS(c, &tls.Config{}) },
	"plain": func(c net.Conn, host string) error { return say(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n") },
	"again": func(c net.Conn, _ string) error { return say(c, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n") },
	"late":  late,
	"hold":  holdTunnel,
}

// tryTunnel opens a tunnel and says what came of it on stdout: what the host
// answered, or "closed".
func tryTunnel(args []string) error {
	mode, host := args[0], args[1]
	c, err := dialProxy()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "CONNECT %s:443 HTTP/1.1\r\n\r\n", host); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	for i := 0; ; i++ {
		line, err := r.ReadString('\n')
		if err != nil || i == 0 && !strings.Contains(line, " 200 ") {
			return fmt.Errorf("the proxy answered %q, %w", line, err)
		}
		if line == "\r\n" {
			break
		}
	}
	if err := tunnelModes[mode](c, host); err != nil {
		fmt.Printf("closed: %v\n", err)
	}
	return nil
}

// echoTLS sends stdin, ends that direction and prints all that comes.
func echoTLS(conn net.Conn, config *tls.Config) error {
	config.InsecureSkipVerify = true // the server is this test's own; who it is is not the question
	c := tls.Client(conn, config)
	if err := c.Handshake(); err != nil {
		return err
	}
	if _, err := io.Copy(c, os.Stdin); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(os.Stdout, c)
	return err
}

// say sends text and wants an answer.
func say(c net.Conn, text string) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if len(b) == 0 {
		return errors.Join(err, io.EOF)
	}
	fmt.Printf("%q\n", b)
	return nil
}

// holdTunnel says "open" once bytes have come back, then waits for the end.
func holdTunnel(conn net.Conn, host string) error {
	c := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	fmt.Println("open")
	_, err := c.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it was kept open: %w", err)
	}
	fmt.Println("cut")
	return nil
}

// splitConn cuts the first flight into TLS records of 50 bytes.
type splitConn struct {
	net.Conn
	once sync.Once
}

func (c *splitConn) Write(b []byte) (n int, err error) {
	whole := true
	c.once.Do(func() {
		whole = false
		_, err = c.Conn.Write(records(b, 50))
	})
	if whole {
		return c.Conn.Write(b)
	}
	return len(b), err
}

// records cuts the messages of TLS records into smaller records.
func records(b []byte, size int) (out []byte) {
	for len(b) > 5 {
		n := min(int(binary.BigEndian.Uint16(b[3:])), len(b)-5)
		for part := b[5 : 5+n]; len(part) > 0; {
			k := min(size, len(part))
			out = append(out, b[0], b[1], b[2], byte(k>>8), byte(k))
			out, part = append(out, part[:k]...), part[k:]
		}
		b = b[5+n:]
	}
	return out
}

// late sends a hello whose server name comes behind 2 KiB of padding, and wants
// the server's own hello back.
func late(c net.Conn, host string) error {
	hello, err := capture(host)
	if err != nil {
		return err
	}
	if hello, err = nameLast(hello); err != nil {
		return err
	}
	if _, err := c.Write(hello); err != nil {
		return err
	}
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return err
	}
	fmt.Printf("record %d\n", first[0])
	return nil
}

type captured struct {
	net.Conn
	hello []byte
}

var errCaptured = errors.New("captured")

func (c *captured) Write(b []byte) (int, error) {
	c.hello = append(c.hello, b...)
	return 0, errCaptured
}

// capture is the record of crypto/tls's own hello.
func capture(host string) ([]byte, error) {
	c := &captured{}
	if err := tls.Client(c, &tls.Config{ServerName: host}).Handshake(); !errors.Is(err, errCaptured) {
		return nil, err
	}
	return c.hello, nil
}

// nameLast moves the server name of a hello, one record, behind padding.
func nameLast(record []byte) ([]byte, error) {
	at := 5 + 4 + 2 + 32                  // record header, message header, version, random
	for _, size := range []int{1, 2, 1} { // session, suites, compression
		if at+size > len(record) {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(record[at])
		if size == 2 {
			n = int(binary.BigEndian.Uint16(record[at:]))
		}
		at += size + n
	}
	if at+2 > len(record) {
		return nil, io.ErrUnexpectedEOF
	}
	var rest, name []byte
	for exts := record[at+2:]; len(exts) >= 4; {
		n := 4 + int(binary.BigEndian.Uint16(exts[2:]))
		if n > len(exts) {
			return nil, io.ErrUnexpectedEOF
		}
		if binary.BigEndian.Uint16(exts) == 0 {
			name = exts[:n]
		} else {
			rest = append(rest, exts[:n]...)
		}
		exts = exts[n:]
	}
	if name == nil {
		return nil, errors.New("the hello has no server name")
	}
	padding := append([]byte{0, 21, 8, 0}, make([]byte, 2048)...)
	all := append(append(rest, padding...), name...)
	out := append([]byte{}, record[:at]...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(all)))
	out = append(out, all...)
	binary.BigEndian.PutUint16(out[3:], uint16(len(out)-5))
	out[6], out[7], out[8] = byte((len(out)-9)>>16), byte((len(out)-9)>>8), byte(len(out)-9)
	return out, nil
}
