package hostgit

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"nod"
)

// refused imports b, expects code and words, and that nothing of it stays.
func (f *fixture) refused(b []byte, code nod.Code, words ...string) {
	f.t.Helper()
	before := f.mirrorRefs()
	_, err := f.git.Import(f.t.Context(), f.task, bytes.NewReader(b))
	wantCode(f.t, err, code, words...)
	if after := f.mirrorRefs(); after != before {
		f.t.Errorf("refs changed: %q, before %q", after, before)
	}
	for _, glob := range []string{"bundle-*", "mirrors/*.tmp"} {
		if left, err := filepath.Glob(filepath.Join(f.config.Dir, glob)); err != nil || len(left) > 0 {
			f.t.Errorf("left behind: %v %v", left, err)
		}
	}
}

func TestBrokenBundlesAreRefusedAndLeaveNoRef(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "lib/a.txt", lines(20, " x"))
	f.write(f.agent, "big.txt", lines(5000, " y"))
	f.commit(f.agent, "fix: work")
	whole := f.bundle(base)
	header := bytes.Index(whole, []byte("PACK"))
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		return b
	}
	other := strings.Repeat("ab", 20)
	for _, c := range []struct {
		name  string
		b     []byte
		code  nod.Code
		words string
	}{
		{"empty", nil, nod.Invalid, "cut short"},
		{"garbage", bytes.Repeat([]byte("garbage\x00"), 5000), nod.Invalid, "not a version 2 git bundle"},
		{"long line", bytes.Repeat([]byte("g"), 1<<20), nod.Invalid, "not a version 2 git bundle"},
		{"header only", whole[:header], nod.Invalid, "cut short"},
		{"cut in the header", whole[:20], nod.Invalid, "cut short"},
		{"cut in the pack", whole[:header+(len(whole)-header)/2], nod.Invalid, "cut short"},
		{"cut by one byte", whole[:len(whole)-1], nod.Invalid, "cut short"},
		{"something after it", append(bytes.Clone(whole), 'x'), nod.Invalid, "follows its pack"},
		{"corrupt checksum", flip(len(whole) - 1), nod.Invalid, "broken"},
		{"corrupt pack header", flip(header), nod.Invalid, "no version 2 pack"},
		{"corrupt data", flip(len(whole) - 60), nod.Invalid, ""},
		{"version 3", bytes.Replace(whole, []byte("# v2"), []byte("# v3"), 1), nod.Invalid, "version 3"},
		{"objects left out", bytes.Replace(whole, []byte("# v2 git bundle\n"), []byte("# v3 git bundle\n@filter=blob:none\n"), 1), nod.Invalid, "leaves out objects"},
		{"unknown prerequisite", bytes.Replace(whole, []byte("-"+base), []byte("-"+other), 1), nod.Invalid, "does not have"},
		{"thin without prerequisite", bytes.Replace(whole, []byte("-"+base), []byte(other+" refs/heads/z\n-"+other), 1), nod.Invalid, "malformed"},
		{"two refs", bytes.Replace(whole, []byte(" HEAD\n"), []byte(" HEAD\n"+base+" refs/heads/b\n"), 1), nod.Invalid, "more than one ref"},
		{"no ref", append([]byte("# v2 git bundle\n\n"), whole[header:]...), nod.Invalid, "no ref"},
		{"head is not in it", bytes.Replace(whole, []byte(strings.TrimSpace(f.plain(f.agent, "rev-parse", "HEAD"))), []byte(other), 1), nod.Invalid, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			f.refused(c.b, c.code, c.words)
		})
	}
	f.t = t
	for at := header; at < len(whole); at += 1 + len(whole)/40 { // anywhere: refused, or the same work
		b := flip(at)
		if head, err := f.git.Import(t.Context(), f.task, bytes.NewReader(b)); err == nil {
			t.Errorf("taken with byte %d flipped: %s", at, head)
		}
	}
	if head := f.importAll(base); head == "" {
		t.Error("the whole bundle is not taken")
	}
}

func TestThinBundleOnAKnownCommitIsTaken(t *testing.T) {
	f := newFixture(t)
	f.seed()
	f.write(f.agent, "lib/a.txt", lines(2000, ""))
	first := f.commit(f.agent, "feat: long file")
	f.importAll("origin/main")
	f.write(f.agent, "lib/a.txt", lines(2000, "")+"one more\n")
	second := f.commit(f.agent, "fix: one line")
	b := f.bundle(first)
	if len(b) > 1500 {
		t.Fatalf("the bundle of %d bytes is not thin", len(b))
	}
	if head := f.importAll(first); head != second {
		t.Errorf("head %s, want %s", head, second)
	}
	other := f.task
	other.ID = "t1111111111111111"
	_, err := f.git.Import(t.Context(), other, bytes.NewReader(b))
	wantCode(t, err, nod.Invalid, "does not have") // another task's commits are not built on
}

