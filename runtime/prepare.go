package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nod"
	"nod/runtime/egress"
)

// PreparedSpec is a Spec that Prepare has judged: every source is resolved and
// known by file identity. Only Prepare makes one; the zero value is refused by
// every driver.
type PreparedSpec struct {
	spec      Spec
	policy    *egress.Policy
	image     Source
	workspace Source
	home      Source
	mounts    []Source
	digest    string
}

// Source is a resolved mount source. A driver opens Path and must find the file
// that Info describes, by os.SameFile, or refuse.
type Source struct {
	Path   string
	Target string
	Info   fs.FileInfo
}

// Spec returns the resolved spec, a copy.
func (p PreparedSpec) Spec() Spec {
	s := p.spec
	s.Mounts, s.Egress = slices.Clone(s.Mounts), slices.Clone(s.Egress)
	return s
}

// Policy is the compiled egress policy.
func (p PreparedSpec) Policy() *egress.Policy { return p.policy }

// Image is the root directory, or a Source without Info for HostImage and for a
// reference, which only the driver can look up.
func (p PreparedSpec) Image() Source { return p.image }

// Workspace is the directory seen at WorkspacePath.
func (p PreparedSpec) Workspace() Source { return p.workspace }

// Home is the directory seen at HomePath; its Info is nil for a tmpfs.
func (p PreparedSpec) Home() Source { return p.home }

// Mounts are the further read-only sources.
func (p PreparedSpec) Mounts() []Source { return slices.Clone(p.mounts) }

// Digest identifies the resolved spec: hex SHA-256, empty for the zero value.
func (p PreparedSpec) Digest() string { return p.digest }

// The lengths are not in the expressions: each time that something is counted it is
// compiled, in every process that an environment starts with.
var (
	idForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	ownerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// imageForm is what a reference may hold; the driver knows the rest of the grammar.
	imageForm = regexp.MustCompile(`^[A-Za-z0-9\[][A-Za-z0-9._:/@\[\]-]*$`)
)

const (
	maxID     = 64
	maxOwner  = 128
	maxImage  = 512
	maxMounts = 32
)

// ValidID reports whether id can be an environment's.
func ValidID(id string) bool { return len(id) <= maxID && idForm.MatchString(id) }

// Prepare judges s. Sources are resolved through every symbolic link first, then
// refused when they are, lie in or contain something denied (compared by file
// identity, so that no second name gets around it), and must lie inside an
// allowed root. It returns Invalid for a malformed spec and Forbidden for a
// source that may not be handed in.
func Prepare(s Spec, r Roots) (PreparedSpec, error) {
	if !ValidID(s.ID) {
		return PreparedSpec{}, nod.E(nod.Invalid, "an environment id is 1 to 64 of a-z, 0-9 and -", nil)
	}
	if len(s.Owner) > maxOwner || !ownerForm.MatchString(s.Owner) {
		return PreparedSpec{}, nod.E(nod.Invalid, "an environment's owner is 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'", nil)
	}
	if err := s.Limits.check(); err != nil {
		return PreparedSpec{}, err
	}
	j, err := newJudge(r)
	if err != nil {
		return PreparedSpec{}, err
	}
	p := PreparedSpec{spec: s}
	p.spec.Egress = slices.Clone(s.Egress)
	if p.policy, err = egress.NewPolicy(p.spec.Egress); err != nil {
		return PreparedSpec{}, nod.E(nod.Invalid, "the egress rules are not valid", err)
	}
	if filepath.IsAbs(s.Image) {
		if p.image, err = j.source("image", s.Image, "/", dirOnly); err != nil {
			return PreparedSpec{}, err
		}
		p.spec.Image = p.image.Path
	} else if s.Image != HostImage && (len(s.Image) > maxImage || !imageForm.MatchString(s.Image)) {
		return PreparedSpec{}, nod.E(nod.Invalid, "an image is "+HostImage+", an absolute path or a reference", nil)
	}
	if p.workspace, err = j.source("workspace", s.Workspace, WorkspacePath, dirOnly); err != nil {
		return PreparedSpec{}, err
	}
	p.spec.Workspace = p.workspace.Path
	if s.Home != "" {
		if p.home, err = j.source("home", s.Home, HomePath, dirOnly); err != nil {
			return PreparedSpec{}, err
		}
		p.spec.Home = p.home.Path
	}
	if err := p.takeMounts(j, s.Mounts); err != nil {
		return PreparedSpec{}, err
	}
	if err := p.distinct(); err != nil {
		return PreparedSpec{}, err
	}
	return p, p.sign()
}

