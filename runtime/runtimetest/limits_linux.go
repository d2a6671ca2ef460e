package runtimetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hold touches so many bytes and says so.
func hold(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	fmt.Println("held")
	return nil
}

// spin keeps two threads busy for a second and says how much CPU time that gave,
// in milliseconds.
func spin([]string) error {
	end := time.Now().Add(time.Second)
	goruntime.GOMAXPROCS(3)
	for range 2 {
		go func() {
			for time.Now().Before(end) {
			}
		}()
	}
	time.Sleep(time.Until(end))
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return err
	}
	fmt.Println((u.Utime.Nano() + u.Stime.Nano()) / 1e6)
	return nil
}

// openFiles opens until the limit and says how many there were.
func openFiles([]string) error {
	for n := 0; ; n++ {
		_, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			fmt.Println(n)
			return nil
		}
		if err != nil || n > 1<<20 {
			return fmt.Errorf("after %d files: %w", n, err)
		}
	}
}

// fillPlace says how many bytes fitted.
func fillPlace(args []string) error {
	n, err := fillUp(args[0], 1<<30)
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%d bytes fitted: %w", n, err)
	}
	fmt.Println(n)
	return nil
}

// writable prints each directory, to a depth, in which a file can be made. What
// lies below one of them is not looked at again.
func writable([]string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	roots := map[string]bool{"/": true}
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 4 {
			roots[f[4]] = true
		}
	}
	seen := map[string]bool{}
	for r := range roots {
		err := filepath.WalkDir(r, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // what cannot be read is not written either
			}
			if p == "/proc" || seen[p] || strings.Count(strings.TrimPrefix(p, r), "/") > 3 {
				return filepath.SkipDir
			}
			seen[p] = true
			name := p + "/.nod-walk"
			fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return nil
			}
			fmt.Println(p)
			if err := errors.Join(unix.Close(fd), unix.Unlink(name)); err != nil {
				return err
			}
			return filepath.SkipDir
		})
		if err != nil {
			return err
		}
	}
	return nil
}