// A thin bundle whose pack builds on objects that only the agent has.
func TestThinBundleOnUnknownObjectsIsRefused(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "lib/a.txt", lines(2000, ""))
	hidden := f.commit(f.agent, "feat: long file")
	f.write(f.agent, "lib/a.txt", lines(2000, "")+"one more\n")
	f.commit(f.agent, "fix: one line")
	b := bytes.Replace(f.bundle(hidden), []byte("-"+hidden), []byte("-"+base), 1)
	f.refused(b, nod.Invalid, "is thin")
}

func TestBundleOfAnotherHashIsRefused(t *testing.T) {
	f := newFixture(t)
	f.seed()
	f.agent = filepath.Join(t.TempDir(), "sha256")
	f.plain("", "init", "--quiet", "--object-format=sha256", f.agent)
	f.write(f.agent, "x", "x\n")
	f.commit(f.agent, "feat: x")
	f.refused([]byte(f.plain(f.agent, "bundle", "create", "--quiet", "-", "HEAD")), nod.Invalid, "another hash")
}

// Whoever rewrites what the workspace began with does not get it imported, however
// the history was rewritten.
func TestRewrittenHistoryIsRefused(t *testing.T) {
	f := newFixture(t)
	f.onMain("second.txt", "x\n")
	f.seed()
	for name, rewrite := range map[string]func(){
		"amended base": func() {
			f.plain(f.agent, "commit", "--quiet", "--amend", "--no-edit", "-m", "feat: another past")
		},
		"dropped base": func() { f.plain(f.agent, "reset", "--quiet", "--hard", "HEAD~1") },
		"no past at all": func() {
			f.plain(f.agent, "checkout", "--quiet", "--orphan", "alone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.plain(f.agent, "checkout", "--quiet", "-B", "again", "origin/main")
			rewrite()
			f.write(f.agent, "work.txt", name)
			f.commit(f.agent, "fix: work")
			f.refused([]byte(f.plain(f.agent, "bundle", "create", "--quiet", "-", "HEAD", "^origin/main~1")), nod.Invalid, "rewrites history")
		})
	}
	f.t = t
}

// A large-file pointer is a small text file, and goes the whole way as that.
func TestLargeFilePointersStayPointers(t *testing.T) {
	f := newFixture(t)
	f.onMain(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	base := f.seed()
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0a", 32) + "\nsize 123456\n"
	f.write(f.agent, "model.bin", pointer)
	f.commit(f.agent, "feat: a model")
	p := f.prepare(f.importAll(base))
	f.push(p.Revision.SHA, "")
	if got := f.plain(f.origin, "show", f.task.Branch+":model.bin"); got != pointer {
		t.Errorf("published as %q", got)
	}
	next := f.task
	next.ID, next.Branch = "t3333333333333333", "nod/9-next"
	clone := filepath.Join(t.TempDir(), "next")
	if _, err := f.git.Seed(t.Context(), next, f.task.Branch, clone); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(clone, "model.bin")); err != nil || string(got) != pointer {
		t.Errorf("checked out as %q, %v", got, err)
	}
}

func TestStreamThatBreaksOrIsTooLongIsNotTaken(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits.BundleBytes = 4096 })
	base := f.seed()
	f.commit(f.agent, "fix: nothing")
	broken := io.MultiReader(bytes.NewReader(f.bundle(base)[:100]), iotest.ErrReader(errors.New("the environment died")))
	_, err := f.git.Import(t.Context(), f.task, broken)
	wantCode(t, err, nod.Unavailable)
	f.refused(make([]byte, 1<<20), nod.TooLarge, "larger than")
}

// packed is a bundle around hand-made pack entries.
func packed(count uint32, entries []byte, base, head string) []byte {
	pack := append([]byte("PACK\x00\x00\x00\x02"), binary.BigEndian.AppendUint32(nil, count)...)
	pack = append(pack, entries...)
	sum := sha1.Sum(pack)
	return append([]byte("# v2 git bundle\n-"+base+" \n"+head+" HEAD\n\n"), append(pack, sum[:]...)...)
}