// WithEgress is p with other rules; it is Invalid when one of them is.
func (p PreparedSpec) WithEgress(rules []egress.Rule) (PreparedSpec, error) {
	policy, err := egress.NewPolicy(rules)
	if err != nil {
		return PreparedSpec{}, nod.E(nod.Invalid, "the egress rules are not valid", err)
	}
	p.policy, p.spec.Egress = policy, slices.Clone(rules)
	return p, p.sign()
}

func (p *PreparedSpec) sign() error {
	blob, err := json.Marshal(p.spec)
	if err != nil {
		return nod.E(nod.Internal, "the spec has no digest", err)
	}
	sum := sha256.Sum256(blob)
	p.digest = hex.EncodeToString(sum[:])
	return nil
}

func (p *PreparedSpec) takeMounts(j *judge, mounts []Mount) error {
	if len(mounts) > maxMounts {
		return nod.E(nod.Invalid, "an environment has at most 32 further mounts", nil)
	}
	p.spec.Mounts = nil
	for _, m := range mounts {
		if !targetAllowed(m.Target) {
			return nod.E(nod.Invalid, "a mount's target must be a clean path below /opt, /srv, /mnt or "+HomePath, nil)
		}
		for _, other := range p.mounts {
			if within(m.Target, other.Target) || within(other.Target, m.Target) {
				return nod.E(nod.Invalid, "two mounts share a target", nil)
			}
		}
		src, err := j.source("mount", m.Source, m.Target, dirOrFile)
		if err != nil {
			return err
		}
		if err := noSpecialFiles(src.Path); err != nil {
			return err
		}
		p.mounts = append(p.mounts, src)
		p.spec.Mounts = append(p.spec.Mounts, Mount{Source: src.Path, Target: m.Target})
	}
	return nil
}

// distinct refuses a writable source that is, holds or lies in another source:
// what the agent writes in one would appear in the other.
func (p *PreparedSpec) distinct() error {
	all := slices.Clone(p.mounts)
	for _, s := range []Source{p.image, p.home} {
		if s.Info != nil {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if within(s.Path, p.workspace.Path) || within(p.workspace.Path, s.Path) {
			return nod.E(nod.Invalid, "the workspace overlaps another source", nil)
		}
	}
	if p.home.Info != nil {
		for _, s := range append(slices.Clone(p.mounts), p.image) {
			if s.Info != nil && (within(s.Path, p.home.Path) || within(p.home.Path, s.Path)) {
				return nod.E(nod.Invalid, "the home overlaps another source", nil)
			}
		}
	}
	return nil
}

func (l Limits) check() error {
	switch {
	case l.MemoryBytes < 0, l.CPUs < 0, l.PIDs < 0, l.TmpBytes < 0, l.DiskBytes < 0:
		return nod.E(nod.Invalid, "a limit is not negative", nil)
	case l.MemoryBytes != 0 && l.MemoryBytes < 32<<20:
		return nod.E(nod.Invalid, "a memory limit is at least 32 MiB", nil)
	case l.CPUs != 0 && (l.CPUs < 0.01 || l.CPUs > 4096):
		return nod.E(nod.Invalid, "a CPU limit is between 0.01 and 4096 cores", nil)
	case l.PIDs != 0 && l.PIDs < 32:
		return nod.E(nod.Invalid, "a process limit is at least 32", nil)
	case l.DiskBytes != 0 && l.DiskBytes < 1<<20:
		return nod.E(nod.Invalid, "a disk limit is at least 1 MiB", nil)
	case l.TmpBytes != 0 && l.TmpBytes < 1<<20:
		return nod.E(nod.Invalid, "a limit for /tmp is at least 1 MiB", nil)
	}
	return nil
}

func targetAllowed(t string) bool {
	if path.Clean(t) != t || strings.ContainsRune(t, 0) {
		return false
	}
	for _, root := range []string{"/opt", "/srv", "/mnt", HomePath} {
		if strings.HasPrefix(t, root+"/") {
			return true
		}
	}
	return false
}

// within reports whether the clean path p is root or lies below it.
func within(p, root string) bool {
	rel, err := filepath.Rel(root, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(os.PathSeparator))
}
