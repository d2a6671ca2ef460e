//go:build linux && !amd64 && !arm64

package guest

import "errors"

func nativeFilter() (program, error) {
	return nil, errors.New("no system call table for this architecture")
}
