package guest

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	relayed      = 512              // connections at once; more wait in the kernel's queue
	relayPatient = 10 * time.Second // for the host to accept
)

// relay passes every connection to l on to the host's socket. It looks at nothing:
// what is allowed is the host's to say.
func relay(l net.Listener, socket string) error {
	slots := make(chan struct{}, relayed)
	for {
		slots <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { <-slots }()
			host, err := net.DialTimeout("unix", socket, relayPatient)
			if err != nil {
				_ = c.Close() // the same as a host that refuses
				return
			}
			join(c, host)
		}()
	}
}

// join copies both ways, half-closes included, until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, d := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, err := io.Copy(d[1], d[0])
			h, ok := d[1].(interface{ CloseWrite() error })
			if err != nil || !ok || h.CloseWrite() != nil {
				_, _ = a.Close(), b.Close() // a broken side ends both
			}
		})
	}
	both.Wait()
	_, _ = a.Close(), b.Close()
}
