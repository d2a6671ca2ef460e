package image

import (
	"context"
	"errors"
	"net/http"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"nod"
)

func newTransport() http.RoundTripper {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: time.Minute, ForceAttemptHTTP2: true}
}

// Check refuses what is no image reference.
func Check(reference string) error {
	_, err := name.ParseReference(reference)
	if err != nil {
		return nod.E(nod.Invalid, "this is no image reference", err)
	}
	return nil
}

// Pull fetches the image that reference names from its registry and unpacks it.
// The registry is asked as nobody: no credentials of this machine are read, and
// a private image comes as an archive. One that would be spoken to in clear text
// is taken on this machine only, or for a reference by digest.
func (s *Store) Pull(ctx context.Context, reference string) (Image, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "this is no image reference", err)
	}
	if _, pinned := ref.(name.Digest); !pinned && ref.Context().Scheme() != "https" && !loopback(ref.Context().RegistryStr()) {
		return Image{}, &nod.Error{Code: nod.Forbidden, Msg: "the registry would be spoken to in clear text, so a tag proves nothing", Hint: "name the image by digest: name@sha256:…"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// What a registry says of a tag is only taken when it was asked for.
	platform := v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithTransport(s.cfg.Transport),
		remote.WithAuth(authn.Anonymous), remote.WithUserAgent("nod"), remote.WithJobs(1))
	if err != nil {
		return Image{}, transportError("the registry does not give the image", err)
	}
	digest, err := img.Digest()
	if err != nil {
		return Image{}, transportError("the registry does not give the image", err)
	}
	return s.oci(ctx, img, digest, reference)
}

func loopback(registry string) bool {
	return registry == "localhost" || strings.HasPrefix(registry, "localhost:") || strings.HasPrefix(registry, "127.") || strings.HasPrefix(registry, "[::1]")
}

// transportError gives an error of a registry its code.
func transportError(msg string, err error) error {
	var t *transport.Error
	switch {
	case errors.As(err, &t) && t.StatusCode == http.StatusNotFound:
		return nod.E(nod.NotFound, msg+": it has none of that name", err)
	case errors.As(err, &t) && (t.StatusCode == http.StatusUnauthorized || t.StatusCode == http.StatusForbidden):
		return &nod.Error{Code: nod.Forbidden, Msg: msg + ": it is private, or not there", Hint: "save it to a file and name that as the archive", Err: err}
	}
	return nod.E(nod.Unavailable, msg, err)
}
