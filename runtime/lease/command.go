package lease

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"nod"
	"nod/runtime"
	"nod/runtime/guest"
)

// environ is what every command has unless its Env says otherwise. The proxy's
// variables are a convenience: there is no other way out.
var environ = map[string]string{
	"PATH":   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME":   runtime.HomePath,
	"USER":   "agent",
	"TMPDIR": "/tmp",
	"LANG":   "C.UTF-8",

	"HTTPS_PROXY": proxyURL, "https_proxy": proxyURL,
	"HTTP_PROXY": proxyURL, "http_proxy": proxyURL,
	"ALL_PROXY": proxyURL, "all_proxy": proxyURL,
	"NO_PROXY": noProxy, "no_proxy": noProxy,
	"NODE_USE_ENV_PROXY": "1",
}

const (
	proxyURL = "http://" + runtime.ProxyAddress
	noProxy  = "localhost,127.0.0.1,::1"
)

// Encode checks c, completes its environment, from what the image asks for upwards,
// and returns the payload for Begin. Errors are Invalid or TooLarge.
func Encode(c nod.Command, image []string) ([]byte, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, nod.E(nod.Invalid, "the command is empty", nil)
	}
	g := guest.Command{Argv: c.Argv, Dir: c.Dir}
	if g.Dir == "" {
		g.Dir = runtime.WorkspacePath
	}
	if c.Terminal != nil {
		g.Terminal = c.Terminal
		if _, ok := c.Env["TERM"]; !ok {
			g.Env = append(g.Env, "TERM=xterm-256color")
		}
	}
	if !strings.HasPrefix(g.Dir, "/") {
		return nil, nod.E(nod.Invalid, "a command's directory must be absolute", nil)
	}
	env := map[string]string{}
	for _, v := range image {
		if k, value, ok := strings.Cut(v, "="); ok {
			env[k] = value
		}
	}
	path, own := env["PATH"]
	maps.Copy(env, environ)
	if own {
		env["PATH"] = path // an image knows where its tools are, and nothing else better
	}
	maps.Copy(env, c.Env)
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(env[k], 0) {
			return nil, nod.E(nod.Invalid, "a command's environment has a malformed variable", nil)
		}
		g.Env = append(g.Env, k+"="+env[k])
	}
	for _, a := range append([]string{g.Dir}, g.Argv...) {
		if strings.ContainsRune(a, 0) {
			return nil, nod.E(nod.Invalid, "a command's argument has a zero byte", nil)
		}
	}
	payload, err := json.Marshal(g)
	if err != nil {
		return nil, nod.E(nod.Internal, "the command has no form", err)
	}
	if len(payload) > guest.MaxPayload {
		return nil, nod.E(nod.TooLarge, "the command is longer than 2 MiB", nil)
	}
	return payload, nil
}
