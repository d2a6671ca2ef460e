package plain

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// processes maps each live process to its parent; zombies are left out.
func processes() (map[int]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	out := map[int]int{}
	for _, e := range dirs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		i := bytes.LastIndexByte(stat, ')')
		f := strings.Fields(string(stat[i+1:]))
		if i < 0 || len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			out[pid] = parent
		}
	}
	return out, nil
}

// carries reports whether pid was started with the variable.
func carries(pid int, variable string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, b...), append(append([]byte{0}, variable...), 0))
}
