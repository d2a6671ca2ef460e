package hostgit

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nod"
)

// BenchmarkPublish measures import, prepare and push of a change of a thousand files
// beside the plain git commands that do the same without any of the checks: fetch of
// the bundle, rebase, push. The metric is the ratio of the two.
func BenchmarkPublish(b *testing.B) {
	f := newFixture(b)
	w := filepath.Join(b.TempDir(), "w")
	f.plain("", "clone", "--quiet", f.origin, w)
	for i := range 2000 {
		f.write(w, fmt.Sprintf("dir%d/file%d.txt", i%50, i), strings.Repeat(strconv.Itoa(i)+"\n", 50))
	}
	f.commit(w, "feat: many files")
	f.plain(w, "push", "--quiet", "origin", "main")
	base := f.seed()
	for i := range 1000 {
		f.write(f.agent, fmt.Sprintf("dir%d/file%d.txt", i%50, i), strings.Repeat(strconv.Itoa(i)+"\n", 50)+"changed\n")
	}
	f.commit(f.agent, "feat: change a thousand files")
	bundle := f.bundle(base)
	f.write(f.agent, "../work.bundle", string(bundle))
	f.onMain("moved.txt", "x\n")
	plain := filepath.Join(b.TempDir(), "plain")
	f.plain("", "clone", "--quiet", f.origin, plain)
	f.plain(plain, "fetch", "--quiet", f.origin, "main")
	var ours, theirs time.Duration
	for i := 0; b.Loop(); i++ {
		f.task.ID, f.task.Branch = fmt.Sprintf("t%016x", i), "nod/bench-"+strconv.Itoa(i)
		if err := f.git.checkBranch(b.Context(), f.task.Branch); err != nil { // as seeding does
			b.Fatal(err)
		}
		start := time.Now()
		head, err := f.git.Import(b.Context(), f.task, bytes.NewReader(bundle))
		if err != nil {
			b.Fatal(err)
		}
		p, err := f.git.Prepare(b.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main"})
		if err != nil {
			b.Fatal(err)
		}
		f.push(p.Revision.SHA, "")
		ours += time.Since(start)
		start = time.Now()
		f.plain(plain, "fetch", "--quiet", filepath.Join(filepath.Dir(f.agent), "work.bundle"), "HEAD")
		f.plain(plain, "checkout", "--quiet", "-B", "work", "FETCH_HEAD")
		f.plain(plain, "rebase", "--quiet", "origin/main")
		f.plain(plain, "push", "--quiet", strings.Replace(f.url, "http://", "http://x:"+testToken+"@", 1), "HEAD:refs/heads/plain-"+strconv.Itoa(i))
		theirs += time.Since(start)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "times-plain-git")
	b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms-ours")
}