func packEntry(t *testing.T, kind byte, size uint64, data io.Reader) []byte {
	t.Helper()
	c := kind<<4 | byte(size&15)
	var b bytes.Buffer
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	z := zlib.NewWriter(&b)
	if _, err := io.Copy(z, data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBombsAreRefusedQuickly(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	objects := filepath.Join(f.agent, ".git", "objects")
	write := func(kind, body string) string {
		t.Helper()
		id, err := writeObject(objects, kind, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	tree := func(entries ...[3]string) string { // mode, name, id
		var b strings.Builder
		for _, e := range entries {
			o := parseOID(e[2])
			b.WriteString(e[0] + " " + e[1] + "\x00" + string(o[:]))
		}
		return write("tree", b.String())
	}
	bundleOf := func(tree string) []byte {
		t.Helper()
		head := write("commit", "tree "+tree+"\nparent "+base+"\nauthor a <a@b> 1770000000 +0000\ncommitter a <a@b> 1770000000 +0000\n\nfeat: boom\n")
		f.plain(f.agent, "update-ref", "refs/heads/bomb", head)
		return []byte(f.plain(f.agent, "bundle", "create", "--quiet", "-", base+"..refs/heads/bomb"))
	}
	blob := write("blob", "x")
	wide := tree([3]string{modeFile, "f", blob})
	for range 12 {
		var ten [][3]string
		for i := range 10 {
			ten = append(ten, [3]string{modeTree, string(rune('a' + i)), wide})
		}
		wide = tree(ten...)
	}
	deep := tree([3]string{modeFile, "f", blob})
	for range 600 {
		deep = tree([3]string{modeTree, "d", deep})
	}
	large := write("blob", strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
	var copies [][3]string
	for i := range 3000 {
		copies = append(copies, [3]string{modeFile, fmt.Sprintf("f%04d", i), large})
	}
	heavy := tree(copies...)
	lie := packEntry(t, 3, 5<<30, strings.NewReader("small"))
	grown := packEntry(t, 3, 90<<20, io.LimitReader(zeros{}, 90<<20))
	deltaToHuge := packEntry(t, 3, 3, strings.NewReader("abc"))
	huge := append(binary.AppendUvarint(nil, 3), binary.AppendUvarint(nil, 3<<30)...)
	at := byte(len(deltaToHuge))
	deltaEntry := packEntry(t, 6, uint64(len(huge)), bytes.NewReader(huge))
	deltaToHuge = append(append(append(deltaToHuge, deltaEntry[0]), at), deltaEntry[1:]...)
	head := strings.Repeat("cd", 20)
	for _, c := range []struct {
		name, words string
		code        nod.Code
		b           []byte
	}{
		{"a tree that holds itself", "entries", nod.TooLarge, bundleOf(wide)},
		{"a deep tree", "nested too deeply", nod.TooLarge, bundleOf(deep)},
		{"a large file thousands of times", "MiB", nod.TooLarge, bundleOf(heavy)},
		{"a size that lies", "over the size", nod.TooLarge, packed(1, lie, base, head)},
		{"many large objects in few bytes", "hundredfold", nod.TooLarge, packed(60, bytes.Repeat(grown, 60), base, head)},
		{"a delta to a huge object", "over the size", nod.TooLarge, packed(2, deltaToHuge, base, head)},
		{"a count that lies", "more objects", nod.TooLarge, packed(1<<31, nil, base, head)},
		{"an object larger than it says", "not of the size", nod.Invalid, packed(1, packEntry(t, 3, 5, io.LimitReader(zeros{}, 1<<20)), base, head)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			start := time.Now()
			f.refused(c.b, c.code, c.words)
			t.Logf("%d bytes refused after %v", len(c.b), time.Since(start))
		})
	}
}

func TestTooManyCommitsAndEntriesAreRefused(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Limits = Limits{Commits: 3, AddedEntries: 12, TreeEntries: 20, AddedBytes: 5000, TreeBytes: 9000}
	})
	base := f.seed()
	reset := func() { f.plain(f.agent, "reset", "--quiet", "--hard", base) }
	for range 4 {
		f.commit(f.agent, "fix: again")
	}
	f.refused(f.bundle(base), nod.TooLarge, "more than 3 commits")
	reset()
	for i := range 15 {
		f.write(f.agent, "many/"+string(rune('a'+i)), "x")
	}
	f.commit(f.agent, "feat: many")
	f.refused(f.bundle(base), nod.TooLarge, "add more than 12 entries")
	reset()
	for i := range 19 {
		f.write(f.agent, string(rune('a'+i)), "x")
	}
	f.commit(f.agent, "feat: large tree")
	f.refused(f.bundle(base), nod.TooLarge, "more than 20 entries")
	reset()
	f.write(f.agent, "a", strings.Repeat("z", 1900))
	f.commit(f.agent, "feat: move about")
	for _, to := range []string{"b", "c"} { // what is added counts, not what is left
		f.plain(f.agent, "mv", string(to[0]-1), to)
		f.commit(f.agent, "feat: move about")
	}
	f.refused(f.bundle(base), nod.TooLarge, "add more than")
}

func TestWhatCannotBeCarriedIsRefusedByName(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	write := func(kind, body string) string {
		id, err := writeObject(filepath.Join(f.agent, ".git", "objects"), kind, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	blob := func(text string) string { return write("blob", text) }
	// tree writes a tree object with any name in it: git's own tools refuse some.
	tree := func(entries ...string) string {
		var b strings.Builder
		for _, e := range entries {
			mode, rest, _ := strings.Cut(e, " ")
			id, name, _ := strings.Cut(rest, " ")
			o := parseOID(id)
			b.WriteString(mode + " " + name + "\x00" + string(o[:]))
		}
		return write("tree", b.String())
	}
	x := blob("x")
	in := func(sub string) string { return tree("40000 " + sub + " dir") }
	for _, c := range []struct{ name, tree, words string }{
		{"submodule", tree("160000 " + base + " sub"), "submodule"},
		{"submodule below", in(tree("160000 " + base + " sub")), `"dir/sub" is a submodule`},
		{"dot git", tree("40000 " + tree("100644 "+x+" config") + " .git"), ""},
		{"dot GIT", tree("40000 " + tree("100644 "+x+" config") + " .GiT"), ""},
		{"short dot git", in(tree("100644 " + x + " git~1")), ""},
		{"dot git of HFS", in(tree("100644 " + x + " .g\u200cit")), ""},
		{"dot dot", in(tree("100644 " + x + " ..")), ""},
		{"slash", tree("100644 " + x + " a/b"), ""},
		{"case", tree("100644 "+x+" Makefile", "100644 "+x+" makefile"), "differs only in case"},
		{"case below", in(tree("100644 "+x+" Ä", "100644 "+x+" ä")), "differs only in case"},
		{"not UTF-8", tree("100644 " + x + " \xff\xfe"), "not UTF-8"},
		{"absolute link", in(tree("120000 " + blob("/etc/passwd") + " link")), `"dir/link" is a symbolic link out`},
		{"escaping link", in(tree("120000 " + blob("../../x") + " link")), "out of the repository"},
		{"escaping by a detour", in(tree("120000 " + blob("a/../../b/../../x") + " link")), "out of the repository"},
		{"link into .git", tree("120000 " + blob(".git/config") + " link"), "into .git"},
		{"strange mode", tree("100664 " + x + " f"), "mode"},
		{"twice", tree("100644 "+x+" f", "100644 "+x+" f"), ""},
		{"missing file", tree("100644 " + strings.Repeat("12", 20) + " f"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.t = t
			head := write("commit", "tree "+c.tree+"\nparent "+base+"\nauthor a <a@b> 1770000000 +0000\ncommitter a <a@b> 1770000000 +0000\n\nfeat: x\n")
			list, err := f.try(f.agent, head+"\n^"+base+"\n", "rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin")
			if err != nil { // rev-list walks by name; a broken tree is packed by hand
				list = head + "\n" + c.tree + "\n"
			}
			pack, err := f.try(f.agent, present(f, list), "pack-objects", "--stdout", "-q")
			if err != nil {
				t.Fatal(err)
			}
			f.refused([]byte("# v2 git bundle\n-"+base+" \n"+head+" HEAD\n\n"+pack), nod.Invalid, c.words)
		})
	}
}

// present keeps the objects of list that exist.
func present(f *fixture, list string) string {
	out, err := f.try(f.agent, list, "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		f.t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "missing") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestWhatTheRepositoryHadBeforeIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	w := filepath.Join(t.TempDir(), "w")
	f.plain("", "clone", "--quiet", f.origin, w)
	sha := strings.TrimSpace(f.plain(w, "rev-parse", "HEAD"))
	if err := os.Symlink("/etc/hosts", filepath.Join(w, "hosts")); err != nil {
		t.Fatal(err)
	}
	f.write(w, "dup/Name", "a")
	f.write(w, "dup/name", "b")
	f.plain(w, "add", "-A")
	f.plain(w, "update-index", "--add", "--cacheinfo", "160000,"+sha+",vendor/sub")
	f.plain(w, "commit", "--quiet", "-m", "feat: odd things")
	f.plain(w, "push", "--quiet", "origin", "main")
	base := f.seed()
	f.write(f.agent, "dup/other", "c")
	f.write(f.agent, "vendor/file", "d")
	f.commit(f.agent, "feat: beside them")
	p := f.prepare(f.importAll(base))
	if len(p.Revision.Files) != 2 {
		t.Errorf("files %+v", p.Revision.Files)
	}
}

func TestImportStopsWhenItsTimeIsUp(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.commit(f.agent, "fix: nothing")
	b := f.bundle(base)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.git.Import(ctx, f.task, bytes.NewReader(b))
	wantCode(t, err, nod.Unavailable)
}
