package answer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func decisionFor(tool string) nod.Decision {
	return nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: tool}
}

func whole(files []fileDiff) string {
	var lines []string
	for _, f := range files {
		for _, r := range f.Rows {
			lines = append(lines, r.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func TestADiffIsReadFileByFile(t *testing.T) {
	const diff = `diff --git a/x b/x
index 1..2 100644
--- a/x
+++ b/x
@@ -1,3 +1,3 @@ func
 same
--- a/trap
+++ b/trap
 end
\ No newline at end of file
diff --git "a/na\303\257ve\t.go" "b/na\303\257ve\t.go"
new file mode 120000
--- /dev/null
+++ "b/na\303\257ve\t.go"
@@ -0,0 +1 @@
+target
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git a/gone b/gone
deleted file mode 100755
--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
-diff --git a/fake b/fake
-x
diff --git a/img b/img
GIT binary patch
literal 3
Kcmc~S

diff --git a/lib b/lib
new file mode 160000
--- /dev/null
+++ b/lib
@@ -0,0 +1 @@
+Subproject commit 0123
`
	type sum struct {
		Old, New       string
		Notes, Flags   []string
		Binary         bool
		Added, Deleted int
	}
	want := []sum{
		{Old: "x", New: "x", Added: 1, Deleted: 1},
		{Old: "naïve\t.go", New: "naïve\t.go", Notes: []string{"new, a symbolic link"}, Flags: []string{"new, a symbolic link"}, Added: 1},
		{Old: "old name.txt", New: "new name.txt", Notes: []string{"renamed"}},
		{Old: "gone", New: "gone", Notes: []string{"deleted, was an executable file"}, Flags: []string{"deleted, was an executable file"}, Deleted: 2},
		{Old: "img", New: "img", Flags: []string{"binary: its content is not shown"}, Binary: true},
		{Old: "lib", New: "lib", Notes: []string{"new, a submodule"}, Flags: []string{"new, a submodule"}, Added: 1},
	}
	files := parseDiff(diff)
	var got []sum
	for _, f := range files {
		got = append(got, sum{f.Old, f.New, f.Notes, f.Flags, f.Binary, f.Added, f.Deleted})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(diff, whole(files)); d != "" {
		t.Errorf("something was dropped: %s", d)
	}
	row := files[0].Rows[6]
	if d := cmp.Diff(diffRow{Kind: '-', Line: 2, Text: "--- a/trap"}, row); d != "" {
		t.Error(d)
	}
	if k := files[0].Rows[8].Kind; k != ' ' {
		t.Errorf("the last context line is of kind %q", k)
	}
}

func TestFilesThatDeserveASecondLookAreFlagged(t *testing.T) {
	for name, want := range map[string]string{
		"src/main.go": "", "go.sum": "lock file", "web/package-lock.json": "lock file", "Cargo.lock": "lock file", ".github/workflows/x.yml": "workflow",
		".GitHub/Workflows/x.yml": "workflow", ".gitmodules": "changes how git", "sub/.gitattributes": "changes how git", ".github/CODEOWNERS": "decides who",
	} {
		if got := flagOf(name); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	files := parseDiff("diff --git a/a.txt b/.github/workflows/a.yml\nsimilarity index 100%\nrename from a.txt\nrename to .github/workflows/a.yml\n")
	if len(files) != 1 || len(files[0].Flags) == 0 {
		t.Errorf("a rename into the workflows is not flagged: %+v", files)
	}
}

func FuzzDiffDropsNothing(f *testing.F) {
	for _, s := range []string{"", "\n", "x", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n", "@@ -1,99 +1,99 @@\n+a\ndiff --git a/y b/y\n",
		"diff --git \"a/\\", "--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n+\n+\n", "@@ -1,2147483647 +1,4294967296 @@", "diff --git a/x b/x\nold mode 1\nnew mode 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, diff string) {
		files := parseDiff(diff)
		if got := whole(files); got != diff {
			t.Fatalf("made %q of %q", got, diff)
		}
		rows, shown := 0, 0
		for _, file := range files {
			rows += len(file.Rows)
		}
		var text strings.Builder
		for _, page := range pageDiff(files) {
			for _, file := range page {
				for _, r := range file.Rows {
					shown++
					for _, s := range r.Spans {
						text.WriteString(s.Bytes())
					}
				}
			}
		}
		var want strings.Builder
		for _, file := range files {
			for _, r := range file.Rows {
				if r.told() {
					rows--
				} else {
					want.WriteString(r.Text)
				}
			}
		}
		if text.String() != want.String() {
			t.Fatalf("the pages show %q of %q", text.String(), want.String())
		}
		if shown < rows-len(files) {
			t.Fatalf("%d of %d rows are shown", shown, rows)
		}
	})
}

func BenchmarkParseDiff(b *testing.B) {
	diff := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,100000 +1,100000 @@\n" + strings.Repeat(" context line of a usual length\n", 100000)
	b.SetBytes(int64(len(diff)))
	for b.Loop() {
		pageDiff(parseDiff(diff))
	}
}
