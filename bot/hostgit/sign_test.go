package hostgit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/runtime/runtimetest"
)

func TestRealGitVerifiesPreparedCommitsAndNoOthers(t *testing.T) {
	runtimetest.Program(t, "ssh-keygen")
	f := newFixture(t)
	key := filepath.Join(t.TempDir(), "key")
	public, err := GenerateSigningKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := GenerateSigningKey(key); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second key over the first: %v", err)
	}
	st, err := os.Stat(key)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	f.config.SigningKey = key
	f.git = f.open()
	base := f.seed()
	f.write(f.agent, "x", "x\n")
	f.commit(f.agent, "feat: é\n\nBody with a\n\n-----BEGIN SSH SIGNATURE-----\nin it")
	f.write(f.agent, "y", "y\n")
	f.commit(f.agent, "feat: y")
	r := f.prepare(f.importAll(base)).Revision
	signers := filepath.Join(t.TempDir(), "signers")
	verify := func(who, sha string) error {
		if err := os.WriteFile(signers, []byte("nod@example.invalid "+who+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.try(f.mirrorDir(), "", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit", "--", sha)
		return err
	}
	for _, c := range r.Commits {
		if err := verify(public, c.SHA); err != nil {
			t.Error(err)
		}
	}
	other, err := GenerateSigningKey(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	if verify(other, r.SHA) == nil {
		t.Error("another key's owner verifies")
	}
	raw := f.plain(f.mirrorDir(), "cat-file", "commit", r.SHA)
	for name, tampered := range map[string]string{
		"message": strings.Replace(raw, "feat: y", "feat: z", 1),
		"tree":    strings.Replace(raw, "tree "+r.Tree, "tree "+r.Commits[0].Tree, 1),
		"parent":  strings.Replace(raw, "parent "+r.Commits[0].SHA, "parent "+base, 1),
		"author":  strings.Replace(raw, "author nod[bot]", "author someone", 1),
	} {
		out, err := f.try(f.mirrorDir(), tampered, "hash-object", "-t", "commit", "-w", "--stdin")
		if err != nil {
			t.Fatal(err)
		}
		if sha := strings.TrimSpace(out); sha == r.SHA || verify(public, sha) == nil {
			t.Errorf("a changed %s verifies", name)
		}
	}
}

func TestSigningKeyMustBePrivateAndEd25519(t *testing.T) {
	f := newFixture(t)
	with := func(path string) error {
		c := f.config
		c.SigningKey = path
		_, err := New(c)
		return err
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, with(bad), nod.Invalid)
	wantCode(t, with(filepath.Join(t.TempDir(), "none")), nod.NotFound)
	if err := os.Chmod(f.config.SigningKey, 0o644); err != nil {
		t.Fatal(err)
	}
	wantCode(t, with(f.config.SigningKey), nod.Forbidden, "read by others")
	f.config.SigningKey = ""
	f.git = f.open()
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: strings.Repeat("ab", 20), BaseRef: "main"})
	wantCode(t, err, nod.Invalid, "no signing key")
}
